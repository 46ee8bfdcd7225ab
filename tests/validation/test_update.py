from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm
from moorage.api.pod import Affinity, NodeAffinity, PodSchedulingGate, PodSpec, Toleration
from moorage.api.volume import VolumeNodeAffinity
from moorage.features import ALL_ON
from moorage.match.selector import compile_pod_selector
from moorage.validation.update import pod_update_errors, volume_update_errors
from tests import known_expressions as known
from tests.match import operands

REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
ADD_ONLY = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
NARROW_ONLY = "only additions are allowed (no mutations or deletions)"
SAME_LENGTH = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"


def refused(new: PodSpec, old: PodSpec) -> list[str]:
    return [str(error) for error in pod_update_errors("spec", new, old)]


A = Toleration("a", "Equal", "1", "NoExecute", 30)
B = Toleration("b", "Exists")
C = Toleration(expression=known.ON_GPU)


def tolerating(*tolerations: Toleration) -> PodSpec:
    return PodSpec(tolerations=tolerations)


ALLOWED: dict[str, tuple[PodSpec, PodSpec]] = {
    "nothing": (tolerating(A, B, C), tolerating(A, B, C)),
    "one more": (tolerating(A), tolerating(A, B)),
    "one more in front": (tolerating(A, B), tolerating(C, A, B)),
    "the first ones": (tolerating(), tolerating(A, B, C)),
    "the order": (tolerating(A, B, C), tolerating(C, A, B)),
    "one of two that are the same": (tolerating(A, A), tolerating(A)),
    "more seconds": (tolerating(A, B), tolerating(msgspec.structs.replace(A, toleration_seconds=60), B)),
    "no seconds": (tolerating(A), tolerating(msgspec.structs.replace(A, toleration_seconds=None))),
    "seconds beside an expression": (tolerating(C), tolerating(msgspec.structs.replace(C, toleration_seconds=5))),
}


@pytest.mark.parametrize(("old", "new"), ALLOWED.values(), ids=ALLOWED)
def test_tolerations_may_be_added_and_their_seconds_changed(old: PodSpec, new: PodSpec) -> None:
    assert refused(new, old) == []


FORBIDDEN: dict[str, tuple[PodSpec, PodSpec]] = {
    "removed": (tolerating(A, B), tolerating(A)),
    "all removed": (tolerating(A, B), tolerating()),
    "another key": (tolerating(A), tolerating(msgspec.structs.replace(A, key="z"))),
    "another operator": (tolerating(A), tolerating(msgspec.structs.replace(A, operator=""))),
    "another value": (tolerating(A), tolerating(msgspec.structs.replace(A, value="2"))),
    "another effect": (tolerating(A), tolerating(msgspec.structs.replace(A, effect=""))),
    "another expression": (tolerating(C), tolerating(msgspec.structs.replace(C, expression=known.EVICTING))),
    "no expression": (tolerating(C), tolerating(msgspec.structs.replace(C, expression=""))),
    "wider": (tolerating(B), tolerating(Toleration("", "Exists"))),
}


