from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api.meaning import MAX_TERMS, asked_of, meaning, meant, reach_of, tolerations_of_result
from moorage.api.meta import ObjectMeta
from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.api.pod import Affinity, NodeAffinity, PodSpec, Toleration
from moorage.api.resource import (
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from moorage.api.rules import COVER, DEVICE_TOLERATIONS, MAX_BYTES, NODE_AFFINITY, TOLERATIONS, RulesError, rules_of
from moorage.api.volume import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from moorage.features import ALL_ON
from moorage.match.selector import compile_selector

SLA = Toleration("sla", "Gt", "950", "NoExecute")
NATIVE = Toleration("team", "Equal", "a")
COVERED = Toleration("sla", "Exists", "", "NoExecute")
RULES = {TOLERATIONS: "- {key: sla, operator: Gt, value: '950', effect: NoExecute}"}
ONE = """
requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}
"""


def requirement(key: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, "Exists")


def affinity(*keys: str) -> Affinity:
    terms = tuple(NodeSelectorTerm((requirement(key),)) for key in keys)
    return Affinity(NodeAffinity(NodeSelector(terms)))


def test_a_pod_without_rules_means_what_it_says() -> None:
    spec = PodSpec(tolerations=(NATIVE,))
    for others in ({}, {"team": "a"}, {"moorage.dev/evict-at": "now"}):
        assert meaning(spec, others) is None
        assert meant(spec, others) is spec


def test_rules_come_first_and_the_recorded_cover_does_not_count() -> None:
    spec = PodSpec(tolerations=(COVERED, NATIVE))
    annotations = {**RULES, COVER: '[{"key":"sla","operator":"Exists","effect":"NoExecute"}]'}
    assert meant(spec, annotations).tolerations == (SLA, NATIVE)


@pytest.mark.parametrize("rules", [{}, {TOLERATIONS: "- {key: sla, oprator: Gt}"}, {TOLERATIONS: "{"}])
def test_a_cover_without_readable_rules_is_no_rules(rules: dict[str, str]) -> None:
    annotations = {**rules, COVER: '[{"key":"sla","operator":"Exists","effect":"NoExecute"}]'}
    assert meant(PodSpec(tolerations=(COVERED, NATIVE)), annotations).tolerations == (NATIVE,)


@pytest.mark.parametrize("effect", ["", "NoSchedule", "NoExecute"])
def test_when_the_record_cannot_be_read_whatever_could_be_a_cover_is_one(effect: str) -> None:
    covered = Toleration("sla", "Exists", "", effect)
    for unreadable in ("?", "", "{}", "null"):
        assert meant(PodSpec(tolerations=(covered, NATIVE)), {COVER: unreadable}).tolerations == (NATIVE,)


def test_a_cover_whose_seconds_somebody_changed_is_still_a_cover() -> None:
    annotations = {**RULES, COVER: '[{"key":"sla","operator":"Exists","effect":"NoExecute"}]'}
    for seconds in (0, 9_999_999):
        changed = Toleration("sla", "Exists", "", "NoExecute", seconds)
        assert meant(PodSpec(tolerations=(changed, NATIVE, changed)), annotations).tolerations == (SLA, NATIVE, changed)
    assert meant(PodSpec(tolerations=(NATIVE,)), annotations).tolerations == (SLA, NATIVE)


def test_an_own_toleration_that_differs_from_the_cover_only_in_its_seconds_stays() -> None:
    own = Toleration("sla", "Exists", "", "NoExecute", 60)
    annotations = {**RULES, COVER: '[{"key":"sla","operator":"Exists","effect":"NoExecute"}]'}
    assert meant(PodSpec(tolerations=(COVERED, own)), annotations).tolerations == (SLA, own)


def test_of_equal_tolerations_only_as_many_are_the_cover_as_are_recorded() -> None:
    annotations = {**RULES, COVER: '[{"key":"sla","operator":"Exists","effect":"NoExecute"}]'}
    assert meant(PodSpec(tolerations=(COVERED, NATIVE, COVERED)), annotations).tolerations == (SLA, NATIVE, COVERED)


BAD = [
    ("- {key: sla, oprator: Gt}", "unknown field [0].oprator"),
    ("- {key: 5}", "[0].key: expected a string, got an integer: put it in quotes"),
    ("key: sla", "expected a list, got a map"),
    ("- key: sla\n  key: sla", "line 2: "),
    ("", "empty"),
    ("[]\n---\n[]", "more than one YAML document"),
    ("#" * (MAX_BYTES + 1), "longer than"),
    (f"[{'{key: a}, ' * 1025}]", "more than 1024 tolerations"),
]


@pytest.mark.parametrize(("text", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_rules_that_cannot_be_read_say_nothing_and_say_why(text: str, problem: str) -> None:
    known = meaning(PodSpec(tolerations=(NATIVE,)), {TOLERATIONS: text})
    assert known is not None
    assert known.spec.tolerations == (NATIVE,)
    assert known.problem.startswith(f"annotation {TOLERATIONS}: ")
    assert problem in known.problem


def test_required_affinity_must_hold_both_natively_and_by_rules_and_preferences_add_up() -> None:
    text = ONE + "\npreferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, preference: {}}]"
    found = meant(PodSpec(affinity=affinity("b", "c")), {NODE_AFFINITY: text}).affinity
    assert found is not None
    assert found.node_affinity is not None
    required = found.node_affinity.required_during_scheduling_ignored_during_execution
    terms = [(requirement("b"), requirement("a")), (requirement("c"), requirement("a"))]
    assert required == NodeSelector(tuple(map(NodeSelectorTerm, terms)))
    assert len(found.node_affinity.preferred_during_scheduling_ignored_during_execution) == 1


def test_affinity_that_cannot_be_read_or_combined_leaves_no_node() -> None:
    many = affinity(*(f"k{number}" for number in range(MAX_TERMS + 1)))
    for spec, text in ((PodSpec(), "required: {}"), (PodSpec(affinity=many), ONE)):
        known = meaning(spec, {NODE_AFFINITY: text})
        assert known is not None
        assert known.problem
        assert known.spec.affinity == Affinity(NodeAffinity(NodeSelector()))


terms = st.lists(
    st.builds(
        NodeSelectorTerm,
        match_expressions=st.lists(st.builds(requirement, st.sampled_from("abc")), max_size=2).map(tuple),
        match_fields=st.just(())
        | st.builds(
            lambda name: (NodeSelectorRequirement("metadata.name", "In", (name,)),), st.sampled_from(("n1", "n2"))
        ),
    ),
    max_size=3,
).map(lambda found: NodeSelector(tuple(found)))


@settings(max_examples=300)
@given(st.none() | terms, st.none() | terms, st.sets(st.sampled_from("abc")), st.sampled_from(("n1", "n2")))
def test_a_volume_is_reached_where_its_own_affinity_and_its_rules_both_allow(
    own: NodeSelector | None, ruled: NodeSelector | None, keys: set[str], name: str
) -> None:
    annotations = {}
    if ruled is not None:
        annotations[NODE_AFFINITY] = msgspec.json.encode({"required": ruled}).decode()
    volume = PersistentVolume(
        metadata=ObjectMeta(annotations=annotations),
        spec=PersistentVolumeSpec(node_affinity=VolumeNodeAffinity(own) if own else None),
    )
    labels = dict.fromkeys(keys, "")
    native = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    both = [compile_selector(each, ALL_ON).verdict(labels, name).matched for each in (native, ruled)]
    assert compile_selector(reach_of(volume), ALL_ON).verdict(labels, name).matched == all(both)


def test_a_volume_whose_rules_cannot_be_read_is_reached_from_nowhere() -> None:
    for text in ("{", "{}", "requred: {}"):
        volume = PersistentVolume(metadata=ObjectMeta(annotations={NODE_AFFINITY: text}))
        assert reach_of(volume) == NodeSelector()


def claim(annotations: dict[str, str]) -> ResourceClaim:
    gpu = DeviceRequest("gpu", exactly=ExactDeviceRequest(tolerations=(NATIVE,)))
    nic = DeviceRequest("nic", first_available=(DeviceSubRequest("fast"), DeviceSubRequest("slow")))
    return ResourceClaim(metadata=ObjectMeta(annotations=annotations), spec=ResourceClaimSpec(DeviceClaim((gpu, nic))))


def tolerated(item: ResourceClaim, request: str) -> tuple[Toleration, ...]:
    return tolerations_of_result(item, DeviceRequestAllocationResult(request, tolerations=(COVERED,)))


def test_device_rules_hold_for_all_requests_of_a_claim_or_for_each_by_its_name() -> None:
    every = claim({DEVICE_TOLERATIONS: RULES[TOLERATIONS]})
    assert [tolerated(every, name) for name in ("gpu", "nic/fast")] == [(SLA, NATIVE), (SLA,)]
    named = claim({DEVICE_TOLERATIONS: "nic/slow: [{key: sla, operator: Gt, value: '950', effect: NoExecute}]"})
    assert [tolerated(named, name) for name in ("gpu", "nic/fast", "nic/slow")] == [(NATIVE,), (), (SLA,)]


def test_device_rules_that_cannot_be_read_or_are_gone_leave_the_claim_what_it_says_itself() -> None:
    broken = claim({DEVICE_TOLERATIONS: "- key: 5"})
    with pytest.raises(RulesError, match="put it in quotes"):
        asked_of(broken)
    assert tolerated(broken, "gpu") == tolerated(claim({COVER: "[]"}), "gpu") == (NATIVE,)
    assert tolerated(claim({}), "gpu") == (COVERED,), "without rules or cover, what is written counts"


@given(st.text(st.sampled_from("[]{}:,- &*|>'\"\n#?!a5"), max_size=40))
def test_any_text_is_rules_or_has_a_reason(text: str) -> None:
    rules = rules_of({TOLERATIONS: text})
    assert rules is not None
    assert not (rules.tolerations and rules.problems)
    assert rules_of({TOLERATIONS: text}) is rules, "read once"
