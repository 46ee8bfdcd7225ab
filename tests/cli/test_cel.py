from __future__ import annotations

from tests.cli.commands import SPOT, moorage

RACK = "node.labels['rack'].startsWith('us-west-2')"
DESIGN_DOCUMENT = """\
ERROR: <input>:1:14: undeclared reference to 'foo' (in container '')
 | taint.key == foo && taint.value == 'bar'
 | .............^
"""


def test_check_tells_type_cost_and_labels() -> None:
    answer = moorage("cel", "check", "--env", "node", RACK)
    assert answer.returncode == 0
    assert answer.stdout == "type   bool\ncost   4 of 1000000 (0.00%)\nreads  rack\n"


def test_check_says_when_all_labels_or_none_are_read() -> None:
    assert "reads  all labels" in moorage("cel", "check", "--env", "node", "node.labels.size() > 2").stdout
    assert "reads  no label" in moorage("cel", "check", "--env", "node", "true").stdout


def test_check_refuses_as_the_design_document_words_it() -> None:
    answer = moorage("cel", "check", "--env", "taint", "taint.key == foo && taint.value == 'bar'")
    assert answer.returncode == 1
    assert answer.stderr == DESIGN_DOCUMENT


def test_check_refuses_what_is_no_condition_too_long_or_too_costly() -> None:
    nested = 'node.labels.all(k, node.labels.all(v, k.matches(".*") && v.matches(".*")))'
    for env, source, message in (
        ("taint", "taint.key", "must evaluate to bool, not string"),
        ("taint", "true && " * 1500 + "true", "may not be more than 10240 bytes"),
        ("node", nested, "too complex, exceeds cost limit"),
    ):
        answer = moorage("cel", "check", "--env", env, source)
        assert answer.returncode == 1
        assert message in answer.stderr


def test_eval_answers_for_each_node_of_a_file() -> None:
    answer = moorage("cel", "eval", "--env", "taint", "int(taint.value) > 900", "-f", SPOT)
    assert answer.returncode == 1
    assert [line.split()[:2] for line in answer.stdout.splitlines()] == [
        ["false", "spot-node-1"],
        ["true", "ondemand-node-1"],
        ["error", "mislabelled-node-1"],
    ]


def test_eval_answers_for_what_is_set() -> None:
    assert moorage("cel", "eval", "--env", "node", RACK, "--set", "rack=us-west-2a").stdout.startswith("true")
    timed = "taint.timeAdded < timestamp('2026-01-01T00:00:00Z')"
    answer = moorage(
        "cel", "eval", "--env", "taint", timed, "--set", "key=a", "--set", "timeAdded=2025-12-31T23:59:59Z"
    )
    assert (answer.returncode, answer.stdout.split()[0]) == (0, "true")
