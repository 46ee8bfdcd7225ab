"""Quotas and limit ranges at the API server: what is charged, refused, and left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from moorage.api.meta import Data
from moorage.store.protocol import Item, RevisionConflict
from moorage.store.sqlite import SqliteStore
from tests.apiserver.asked import JSON, MERGE, Asked

ROOT = "/api/v1/namespaces/default"
PODS, QUOTAS, LIMITS = f"{ROOT}/pods", f"{ROOT}/resourcequotas", f"{ROOT}/limitranges"
STRATEGIC = "application/strategic-merge-patch+json"
FULL = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"


def pod(name: str = "", **resources: Any) -> Data:
    metadata = {"name": name} if name else {"generateName": "pod-"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}


async def limited(ask: Asked, *, name: str = "q", used: Data | None = None, scopes: Any = (), **hard: str) -> None:
    """Make a quota, as it is once its usage was measured."""
    amounts = {each.replace("__", "/").replace("_", "."): amount for each, amount in hard.items()}
    new = {"metadata": {"name": name, "labels": {"kept": "yes"}}, "spec": {"hard": amounts, "scopes": list(scopes)}}
    assert (await ask("POST", QUOTAS, new)).status == 201
    status = {"status": {"hard": amounts, "used": dict.fromkeys(amounts, "0") | (used or {})}}
    assert (await ask("PATCH", f"{QUOTAS}/{name}/status", status, MERGE)).status == 200


async def usage(ask: Asked, name: str = "q") -> Data:
    _, found = await ask.told("GET", f"{QUOTAS}/{name}")
    used: Data = found["status"]["used"]
    assert found["metadata"]["labels"] == {"kept": "yes"}
    return used


async def test_what_is_created_is_charged_until_the_quota_is_used_up(ask: Asked) -> None:
    await limited(ask, pods="2", requests_cpu="1")
    for name in ("a", "b"):
        assert (await ask("POST", PODS, pod(name, requests={"cpu": "100m"}))).status == 201
    assert await usage(ask) == {"pods": "2", "requests.cpu": "200m"}
    code, told = await ask.told("POST", PODS, pod("c", requests={"cpu": "100m"}))
    assert (code, told["reason"], told["message"]) == (403, "Forbidden", f'pods "c" is forbidden: {FULL}')
    assert (await ask("GET", f"{PODS}/c")).status == 404
    assert await usage(ask) == {"pods": "2", "requests.cpu": "200m"}


async def test_pods_of_one_template_are_charged_one_by_one(ask: Asked) -> None:
    await limited(ask, pods="5")
    answers = [(await ask("POST", PODS, pod())).status for _ in range(8)]
    assert answers == [201] * 5 + [403] * 3
    assert await usage(ask) == {"pods": "5"}


async def test_a_pod_of_a_known_template_asks_the_store_once(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        assert (await ask("POST", PODS, pod())).status == 201
    asked, read_each = [], SqliteStore.read_each

    async def counted(store: SqliteStore, places: Sequence[str]) -> Sequence[Sequence[Item]]:
        asked.append(places)
        return await read_each(store, places)

    monkeypatch.setattr(SqliteStore, "read_each", counted)
    assert (await ask("POST", PODS, pod())).status == 201
    assert len(asked) == 1


@pytest.mark.parametrize("named", [True, False])
async def test_twenty_who_come_at_once_do_not_get_more_than_there_is(ask: Asked, *, named: bool) -> None:
    await limited(ask, pods="2")
    answers = await asyncio.gather(*(ask("POST", PODS, pod(f"p{each}" if named else "")) for each in range(20)))
    assert sorted(answer.status for answer in answers) == [201] * 2 + [403] * 18
    assert len((await ask.told("GET", PODS))[1]["items"]) == 2
    assert await usage(ask) == {"pods": "2"}


async def test_a_dry_run_is_refused_and_not_charged(ask: Asked) -> None:
    await limited(ask, pods="2", used={"pods": "1"})
    assert (await ask("POST", f"{PODS}?dryRun=All", pod("a"))).status == 201
    assert await usage(ask) == {"pods": "1"}
    assert (await ask("POST", PODS, pod("a"))).status == 201
    code, told = await ask.told("POST", f"{PODS}?dryRun=All", pod("b"))
    assert (code, FULL in told["message"]) == (403, True)


async def test_what_is_not_stored_is_not_charged(ask: Asked) -> None:
    await limited(ask, pods="5")
    assert (await ask("POST", PODS, pod("a"))).status == 201
    assert (await ask("POST", PODS, pod("a"))).status == 409
    assert (await ask("POST", PODS, pod("A"))).status == 422
    assert await usage(ask) == {"pods": "1"}


async def test_all_quotas_are_charged_or_none(ask: Asked) -> None:
    await limited(ask, name="a", pods="9")
    await limited(ask, name="z", count__pods="1")
    assert (await ask("POST", PODS, pod("one"))).status == 201
    code, told = await ask.told("POST", PODS, pod("two"))
    words = "exceeded quota: z, requested: count/pods=1, used: count/pods=1, limited: count/pods=1"
    assert (code, words in told["message"]) == (403, True)
    assert (await usage(ask, "a"), await usage(ask, "z")) == ({"pods": "1"}, {"count/pods": "1"})


async def test_a_quota_that_another_server_charges_is_read_again(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice somebody else is faster: the third attempt counts what they have used."""
    await limited(ask, pods="3")
    create, faster = SqliteStore.create, 2

    async def beaten(store: SqliteStore, key: str, value: bytes, *, along: Any = ()) -> Item:
        nonlocal faster
        if along and faster:
            faster -= 1
            quota = await store.get(along[0].key)
            assert quota is not None
            raised = quota.value.replace(b'"used":{"pods":"%d"' % (1 - faster), b'"used":{"pods":"%d"' % (2 - faster))
            raise RevisionConflict(await store.update(quota.key, raised, quota.revision))
        return await create(store, key, value, along=along)

    monkeypatch.setattr(SqliteStore, "create", beaten)
    assert (await ask("POST", PODS, pod("a"))).status == 201
    assert await usage(ask) == {"pods": "3"}
    assert (await ask("POST", PODS, pod("b"))).status == 403