@pytest.mark.parametrize(("old", "new"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_an_existing_toleration_may_not_go_or_change(old: PodSpec, new: PodSpec) -> None:
    assert refused(new, old) == [ADD_ONLY]


@given(st.lists(operands.tolerations, max_size=4), st.lists(operands.tolerations, max_size=4), st.booleans())
def test_any_update_that_keeps_every_toleration_is_allowed(
    kept: list[Toleration], more: list[Toleration], in_front: bool
) -> None:
    lasting = [msgspec.structs.replace(toleration, toleration_seconds=7) for toleration in kept]
    later = more + lasting if in_front else lasting + more
    assert refused(tolerating(*later), tolerating(*kept)) == []


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, operator, values)


WEST, BIG, NEW = (
    requirement("zone", "In", "west"),
    requirement("cpu", "Gt", "16"),
    requirement("kubelet", "SemverGt", "1.31"),
)
NAMED = requirement("metadata.name", "In", "n1")
IN_WEST, WEST_SSD = {"zone": "west"}, {"zone": "west", "disk": "ssd"}
GATED = (PodSchedulingGate("wait"),)


def pod(
    *terms: NodeSelectorTerm,
    gates: tuple[PodSchedulingGate, ...] = (),
    preferred: tuple[PreferredSchedulingTerm, ...] = (),
    labels: dict[str, str] | None = None,
) -> PodSpec:
    affinity = Affinity(NodeAffinity(NodeSelector(terms) if terms else None, preferred)) if terms or preferred else None
    return PodSpec(affinity=affinity, node_selector=labels or {}, scheduling_gates=gates)


ONLY_WEST, WEST_AND_BIG = NodeSelectorTerm((WEST,)), NodeSelectorTerm((WEST, BIG))
WEST_RACK = NodeSelectorTerm((WEST,), (), (known.RACKED,))
ONLY_ALWAYS = NodeSelectorTerm((), (), (known.ALWAYS,))
PREFERENCE = PreferredSchedulingTerm(1, ONLY_WEST)

CHANGES: dict[str, tuple[PodSpec, PodSpec]] = {
    "narrowed": (pod(ONLY_WEST), pod(WEST_AND_BIG)),
    "widened": (pod(WEST_AND_BIG), pod(ONLY_WEST)),
    "set": (pod(), pod(ONLY_WEST)),
    "removed": (pod(ONLY_WEST), pod()),
    "another value": (
        pod(NodeSelectorTerm((NEW,))),
        pod(NodeSelectorTerm((requirement("kubelet", "SemverGt", "1.32"),))),
    ),
    "an expression more": (pod(ONLY_WEST), pod(NodeSelectorTerm((WEST,), (), (known.ALWAYS,)))),
    "another preference": (pod(preferred=(PREFERENCE,)), pod(preferred=(PREFERENCE, PREFERENCE))),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_node_affinity_of_a_pod_that_is_not_gated_is_immutable(old: PodSpec, new: PodSpec) -> None:
    (error,) = pod_update_errors("spec", new, old)
    assert error.type.reason == "FieldValueForbidden"
    assert error.field == "spec.affinity.nodeAffinity"
    assert "pod updates may not change" in error.detail


def test_the_node_selector_of_a_pod_that_is_not_gated_is_immutable() -> None:
    for new in (pod(labels=WEST_SSD), pod(labels={"zone": "east"}), pod()):
        (error,) = pod_update_errors("spec", new, pod(labels=IN_WEST))
        assert error.type.reason == "FieldValueForbidden"
        assert error.field == "spec.nodeSelector"


def test_an_update_that_changes_nothing_is_allowed() -> None:
    for gates in ((), GATED):
        for spec in (
            pod(gates=gates),
            pod(WEST_AND_BIG, gates=gates, labels=IN_WEST),
            pod(gates=gates, preferred=(PREFERENCE,)),
        ):
            assert refused(spec, spec) == []


NARROWED: dict[str, tuple[PodSpec, PodSpec]] = {
    "from nothing": (pod(gates=GATED), pod(ONLY_WEST, gates=GATED)),
    "from nothing but preferences": (pod(gates=GATED, preferred=(PREFERENCE,)), pod(ONLY_WEST, gates=GATED)),
    "a requirement more": (pod(ONLY_WEST, gates=GATED), pod(WEST_AND_BIG, gates=GATED)),
    "a field more": (pod(ONLY_WEST, gates=GATED), pod(NodeSelectorTerm((WEST,), (NAMED,)), gates=GATED)),
    "an expression more": (pod(ONLY_WEST, gates=GATED), pod(WEST_RACK, gates=GATED)),
    "a requirement beside an expression": (
        pod(NodeSelectorTerm((), (), (known.RACKED,)), gates=GATED),
        pod(WEST_RACK, gates=GATED),
    ),
    "each term": (pod(ONLY_WEST, ONLY_WEST, gates=GATED), pod(WEST_AND_BIG, ONLY_WEST, gates=GATED)),
    "a label more": (pod(gates=GATED, labels=IN_WEST), pod(gates=GATED, labels=WEST_SSD)),
    "other preferences": (pod(ONLY_WEST, gates=GATED), pod(ONLY_WEST, gates=GATED, preferred=(PREFERENCE,))),
    "and let go": (pod(ONLY_WEST, gates=GATED), pod(WEST_AND_BIG)),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), NARROWED.values(), ids=NARROWED)
def test_node_affinity_of_a_gated_pod_may_be_narrowed(old: PodSpec, new: PodSpec) -> None:
    assert refused(new, old) == []


WIDENED: dict[str, tuple[PodSpec, PodSpec, str]] = {
    "a term more": (pod(ONLY_WEST), pod(ONLY_WEST, ONLY_WEST), SAME_LENGTH),
    "a term less": (pod(ONLY_WEST, WEST_AND_BIG), pod(ONLY_WEST), SAME_LENGTH),
    "no terms": (pod(ONLY_WEST), pod(), SAME_LENGTH),
    "a requirement less": (pod(WEST_AND_BIG), pod(ONLY_WEST), NARROW_ONLY),
    "an expression less": (pod(WEST_RACK), pod(ONLY_WEST), NARROW_ONLY),
    "another expression": (pod(WEST_RACK), pod(NodeSelectorTerm((WEST,), (), (known.ALWAYS,))), NARROW_ONLY),
    "a field less": (pod(NodeSelectorTerm((WEST,), (NAMED,))), pod(ONLY_WEST), NARROW_ONLY),
    "another requirement": (pod(ONLY_WEST), pod(NodeSelectorTerm((BIG,))), NARROW_ONLY),
    "an empty term filled": (pod(NodeSelectorTerm()), pod(ONLY_WEST), NARROW_ONLY),
    "an empty term with an expression": (pod(NodeSelectorTerm()), pod(ONLY_ALWAYS), NARROW_ONLY),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "detail"), WIDENED.values(), ids=WIDENED)
