"""PodTolerationRestriction: what a namespace gives to its pods and what it lets them tolerate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.registry.pod.admission import admit_pod
from moorage.registry.pod.tolerations import DEFAULTS, RESTRICTION, WHITELIST
from moorage.registry.state import Denied, State

Data = dict[str, Any]
ON = frozenset((RESTRICTION,))
LOST = [{"key": f"node.kubernetes.io/{name}", "operator": "Exists"} for name in ("not-ready", "unreachable")]
EVERYTHING = {"operator": "Exists"}
MEMORY = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}


def state(whitelist: list[Data] | str | None = None, defaults: list[Data] | None = None, **more: Any) -> State:
    annotations: Data = {DEFAULTS: defaults, WHITELIST: whitelist}
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in annotations.items()
        if value is not None
    }
    namespaces: list[Data] = [{"metadata": {"name": "other"}}, {"metadata": {"name": "shop", "annotations": texts}}]
    return State({"namespaces": namespaces}, **{"plugins": ON, **more})


def pod(*tolerations: Data, **container: Any) -> Data:
    spec = {"containers": [{"name": "c", **container}], "tolerations": list(tolerations)}
    return {"metadata": {"name": "p", "namespace": "shop"}, "spec": spec}


def admitted(around: State, new: Data, old: Data | None = None) -> list[Data]:
    admit_pod(new, old, around)
    return [each for each in new["spec"]["tolerations"] if "node.kubernetes.io/" not in each.get("key", "")]


def sla(operator: str = "Exists", value: str = "", key: str = "sla", effect: str = "NoSchedule", **more: Any) -> Data:
    return {"key": key, "operator": operator, "value": value, "effect": effect, **more}


def cel(source: str) -> Data:
    return {"expression": source}


ALLOWED = {
    "the same": (sla("Equal", "a"), sla("Equal", "a")),
    "Equal by default": (sla("", "a"), sla("Equal", "a")),
    "any value": (sla(), sla("Equal", "a")),
    "any value of a comparison": (sla(), sla("Gt", "950")),
    "any effect": (sla(effect=""), sla()),
    "any key": (EVERYTHING, sla()),
    "any key, compared": (EVERYTHING, sla("SemverGt", "1.2", key="os")),
    "anything, for an expression": (EVERYTHING, cel("taint.key == 'sla'")),
    "the same expression": (cel("taint.key == 'sla'"), cel("taint.key == 'sla'")),
    "a higher threshold": (sla("Gt", "900"), sla("Gt", "950")),
    "a value above the threshold": (sla("Gt", "900"), sla("Equal", "950")),
    "a newer version": (sla("SemverGt", "1.2"), sla("SemverGt", "v1.3")),
    "a key of the prefix": (sla(key="sla.io/*"), sla("Gt", "1", key="sla.io/uptime")),
    "fewer keys of the prefix": (sla(key="sla.io/*"), sla(key="sla.io/up*")),
    "a shorter time": (
        sla(effect="NoExecute", tolerationSeconds=60),
        sla("Gt", "9", effect="NoExecute", tolerationSeconds=30),
    ),
}
REFUSED = {
    "another value": (sla("Equal", "a"), sla("Equal", "b")),
    "another key": (sla(), sla(key="other")),
    "all values": (sla("Gt", "900"), sla()),
    "all effects": (sla(), sla(effect="")),
    "all keys": (sla(key="sla.io/*"), EVERYTHING),
    "every key without a prefix": (sla(key="sla.io/*"), sla(key="*")),
    "a lower threshold": (sla("Gt", "950"), sla("Gt", "900")),
    "the other side": (sla("Gt", "900"), sla("Lt", "950")),
    "versions for numbers": (sla("Gt", "1"), sla("SemverGt", "2.0")),
    "an expression for a key": (sla(), cel("taint.key == 'sla'")),
    "an expression for every key of an effect": (sla(key=""), cel("taint.key == 'sla'")),
    "another expression": (cel("taint.key == 'a'"), cel("taint.key == 'b'")),
    "a key for an expression": (cel("taint.key == 'sla'"), sla()),
    "every key, by an entry that says none": ({"operator": "Equal", "value": "a"}, sla("Equal", "a")),
    "more time": (
        sla(effect="NoExecute", tolerationSeconds=60),
        sla(effect="NoExecute", tolerationSeconds=61),
    ),
    "all time": (sla(effect="NoExecute", tolerationSeconds=60), sla(effect="NoExecute")),
    "all time, in an expression": ({**cel("true"), "tolerationSeconds": 9}, cel("true")),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_the_whitelist_covers_is_allowed(case: str) -> None:
    entry, toleration = ALLOWED[case]
    assert admitted(state([*LOST, entry]), pod(toleration)) == [toleration]


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_whitelist_does_not_cover_is_refused(case: str) -> None:
    entry, toleration = REFUSED[case]
    with pytest.raises(Denied) as refused:
        admitted(state([*LOST, entry]), pod(toleration))
    assert "conflict with its namespace whitelist: spec.tolerations[0] " in str(refused.value)
    assert ("cannot be compared" in str(refused.value)) is ("expression" in toleration)
    assert admitted(state([*LOST, entry], plugins=frozenset()), pod(toleration)) == [toleration], "it is off by default"


@pytest.mark.parametrize("whitelist", [None, "", []])
def test_without_a_whitelist_everything_is_allowed(whitelist: Any) -> None:
    assert admitted(state(whitelist), pod(EVERYTHING)) == [EVERYTHING]


def test_a_new_pod_gets_the_tolerations_of_its_namespace_unless_it_has_wider_ones() -> None:
    given = [sla("Equal", "a"), sla("Gt", "900", key="uptime")]
    around = state(defaults=given)
    assert admitted(around, pod()) == given
    assert admitted(around, pod(sla())) == [sla(), given[1]]
    assert admitted(around, pod(), pod()) == [], "an update adds none"
    assert admitted(state(defaults=given, plugins=frozenset()), pod()) == []


def test_the_tolerations_of_the_namespace_are_held_against_its_whitelist_too() -> None:
    with pytest.raises(Denied, match="possibly merged with namespace default tolerations"):
        admitted(state([*LOST, sla("Equal", "b")], [sla("Equal", "a")]), pod())


@pytest.mark.parametrize("old", [None, pod()], ids=["new", "updated"])
def test_a_pod_with_requests_tolerates_memory_pressure(old: Data | None) -> None:
    for requests, has in (({"cpu": "1"}, True), ({}, False)):
        new = pod(resources={"requests": requests})
        admit_pod(new, old, state())
        assert (MEMORY in new["spec"]["tolerations"]) is has


def test_an_update_is_refused_only_for_what_it_adds() -> None:
    around, old = state([*LOST, sla("Gt", "900")]), pod(sla())
    assert admitted(around, pod(sla()), old) == [sla()]
    assert len(admitted(around, pod(sla(), sla("Gt", "950")), old)) == 2
    with pytest.raises(Denied, match=r"spec.tolerations\[1\] \(`Gt 9` of key sla\) is covered by no entry of it"):
        admitted(around, pod(sla(), sla("Gt", "9")), old)


@pytest.mark.parametrize("text", ["{}", "[1]", "[", '[{"key": 1}]'])
def test_an_annotation_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(Denied, match=f"annotation {WHITELIST} of namespace shop is not a list of tolerations: "):
        admitted(state(text), pod(sla()))


def test_very_many_tolerations_are_not_compared_with_very_many_entries() -> None:
    entries = [sla(key=f"key-{number}") for number in range(1000)]
    with pytest.raises(Denied, match="too many to be compared, 100000 pairs are the limit"):
        admitted(state(entries), pod(*(sla(key=f"other-{number}") for number in range(200))))


def test_the_page_about_security_says_what_its_example_allows() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    example = next(part for part in page.split("```yaml\n")[1:] if WHITELIST in part).partition("```")[0]
    namespace = yaml.safe_load(example)
    around = State({"namespaces": [namespace]}, plugins=ON)
    key = "example.com/sla"
    for toleration in (sla("Gt", "990", key=key), sla("Equal", "970", key=key)):
        assert admitted(around, pod(toleration, resources={"requests": {"cpu": "1"}}))[0] == toleration
    for toleration in (sla("Gt", "900", key=key), sla(key=key)):
        with pytest.raises(Denied):
            admitted(around, pod(toleration))
