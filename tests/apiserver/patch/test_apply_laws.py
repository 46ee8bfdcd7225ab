"""What must hold whoever applies whatever, in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api.meta import Data
from moorage.apiserver.patch import fieldset
from moorage.apiserver.patch.apply import ConflictError, apply
from moorage.apiserver.patch.compare import everything
from moorage.apiserver.patch.errors import PatchError
from moorage.apiserver.patch.fieldset import FieldSet
from moorage.registry.table import shape_of
from tests.apiserver.json_values import maps, refusal, untouched, values, without_nulls
from tests.apiserver.patch.writers import Cluster, body, holds, write

POD = shape_of("", "Pod")
MANAGERS = ("one", "two", "three")


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Maps with at least one of some fields."""
    return st.fixed_dictionaries({}, optional=fields).filter(bool)


def keyed(key: str, names: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    item = st.fixed_dictionaries({key: st.sampled_from(names)}, optional=fields)
    return st.lists(item, min_size=1, max_size=3, unique_by=lambda each: each[key])


words = st.sampled_from(("1", "2"))
maps_of_words = st.dictionaries(st.sampled_from("ab"), words, min_size=1)
ports = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.integers(1, 2)}, optional={"protocol": st.sampled_from(("TCP", "UDP")), "name": words}
    ),
    min_size=1, max_size=3, unique_by=lambda port: (port["containerPort"], port.get("protocol", "TCP")),
)  # fmt: skip
containers = keyed(
    "name", "abc",
    image=words, tty=st.booleans(), command=st.lists(words, min_size=1, max_size=2), ports=ports,
    env=keyed("name", "AB", value=words), resources=some(limits=maps_of_words),
)  # fmt: skip
metadata = some(
    labels=maps_of_words, finalizers=st.lists(st.sampled_from("fgh"), min_size=1, max_size=3, unique=True)
)  # fmt: skip
specs = some(
    containers=containers, priority=st.integers(0, 2), nodeSelector=maps_of_words,
    unknown=some(a=some(b=words), c=words),
    tolerations=st.lists(maps_of_words, min_size=1, max_size=2), volumes=keyed("name", "vw"),
)  # fmt: skip
configs = some(metadata=metadata, spec=specs)

holes: st.SearchStrategy[Any] = st.sampled_from(({}, [], None))
loose_specs = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.just([]) | keyed("name", "ab", resources=holes, ports=st.just([]), image=st.none() | words),
        "nodeSelector": st.just({}) | maps_of_words,
        "unknown": st.dictionaries(st.sampled_from("ac"), st.dictionaries(st.sampled_from("b"), words) | holes)
        | st.none(),
        "tolerations": st.just([]),
        "securityContext": st.just({}) | st.none() | some(runAsUser=st.integers(0, 1)),
    },
)
loose_metadata = st.fixed_dictionaries(
    {}, optional={"labels": st.dictionaries(st.sampled_from("ab"), words | st.none())}
)
loose_configs = st.fixed_dictionaries({"metadata": loose_metadata, "spec": loose_specs})

managers = st.sampled_from(MANAGERS)
steps = st.lists(st.tuples(st.sampled_from(("apply", "force", "update")), managers, configs), max_size=6)


def run(cluster: Cluster, story: list[tuple[str, str, dict[str, Any]]]) -> Iterator[Data]:
    """The object after each step; the steps that are refused change nothing."""
    for way, manager, config in story:
        with untouched(cluster.live, config):
            try:
                if way == "update" and cluster.live is not None:
                    head = {
                        **cluster.live["metadata"],
                        "labels": None,
                        "finalizers": None,
                        **config.get("metadata", {}),
                    }
                    cluster.update(manager, metadata=without_nulls(head), spec=config.get("spec"))
                elif way == "update":
                    cluster.create(manager, **config)
                else:
                    cluster.apply(manager, force=way == "force", **config)
            except ConflictError:
                pass
        if cluster.live is not None:
            yield cluster.live


def after(story: list[tuple[str, str, dict[str, Any]]]) -> Cluster:
    cluster = Cluster()
    list(run(cluster, story))
    return cluster


