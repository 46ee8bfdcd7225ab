"""Attach mode: rules in annotations, on a cluster whose own components know nothing of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.rules import COVER, TOLERATIONS
from moorage.apiserver.run import APIServer
from moorage.client import Client
from moorage.client.client import JSON_PATCH
from moorage.client.clock import FastClock
from moorage.tools.attach.manifests import NAME
from moorage.tools.attach.run import AttachSettings, run_attached
from tests.live.installed import as_account, install, without
from tests.live.stock import stock_cluster
from tests.plane import create, eventually, node, pod, read, read_all
from tests.seeds import seed

Data = dict[str, Any]
NODE, POD = kinds.row("v1", "Node"), kinds.row("v1", "Pod")
SLA = "example.com/sla"


@asynccontextmanager
async def attached(
    server: APIServer, clock: FastClock | None = None, objects: Iterable[Data] = (), **told: Any
) -> AsyncIterator[None]:
    """Attach mode as the service account that is installed, or as one with other rights."""
    await install(server, objects)
    client = await as_account(server, NAME)
    running = asyncio.create_task(run_attached(client, AttachSettings(**told), clock))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


RULES = f"- {{key: {SLA}, operator: Gt, value: '950'}}"
ALWAYS_TOLERATED = ("not-ready", "unreachable", "memory-pressure")
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"


def ruled(name: str, rules: str = RULES, namespace: str = "default", **spec: Any) -> Data:
    """A pod with rules for the scheduler that knows them."""
    made = pod(name, namespace, schedulerName="moorage", terminationGracePeriodSeconds=0, **spec)
    made["metadata"]["annotations"] = {TOLERATIONS: rules}
    return made


class Here:
    """A person with a client, on a cluster with a node for each of some values of a taint."""

    def __init__(self, server: APIServer) -> None:
        self.client = server.client("person")

    async def node(self, name: str, *taints: Data) -> None:
        await create(self.client, node(name))
        await self.taint(name, *taints)

    async def taint(self, name: str, *taints: Data) -> None:
        await self.client.patch(NODE, "", name, {"spec": {"taints": list(taints)}})

    async def runs(self, name: str, namespace: str = "default") -> Data:
        async def running() -> Data | None:
            found = await read(self.client, "Pod", name, namespace)
            return found if found["status"].get("phase") == "Running" else None

        found: Data = await eventually(running)
        return found

    async def waits(self, name: str, saying: str, namespace: str = "default") -> str:
        async def said() -> str:
            found = await read(self.client, "Pod", name, namespace)
            assert not found["spec"].get("nodeName")
            conditions = found["status"].get("conditions") or ()
            return next((each["message"] for each in conditions if saying in each.get("message", "")), "")

        return str(await eventually(said))

    async def names(self) -> set[str]:
        return {each["metadata"]["name"] for each in await read_all(self.client, "Pod")}

    async def gone(self, name: str) -> None:
        async def missing() -> bool:
            return name not in await self.names()

        await eventually(missing)

    async def told(self, name: str, *parts: str) -> None:
        """An event of a pod says something."""

        async def said() -> bool:
            events = await read_all(self.client, "Event")
            texts = [each["message"] for each in events if each["involvedObject"]["name"] == name]
            return any(all(part in text for part in parts) for text in texts)

        await eventually(said)

    async def annotate(self, name: str, **annotations: str | None) -> None:
        await self.client.patch(POD, "default", name, {"metadata": {"annotations": annotations}})


def sla(value: str, effect: str = "NoExecute", key: str = SLA) -> Data:
    return {"key": key, "value": value, "effect": effect}


async def test_a_pod_stays_as_long_as_its_rules_say_and_others_are_none_of_our_business(tmp_path: Path) -> None:
    async with stock_cluster(tmp_path) as server, attached(server):
        here = Here(server)
        await here.node("good", sla("990"))
        family = "[{key: 'readiness.k8s.io/*', operator: Exists}, {key: example.com/sla, operator: Exists}]"
        for each in (
            ruled("threshold"),
            ruled("family", family),
            pod("other", tolerations=[{"key": SLA, "operator": "Exists"}], terminationGracePeriodSeconds=0),
        ):
            await create(here.client, each)
        for name in ("threshold", "family", "other"):
            await here.runs(name)
        covered = await here.runs("threshold")
        assert covered["spec"]["tolerations"][0] == {"key": SLA, "operator": "Exists", "effect": "NoExecute"}
        assert msgspec.json.decode(covered["metadata"]["annotations"][COVER]) == covered["spec"]["tolerations"][:1]
        # A value that still matches moves nobody, and neither does a taint of a family that is tolerated.
        await here.taint("good", sla("960"))
        await create(here.client, ruled("later"))
        await here.runs("later")
        await here.taint("good", sla("960"), sla("", key="readiness.k8s.io/cni"))
        await here.gone("later")
        assert await here.names() == {"family"}, "only one tolerates that taint"
        # What the others do not tolerate any more ends their stay, and only theirs.
        await here.taint("good", sla("900"))
        await create(here.client, pod("other", tolerations=[{"key": SLA, "operator": "Exists"}]))
        await here.runs("other")
        await create(here.client, ruled("threshold"))
        await here.waits("threshold", "900 is not greater than 950")
        # Rules that are deleted, or broken, after the pod was bound are no rules.
        await here.annotate("family", **{TOLERATIONS: None})
        await here.gone("family")
        await here.taint("good", sla("990"))
        await here.runs("threshold")
        await here.annotate("threshold", **{TOLERATIONS: "- key: ["})
        await here.gone("threshold")
        await here.runs("other")


async def test_an_evictor_that_is_killed_in_a_grace_period_does_not_extend_it(tmp_path: Path) -> None:
    clock = FastClock()
    async with stock_cluster(tmp_path, clock) as server:
        here = Here(server)
        rules = f"- {{key: {SLA}, operator: Lt, value: '950', effect: NoExecute, tolerationSeconds: 60}}"
        async with attached(server, clock):
            await here.node("good", sla("900"))
            await create(here.client, ruled("limited", rules))
            found = await here.runs("limited")

            async def written() -> str:
                now = await read(here.client, "Pod", "limited")
                return str(now["metadata"]["annotations"].get("moorage.dev/evict-at", ""))

            due = await eventually(written)
            await clock.run_fast(40)
        async with attached(server, clock):
            assert await written() == due
            await clock.run_fast(10)
            assert (await read(here.client, "Pod", "limited"))["metadata"]["uid"] == found["metadata"]["uid"]
            await clock.run_fast(15)
            await here.gone("limited")


async def test_rules_that_are_refused_keep_a_pod_from_being_placed_and_say_why(tmp_path: Path) -> None:
    async with stock_cluster(tmp_path) as server, attached(server):
        here = Here(server)
        await here.node("free")
        for name, rules, saying in (
            ("unreadable", "- key: [", "annotation moorage.dev/tolerations: line 1"),
            ("misspelt", "- {key: a, oprator: Exists}", "unknown field [0].oprator"),
            ("refused", "- {key: a, operator: Gt, value: '0950'}", "must be a valid decimal integer in canonical form"),
        ):
            await create(here.client, ruled(name, rules))
            await here.waits(name, saying)
        await here.annotate("refused", **{TOLERATIONS: RULES})
        await here.runs("refused")


async def test_a_namespace_limits_rules_as_it_limits_tolerations(tmp_path: Path) -> None:
    defaults = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists"} for key in ALWAYS_TOLERATED]
    entries = [{"key": SLA, "operator": "Gt", "value": "900"}, *defaults]
    allowed = msgspec.json.encode(entries).decode()
    async with stock_cluster(tmp_path, plugins=("PodTolerationRestriction",)) as server:
        here = Here(server)
        await here.node("free")
        spaces = {"strict": ({"rules": "yes"}, {WHITELIST: allowed}), "without": ({}, {})}
        for name, (labels, notes) in spaces.items():
            metadata = {"name": name, "labels": labels, "annotations": notes}
            await create(here.client, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        async with attached(server, rule_namespaces="rules=yes"):
            await create(here.client, ruled("wide", f"- {{key: {SLA}, operator: Gt, value: '100'}}", "strict"))
            await here.waits("wide", "rules conflict with the whitelist of namespace strict", "strict")
            await create(here.client, ruled("narrow", RULES, "strict"))
            message = await here.waits("narrow", "native tolerations (moorage.dev/cover)", "strict")
            assert "conflict with its namespace whitelist" in message, "the API server refuses the cover"
            entries.append({"key": SLA, "operator": "Exists", "effect": "NoExecute"})
            patch = {"metadata": {"annotations": {WHITELIST: msgspec.json.encode(entries).decode()}}}
            await here.client.patch(kinds.row("v1", "Namespace"), "", "strict", patch)
            await here.runs("narrow", "strict")
            # Whoever widens the rules of a pod that runs gets nothing by it.
            await here.taint("free", sla("960"))
            wider = {"metadata": {"annotations": {TOLERATIONS: f"- {{key: {SLA}, operator: Exists}}"}}}
            await here.client.patch(POD, "strict", "narrow", wider)
            await here.gone("narrow")
            await here.told("narrow", "Marking for deletion", "rules conflict with the whitelist of namespace strict")
            await here.taint("free")
            await create(here.client, ruled("elsewhere", RULES, "without"))
            await here.waits("elsewhere", "rules in annotations are not allowed in namespace without", "without")


async def test_who_may_not_patch_pods_places_those_that_need_no_cover(tmp_path: Path) -> None:
    async with stock_cluster(tmp_path) as server, attached(server, objects=without("pods", "patch")):
        here = Here(server)
        await here.node("free", sla("990", "NoSchedule"))
        await create(
            here.client, ruled("uncovered", f"- {{key: {SLA}, operator: Gt, value: '950', effect: NoSchedule}}")
        )
        await create(here.client, ruled("covered"))
        await here.runs("uncovered")
        message = await here.waits("covered", "native tolerations (moorage.dev/cover), which may not be added")
        assert 'cannot patch resource "pods"' in message


NODES = ("one", "two", "three")
WORKLOAD = {
    "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "workload"},
    "spec": {
        "replicas": 5, "selector": {"matchLabels": {"app": "workload"}},
        "template": {
            "metadata": {"labels": {"app": "workload"}, "annotations": {TOLERATIONS: RULES.replace("950", "500")}},
            "spec": {
                "schedulerName": "moorage", "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "app", "image": "pause:3.10"}],
            },
        },
    },
}  # fmt: skip


@pytest.mark.seeded
async def test_whoever_is_killed_pods_end_where_their_rules_let_them(tmp_path: Path) -> None:
    chance = random.Random(seed(16))
    async with stock_cluster(tmp_path) as server, AsyncExitStack() as running:
        here, values = Here(server), dict.fromkeys(NODES, 600)
        await running.enter_async_context(attached(server))
        for name in NODES:
            await here.node(name, sla("600"))
        lasting = pod("lasting", tolerations=[{"key": SLA, "operator": "Exists"}])
        for each in (WORKLOAD, ruled("family", "- {key: 'example.com/*', operator: Exists}"), lasting):
            await create(here.client, each)
        begun = {name: (await here.runs(name))["metadata"]["uid"] for name in ("family", "lasting")}
        for _ in range(12):
            name = chance.choice(NODES)
            values[name] = chance.randrange(1000)
            await here.taint(name, sla(str(values[name])))
            if chance.random() < 0.3:
                await running.aclose()
            if chance.random() < 0.7:
                await running.aclose()
                await running.enter_async_context(attached(server))
            await asyncio.sleep(chance.random() * 0.05)
        await running.aclose()
        await running.enter_async_context(attached(server))

        async def settled() -> bool:
            pods = [
                each for each in await read_all(here.client, "Pod") if each["metadata"].get("labels", {}).get("app")
            ]
            places = [values[each["spec"]["nodeName"]] for each in pods if each["spec"].get("nodeName")]
            expected = 5 if max(values.values()) > 500 else 0
            return len(pods) == 5 and len(places) == expected and all(value > 500 for value in places)

        await eventually(settled)
        assert {name: (await here.runs(name))["metadata"]["uid"] for name in begun} == begun


class LabelsFirst(Client):
    """A client that is always late: somebody else changes a pod just before it is covered."""

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Any, **options: Any) -> bytes:
        if options.get("form") == JSON_PATCH:
            await super().patch(kind, namespace, name, {"metadata": {"labels": {"late": str(random.random())}}})
        return await super().patch(kind, namespace, name, patch, **options)


async def test_a_pod_that_changes_just_before_it_is_covered_is_covered_once(tmp_path: Path) -> None:
    async with stock_cluster(tmp_path) as server:
        here = Here(server)
        await here.node("good", sla("990"))
        client = LabelsFirst(server.client("attach").transport)
        running = asyncio.create_task(run_attached(client, AttachSettings()))
        try:
            await create(here.client, ruled("app"))
            message = await here.waits("app", "native tolerations (moorage.dev/cover), which were not added")
            assert "AttachedRules" in message, "whoever always loses says so, and tries again"
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        async with attached(server):
            found = await here.runs("app")
        assert [each["key"] for each in found["spec"]["tolerations"]].count(SLA) == 1


class WidensFirst(Client):
    """A client that is always late: somebody else widens the rules of a pod just before it is covered."""

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Any, **options: Any) -> bytes:
        if options.get("form") == JSON_PATCH:
            wide = {"metadata": {"annotations": {TOLERATIONS: "[{key: '*/*', operator: Exists}]"}}}
            await super().patch(kind, namespace, name, wide)
        return await super().patch(kind, namespace, name, patch, **options)


async def test_rules_that_are_widened_after_a_node_was_chosen_are_neither_covered_nor_bound(tmp_path: Path) -> None:
    whitelist = f'[{{"key": "{SLA}", "operator": "Gt", "value": "900"}}]'
    async with stock_cluster(tmp_path) as server:
        here = Here(server)
        await here.node("good", sla("990"))
        metadata = {"name": "strict", "annotations": {WHITELIST: whitelist}}
        await create(here.client, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        await create(here.client, ruled("app", RULES, "strict"))
        client = WidensFirst(server.client("attach").transport)
        running = asyncio.create_task(run_attached(client, AttachSettings()))
        try:
            await here.waits("app", "rules conflict with the whitelist of namespace strict", "strict")
            found = await read(here.client, "Pod", "app", "strict")
            assert COVER not in found["metadata"]["annotations"]
            assert all(each.get("key") for each in found["spec"]["tolerations"])
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
