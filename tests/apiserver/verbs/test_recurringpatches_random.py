"""The oracle of recipes for patches is the long way: the same objects, byte for byte, after random patches."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from moorage.apiserver.base.recipes import Recipes
from moorage.apiserver.base.renewals import renewed
from moorage.apiserver.http.messages import Request
from moorage.apiserver.run import APIServer
from moorage.client.clock import Clock, ManualClock, timestamp
from tests.apiserver.asked import MERGE, Asked
from tests.plane import api_server

Data = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
START = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESSES = ("10.0.0.1", "10.0.0.10", "10.0.0.2", "9.9.9.9", "fd00::1", "10.0.0.256", "")
LATEST, VERSION = "latest-version", re.compile(rb'"resourceVersion":"(\d+)"')
LATEST_UID, UID = "latest-uid", re.compile(rb'"uid":"([^"]*)"')
OWN = re.compile(rb'(uid(?!\\*":\\*"0{8}-)|resourceVersion)(\\*":\\*")[^"\\]*')
SORTS = 20
IDS = tuple(f"hollow://{sha256(name.encode()).hexdigest()}" for name in "abc")
SPECS: tuple[Data, ...] = (
    {"containers": [{"name": "main", "image": "app:1"}]},
    {"containers": [{"name": "main", "image": "app:1"}, {"name": "side", "image": "app:2"}], "restartPolicy": "Never"},
)


class Twin:
    """A server of its own, asked without the UIDs and revisions of its objects."""

    def __init__(self, server: APIServer) -> None:
        self._ask = Asked(server.transport("tests"))
        self._version = self._uid = b""
        """The resourceVersion and the uid of the object that was read last."""

    async def __call__(self, method: str, path: str, sent: Data | None) -> tuple[int, bytes]:
        body = b"" if sent is None else msgspec.json.encode(sent).replace(LATEST.encode(), self._version)
        body = body.replace(LATEST_UID.encode(), self._uid)
        answer = await self._ask(method, path, body, MERGE if method == "PATCH" else "application/json")
        if found := VERSION.search(answer.body):
            self._version = found[1]
        if found := UID.search(answer.body):
            self._uid = found[1]
        return answer.status, OWN.sub(rb"\1\2", answer.body)


class Kubelet:
    """Makes statuses of few values, so that some of them are equal, in random order and in odd forms."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.random = self._values = random.Random(seed)
        self._clock = clock

    def patch(self, pod: Data) -> Data:
        """A patch of one of some sorts, with values of its own."""
        self.random = random.Random(self._values.randrange(SORTS))
        version = LATEST if self.random.random() < 0.95 else "1"
        patch: Data = {"metadata": {"resourceVersion": version}, "status": self.status(pod)}
        if self.random.random() < 0.05:
            patch["metadata"]["labels"] = {"a": "b"}
        self.random = self._values
        return patch

    def time(self) -> str:
        odd = ("2026-01-01T00:00:00+00:00", "2026-02-30T00:00:00Z", "")
        usual = (timestamp(self._clock.now()), "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")
        return self.random.choice(odd if self._values.random() < 0.01 else usual)

    def condition(self, name: str, pod: Data) -> Data:
        known = {each["type"]: each["lastTransitionTime"] for each in pod["status"].get("conditions", ())}
        since = known.get(name) if self.random.random() < 0.7 else None
        return {"type": name, "status": self.random.choice(("True", "True", "False")),
                "lastTransitionTime": since or self.time(), "observedGeneration": 1}  # fmt: skip

    def status(self, pod: Data) -> Data:
        address = self._values.choice(ADDRESSES[:4] if self._values.random() < 0.95 else ADDRESSES)
        status: Data = {
            "phase": self.random.choice(("Running", "Running", "Pending", "Failed")), "startTime": self.time(),
            "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}], "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [self.condition(name, pod) for name in ("PodScheduled", "Ready")],
        }  # fmt: skip
        if self.random.random() < 0.1:
            status["podIPs"].append({"ip": self._values.choice(ADDRESSES[:4])})
        if self.random.random() < 0.1:
            status["message"] = self.random.choice((address, status["startTime"], "tests", 'a "quoted" 10.0.0.1'))
        if self.random.random() < 0.05:
            status["unknown"] = {"ip": address}
        ended = {"terminated": {"exitCode": 0, "startedAt": self.time(), "finishedAt": self.time()}}
        status["containerStatuses"] = [
            {"name": each["name"], "image": "app:1", "imageID": "", "containerID": self._values.choice(IDS),
             "restartCount": 0, "ready": True, "lastState": {},
             "state": ended if self.random.random() < 0.1 else {"running": {"startedAt": self.time()}}}
            for each in pod["spec"]["containers"]
        ]  # fmt: skip
        return status