@given(steps, managers, configs | loose_configs)
def test_applying_twice_is_applying_once(story: Any, manager: str, config: Any) -> None:
    cluster = after(story)
    once = cluster.apply(manager, force=True, **config)
    assert cluster.apply(manager, **config) == once


@given(steps, managers, configs | loose_configs)
def test_what_is_applied_is_there(story: Any, manager: str, config: Any) -> None:
    applied = after(story).apply(manager, force=True, **config)
    assert holds(applied, without_nulls(body(**config)), POD)


@given(configs | loose_configs)
def test_what_is_applied_and_no_longer_applied_is_gone(config: Any) -> None:
    cluster = Cluster()
    cluster.apply("me", **config)
    cluster.apply("me")
    assert cluster.bare() == body()
    assert not cluster.owners


@given(steps, managers, configs)
def test_what_a_manager_gives_up_is_gone_or_anothers(story: Any, manager: str, config: Any) -> None:
    cluster = after(story)
    cluster.apply(manager, force=True, **config)
    cluster.apply(manager)
    assert f"{manager} Apply" not in cluster.owners
    assert_everything_is_owned(cluster)


def renamed(value: Any) -> Any:
    """The same configuration in other words, so that the two share no field but maps and lists."""
    if isinstance(value, dict):
        return {_other(name): renamed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [renamed(item) for item in value]
    return _other(value) if isinstance(value, str) else value


def _other(word: str) -> str:
    return word + word if len(word) == 1 else word


disjoint = some(
    metadata=metadata,
    spec=some(containers=containers, unknown=some(a=words, c=some(a=words)), volumes=keyed("name", "vw")),
)


@given(disjoint, disjoint)
def test_managers_of_different_fields_never_conflict(mine: Any, theirs: Any) -> None:
    theirs = renamed(theirs)
    cluster = Cluster()
    alone = Cluster()
    alone.apply("two", **theirs)

    cluster.apply("one", **mine)
    cluster.apply("two", **theirs)
    assert cluster.live
    assert holds(cluster.live, body(**mine), POD)
    assert holds(cluster.live, body(**theirs), POD)
    cluster.apply("one")
    assert cluster.bare() == alone.bare()
    assert cluster.owners == alone.owners


def leaves(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    for element, below in fields.items():
        if element == ".":
            continue
        if below:
            yield from leaves(below, prefix + fieldset.words(element))
        else:
            yield prefix + fieldset.words(element)


def assert_everything_is_owned(cluster: Cluster) -> None:
    present = everything(write("anyone").tracked(cluster.live or {}), POD)
    owned = {path for paths in cluster.owners.values() for path in paths}
    assert set(leaves(present)) <= owned
    assert owned <= set(fieldset.paths(present))


@settings(max_examples=200)
@given(steps)
def test_no_field_is_without_an_owner_and_no_owner_without_a_field(story: Any) -> None:
    cluster = Cluster()
    for _ in run(cluster, story):
        assert_everything_is_owned(cluster)


@given(steps, managers, configs)
def test_a_conflict_names_what_others_own(story: Any, manager: str, config: Any) -> None:
    cluster = after(story)
    before = cluster.owners if cluster.live else {}
    error = refusal(lambda: cluster.apply(manager, **config))
    if error is not None:
        owned = {path for name, paths in before.items() if name != f"{manager} Apply" for path in paths}
        assert error.causes
        assert {cause.field for cause in error.causes} <= owned
        assert error.message.startswith(f"Apply failed with {len(error.causes)} conflict")


parts = st.sampled_from(("labels", "finalizers", "containers", "volumes", "nodeSelector", "x"))
bodies = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod")},
    optional={part: st.dictionaries(parts, values, max_size=3) | values for part in ("metadata", "spec", "status")},
)


@given(st.none() | bodies, bodies | values, bodies | maps, st.sampled_from(("", "status")))
def test_garbage_is_applied_or_refused_politely(live: Any, first: Any, second: Any, subresource: str) -> None:
    if isinstance(live, dict) and isinstance(live.get("metadata"), dict):
        live["metadata"].pop("managedFields", None)
    for config in (first, second, first):
        with untouched(live, config), suppress(PatchError):
            live = apply(write("me", subresource=subresource), live, config, force=True)