def test_node_affinity_of_a_gated_pod_may_not_be_widened_or_changed(old: PodSpec, new: PodSpec, detail: str) -> None:
    (error,) = pod_update_errors("spec", new, msgspec.structs.replace(old, scheduling_gates=GATED))
    assert error.type.reason == "FieldValueInvalid"
    assert error.field == (REQUIRED if detail == SAME_LENGTH else f"{REQUIRED}[0]")
    assert error.detail == detail


def test_a_gated_pod_keeps_its_node_selector() -> None:
    detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    for labels in ({}, {"zone": "east"}, {"disk": "ssd"}):
        (error,) = pod_update_errors("spec", pod(gates=GATED, labels=labels), pod(gates=GATED, labels=IN_WEST))
        assert (error.field, error.detail) == ("spec.nodeSelector", detail)


def test_scheduling_gates_may_only_go() -> None:
    first, second = PodSchedulingGate("first"), PodSchedulingGate("second")
    assert refused(pod(gates=(second,)), pod(gates=(first, second))) == []
    assert refused(pod(), pod(gates=(first, second))) == []
    assert refused(pod(gates=(first, second)), pod(gates=(first,))) == [
        "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'second'"
    ]


def test_all_that_an_update_may_not_do_is_reported_at_once() -> None:
    old = msgspec.structs.replace(pod(ONLY_WEST, labels=IN_WEST), tolerations=(A,))
    fields = [error.field for error in pod_update_errors("spec", pod(gates=GATED), old)]
    assert fields == [
        "spec.tolerations",
        "spec.schedulingGates[0].name",
        "spec.nodeSelector",
        "spec.affinity.nodeAffinity",
    ]


requirements = st.sampled_from(
    (WEST, BIG, NEW, requirement("zone", "NotIn", "west"), requirement("zone", "DoesNotExist"))
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.sampled_from(((), (NAMED,))),
    st.sampled_from(((), (known.RACKED,), (known.IN_WEST,))),
)
node_labels = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from(("west", "east")),
        "cpu": st.sampled_from(("8", "32")),
        "kubelet": st.sampled_from(("1.30", "1.32")),
        "rack": st.just("7"),
    },
)


@st.composite
def updates(draw: st.DrawFn) -> tuple[PodSpec, PodSpec]:
    """A gated pod before and after: its terms have grown, or are others altogether."""
    before = draw(st.lists(terms, max_size=2))
    after = draw(st.lists(terms, max_size=2))
    if draw(st.booleans()):
        more = [draw(terms) for _ in before]
        after = [
            NodeSelectorTerm(
                old.match_expressions + new.match_expressions,
                old.match_fields + new.match_fields,
                old.match_cel_expressions + new.match_cel_expressions,
            )
            for old, new in zip(before, more, strict=True)
        ]
    return pod(*before, gates=GATED), pod(*after, gates=GATED)


