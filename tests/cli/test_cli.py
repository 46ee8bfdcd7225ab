"""What the commands print, and the exit codes with which they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
import yaml

from moorage.cli import main
from tests.cli.commands import ALL, CLEAN, SPOT, TRAP, moorage


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """A group, and all commands in it."""
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


@pytest.mark.parametrize("command", list(commands(main)), ids=" ".join)
def test_help_has_examples_and_whole_sentences(command: tuple[str, ...]) -> None:
    answer = moorage(*command, "--help")
    assert answer.returncode == 0
    assert "Example" in answer.stdout
    assert "...\n" not in answer.stdout.partition("Commands:")[2]


def test_version() -> None:
    assert moorage("--version").stdout.startswith("moorage 0.")


@pytest.mark.parametrize("output", ["text", "wide", "json", "yaml"])
def test_why_exits_with_1_in_every_format_when_a_pod_fits_nowhere(output: str) -> None:
    assert moorage("why", "-f", SPOT, *ALL, "-o", output).returncode == 1


@pytest.mark.parametrize("output", ["text", "wide", "json", "yaml"])
def test_why_exits_with_0_in_every_format_when_all_fit(output: str) -> None:
    assert moorage("why", "-f", CLEAN, *ALL, "-o", output).returncode == 0


def test_why_json_and_yaml_say_the_same() -> None:
    as_json = json.loads(moorage("why", "-f", SPOT, *ALL, "-o", "json").stdout)
    as_yaml = yaml.safe_load(moorage("why", "-f", SPOT, *ALL, "-o", "yaml").stdout)
    assert as_json == as_yaml
    critical = as_json["pods"][2]
    assert critical["fits"] is False
    change = critical["smallestChange"]
    assert (change["edits"], change["admits"]) == (["`Gt 939` instead of `Gt 950`"], ["ondemand-node-1"])
    assert change["commands"][0].startswith("kubectl get pod critical-workload -n default -o yaml | kubectl patch")


def test_why_reads_standard_input_in_a_process_of_its_own() -> None:
    text = (Path(CLEAN) / "manifests.yaml").read_text()
    command = [sys.executable, "-m", "moorage", "why", "-f", "-", *ALL]
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert answer.returncode == 0
    assert "(<stdin>:10)" in answer.stdout


def test_output_is_plain_when_it_is_no_terminal() -> None:
    assert "\x1b[" not in moorage("why", "-f", SPOT, *ALL).stdout


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_colour_on_a_terminal_unless_no_color(no_colour: str, coloured: bool) -> None:
    import pty

    main, side = pty.openpty()
    command = [sys.executable, "-m", "moorage", "why", "-f", CLEAN, *ALL]
    process = subprocess.Popen(command, stdout=side, env={**os.environ, "NO_COLOR": no_colour})
    process.wait()
    os.close(side)
    shown = os.read(main, 100_000)
    os.close(main)
    assert (b"\x1b[" in shown) is coloured


@pytest.mark.parametrize("output", ["text", "json", "sarif", "junit", "github"])
def test_lint_exit_codes_are_the_same_in_every_format(output: str) -> None:
    assert moorage("lint", TRAP, *ALL, "-o", output).returncode == 1
    assert moorage("lint", CLEAN, *ALL, "-o", output).returncode == 0
    assert moorage("lint", "no/such/file", *ALL, "-o", output).returncode == 2


def test_lint_formats_are_what_they_say() -> None:
    data = json.loads(moorage("lint", TRAP, *ALL, "-o", "json").stdout)
    assert data["findings"][0]["rule"] == "eviction-trap"
    assert data["findings"][0]["line"] == 39
    sarif = json.loads(moorage("lint", TRAP, *ALL, "-o", "sarif").stdout)
    assert sarif["version"] == "2.1.0"
    result = sarif["runs"][0]["results"][0]
    assert result["ruleId"] == "eviction-trap"
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 39}
    suite = ElementTree.fromstring(moorage("lint", TRAP, *ALL, "-o", "junit").stdout)
    assert suite.get("failures") == "1"
    github = moorage("lint", TRAP, *ALL, "-o", "github").stdout
    assert github.startswith("::warning file=")
    assert ",line=39,title=eviction-trap::" in github


def test_lint_with_nodes_from_standard_input() -> None:
    nodes = f"{NODE}spec: {{taints: [{{key: node.kubernetes.io/sla, value: bad, effect: NoExecute}}]}}\n"
    answer = moorage("lint", TRAP, "--nodes", "-", *ALL, stdin=nodes)
    assert "unparsable-value" in answer.stdout


def test_lint_can_leave_out_rules_and_list_them() -> None:
    assert moorage("lint", TRAP, *ALL, "--ignore", "eviction-trap").returncode == 0
    answer = moorage("lint", TRAP, "--ignore", "no-such-rule")
    assert answer.returncode == 2
    assert "unknown rule no-such-rule" in answer.stderr
    assert "eviction-trap" in moorage("lint", "--rules").stdout


NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
BAD_FILES = {
    "empty": (b"", "no pods and no pod templates"),
    "comments only": (b"# nothing\n", "no pods and no pod templates"),
    "binary": (bytes(range(256)), "not text in UTF-8"),
    "bad YAML": (b"a: [1, 2\nb: 3\n", "bad.yaml:2:"),
    "not a map": (b"- just\n- a list\n", "an object is a map"),
    "no kind": (b"apiVersion: v1\n", "kind: is missing"),
    "deep": (b"[" * 100_000, "bad.yaml:1: document 1:"),
    "wrong type": (NODE.encode() + b"spec: {taints: {}}\n", "spec.taints: expected a list, got a map"),
    "pods but no nodes": (b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "no nodes in"),
    "nodes but no pods": (NODE.encode(), "no pods and no pod templates"),
    "alias bomb": (
        b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 12)),
        "bad.yaml:",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_input_gets_a_sentence_with_its_place(name: str, tmp_path: Path) -> None:
    content, message = BAD_FILES[name]
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    answer = moorage("why", "-f", str(file))
    assert answer.returncode == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr


def test_unknown_kinds_and_duplicate_names_are_noted(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: app, image: app:1}]}\n"
    other = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
    file.write_text("---\n".join([NODE, NODE, pod, other]))
    answer = moorage("why", "-f", str(file))
    assert answer.returncode == 0
    assert "note: skipped 1 × Widget (example.com/v1): not a kind that Moorage knows" in answer.stderr
    assert "note: Node n1 is given 2 times: applied, the last replaces the others" in answer.stderr


def test_shell_completion_knows_the_commands() -> None:
    env = {"_MOORAGE_COMPLETE": "bash_complete", "COMP_WORDS": "moorage l", "COMP_CWORD": "1"}
    script = str(Path(sys.executable).with_name("moorage"))
    answer = subprocess.run([script], capture_output=True, text=True, env={**os.environ, **env}, check=False)
    assert "lint" in answer.stdout


def test_gates_that_are_given_again_add_to_those_before() -> None:
    gates = "TaintTolerationComparisonOperators=true", "TolerationAffinitySemverOperators=true"
    repeated = [word for each in gates for word in ("--feature-gates", each)]
    for story in (SPOT, CLEAN):
        assert " 0 errors" in moorage("lint", story, *repeated).stdout
        assert moorage("lint", story, *repeated) == moorage("lint", story, "--feature-gates", ",".join(gates))
