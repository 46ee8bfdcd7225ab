"""What `moorage attach` says about a cluster, and how it leaves one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.api.rules import COVER, TOLERATIONS
from moorage.client import Client
from moorage.client.transport import Answer
from moorage.features import NONE_ON
from moorage.tools.attach.check import Outcome, check
from moorage.tools.attach.covers import expire_covers, ruled_pods, states
from moorage.tools.attach.standing import standing, webhook_health
from tests.plane import Data, api_server, create, pod, read

ENTRY = {"key": "sla", "operator": "Exists", "effect": "NoExecute"}
OWN = {"key": "own", "operator": "Exists", "effect": "NoExecute"}


COMPANIONS = (
    "registry.k8s.io/descheduler/descheduler:v0.34.0",
    "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0",
    "public.ecr.aws/karpenter/controller:1.8.0@sha256:0123",
)

_LABELS = {"a": "b"}
_TEMPLATE = {"labels": _LABELS, "annotations": {TOLERATIONS: "[{key: 'a*', operator: Exists}]"}}
DAEMONS = {
    "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"},
    "spec": {"selector": {"matchLabels": _LABELS}, "template": {"metadata": _TEMPLATE, "spec": pod("x")["spec"]}},
}  # fmt: skip


def ruled(name: str, rules: str, cover: list[Data] | None = None, **spec: Any) -> Data:
    made = pod(name, **spec)
    made["metadata"]["annotations"] = {TOLERATIONS: rules}
    if cover:
        made["metadata"]["annotations"][COVER] = msgspec.json.encode(cover).decode()
    return made


async def facts(client: Client) -> list[str]:
    return [str(fact) for fact in await check(client, "moorage")]


async def test_check_says_what_works_and_what_does_not(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        client = server.client("person")
        assert all(fact.outcome is not Outcome.FAILS for fact in await check(client, "moorage"))
        assert "mind  several schedulers: default-scheduler (0 pods), moorage (0 pods)" in "\n".join(
            await facts(client)
        )
        await create(client, ruled("broken", "- key: [", schedulerName="moorage"))
        await create(client, ruled("elsewhere", "[{key: a, operator: Gt, value: '5'}]"))
        for number, image in enumerate(COMPANIONS):
            found = pod(f"companion-{number}", schedulerName="default-scheduler")
            found["spec"]["containers"][0]["image"] = image
            await create(client, found)
        await create(client, DAEMONS)
        said = "\n".join(await facts(client))
        assert "mind  DaemonSet default/d has rules and no cover" in said
        assert "mind  kubectl's typed commands and stock API servers drop `expression`" in said
        assert "ok    all rights" in said
        assert "fails pod default/broken: annotation moorage.dev/tolerations: line 1" in said
        assert "mind  pod default/elsewhere has rules but schedulerName default-scheduler" in said
        for name in (
            "the descheduler's RemovePodsViolatingNodeTaints",
            "the cluster autoscaler sees",
            "Karpenter sees",
        ):
            assert f"mind  {name}" in said
        assert "mind  several schedulers: default-scheduler (4 pods), moorage (1 pods)" in said


async def test_expiring_covers_sets_seconds_on_exactly_what_is_recorded(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        client = server.client("person")
        rules = "[{key: sla, operator: Gt, value: '5'}]"
        await create(client, ruled("covered", rules, [ENTRY], tolerations=[ENTRY, OWN], schedulerName="moorage"))
        await create(client, ruled("daemon", rules, [{"operator": "Exists"}], tolerations=[{"operator": "Exists"}]))
        await create(client, pod("other", tolerations=[ENTRY]))
        await create(client, ruled("ended", rules, [ENTRY], tolerations=[ENTRY]))
        await client.patch(
            kinds.row("v1", "Pod"), "default", "ended", {"status": {"phase": "Succeeded"}}, subresource="status"
        )
        pods = await ruled_pods(client)
        assert {each.name: each.is_endless for each in pods} == {"default/covered": False, "default/daemon": True}
        assert {each.name: each.cover for each in pods} == {"default/covered": (0,), "default/daemon": (0,)}
        assert states(pods, "moorage") == {
            "that wait": 2, "that another scheduler places, without their rules": 1
        }  # fmt: skip
        assert [each.name async for each in expire_covers(client, pods, 60)] == ["default/covered"]
        found = await read(client, "Pod", "covered")
        assert found["spec"]["tolerations"][:2] == [{**ENTRY, "tolerationSeconds": 60}, OWN]
        again = await ruled_pods(client)
        assert next(each for each in again if each.name == "default/covered").cover == (0,), "it stays a cover"
        await client.patch(kinds.row("v1", "Pod"), "default", "covered", {"metadata": {"annotations": {COVER: "{"}}})
        again = await ruled_pods(client)
        assert [each.name async for each in expire_covers(client, again, 5)] == [], "nobody knows which"
        assert (await read(client, "Pod", "other"))["spec"]["tolerations"][0] == ENTRY


class Installed:
    """A way to an API server that has a webhook, whatever comes of it."""

    def __init__(self, client: Client, answer: Answer) -> None:
        self._inner, self._answer = client.transport, answer

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if "webhookconfigurations" in target:
            return Answer(200, b"{}")
        if "dryRun=All" in target:
            return self._answer
        return await self._inner.request(method, target, body, content_type)

    def stream(self, target: str) -> Any:
        return self._inner.stream(target)

    async def close(self) -> None:
        """It belongs to somebody else."""


class Viewer(Installed):
    """The way of somebody who may read neither leases nor events."""

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if "/leases/" in target or "/events" in target:
            return self._answer
        return await self._inner.request(method, target, body, content_type)


def failure(code: int, message: str) -> Answer:
    return Answer(code, msgspec.json.encode({"kind": "Status", "message": message, "code": code}))


async def test_status_says_who_leads_what_the_webhook_does_and_which_rules_nobody_applies(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        client = server.client("person")
        for number in range(12):
            await create(client, ruled(f"elsewhere-{number:02}", "[{key: a, operator: Gt, value: '5'}]"))
        await create(client, ruled("here", "[{key: a, operator: Gt, value: '5'}]", schedulerName="moorage"))
        old = {"holderIdentity": "somebody", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
        metadata = {"name": "moorage-scheduler", "namespace": "kube-system"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": old}
        await create(client, lease)
        for component, reason in (
            ("moorage-taint-eviction-controller", "TaintManagerEviction"),
            ("taint-eviction-controller", "TaintManagerEviction"),
        ):
            event = {
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": component, "namespace": "default"},
                "involvedObject": {"kind": "Pod", "namespace": "default", "name": "left"},
                "reason": reason, "message": f"by {component}", "source": {"component": component},
                "lastTimestamp": "2026-01-01T00:00:00Z",
            }  # fmt: skip
            await create(client, event)
        await create(client, DAEMONS)
        said = [line async for line in standing(client, "moorage", "moorage-system")]
        assert said == [
            "moorage-scheduler: held by nobody: somebody renewed it last at 2026-01-01T00:00:00Z",
            "moorage-controllers: held by nobody",
            "webhook: not installed",
            "pods under rules: 13",
            "  12 that another scheduler places, without their rules",
            "  13 that wait",
            "pods with rules that nobody applies, because moorage does not place them: 12",
            *(f"  default/elsewhere-{number:02}: schedulerName default-scheduler" for number in range(10)),
            "  and 2 more",
            "DaemonSets with rules and no cover, which the stock controller judges natively: 1",
            "  default/d",
            "last evictions:",
            "  2026-01-01T00:00:00Z default/left: by moorage-taint-eviction-controller",
        ]
        for answer, health in (
            (failure(422, 'Pod "" is invalid: annotation moorage.dev/tolerations'), "answers"),
            (failure(500, 'failed calling webhook "pods.moorage.dev"'), "does not answer: failed calling webhook"),
            (failure(403, "pods is forbidden"), "not known: pods is forbidden"),
            (Answer(201, b"{}"), "does not check rules"),
        ):
            assert (await webhook_health(Client(Installed(client, answer)), "moorage-system")).startswith(health)


async def test_status_says_what_it_may_not_know_and_all_else(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        client = Client(Viewer(server.client("person"), failure(403, "it is forbidden")))
        assert [line async for line in standing(client, "moorage", "moorage-system")] == [
            "leaders: not known: it is forbidden",
            "webhook: not installed",
            "pods under rules: 0",
            "last evictions: not known: it is forbidden",
        ]
