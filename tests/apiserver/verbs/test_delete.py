"""What a deletion makes of an object, the first time and every other time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.api.labels import selects
from moorage.apiserver.request.options import read_delete_options
from moorage.apiserver.verbs import delete, eviction
from moorage.store.protocol import Item, Page
from tests.apiserver.asked import Asked, Data
from tests.plane import api_server

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
MAP, POD, JOB = kinds.row("v1", "ConfigMap"), kinds.row("v1", "Pod"), kinds.row("batch/v1", "Job")
CONTROLLER = kinds.row("v1", "ReplicationController")
EVENT, NAMESPACE = kinds.row("v1", "Event"), kinds.row("v1", "Namespace")
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


def item(*finalizers: str, **metadata: Any) -> Data:
    return {"metadata": {"name": "x", **({"finalizers": [*finalizers]} if finalizers else {}), **metadata}}


def running(**metadata: Any) -> Data:
    return {"metadata": {"name": "x", **metadata}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}


def marked(kind: kinds.Kind, data: Data, after: int = 0, **options: Any) -> Data | None:
    """The metadata of what stays; None when nothing does."""
    stays = delete.mark(kind, data, read_delete_options(options), NOW + timedelta(seconds=after))
    return data["metadata"] if stays else None


@pytest.mark.parametrize(
    ("finalizers", "options", "left"),
    [
        ([], {}, []),
        (["a/b"], {}, ["a/b"]),
        ([ORPHAN], {}, [ORPHAN]),
        ([], {"propagationPolicy": "Foreground"}, [FOREGROUND]),
        (["a/b"], {"propagationPolicy": "Orphan"}, ["a/b", ORPHAN]),
        ([ORPHAN, "a/b"], {"propagationPolicy": "Foreground"}, ["a/b", FOREGROUND]),
        ([FOREGROUND, "a/b"], {"propagationPolicy": "Foreground"}, [FOREGROUND, "a/b"]),
        ([FOREGROUND, "a/b"], {"propagationPolicy": "Orphan"}, ["a/b", ORPHAN]),
        ([FOREGROUND], {"propagationPolicy": "Background"}, []),
        ([ORPHAN], {"orphanDependents": False}, []),
        ([FOREGROUND], {"orphanDependents": True}, [ORPHAN]),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_what_becomes_of_dependents_is_what_was_said_last(
    finalizers: list[str], options: Data, left: list[str], again: bool
) -> None:
    then = {"deletionTimestamp": "2026-01-01T11:00:00Z", "deletionGracePeriodSeconds": 0} if again else {}
    found = marked(MAP, item(*finalizers, **then), **options)
    assert (found or {}).get("finalizers", []) == left
    if found is not None:
        assert found["deletionTimestamp"] == ("2026-01-01T11:00:00Z" if again else "2026-01-01T12:00:00Z")


def test_the_pods_of_jobs_and_replication_controllers_stay_unless_it_is_said_otherwise() -> None:
    assert (marked(JOB, item()) or {})["finalizers"] == [ORPHAN]
    assert (marked(JOB, item(FOREGROUND)) or {})["finalizers"] == [FOREGROUND]
    assert marked(JOB, item(), propagationPolicy="Background") is None
    assert (marked(CONTROLLER, item()) or {})["finalizers"] == [ORPHAN]
    assert "child pods are preserved" in delete.deletion_warnings(JOB, read_delete_options({}))[0]
    assert not delete.deletion_warnings(JOB, read_delete_options({"propagationPolicy": "Orphan"}))
    assert not delete.deletion_warnings(MAP, read_delete_options({}))


def test_nothing_can_belong_to_an_event() -> None:
    assert marked(EVENT, item(), propagationPolicy="Foreground") is None


def test_a_pod_that_runs_is_given_its_time() -> None:
    found = marked(POD, running(generation=1)) or {}
    assert (found["deletionTimestamp"], found["deletionGracePeriodSeconds"]) == ("2026-01-01T12:00:30Z", 30)
    assert found["generation"] == 2
    assert (marked(POD, running(), gracePeriodSeconds=-5) or {})["deletionGracePeriodSeconds"] == 1
    assert marked(POD, running(), gracePeriodSeconds=0) is None
    assert marked(POD, {"metadata": {}, "spec": {}}) is None
    assert marked(POD, running() | {"status": {"phase": "Failed"}}) is None


def test_the_generation_of_what_has_none_is_not_counted() -> None:
    assert "generation" not in (marked(MAP, item("a/b")) or {})


@pytest.mark.parametrize(
    ("after", "options", "until", "seconds"),
    [
        (5, {}, "12:01:00", 60),
        (5, {"gracePeriodSeconds": 60}, "12:01:00", 60),
        (5, {"gracePeriodSeconds": 90, "propagationPolicy": "Orphan"}, "12:01:00", 60),
        (5, {"gracePeriodSeconds": 20}, "12:00:20", 20),
        (30, {"gracePeriodSeconds": 20}, "12:00:30", 1),
    ],
)
def test_time_that_was_given_can_only_be_shortened(after: int, options: Data, until: str, seconds: int) -> None:
    pod = running()
    marked(POD, pod, gracePeriodSeconds=60)
    found = marked(POD, pod, after, **options) or {}
    assert (found["deletionTimestamp"], found["deletionGracePeriodSeconds"]) == (f"2026-01-01T{until}Z", seconds)
    assert "finalizers" not in found
    assert marked(POD, pod, after, gracePeriodSeconds=0) is None


def test_a_pod_with_finalizers_outlives_its_time() -> None:
    pod = running(finalizers=["a/b"])
    marked(POD, pod)
    found = marked(POD, pod, 5, gracePeriodSeconds=0) or {}
    assert (found["deletionTimestamp"], found["deletionGracePeriodSeconds"]) == ("2026-01-01T12:00:05Z", 0)
    assert not delete.is_over(POD, pod)
    del pod["metadata"]["finalizers"]
    assert delete.is_over(POD, pod)


def test_a_namespace_stays_until_it_is_emptied() -> None:
    namespace = {**item(), "spec": {"finalizers": ["kubernetes"]}}
    assert marked(NAMESPACE, namespace) is not None
    assert namespace["status"] == {"phase": "Terminating"}
    assert not delete.is_over(NAMESPACE, namespace)
    assert delete.is_over(NAMESPACE, {**namespace, "spec": {}})


async def test_a_second_deletion_changes_what_becomes_of_dependents(ask: Asked) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    await ask("POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    _, told = await ask.told("DELETE", f"{maps}/x?propagationPolicy=Foreground&dryRun=All")
    assert told["metadata"]["finalizers"] == [FOREGROUND]
    assert "finalizers" not in (await ask.told("GET", f"{maps}/x"))[1]["metadata"]
    for policy, finalizer in {"Foreground": FOREGROUND, "Orphan": ORPHAN}.items():
        _, told = await ask.told("DELETE", f"{maps}/x?propagationPolicy={policy}")
        assert told["metadata"]["finalizers"] == [finalizer]
    assert (await ask("DELETE", f"{maps}/x?propagationPolicy=Background")).status == 200
    assert (await ask("GET", f"{maps}/x")).status == 404


async def test_a_collection_whose_objects_change_faster_than_they_can_be_deleted_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    async with api_server(tmp_path) as server:
        ask = Asked(server.transport("tests"))
        await ask("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "busy"}})
        remove = server.store.delete

        async def changed_before(where: str, revision: int) -> Item:
            item = await server.store.get(where)
            assert item is not None
            await server.store.update(where, item.value, item.revision)
            return await remove(where, revision)

        monkeypatch.setattr(server.store, "delete", changed_before)
        code, status = await ask.told("DELETE", path)
        assert (code, status["reason"]) == (409, "Conflict")


async def test_a_collection_is_read_some_objects_at_a_time_as_it_was_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    monkeypatch.setattr(delete, "PAGE", 3)
    async with api_server(tmp_path) as server:
        ask = Asked(server.transport("tests"))
        for number in range(10):
            await ask("POST", path, {"metadata": {"name": f"x{number}", "labels": {"even": str(number % 2 == 0)}}})
        asked: list[int] = []
        read, remove = server.store.list, server.store.delete

        async def counted(prefix: str, **options: Any) -> Page:
            if prefix.endswith("/configmaps/default/"):  # others are the server's own, now and then
                asked.append(options["limit"])
            return await read(prefix, **options)

        async def with_a_new_one(where: str, revision: int) -> Item:
            await ask("POST", path, {"metadata": {"name": "x9-new", "labels": {"even": "True"}}})
            return await remove(where, revision)

        monkeypatch.setattr(server.store, "list", counted)
        monkeypatch.setattr(server.store, "delete", with_a_new_one)
        assert (await ask("DELETE", f"{path}?labelSelector=even%3DTrue")).status == 200
        assert asked == [3] * 4
        monkeypatch.undo()
        left = [each["metadata"]["name"] for each in (await ask.told("GET", path))[1]["items"]]
        assert [name for name in left if name[0] == "x"] == ["x1", "x3", "x5", "x7", "x9", "x9-new"]


async def test_a_collection_whose_first_revision_is_forgotten_is_deleted_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/api/v1/namespaces/default/secrets"
    monkeypatch.setattr(delete, "PAGE", 2)
    async with api_server(tmp_path) as server:
        ask = Asked(server.transport("tests"))
        for number in range(5):
            await ask("POST", path, {"metadata": {"name": f"x{number}"}})
        remove = server.store.delete

        async def compacted_after(where: str, revision: int) -> Item:
            item = await remove(where, revision)
            await server.store.compact(item.revision)
            return item

        monkeypatch.setattr(server.store, "delete", compacted_after)
        assert (await ask("DELETE", path)).status == 200
        assert (await ask.told("GET", path))[1]["items"] == []


async def test_an_eviction_looks_at_no_more_budgets_than_show_that_there_are_too_many(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"containers": [{"name": "c", "image": "pause"}]}
    await ask("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    budget = {"minAvailable": 0, "selector": {"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}}
    for number in range(20):
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await ask("POST", path, {"metadata": {"name": f"x{number}"}, "spec": budget})
    compared: list[Data] = []

    def counted(selector: Data, labels: Data) -> bool:
        compared.append(selector)
        return selects(selector, labels)

    monkeypatch.setattr(eviction, "selects", counted)
    code, status = await ask.told("POST", "/api/v1/namespaces/default/pods/p/eviction", {"metadata": {"name": "p"}})
    assert (code, "more than one PodDisruptionBudget" in status["message"]) == (500, True)
    assert len(compared) == 2
