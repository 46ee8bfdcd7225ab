"""What a person reads of a pod that fits nowhere: which values, and why; and what is counted when nobody can tell."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from moorage.features import Gate
from moorage.match.expressions import NodeExpression, TaintExpression
from moorage.match.reasons import Complaint
from moorage.scheduler.explaining import EXAMINED, Explaining
from moorage.scheduler.failures import message_of
from moorage.scheduler.plugins.tainttoleration import TaintToleration
from tests.plane import create, eventually
from tests.scheduler.devices import devicekit as kit
from tests.scheduler.profile_on_table import ProfileOnTable, node, pod
from tests.scheduler.stage import Stage, stage
from tests.scheduler.test_gates import PREFERRED, REQUIRED, stored
from tests.scheduler.test_metrics import evaluations, sample

Data = dict[str, Any]
VERBOSE = logging.INFO - 2
"""The level of what is logged with -v 2."""
GT = {"key": "sla", "operator": "Gt", "value": "950"}
NEWER = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.15"]}]}


def sla(value: str) -> Data:
    return {"key": "sla", "value": value, "effect": "NoSchedule"}


def requiring(*terms: Data) -> Data:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def unclear(here: Stage, message: str) -> float:
    return sample(here.scheduler.metrics.registry, "scheduler_unclear_verdicts_total", message=message)


class Told:
    """What is said about pods on a table of nodes."""

    def __init__(self, *nodes: Any) -> None:
        self.engine, self.explaining = ProfileOnTable(), Explaining()
        self.put(*nodes)

    def put(self, *nodes: Any) -> None:
        for each in nodes:
            self.engine.table.set_node(each)

    def why(self, **spec: Any) -> str:
        cycle = self.engine.cycle(pod(**spec))
        placement = self.engine.runner.place(cycle)
        return self.explaining.sentence(cycle, self.engine.profile.filters, placement.rejections)


async def test_the_event_and_the_condition_say_which_values_after_the_words_of_kubernetes(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name, value in (("a", "900"), ("b", "900"), ("c", "high")):
            await here.node(name, taints=[sla(value)])
        await here.pod("web", tolerations=[GT])
        message = await here.unschedulable("web", "3 node(s)")
        assert message == (
            "0/3 nodes are available: 3 node(s) had untolerated taint(s). no new claims to deallocate, "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling. "
            "Why: taint sla=900: 900 is not greater than 950 on 2 nodes; "
            'taint sla=high: "high" is not a decimal integer on 1 node.'
        )

        async def told() -> bool:
            return message in [each["message"] for each in await here.events("web")]

        assert await eventually(told)


def test_values_that_fail_alike_stand_together_with_one_of_them_as_example() -> None:
    here = Told(*(node(f"n{value}", {}, sla(value)) for value in ("900", "910", "920")))
    here.put(node("again", {}, sla("910")), node("gpu", {}, {"key": "gpu", "effect": "NoSchedule"}))
    first = here.why(tolerations=[GT])
    assert first == (
        "taint sla=910: 910 is not greater than 950 and the like on 4 nodes; "
        "taint gpu: no toleration for this key on 1 node"
    )
    here.put(*(node(f"n{value}", {}, sla("930")) for value in ("900", "920")))
    assert here.why(tolerations=[GT]) == first
    here.put(node("n910", {}, sla("930")))
    assert here.why(tolerations=[GT]) == first
    here.put(node("again", {}, sla("930")))
    assert here.why(tolerations=[GT]).startswith("taint sla=930: 930 is not greater than 950 on 4 nodes; ")


def test_labels_are_explained_term_by_term() -> None:
    here = Told(node("old", {"kernel": "5.4"}), node("older", {"kernel": "5.4"}), node("odd", {"kernel": "x"}))
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    why = here.why(**requiring(NEWER, zone))
    no_zone = "`zone In [a]`: the node has no label zone"
    assert why.startswith(f"node affinity: `kernel SemverGt [5.15]`: the label is 5.4, {no_zone} on 2 nodes; ")
    assert "; node affinity: `kernel SemverGt [5.15]`: label kernel=x is not a semantic version" in why
    assert why.endswith(" on 1 node")
    assert here.why(nodeSelector={"disk": "ssd"}) == "node affinity: `disk=ssd`: the node has no label disk on 3 nodes"


def test_the_sentence_and_the_work_are_bounded_however_many_values_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Told(*(node(f"n{number}", {}, sla(f"{number}")) for number in range(600)))
    asked, ask = 0, Complaint.__call__

    def counted(self: Complaint, taint: Any) -> Any:
        nonlocal asked
        asked += 1
        return ask(self, taint)

    monkeypatch.setattr(Complaint, "__call__", counted)
    why = here.why(tolerations=[GT])
    assert why == f"taint sla=0: 0 is not greater than 950 and the like on {EXAMINED} nodes; other values on 536 nodes"
    assert asked == EXAMINED
    here.put(node("n0", {}, sla("1")))
    here.why(tolerations=[GT])
    assert asked <= EXAMINED + 1
    many = [{"expression": f"taint.value.endsWith('{'x' * number}')"} for number in range(1, 60)]
    assert len(here.why(tolerations=many)) < 600


def test_a_costly_expression_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Told(node("a", {}, sla("900")))
    monkeypatch.setattr(TaintExpression, "why", lambda *_: pytest.fail("it is evaluated step by step"))
    costly = "[1, 2, 3, 4, 5].all(a, [1, 2, 3, 4, 5].all(b, [1, 2, 3, 4, 5].all(c, [1, 2, 3, 4, 5].all(d, "
    costly += "[1, 2, 3, 4, 5].all(e, a + b + c + d + e > 0 && taint.value.contains('x'))))))"
    assert TaintExpression(costly).cost > 10_000
    why = here.why(tolerations=[{"expression": costly}])
    assert why.startswith("taint sla=900: `[1, 2, 3, 4, 5].all(a, ")
    assert why.endswith("… on 1 node")


def test_a_plugin_that_cannot_explain_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = Told(node("a", {}, sla("900")), node("b"))
    monkeypatch.setattr(TaintToleration, "explain", lambda *_: 1 / 0)
    assert here.why(tolerations=[GT], nodeSelector={"disk": "ssd"}).startswith("node affinity: ")
    assert '"Rejection not explained" plugin="TaintToleration"' in caplog.text


def test_expressions_are_evaluated_again_for_few_nodes_or_none() -> None:
    here = Told(*(node(f"n{number}", {"rack": f"{number}"}) for number in range(50)))
    once = "[1, 2, 3, 4, 5, 6, 7, 8].exists(a, [1, 2, 3, 4, 5, 6, 7, 8].exists(b, node.labels['rack'] == 'x'))"
    cost = NodeExpression(once).cost
    few = {"matchCELExpressions": [once] * 10}
    assert f" on {100_000 // (10 * cost)} nodes; other values on " in here.why(**requiring(few))
    none = {"matchCELExpressions": [once] * (100_000 // cost + 1)}
    assert here.why(**requiring(none)) == ""


async def test_labels_that_cannot_be_compared_are_logged_counted_and_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(VERBOSE, "moorage.scheduler")
    async with stage(tmp_path) as here:
        for name in ("a", "b"):
            await here.node(name, {"kernel": "unknown"})
        for number in range(2):
            await here.pod(f"web-{number}", requests={"cpu": f"{number}"}, **requiring(NEWER))
            await here.unschedulable(f"web-{number}", "2 node(s) didn't match Pod's node affinity/selector")
        assert evaluations(here, "NodeAffinity", "Filter", "Error") == 2
        assert unclear(here, "Parse semver failed") >= 2
    lines = [each.getMessage() for each in caplog.records if "Parse semver" in each.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith(
        '"Parse semver failed for value unknown in label kernel" expression="kernel SemverGt [5.15]" '
        'err="label kernel=unknown is not a semantic version'
    )


async def test_two_expressions_that_fail_on_the_same_value_are_two_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(VERBOSE, "moorage.scheduler")
    terms = [{"matchCELExpressions": [f"int(node.labels['kernel']) > {number}"]} for number in (1, 2)]
    tolerations = [{"expression": f"int(taint.value) > {number}"} for number in (3, 4)]
    async with stage(tmp_path) as here:
        await here.node("a", {"kernel": "x"})
        await here.node("b", {"kernel": "x"}, taints=[sla("high")])
        await here.pod("web", tolerations=tolerations, **requiring(*terms))
        await here.unschedulable("web")
    lines = [each.getMessage() for each in caplog.records if "failed to evaluate" in each.getMessage()]
    failed = '"CEL expression failed to evaluate" expression='
    why = "err=\"type conversion error from 'string' to 'int'\""
    assert sorted(line for line in lines if "not-ready" not in line) == [
        *(f'{failed}"int(node.labels[\'kernel\']) > {number}" labels="kernel=x" {why}' for number in (1, 2)),
        *(f'{failed}"int(taint.value) > {number}" taint="sla=high:NoSchedule" {why}' for number in (3, 4)),
    ]


async def test_a_preferred_term_that_cannot_be_evaluated_is_counted(tmp_path: Path) -> None:
    unguarded = {"matchCELExpressions": ["node.labels['rack'] == 'a1'"]}
    preferred = [{"weight": 1, "preference": each} for each in (NEWER, unguarded)]
    async with stage(tmp_path) as here:
        await here.node("a", {"kernel": "unknown"})
        await here.node("b", {"kernel": "6.1"})
        await here.pod("web", affinity={"nodeAffinity": {PREFERRED: preferred}})
        assert await here.node_of("web") == "b"
        assert unclear(here, "Parse semver failed") == 1
        assert unclear(here, "CEL expression failed to evaluate") >= 1


async def test_a_volume_whose_reach_cannot_be_evaluated_is_logged_counted_and_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(VERBOSE, "moorage.scheduler")
    case = stored(Gate.SEMVER, NEWER, "")
    async with stage(tmp_path) as here:
        await here.node("a", {"kernel": "unknown"})
        await case.pod(here, "web")
        why = await here.unschedulable("web", "1 node(s) didn't match PersistentVolume's node affinity")
        assert "Why: volume web: `kernel SemverGt [5.15]`: label kernel=unknown is not a semantic version" in why
        assert evaluations(here, "VolumeBinding", "Filter", "Error") >= 1
        assert evaluations(here, "VolumeBinding", "Filter", "UnschedulableAndUnresolvable") == 0
        assert unclear(here, "Parse semver failed") >= 1
    assert len([each for each in caplog.records if "Parse semver" in each.getMessage()]) == 1


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (kit.request(tolerations=[{**GT, "key": "hours"}]), "failed to parse taint value as int64"),
        (kit.request(selector="device.attributes['gpu.example.com'].size > 5"), "device selector failed to evaluate"),
    ],
)
async def test_a_device_that_cannot_be_compared_is_logged_counted_and_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, request_: Data, message: str
) -> None:
    async with stage(tmp_path) as here:
        await here.node("a")
        for each in (kit.device_class(), kit.resource_slice("a", kit.device("gpu-0", kit.taint("many")))):
            await create(here.client, each)
        await create(here.client, kit.claim("web", request_))
        await here.pod("web", **kit.using("web"))
        await here.unschedulable("web")

        async def counted() -> bool:
            return evaluations(here, "DynamicResources", "Filter", "Error") >= 1

        assert await eventually(counted)
        assert unclear(here, message) >= 1
    assert len([each for each in caplog.records if message in each.getMessage()]) == 1


def test_what_kubernetes_says_stays_as_it_is() -> None:
    engine = ProfileOnTable()
    engine.table.set_node(node("a", {}, sla("900")))
    placement = engine.place(pod(tolerations=[GT]))
    plain = message_of(1, placement)
    assert plain == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    assert message_of(1, placement, "preemption: no.", "x on 1 node") == f"{plain} preemption: no. Why: x on 1 node."
