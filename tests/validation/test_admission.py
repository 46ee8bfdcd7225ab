from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from moorage.api.decode import from_manifest
from moorage.api.kinds import KINDS
from moorage.api.meta import Object
from moorage.api.pod import Toleration
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.validation import admission_errors
from moorage.validation.gates import gates_needed, toleration_gates
from tests import known_expressions as known
from tests.api.every_field import document
from tests.match.operands import GATE_SETS, gate_names

API_VERSIONS = {kind.kind: kind.api_version for kind in KINDS if kind.struct is not Object}
TEMPLATES = {kind.kind: kind.pod_spec for kind in KINDS if kind.pod_spec not in ("", "spec")}
COSTLY = "spec: Forbidden: too complex, exceeds cost limit"

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)

GT, SEMVER_GT = (
    {"key": "sla", "operator": "Gt", "value": "950"},
    {"key": "cni", "operator": "SemverGt", "value": "3.28"},
)
CEL, WILDCARD = {"expression": known.ALWAYS}, {"key": "readiness.k8s.io/*", "operator": "Exists"}
PLAIN = {"key": "plain", "operator": "Exists"}
SEMVER_TERM = {"matchExpressions": [{"key": "kubelet", "operator": "SemverGt", "values": ["1.31"]}]}
CEL_TERM = {"matchCELExpressions": [known.ALWAYS]}
PLAIN_TERM = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}


def item(kind: str, spec: dict[str, Any]) -> Object:
    return manifest(kind, {"spec": spec})


def manifest(kind: str, rest: dict[str, Any]) -> Object:
    decoded = from_manifest({"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": {"name": "x"}, **rest})
    assert decoded is not None
    return decoded


def tolerating(*tolerations: dict[str, Any]) -> dict[str, Any]:
    return {"tolerations": list(tolerations)}