class Twins:
    """Two servers that are told the same: one may use recipes, the other one goes the long way."""

    def __init__(self, fast: Twin, slow: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fast, self._slow = fast, slow
        self._monkeypatch = monkeypatch
        self.replayed = 0

    async def __call__(self, method: str, path: str, sent: Data | None) -> Data:
        """What both answer."""
        with self._monkeypatch.context() as patched:
            patched.setattr(Recipes, "get", self._counted(Recipes.get))
            patched.setattr("moorage.apiserver.verbs.recurringpatches.renewed", self._counted(renewed))
            outcome = await self._fast(method, path, sent)
        with self._monkeypatch.context() as patched:
            for short_way in ("recurring_patch", "renewal"):
                patched.setattr(f"moorage.apiserver.verbs.patch.{short_way}", self._never)
            assert await self._slow(method, path, sent) == outcome, (method, path, sent)
        answer: Data = msgspec.json.decode(outcome[1])
        return answer

    def _counted(self, get: Any) -> Any:
        def counted(*given: Any) -> Any:
            found = get(*given)
            self.replayed += found is not None
            return found

        return counted

    async def _never(self, *_: object) -> None:
        return None


@asynccontextmanager
async def both(folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Twins]:
    async with api_server(folder / "fast", clock=clock) as fast, api_server(folder / "slow", clock=clock) as slow:
        yield Twins(Twin(fast), Twin(slow), monkeypatch)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(2))