async def test_a_quota_that_is_deleted_meanwhile_does_not_matter(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    await limited(ask, pods="3")
    create = SqliteStore.create

    async def late(store: SqliteStore, key: str, value: bytes, *, along: Any = ()) -> Item:
        for quota in along:
            await store.delete(quota.key, quota.revision)
        return await create(store, key, value, along=along)

    monkeypatch.setattr(SqliteStore, "create", late)
    assert (await ask("POST", PODS, pod("a"))).status == 201


SERVICE = {"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}


async def test_an_update_is_charged_what_it_adds(ask: Asked) -> None:
    await limited(ask, services="1", services_nodeports="1", services_loadbalancers="0")
    assert (await ask("POST", f"{ROOT}/services", SERVICE)).status == 201
    where = f"{ROOT}/services/s"
    assert (await ask("PATCH", where, {"spec": {"type": "NodePort"}}, MERGE)).status == 200
    expected = {"services": "1", "services.nodeports": "1", "services.loadbalancers": "0"}
    assert await usage(ask) == expected
    code, told = await ask.told("PATCH", where, {"spec": {"type": "LoadBalancer"}}, MERGE)
    assert code == 403
    assert "requested: services.loadbalancers=1, used: services.loadbalancers=0" in told["message"]
    assert (await ask("PATCH", where, {"metadata": {"labels": {"a": "b"}}}, MERGE)).status == 200
    assert await usage(ask) == expected


async def test_a_resize_is_charged_and_refused(ask: Asked) -> None:
    await limited(ask, requests_cpu="2")
    assert (await ask("POST", PODS, pod("a", requests={"cpu": "1"}))).status == 201

    def resize(cpu: str) -> Data:
        return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}

    code, told = await ask.told("PATCH", f"{PODS}/a/resize", resize("3"), STRATEGIC)
    assert (code, "requested: requests.cpu=2, used: requests.cpu=1" in told["message"]) == (403, True)
    assert (await ask("PATCH", f"{PODS}/a/resize", resize("1500m"), STRATEGIC)).status == 200
    assert await usage(ask) == {"requests.cpu": "1500m"}


async def test_a_conflict_of_the_object_itself_is_answered_as_ever(ask: Asked) -> None:
    await limited(ask, services="5")
    code, made = await ask.told("POST", f"{ROOT}/services", SERVICE)
    assert code == 201
    assert (await ask("PATCH", f"{ROOT}/services/s", {"metadata": {"labels": {"a": "b"}}}, MERGE)).status == 200
    assert (await ask("PUT", f"{ROOT}/services/s", made)).status == 409


async def test_deployments_are_counted_by_their_group(ask: Asked) -> None:
    await limited(ask, count__deployments_apps="1")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    for name, code in (("a", 201), ("b", 403)):
        made = await ask(
            "POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": name}, "spec": spec}
        )
        assert made.status == code


async def test_a_new_limit_range_counts_at_once_for_pods_of_a_known_template(ask: Asked) -> None:
    for _ in range(4):
        assert (await ask("POST", PODS, pod())).status == 201
    limits = [{"type": "Container", "default": {"cpu": "1"}, "max": {"memory": "1Gi"}}]
    assert (await ask("POST", LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": limits}})).status == 201
    for _ in range(4):
        code, made = await ask.told("POST", PODS, pod())
        assert (code, made["spec"]["containers"][0]["resources"]["limits"]) == (201, {"cpu": "1", "memory": "1Gi"})
        assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"].startswith("LimitRanger plugin set: ")
    code, told = await ask.told("POST", PODS, pod("large", limits={"memory": "2Gi"}))
    words = 'pods "large" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi'
    assert (code, told["message"]) == (403, words)
    assert (await ask("DELETE", f"{LIMITS}/l")).status == 200
    assert (await ask.told("POST", PODS, pod()))[1]["spec"]["containers"][0]["resources"] == {}


async def test_an_invalid_pod_is_told_so_before_it_is_told_of_limits(ask: Asked) -> None:
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    assert (await ask("POST", LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": limits}})).status == 201
    assert (await ask("POST", PODS, pod("A", limits={"cpu": "2"}))).status == 422
    assert (await ask("POST", PODS, pod("a", limits={"cpu": "2"}), JSON)).status == 403
