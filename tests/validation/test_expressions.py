from __future__ import annotations

from typing import Any

import pytest

from moorage.api import kinds
from moorage.cel.cache import ProgramCache
from moorage.cel.environments import NODE_ENV
from moorage.features import ALL_ON, NONE_ON
from moorage.match import expressions
from moorage.match.expressions import NodeExpression, TaintExpression, cache_counters
from moorage.registry.judge import judge
from moorage.registry.state import State
from moorage.registry.table import strategy_of
from tests import known_expressions as known
from tests.validation.test_admission import (
    TEMPLATES,
    item,
    manifest,
    preferring,
    refused,
    requiring,
    tolerating,
    workload,
)

NUMBERS = ",".join(map(str, range(376)))


def costly(number: int) -> str:
    """An expression of cost 994,911 that differs from the others."""
    return f"[{NUMBERS}].all(a, [{NUMBERS}].all(b, a + b >= 0)) && node.labels['kubernetes.io/hostname'] != '{number}'"


def cheap(number: int) -> dict[str, str]:
    return {"expression": f"taint.key == 'bound-{number}'"}


def elements(*sources: str) -> dict[str, Any]:
    return {"matchCELExpressions": list(sources)}


COST = NodeExpression(costly(0)).cost
TOO_COSTLY = f"Forbidden: the costs of all expressions add up to {11 * COST}, which is more than the limit of 10000000"
TOO_MANY = "Forbidden: 101 expressions, which is more than the limit of 100"


def test_the_costs_of_all_expressions_of_a_pod_are_added_up() -> None:
    assert 10 * COST <= 10_000_000 < 11 * COST
    sources = [costly(number) for number in range(11)]
    assert refused(item("Pod", requiring(elements(*sources[:10]))), ALL_ON) == []
    assert refused(item("Pod", requiring(elements(*sources))), ALL_ON) == [f"spec: {TOO_COSTLY}"]
    required, preferred = requiring(elements(*sources[:5])), preferring(*map(elements, sources[5:]))
    both = {"affinity": {"nodeAffinity": required["affinity"]["nodeAffinity"] | preferred["affinity"]["nodeAffinity"]}}
    assert refused(item("Pod", both), ALL_ON) == [f"spec: {TOO_COSTLY}"]


def test_the_tolerations_of_a_pod_count_beside_its_terms() -> None:
    terms, tolerations = requiring(elements(*map(costly, range(10)))), [{"expression": known.ON_GPU}] * 90
    left = 10_000_000 - 10 * COST
    number = left // TaintExpression(known.ON_GPU).cost
    assert number >= 90
    assert refused(item("Pod", {**terms, **tolerating(*tolerations)}), ALL_ON) == []
    assert refused(item("Pod", {**terms, **tolerating(*tolerations, CEL)}), ALL_ON) == [f"spec: {TOO_MANY}"]


CEL = {"expression": known.ALWAYS}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_is_bounded_as_its_pods_are(kind: str) -> None:
    many = workload(kind, tolerating(*map(cheap, range(101))))
    assert refused(many, ALL_ON) == [f"{TEMPLATES[kind]}: {TOO_MANY}"]
    dear = workload(kind, requiring(elements(*map(costly, range(11)))))
    assert refused(dear, ALL_ON) == [f"{TEMPLATES[kind]}: {TOO_COSTLY}"]


def test_the_node_affinity_of_a_volume_and_the_tolerations_of_a_claim_are_bounded_too() -> None:
    terms = {"nodeSelectorTerms": [elements(*map(costly, range(11)))]}
    assert refused(item("PersistentVolume", {"nodeAffinity": {"required": terms}}), ALL_ON) == [f"spec: {TOO_COSTLY}"]
    ways = [{"exactly": {"tolerations": [cheap(number) for number in range(16)]}} for _ in range(7)]
    expected = TOO_MANY.replace("101", "112")
    assert refused(item("ResourceClaim", {"devices": {"requests": ways}}), ALL_ON) == [f"spec: {expected}"]
    template = {"spec": {"devices": {"requests": ways}}}
    assert refused(item("ResourceClaimTemplate", template), ALL_ON) == [f"spec: {expected}"]
    scheduling = {"scheduling": tolerating(*map(cheap, range(101)))}
    assert refused(manifest("RuntimeClass", scheduling), ALL_ON) == [f"scheduling: {TOO_MANY}"]