def requiring(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def preferring(*terms: dict[str, Any]) -> dict[str, Any]:
    preferred = [{"weight": 1, "preference": term} for term in terms]
    return {"affinity": {"nodeAffinity": {PREFERRED: preferred}}}


def reachable(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}


def claiming(*tolerations: dict[str, Any]) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu", "tolerations": list(tolerations)}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def choosing(*tolerations: dict[str, Any]) -> dict[str, Any]:
    way = {"name": "w", "deviceClassName": "gpu", "tolerations": list(tolerations)}
    return {"devices": {"requests": [{"name": "r", "firstAvailable": [way]}]}}


def templating(*tolerations: dict[str, Any]) -> dict[str, Any]:
    return {"spec": claiming(*tolerations)}


def offering(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"driver": "d", "nodeSelector": {"nodeSelectorTerms": list(terms)}}


def offering_one(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"driver": "d", "devices": [{"name": "a", "nodeSelector": {"nodeSelectorTerms": list(terms)}}]}


class Use(NamedTuple):
    """An object that uses what a gate guards, the same object that does not, and where the use stands."""

    kind: str
    gate: Gate
    with_it: dict[str, Any]
    without: dict[str, Any]
    path: str

    @property
    def item(self) -> Object:
        return item(self.kind, self.with_it)

    @property
    def plain(self) -> Object:
        return item(self.kind, self.without)

    def __str__(self) -> str:
        return f"{self.gate.name} at {self.kind}.{self.path}"


TOLERATIONS = (
    (Gate.COMPARISON, GT, "operator"),
    (Gate.SEMVER, SEMVER_GT, "operator"),
    (Gate.CEL, CEL, "expression"),
    (Gate.WILDCARD, WILDCARD, "key"),
)
TERMS = (
    (Gate.SEMVER, SEMVER_TERM, "matchExpressions[0].operator"),
    (Gate.CEL, CEL_TERM, "matchCELExpressions"),
)
TOLERATION_PLACES = (
    ("Pod", tolerating, "spec.tolerations[0]"),
    ("ResourceClaim", claiming, "spec.devices.requests[0].exactly.tolerations[0]"),
    ("ResourceClaim", choosing, "spec.devices.requests[0].firstAvailable[0].tolerations[0]"),
    ("ResourceClaimTemplate", templating, "spec.spec.devices.requests[0].exactly.tolerations[0]"),
)
TERM_PLACES = (
    ("Pod", requiring, f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"),
    ("Pod", preferring, f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference"),
    ("PersistentVolume", reachable, "spec.nodeAffinity.required.nodeSelectorTerms[0]"),
    ("ResourceSlice", offering, "spec.nodeSelector.nodeSelectorTerms[0]"),
    ("ResourceSlice", offering_one, "spec.devices[0].nodeSelector.nodeSelectorTerms[0]"),
)
USES = [
    Use(kind, gate, wrap(what), wrap(plain), f"{path}.{field}")
    for places, whats, plain in ((TOLERATION_PLACES, TOLERATIONS, PLAIN), (TERM_PLACES, TERMS, PLAIN_TERM))
    for kind, wrap, path in places
    for gate, what, field in whats
]
every_use = pytest.mark.parametrize("use", USES, ids=str)


def refused(new: Object, gates: Gates, old: Object | None = None) -> list[str]:
    return [str(error) for error in admission_errors(new, gates, old)]


def all_but(gate: Gate) -> Gates:
    return Gates(frozenset(Gate) - {gate})


@every_use
def test_a_new_object_needs_the_gate_of_everything_that_it_uses(use: Use) -> None:
    assert refused(use.item, ALL_ON) == []
    assert refused(use.item, Gates(frozenset([use.gate]))) == []
    for gates in (NONE_ON, all_but(use.gate)):
        (error,) = admission_errors(use.item, gates)
        assert error.field == use.path


@every_use
def test_an_update_may_keep_what_the_old_object_already_used(use: Use) -> None:
    assert refused(use.item, NONE_ON, old=use.item) == []


@every_use
def test_an_update_may_not_begin_to_use_what_its_gate_forbids(use: Use) -> None:
    assert use.path in [error.field for error in admission_errors(use.item, NONE_ON, use.plain)]


@every_use
def test_what_the_old_object_used_of_another_gate_does_not_help(use: Use) -> None:
    for other in USES:
        if other.kind == use.kind and other.gate is not use.gate:
            fields = [error.field for error in admission_errors(use.item, NONE_ON, other.item)]
            assert use.path in fields


@every_use
def test_an_object_needs_exactly_the_gates_that_it_uses(use: Use) -> None:
    assert gates_needed(use.item) == {use.gate}
    assert gates_needed(use.plain) == frozenset()


def test_a_use_anywhere_in_the_old_pod_allows_it_anywhere_in_the_new_one() -> None:
    for terms in (requiring, preferring):
        old, new = item("Pod", terms(SEMVER_TERM)), item("Pod", {**terms(SEMVER_TERM), **tolerating(SEMVER_GT)})
        assert refused(new, NONE_ON, old) == []
    old, new = item("Pod", tolerating(CEL)), item("Pod", {**tolerating(CEL), **requiring(CEL_TERM)})
    assert [error.field for error in admission_errors(new, NONE_ON, old)] == ["spec.affinity.nodeAffinity"]


def test_allowed_once_more_is_not_allowed_to_be_wrong() -> None:
    old = item("Pod", tolerating(GT))
    assert refused(item("Pod", tolerating(GT, {**GT, "value": "0950"})), NONE_ON, old) == [
        'spec.tolerations[1].value: Invalid value: "0950": must be a valid decimal integer in canonical form'
    ]
    assert refused(
        item("Pod", tolerating(CEL, {"expression": known.BROKEN})), NONE_ON, item("Pod", tolerating(CEL))
    ) == [f'spec.tolerations[1].expression: Invalid value: "foo.bar": compilation failed: {known.PROBLEM}']


@pytest.mark.parametrize("gates", GATE_SETS, ids=gate_names)
def test_an_object_that_uses_nothing_new_is_admitted_whatever_the_gates(gates: Gates) -> None:
    for use in USES:
        assert refused(use.plain, gates) == []


def test_all_errors_of_a_pod_are_reported_at_once() -> None:
    pod = item("Pod", {**tolerating(GT, CEL, {"operator": "Equal"}), **requiring(SEMVER_TERM, CEL_TERM)})
    fields = [error.field for error in admission_errors(pod, NONE_ON)]
    assert sorted(fields) == sorted([
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[1].matchCELExpressions",
        "spec.tolerations[0].operator",
        "spec.tolerations[1].expression",
        "spec.tolerations[2].operator",
    ])  # fmt: skip


def test_an_update_reports_what_is_wrong_and_what_may_not_change() -> None:
    old = item("Pod", {**tolerating(PLAIN), **requiring(PLAIN_TERM)})
    new = item("Pod", {**tolerating({**GT, "value": "x"}), **requiring(CEL_TERM)})
    fields = {error.field for error in admission_errors(new, ALL_ON, old)}
    assert fields == {"spec.tolerations[0].value", "spec.tolerations", "spec.affinity.nodeAffinity"}


COSTLY_TERM = {"matchCELExpressions": [known.COSTLY_NODE, known.COSTLY_NODE + " || false"]}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Pod", {**tolerating({"expression": known.COSTLY_TAINT}), **requiring(COSTLY_TERM)}),
        ("Pod", preferring(COSTLY_TERM)),
        ("PersistentVolume", reachable(COSTLY_TERM)),
        ("ResourceClaim", claiming({"expression": known.COSTLY_TAINT})),
        ("ResourceSlice", offering_one(COSTLY_TERM)),
    ],
)
def test_costly_expressions_are_one_complaint_about_the_specification(kind: str, spec: dict[str, Any]) -> None:
    assert refused(item(kind, spec), ALL_ON) == [COSTLY]


def test_a_node_is_refused_for_its_taints() -> None:
    node = item("Node", {"taints": [{"key": "sla", "value": "high"}, {"key": "a", "effect": "NoSchedule"}]})
    assert refused(node, ALL_ON) == ["spec.taints[0].effect: Required value"]
    assert refused(item("Node", {"taints": [{"key": "sla", "value": "high", "effect": "NoSchedule"}]}), ALL_ON) == []


def test_a_volume_needs_its_required_terms() -> None:
    assert refused(item("PersistentVolume", {}), ALL_ON) == []
    assert refused(item("PersistentVolume", {"nodeAffinity": {}}), ALL_ON) == [
        "spec.nodeAffinity.required: Required value: must specify required node constraints"
    ]
    assert refused(item("PersistentVolume", reachable()), ALL_ON) == [
        "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term"
    ]


def test_the_affinity_of_a_volume_may_be_set_once() -> None:
    bare, placed = item("PersistentVolume", {}), item("PersistentVolume", reachable(PLAIN_TERM))
    assert refused(placed, NONE_ON, bare) == []
    assert refused(placed, NONE_ON, placed) == []
    for new in (bare, item("PersistentVolume", reachable(SEMVER_TERM))):
        (error,) = admission_errors(new, ALL_ON, placed)
        assert error.detail == "field is immutable, except for updating from beta label to GA"


def test_device_taints_are_refused_wherever_they_stand() -> None:
    taint = {"key": "a", "value": "8", "effect": "PreferNoSchedule"}
    for kind, spec, path in (
        ("ResourceSlice", {"devices": [{"name": "a"}, {"name": "b", "taints": [taint]}]}, "spec.devices[1].taints[0]"),
        ("DeviceTaintRule", {"taint": taint}, "spec.taint"),
    ):
        assert refused(item(kind, spec), ALL_ON) == [
            f'{path}.effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", "NoSchedule", "None"'
        ]


def workload(kind: str, spec: dict[str, Any]) -> Object:
    return manifest(kind, document(tuple(TEMPLATES[kind].split(".")), spec))


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_is_refused_for_what_its_pods_would_be_refused_for(kind: str) -> None:
    template = TEMPLATES[kind]
    bad = workload(kind, {**tolerating(GT, {"expression": known.BROKEN}), **requiring(SEMVER_TERM)})
    assert refused(bad, NONE_ON) == [
        f"{template}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator: "
        'Invalid value: "SemverGt": not a valid selector operator',
        f'{template}.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"',
        f"{template}.tolerations[1].expression: Forbidden: "
        "may not be set unless the feature gate TaintTolerationNodeAffinityCEL is enabled",
    ]
    assert [error.field for error in admission_errors(bad, ALL_ON)] == [f"{template}.tolerations[1].expression"]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_costly_template_is_refused_on_the_specification_of_its_pods(kind: str) -> None:
    (error,) = admission_errors(workload(kind, tolerating({"expression": known.COSTLY_TAINT})), ALL_ON)
    assert str(error) == f"{TEMPLATES[kind]}: Forbidden: too complex, exceeds cost limit"


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_may_change_as_pods_may_not(kind: str) -> None:
    old = workload(kind, {**tolerating(PLAIN), **requiring(PLAIN_TERM)})
    assert refused(workload(kind, requiring(CEL_TERM)), ALL_ON, old) == []
    assert refused(workload(kind, requiring(CEL_TERM)), NONE_ON, old) == [
        f"{TEMPLATES[kind]}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchCELExpressions: Forbidden: "
        "may not be set unless the feature gate TaintTolerationNodeAffinityCEL is enabled"
    ]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_may_go_on_using_what_it_uses_when_the_gate_is_off(kind: str) -> None:
    old = workload(kind, {**tolerating(GT, CEL), **requiring(SEMVER_TERM)})
    new = workload(kind, {**tolerating(PLAIN, GT, CEL), **requiring(SEMVER_TERM, PLAIN_TERM)})
    assert refused(new, NONE_ON, old) == []


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_needs_the_gates_of_its_pods(kind: str) -> None:
    everything = {**tolerating(GT, WILDCARD), **preferring(SEMVER_TERM, CEL_TERM)}
    assert gates_needed(workload(kind, everything)) == frozenset(Gate)


@pytest.mark.parametrize("kind", API_VERSIONS)
def test_an_empty_object_of_any_kind_is_judged(kind: str) -> None:
    empty = item(kind, {})
    expected = ["spec.taint.key", "spec.taint.key", "spec.taint.effect"] if kind == "DeviceTaintRule" else []
    assert [error.field for error in admission_errors(empty, ALL_ON)] == expected
    assert gates_needed(empty) == frozenset()


def test_the_claims_of_an_allocation_are_not_judged_but_known_to_need_their_gate() -> None:
    allocated = from_manifest({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "status": {"allocation": {"devices": {"results": [{"request": "r", "tolerations": [GT]}]}}},
    })  # fmt: skip
    assert allocated is not None
    assert refused(allocated, NONE_ON) == []
    assert gates_needed(allocated) == {Gate.COMPARISON}


@pytest.mark.parametrize(
    ("toleration", "gates"),
    [
        (Toleration("a", "Equal", "b"), set()),
        (Toleration("", "Exists"), set()),
        (Toleration("a", "Lt", "5"), {Gate.COMPARISON}),
        (Toleration("a*", "Lt", "5"), {Gate.COMPARISON, Gate.WILDCARD}),
        (Toleration("a*", "SemverEq", "5"), {Gate.SEMVER, Gate.WILDCARD}),
        (Toleration(expression=known.ALWAYS), {Gate.CEL}),
    ],
    ids=["Equal", "Exists", "Lt", "wildcard Lt", "wildcard SemverEq", "expression"],
)
def test_a_toleration_needs_a_gate_for_each_thing_that_it_uses(toleration: Toleration, gates: set[Gate]) -> None:
    assert set(toleration_gates(toleration)) == gates
