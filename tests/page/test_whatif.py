"""Changes that a page may ask about."""

from __future__ import annotations

import pytest

from moorage.page.whatif import CHANGES_MAX, CannotSimulate, options_of


def test_changes_become_options_of_the_command() -> None:
    assert options_of([["drain", "node-1"], ["taint", "node-2", "a=b:NoExecute"]]) == [
        "--drain", "node-1", "--taint", "node-2", "a=b:NoExecute"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [["apply", "/etc/passwd"]],
        [["config", "file"]],
        [["kubeconfig", "other"]],
        [["drain"]],
        [["drain", "a", "b"]],
        [["drain", "--apply=/etc/passwd"]],
        [["taint", "node-1", "-f"]],
        [["drain", ""]],
        [["drain", "node-1"]] * (CHANGES_MAX + 1),
    ],
    ids=str,
)
def test_nothing_else_reaches_the_command(changes: list[list[str]]) -> None:
    with pytest.raises(CannotSimulate):
        options_of(changes)