def test_nothing_is_compiled_when_there_are_too_many() -> None:
    before = cache_counters()
    pod = item("Pod", tolerating(*({"expression": f"taint.key == 'never-{number}'"} for number in range(6000))))
    assert refused(pod, ALL_ON) == ["spec: Forbidden: 6000 expressions, which is more than the limit of 100"]
    assert cache_counters() == before


def test_after_ten_that_are_invalid_no_more_are_compiled() -> None:
    before = cache_counters()["toleration"].misses
    pod = item("Pod", tolerating(*({"expression": f"taint.wrong-{number}"} for number in range(100))))
    errors = refused(pod, ALL_ON)
    assert len(errors) == 11
    assert errors[-1] == "spec: Forbidden: 10 expressions are invalid, and no further ones were checked"
    assert cache_counters()["toleration"].misses == before + 10


def test_no_more_are_compiled_to_warn_the_author_of_what_is_refused() -> None:
    before = cache_counters()["node_selector"].misses
    spec = {"containers": [], **requiring(elements(*(f"node.unwarned-{number}" for number in range(100))))}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "default"}, "spec": spec}
    errors, warned = judge(strategy_of(kinds.row("v1", "Pod")), pod, None, State(), ALL_ON)
    assert (len(errors) > 10, warned) == (True, [])
    assert cache_counters()["node_selector"].misses == before + 10


def test_each_expression_is_compiled_once_though_not_all_programs_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ProgramCache(NODE_ENV, most_bytes=1 << 16)
    monkeypatch.setattr(expressions, "load_engine", lambda: (cache, cache))
    sources = [f"{' && '.join(['true'] * 20)} && {number} >= 0" for number in range(100)]
    assert refused(item("Pod", requiring(elements(*sources))), ALL_ON) == []
    assert (len(cache) < 50, cache.counters.misses) == (True, 100)


def test_other_errors_are_reported_beside_too_many_expressions() -> None:
    pod = item("Pod", tolerating(*map(cheap, range(101)), {"key": "a", "operator": "Foo"}))
    first, second = refused(pod, ALL_ON)
    assert first.startswith("spec.tolerations[101].operator: Unsupported value")
    assert second == f"spec: {TOO_MANY}"


def test_an_update_that_leaves_the_expressions_as_they_are_is_not_bounded() -> None:
    """They may have been stored before there was a bound."""
    old = item("Pod", tolerating(*map(cheap, range(101))))
    also = {"key": "plain", "operator": "Exists"}
    assert refused(item("Pod", tolerating(*map(cheap, range(101)), also)), ALL_ON, old) == []
    more = item("Pod", tolerating(*map(cheap, range(102))))
    assert refused(more, ALL_ON, old) == [f"spec: {TOO_MANY.replace('101', '102')}"]


def test_with_the_gate_off_the_gate_is_the_reason() -> None:
    errors = refused(item("Pod", tolerating(*map(cheap, range(101)))), NONE_ON)
    assert len(errors) == 101
    assert all("TaintTolerationNodeAffinityCEL" in error for error in errors)


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("int('x') > 3", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("dyn(taint.key == 'a')", "compilation failed: must evaluate to bool, not dyn"),
    ],
)
def test_what_can_never_be_evaluated_is_refused(source: str, detail: str) -> None:
    (error,) = refused(item("Pod", tolerating({"expression": source})), ALL_ON)
    assert error == f'spec.tolerations[0].expression: Invalid value: "{source}": {detail}'


def test_a_version_constraint_that_does_not_parse_is_refused() -> None:
    source = "semver.compare(node.labels['v'], '>=banana')"
    (error,) = refused(item("Pod", requiring(elements(source))), ALL_ON)
    assert error.startswith("spec.affinity.nodeAffinity.")
    assert "program instantiation failed: " in error