@settings(max_examples=300)
@given(updates(), node_labels, st.sampled_from(("n1", "n2")))
def test_no_update_of_a_gated_pod_admits_a_node_that_was_not_admitted(
    update: tuple[PodSpec, PodSpec], labels: dict[str, str], name: str
) -> None:
    old, new = update
    if not refused(new, old) and compile_pod_selector(new, ALL_ON).verdict(labels, name):
        assert compile_pod_selector(old, ALL_ON).verdict(labels, name)


BETA_ZONE, ZONE = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
BETA_REGION, REGION = "failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"
BETA_TO_GA = {
    BETA_ZONE: ZONE,
    BETA_REGION: REGION,
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def reach(*terms: tuple[str, ...], values: tuple[str, ...] = ("west",)) -> VolumeNodeAffinity:
    """A volume's affinity: for each term the keys that must have one of the values."""
    each = (NodeSelectorTerm(tuple(requirement(key, "In", *values) for key in keys)) for keys in terms)
    return VolumeNodeAffinity(NodeSelector(tuple(each)))


def volume_refused(new: VolumeNodeAffinity | None, old: VolumeNodeAffinity | None) -> bool:
    errors = list(volume_update_errors("spec.nodeAffinity", new, old))
    for error in errors:
        assert error.field == "spec.nodeAffinity"
        assert error.type.reason == "FieldValueInvalid"
        assert error.detail == "field is immutable, except for updating from beta label to GA"
    return len(errors) == 1


def test_the_affinity_of_a_volume_may_be_set_once() -> None:
    assert not volume_refused(reach((ZONE,)), None)
    assert not volume_refused(None, None)
    assert not volume_refused(reach((ZONE,)), reach((ZONE,)))
    assert volume_refused(None, reach((ZONE,)))
    assert volume_refused(reach((ZONE,), values=("east",)), reach((ZONE,)))
    assert volume_refused(reach((ZONE,), values=("west", "east")), reach((ZONE,)))
    assert volume_refused(reach((ZONE,), (ZONE,)), reach((ZONE,)))
    assert volume_refused(reach((ZONE, REGION)), reach((ZONE,)))


def test_a_volumes_expressions_may_not_change() -> None:
    old, new = (
        VolumeNodeAffinity(NodeSelector((NodeSelectorTerm((), (), (source,)),)))
        for source in (known.ALWAYS, known.RACKED)
    )
    assert volume_refused(new, old)
    assert not volume_refused(old, old)


@pytest.mark.parametrize(("beta", "stable"), BETA_TO_GA.items())
def test_a_beta_label_of_a_volume_may_become_the_stable_one(beta: str, stable: str) -> None:
    assert not volume_refused(reach((stable,)), reach((beta,)))
    assert volume_refused(reach((beta,)), reach((stable,)))
    assert volume_refused(reach((stable,), values=("east",)), reach((beta,)))


def test_a_beta_label_may_not_become_another_stable_one() -> None:
    assert volume_refused(reach((REGION,)), reach((BETA_ZONE,)))
    assert volume_refused(reach((ZONE, REGION)), reach((BETA_REGION, BETA_ZONE)))


MIGRATIONS: dict[str, tuple[VolumeNodeAffinity, VolumeNodeAffinity]] = {
    "both of a term": (reach((BETA_ZONE, BETA_REGION)), reach((ZONE, REGION))),
    "one of a term": (reach((BETA_ZONE, BETA_REGION)), reach((ZONE, BETA_REGION))),
    "beside the stable one": (reach((BETA_ZONE, ZONE)), reach((ZONE, ZONE))),
    "all terms": (reach((BETA_ZONE,), (BETA_ZONE,)), reach((ZONE,), (ZONE,))),
    "one term of two": (reach((BETA_ZONE,), (BETA_ZONE,)), reach((ZONE,), (BETA_ZONE,))),
}


@pytest.mark.parametrize(("old", "new"), MIGRATIONS.values(), ids=MIGRATIONS)
def test_each_beta_label_of_a_volume_may_be_replaced_by_itself(
    old: VolumeNodeAffinity, new: VolumeNodeAffinity
) -> None:
    assert not volume_refused(new, old)
