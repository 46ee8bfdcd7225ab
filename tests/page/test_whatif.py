"""Changes that a page may ask about."""

from __future__ import annotations

import asyncio

import pytest

from moorage.page.whatif import CHANGES_MAX, WAITING_MAX, CannotSimulate, WhatIf, answer_of, options_of


def test_changes_become_options_of_the_command() -> None:
    assert options_of([["drain", "node-1"], ["taint", "node-2", "a=b:NoExecute"]]) == [
        "--drain", "node-1", "--taint", "node-2", "a=b:NoExecute"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [[]],
        [["apply", "/etc/passwd"]],
        [["config", "file"]],
        [["kubeconfig", "other"]],
        [["drain"]],
        [["drain", "a", "b"]],
        [["drain", "--apply=/etc/passwd"]],
        [["taint", "node-1", "-f"]],
        [["drain", ""]],
        [["drain", "node\0-1"]],
        [["drain", "x" * 100_000]],
        [["add-nodes", "1000000000"], ["like", "node-1"]],
        [["scale", "deployment/default/web=1000000000"]],
        [["scale", f"deployment/default/web={'9' * 10_000}"]],
        [["drain", "node-1"]] * (CHANGES_MAX + 1),
    ],
    ids=str,
)
def test_nothing_else_reaches_the_command(changes: list[list[str]]) -> None:
    with pytest.raises(CannotSimulate):
        options_of(changes)


async def test_only_a_few_questions_wait_for_the_one_that_is_played() -> None:
    what_if = WhatIf(("--kubeconfig", "/nowhere"))
    asked = [what_if.simulate([["drain", "node-1"]]) for _ in range(WAITING_MAX + 3)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum("ask again" in str(answer) for answer in answers) == 2
    assert "/nowhere" in str(answers[0])


@pytest.mark.parametrize(
    ("errors", "said"),
    [("Traceback …\nTimeoutError: too late", "TimeoutError: too late"), ("", "has ended with 1 and said nothing")],
)
def test_a_simulation_that_broke_off_is_no_answer(errors: str, said: str) -> None:
    with pytest.raises(CannotSimulate, match=said):
        answer_of(1, b"", errors)
    assert answer_of(1, b"{}", "") == b"{}"