async def test_a_recipe_makes_of_a_pod_what_the_long_way_makes_of_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    kubelet = Kubelet(seed, clock)
    async with both(tmp_path, clock, monkeypatch) as ask:
        for number in range(300):
            name = f"pod-{number}"
            labels = {"ip": "10.0.0.1"} if kubelet.random.random() < 0.2 else {}
            spec = kubelet.random.choice(SPECS)
            await ask("POST", PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
            binding = {"metadata": {"name": name}, "target": {"name": f"node-{number % 7}"}}
            await ask("POST", f"{PODS}/{name}/binding", binding)
            for _ in range(kubelet.random.choice((1, 1, 2, 3))):
                clock.advance(kubelet.random.choice((0, 0, 1)))
                pod = await ask("GET", f"{PODS}/{name}", None)
                query = "?fieldManager=kubelet" if kubelet.random.random() < 0.1 else ""
                await ask("PATCH", f"{PODS}/{name}/status{query}", kubelet.patch(pod))
                await ask("GET", f"{PODS}/{name}", None)
        assert ask.replayed > 20


@pytest.mark.seeded
async def test_a_recipe_makes_of_a_node_and_its_lease_what_the_long_way_makes_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, randomly = ManualClock(START), random.Random(1)
    leases, nodes = "/apis/coordination.k8s.io/v1/namespaces/default/leases", "/api/v1/nodes"

    def lease(name: str) -> Data:
        micro = timestamp(clock.now(), micro=True)
        time = randomly.choice((micro, micro, micro, "2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.1Z"))
        holder = randomly.choice((name, name, name, "v1", "twin", "Not a name"))
        return {"holderIdentity": holder, "leaseDurationSeconds": randomly.choice((40, 40, 40, 0)), "renewTime": time}

    def status(name: str) -> Data:
        now, uid = timestamp(clock.now()), str(UUID(int=randomly.randrange(4)))
        times = {"lastHeartbeatTime": now, "lastTransitionTime": randomly.choice((now, timestamp(START)))}
        addresses = [("InternalIP", randomly.choice(ADDRESSES)), ("Hostname", randomly.choice((name, "status")))]
        return {
            "addresses": [{"type": sort, "address": address} for sort, address in addresses],
            "nodeInfo": {"machineID": uid.replace("-", ""), "systemUUID": uid, "bootID": uid},
            "conditions": [{"type": "Ready", "status": randomly.choice(("True", "True", "False")), **times}],
        }

    async with both(tmp_path, clock, monkeypatch) as ask:
        for number in range(80):
            name = f"node-{number}"
            await ask("POST", nodes, {"metadata": {"name": name}, "spec": randomly.choice(({}, {"podCIDR": ""}))})
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": str(UUID(int=number % 3))}
            owned = {"name": name, "ownerReferences": [owner]}
            await ask("POST", leases, {"metadata": owned, "spec": {**lease(name), "leaseDurationSeconds": 40}})
            for _ in range(3):
                clock.advance(randomly.choice((0, 0.3, 1)))
                await ask("GET", f"{leases}/{name}", None)
                await ask("PATCH", f"{leases}/{name}", {"metadata": {"resourceVersion": LATEST}, "spec": lease(name)})
                taint = {"key": "a", "effect": "NoSchedule", "timeAdded": timestamp(clock.now())}
                for taints in (randomly.choice(([taint], [taint, {**taint, "key": "b"}])), None):
                    await ask("GET", f"{nodes}/{name}", None)
                    patch = {"metadata": {"resourceVersion": LATEST}, "spec": {"taints": taints}}
                    await ask("PATCH", f"{nodes}/{name}", patch)
                await ask("GET", f"{nodes}/{name}", None)
                patch = {"metadata": {"resourceVersion": LATEST}, "status": status(name)}
                await ask("PATCH", f"{nodes}/{name}/status", patch)
        assert ask.replayed > 100


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(2))
async def test_a_recipe_makes_of_a_claim_and_of_its_pod_what_the_long_way_makes_of_them(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, randomly = ManualClock(START), random.Random(seed)
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    requests = [{"name": name, "exactly": {"deviceClassName": "gpu"}} for name in ("gpu", "net")]
    entries = [{"name": name, "resourceClaimTemplateName": "gpu"} for name in ("gpu", "net")]

    def target() -> Data:
        """Most often the object as it is, and else another one, or nothing of the kind."""
        others: tuple[Data, ...] = ({"resourceVersion": "1"}, {"uid": str(UUID(int=1))}, {}, {"uid": ""})
        usual: tuple[Data, ...] = ({"resourceVersion": LATEST}, {"uid": LATEST_UID})
        return randomly.choice(others if randomly.random() < 0.05 else usual)

    def allocation(node: str) -> Data:
        pool = randomly.choice((node, node, "pool-1", "a/b", "Pool"))
        names = randomly.choice((["gpu"], ["gpu"], ["net"], ["gpu", "net"], ["gpu/large"]))
        device = randomly.choice(("device-0", "device-0", "device-1", "a.b"))
        results = [{"request": name, "driver": "gpu.example.com", "pool": pool, "device": device} for name in names]
        values = [node] if randomly.random() < 0.9 else [node, "node-0"]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]}
        if randomly.random() < 0.1:
            term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [node]}]}
        times = (timestamp(clock.now()), "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z")
        return {
            "devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]},
            "allocationTimestamp": randomly.choice(times[:2] if randomly.random() < 0.95 else times),
        }  # fmt: skip

    def status(number: int) -> Data:
        user = {"resource": "pods", "name": f"pod-{number}", "uid": str(UUID(int=randomly.randrange(4)))}
        users = randomly.choice(([user], [user], [user, {**user, "uid": str(UUID(int=9))}], None))
        if randomly.random() < 0.3:
            return {"reservedFor": users, "allocation": None, "devices": None}
        return {"reservedFor": users, "allocation": allocation(f"node-{number % 7}")}

    async with both(tmp_path, clock, monkeypatch) as ask:
        for number in range(120):
            name = f"claim-{number}"
            asked = randomly.choice((requests[:1], requests[:1], requests))
            await ask("POST", claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": asked}}})
            for _ in range(randomly.choice((1, 2, 3))):
                clock.advance(randomly.choice((0, 0, 1)))
                await ask("GET", f"{claims}/{name}", None)
                await ask("PATCH", f"{claims}/{name}/status", {"metadata": target(), "status": status(number)})
                await ask("GET", f"{claims}/{name}", None)
            pod = f"pod-{number}"
            spec = {**SPECS[0], "resourceClaims": randomly.choice((entries[:1], entries[:1], entries))}
            await ask("POST", PODS, {"metadata": {"name": pod}, "spec": spec})
            for _ in range(2):
                await ask("GET", f"{PODS}/{pod}", None)
                names = randomly.choice((name, name, "gpu", "Not a name", None))
                statuses = [
                    {"name": each["name"], "resourceClaimName": names} for each in entries[: number % 9 // 7 + 1]
                ]
                patch = {"metadata": target(), "status": {"resourceClaimStatuses": statuses}}
                await ask("PATCH", f"{PODS}/{pod}/status", patch)
                await ask("GET", f"{PODS}/{pod}", None)
        assert ask.replayed > 50


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(2))
async def test_a_renewal_makes_of_a_lease_what_the_long_way_makes_of_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, randomly = ManualClock(START), random.Random(seed)
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    owners = [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": str(UUID(int=number))} for number in range(2)]
    metadata: tuple[Data, ...] = (
        {}, {"ownerReferences": owners[:1]}, {"ownerReferences": owners[:1]}, {"ownerReferences": owners},
        {"labels": {"a": "b"}}, {"annotations": {"a": '","managedFields":[{"manager":"tests"'}},
        {"finalizers": ["example.com/stays"]},
    )  # fmt: skip

    def patch(spec: Data) -> Data:
        """Most often what a kubelet sends, and else something close to it."""
        now = timestamp(clock.now(), micro=True)
        changed: tuple[Data, ...] = (
            {"renewTime": "2026-01-01T00:00:00Z"}, {"renewTime": "2026-02-30T00:00:00.000001Z"}, {"renewTime": None},
            {"leaseDurationSeconds": 41}, {"leaseDurationSeconds": 0}, {"leaseTransitions": 1}, {"unknown": 1},
            {"holderIdentity": 'another "one"'}, {"holderIdentity": "Ä"}, {"renewTime": spec.get("renewTime")},
        )  # fmt: skip
        sent = {"metadata": {"resourceVersion": LATEST}, "spec": {**spec, "renewTime": now}}
        if randomly.random() < 0.2:
            sent["spec"] |= randomly.choice(changed)
        if randomly.random() < 0.05:
            sent["metadata"] = randomly.choice(
                ({"resourceVersion": "1"}, {}, {**sent["metadata"], "labels": {"a": "c"}})
            )
        return sent

    async with both(tmp_path, clock, monkeypatch) as ask:
        for number in range(60):
            name = f"node-{number}"
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": timestamp(clock.now(), micro=True)}
            await ask("POST", leases, {"metadata": {"name": name, **randomly.choice(metadata)}, "spec": spec})
            for _ in range(8):
                clock.advance(randomly.choice((0, 0.000001, 0.3, 1)))
                there = await ask("GET", f"{leases}/{name}", None)
                odd = randomly.choice(("?fieldManager=another", "?fieldValidation=Strict", "?dryRun=All"))
                query = odd if randomly.random() < 0.1 else ""
                await ask("PATCH", f"{leases}/{name}{query}", patch(there["spec"]))
                if randomly.random() < 0.05:
                    await ask("DELETE", f"{leases}/{name}", None)
                    break
        assert ask.replayed > 100


async def test_whoever_patches_in_a_way_that_is_warned_of_is_warned_each_time(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        ask, transport = Asked(server.transport("tests")), server.transport("tests")
        for number in range(4):
            pod = {"metadata": {"name": f"pod-{number}"}, "spec": SPECS[0]}
            _, made = await ask.told("POST", PODS, pod)
            version = {"resourceVersion": made["metadata"]["resourceVersion"]}
            body = msgspec.json.encode({"metadata": version, "status": {"phase": "Running", "unknown": 1}})
            target = f"{PODS}/pod-{number}/status?fieldValidation=Warn"
            answer = await transport.respond(Request.of("PATCH", target, [("Content-Type", MERGE)], body))
            assert ("Warning", '299 - "unknown field \\"status.unknown\\""') in answer.headers


class Ticking(Clock):
    """A clock on which a second passes each time somebody looks at it."""

    def __init__(self) -> None:
        self._now = START

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


async def test_the_time_of_a_write_is_its_own_also_when_a_second_ends_while_a_recipe_is_learnt(tmp_path: Path) -> None:
    async with api_server(tmp_path, clock=Ticking()) as server:
        ask, times = Asked(server.transport("tests")), []
        for number in range(5):
            _, made = await ask.told("POST", PODS, {"metadata": {"name": f"pod-{number}"}, "spec": SPECS[0]})
            version = {"resourceVersion": made["metadata"]["resourceVersion"]}
            patch = {"metadata": version, "status": {"phase": "Running", "startTime": timestamp(START)}}
            _, pod = await ask.told("PATCH", f"{PODS}/pod-{number}/status", patch, MERGE)
            times += [each["time"] for each in pod["metadata"]["managedFields"] if each.get("subresource")]
        assert times == sorted(set(times))
        assert len(times) == 5
