"""Who starts a control plane with other gates than the last time is told so, and what it changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from moorage.api import kinds
from moorage.client import Forbidden
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.tools.gatechanges import (
    GATES_ANNOTATION,
    LAST_GATES,
    GateChange,
    gate_changes,
    keep_gates,
    last_gates,
    log_changes,
    log_changes_since_leader,
)
from tests.plane import api_server, create, node, pod, read

WILDCARD = Gates(frozenset((Gate.WILDCARD,)))
STAR = {"key": "example.com/*", "operator": "Exists"}


def test_a_gate_is_named_once_with_the_components_in_which_it_changed() -> None:
    before = {"apiserver": WILDCARD, "scheduler": WILDCARD, "controllers": NONE_ON}
    now = {"apiserver": NONE_ON, "scheduler": NONE_ON, "controllers": Gates(frozenset((Gate.CEL,)))}
    assert gate_changes(before, now) == [
        GateChange(Gate.CEL, True, ("controllers",)),
        GateChange(Gate.WILDCARD, False, ("apiserver", "scheduler")),
    ]


def test_a_component_that_did_not_run_before_has_not_changed() -> None:
    assert gate_changes({"apiserver": ALL_ON}, {"apiserver": ALL_ON, "scheduler": NONE_ON}) == []


def test_gates_are_kept_for_the_next_start(tmp_path: Path) -> None:
    assert last_gates(tmp_path) == {}
    keep_gates(tmp_path, {"apiserver": WILDCARD})
    assert last_gates(tmp_path) == {"apiserver": WILDCARD}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"apiserver": "NoSuchGate=true"}', b"\xff"])
def test_a_file_that_cannot_be_read_is_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LAST_GATES).write_bytes(content)
    assert last_gates(tmp_path) == {}


async def test_the_effect_of_a_gate_that_was_turned_off_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "moorage.tools")
    gates = {"apiserver": ALL_ON, "scheduler": ALL_ON, "controllers": ALL_ON}
    async with api_server(tmp_path / "data") as server:
        client = server.client("test")
        await log_changes(tmp_path, gates, client)
        await log_changes(tmp_path, gates, client)
        taint = {"key": "example.com/cni", "value": "", "effect": "NoExecute"}
        await create(client, node("a", taints=[taint]))
        await create(client, pod("runs", tolerations=[STAR], nodeName="a"))
        await create(client, pod("waits", tolerations=[STAR]))
        assert not caplog.records
        await log_changes(tmp_path, gates | {"scheduler": NONE_ON.including(ALL_ON.on - WILDCARD.on)}, client)
        await log_changes(tmp_path, dict.fromkeys(gates, NONE_ON), client)
        await log_changes(tmp_path, gates, client)
    said = [each.getMessage() for each in caplog.records]
    off, more = '"Feature gate turned off since the last start"', 'more="moorage rollback WildcardTolerationKeys"'
    assert said[0] == (
        f'{off} gate="WildcardTolerationKeys" components=["scheduler"] '
        f'effect="pending pods that stay pending: 1" {more}'
    )
    assert (
        f'{off} gate="WildcardTolerationKeys" components=["apiserver","controllers"] '
        f'effect="running pods that are evicted: 1" {more}'
    ) in said
    nothing = [each for each in said if 'effect="nothing for what is there"' in each]
    assert len(nothing) == 3
    assert [each.split('"')[1] for each in said[-4:]] == ["Feature gate turned on since the last start"] * 4


async def test_the_gates_of_the_last_leader_are_on_the_lease(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "moorage.tools")
    async with api_server(tmp_path) as server:
        client = server.client("test")
        lease = kinds.row("coordination.k8s.io/v1", "Lease")
        held = {"metadata": {"name": "moorage-scheduler"}, "spec": {"holderIdentity": "a"}}
        await client.create(lease, held, "kube-system")
        for gates in (WILDCARD, WILDCARD, NONE_ON):
            await log_changes_since_leader(("kube-system", "moorage-scheduler"), "scheduler", gates, client)
        kept = await read(client, "Lease", "moorage-scheduler", "kube-system", "coordination.k8s.io/v1")
    assert kept["metadata"]["annotations"] == {GATES_ANNOTATION: str(NONE_ON)}
    assert kept["spec"]["holderIdentity"] == "a"
    assert [each.getMessage() for each in caplog.records] == [
        '"Feature gate turned off since the last start" gate="WildcardTolerationKeys" components=["scheduler"] '
        'effect="nothing for what is there" more="moorage rollback WildcardTolerationKeys"'
    ]


async def test_a_change_is_named_even_when_its_effect_is_not_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(*_: object) -> None:
        raise Forbidden(403, "Forbidden", "you may not list jobs")

    monkeypatch.setattr("moorage.tools.gatechanges.read_live", refuses)
    keep_gates(tmp_path, {"apiserver": WILDCARD})
    async with api_server(tmp_path / "data") as server:
        await log_changes(tmp_path, {"apiserver": NONE_ON}, server.client("test"))
    (record,) = caplog.records
    assert 'effect="not known: you may not list jobs"' in record.getMessage()
