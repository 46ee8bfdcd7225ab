"""Plays user stories on a control plane: performs their actions, and checks that what they expect comes true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Protocol

import msgspec

from moorage.api import kinds, manifests
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.client import ApiError, Client, Missing
from moorage.client.client import JSON_PATCH
from moorage.demo import stories
from moorage.demo.stories import Expectation, Story

_POD, _NODE, _EVENT = kinds.row("v1", "Pod"), kinds.row("v1", "Node"), kinds.row("v1", "Event")
_SLICE = kinds.row("resource.k8s.io/v1", "ResourceSlice")
_CLAIM = kinds.row("resource.k8s.io/v1", "ResourceClaim")
PATIENCE = 20.0
"""Seconds within which an expectation must come true."""
_PAUSE = 0.02
_NAMESPACE = "default"
_SETTLED = 2
"""Seconds after which a hollow node that was not changed again comes to life."""
_NOT_READY = "node.kubernetes.io/not-ready"
_EVICTIONS = ("TaintManagerEviction", "DeviceTaintManagerEviction")


def examples() -> Path:
    """Where the manifests of the stories are: in an installed package, or in the repository."""
    package = Path(str(files("moorage")))
    inside = package / "examples"
    return inside if inside.is_dir() else package.parents[1] / "examples"


class Passing(Protocol):
    """Lets time pass: fast where the control plane's clock can, otherwise as it does."""

    async def run_fast(self, seconds: float) -> None:
        """Let some seconds pass."""


class Hands(Protocol):
    """Performs the actions of stories through some Kubernetes client."""

    async def apply(self, folder: Path) -> None:
        """Create all objects of a folder."""

    async def create(self, pod: Data) -> str:
        """Create a pod; returns the server's message when it is refused, and nothing when it is admitted."""

    async def taint(self, node: str, taint: str) -> None:
        """Taint a node: `key=value:effect`."""

    async def untaint(self, node: str, key: str) -> None:
        """Remove all taints of a key from a node."""

    async def patch(self, kind: Kind, name: str, patch: list[Data]) -> None:
        """Change an object of the cluster by a JSON patch."""

    async def delete(self, pod: str) -> None:
        """Delete a pod."""

    async def read(self, kind: Kind) -> list[Data]:
        """All objects of a kind."""


@dataclass(frozen=True, slots=True)
class Did:
    """An action was performed: the command that a user would type, or what happened."""

    what: str


@dataclass(frozen=True, slots=True)
class Saw:
    """An expectation was checked."""

    expected: Expectation
    seen: str
    well: bool
    """Whether it is as expected."""


class Player:
    """Plays stories, and remembers which pods it saw."""

    def __init__(self, hands: Hands, clock: Passing, folder: Path) -> None:
        self._hands = hands
        self._clock = clock
        self._folder = folder
        self._known: dict[str, set[str]] = {}
        """The uids of the pods that were last seen running, by workload."""

    async def play(self, story: Story) -> AsyncIterator[Did | Saw]:
        """Apply the manifests of a story, then perform its steps and yield the result of each."""
        await self._hands.apply(self._folder / story.folder)
        yield Did(f"kubectl apply -f examples/{story.folder}")
        async for result in self.follow(story):
            yield result

    async def follow(self, story: Story) -> AsyncIterator[Did | Saw]:
        """Perform the steps of a story whose manifests are applied, and yield the result of each."""
        for step in story.steps:
            if isinstance(step, Expectation):
                yield await self._expect(step)
            else:
                yield Did(await self._act(step))

    async def _act(self, action: stories.Action) -> str:
        match action:
            case stories.TaintNode(node, taint):
                await self._hands.taint(node, taint)
                return f"kubectl taint node {node} {taint} --overwrite"
            case stories.UntaintNode(node, key):
                await self._hands.untaint(node, key)
                return f"kubectl taint node {node} {key}-"
            case stories.SetDeviceTaint(name, device, value):
                patch = [{"op": "replace", "path": f"/spec/devices/{device}/taints/0/value", "value": value}]
                await self._hands.patch(_SLICE, name, patch)
                shown = msgspec.json.encode(patch).decode()
                return f"kubectl patch resourceslice {name} --type json -p '{shown}'"
            case stories.Delete(what):
                for pod in await self._pods(what):
                    await self._hands.delete(pod["metadata"]["name"])
                return f"kubectl delete pod -l app={what}"
            case stories.Pass(seconds):
                start = time.perf_counter()
                await self._clock.run_fast(seconds)
                took = time.perf_counter() - start
                fast = f", in {took:.1f} s: the control plane's clock runs fast" if took < seconds - 1 else ""
                return f"{seconds} s pass{fast}"

    async def _expect(self, expected: Expectation) -> Saw:
        look = self._look_for(expected)
        end = time.monotonic() + PATIENCE
        while True:
            seen, well = await look()
            if well or time.monotonic() > end:
                return Saw(expected, seen, well)
            await asyncio.sleep(_PAUSE)

    def _look_for(self, expected: Expectation) -> Callable[[], Awaitable[tuple[str, bool]]]:
        match expected:
            case stories.Runs():
                return lambda: self._runs(expected)
            case stories.Waits():
                return lambda: self._waits(expected)
            case stories.Evicted():
                return lambda: self._evicted(expected)
            case stories.Stays():
                return lambda: self._stays(expected)
            case stories.NotAdmitted():
                return lambda: self._refused(expected)
            case stories.Holds():
                return lambda: self._holds(expected)

    async def _runs(self, expected: stories.Runs) -> tuple[str, bool]:
        pods = [pod for pod in await self._pods(expected.what) if not _is_leaving(pod)]
        self._known[expected.what] = {pod["metadata"]["uid"] for pod in pods}
        nodes = {pod["spec"].get("nodeName", "") for pod in pods}
        if not pods or any(_phase(pod) != "Running" for pod in pods):
            return _state(pods), False
        well = nodes == set(expected.on) if expected.everywhere else nodes <= set(expected.on)
        return f"on {' and '.join(sorted(nodes))}", well

    async def _waits(self, expected: stories.Waits) -> tuple[str, bool]:
        pods = await self._pods(expected.what)
        messages = [_unschedulable(pod) for pod in pods]
        well = bool(messages) and all(expected.saying in message for message in messages)
        return (f"pending: {messages[0]}" if messages and messages[0] else _state(pods)), well

    async def _evicted(self, expected: stories.Evicted) -> tuple[str, bool]:
        known = self._known.get(expected.what, set())
        left = [pod for pod in await self._pods(expected.what) if pod["metadata"]["uid"] in known]
        if any(not _is_leaving(pod) for pod in left):
            return _state(left), False
        evicted = {
            event["involvedObject"].get("uid")
            for event in await self._hands.read(_EVENT)
            if event.get("reason") in _EVICTIONS
        }
        return ("evicted", True) if known and known <= evicted else ("gone, and no event says why", False)

    async def _stays(self, expected: stories.Stays) -> tuple[str, bool]:
        known = self._known.get(expected.what, set())
        pods = {pod["metadata"]["uid"]: pod for pod in await self._pods(expected.what) if not _is_leaving(pod)}
        well = bool(known) and known <= pods.keys() and all(_phase(pods[uid]) == "Running" for uid in known)
        return ("stays" if well else "did not stay"), well

    async def _refused(self, expected: stories.NotAdmitted) -> tuple[str, bool]:
        container = {"name": "app", "image": "myapp:latest"}
        spec = {"tolerations": [expected.toleration], "containers": [container]}
        message = await self._hands.create({"metadata": {"name": "refused"}, "spec": spec})
        return (f"refused: {message}" if message else "admitted"), expected.saying in message

    async def _holds(self, expected: stories.Holds) -> tuple[str, bool]:
        for claim in await self._hands.read(_CLAIM):
            if claim["metadata"]["name"] == expected.what:
                allocation = claim.get("status", {}).get("allocation") or {}
                devices = [result["device"] for result in allocation.get("devices", {}).get("results", ())]
                return f"holds {', '.join(devices) or 'nothing'}", expected.device in devices
        return "no such claim", False

    async def _pods(self, what: str) -> list[Data]:
        """The pods of this name, or of the workload of this name."""
        return [
            pod
            for pod in await self._hands.read(_POD)
            if what in (pod["metadata"]["name"], pod["metadata"].get("labels", {}).get("app"))
        ]


def _is_leaving(pod: Data) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _phase(pod: Data) -> str:
    phase: str = pod.get("status", {}).get("phase", "")
    return phase


def _state(pods: Iterable[Data]) -> str:
    states = sorted({f"{_phase(pod)} on {pod['spec'].get('nodeName') or 'no node'}" for pod in pods})
    return " and ".join(states) or "there is no pod"


def _unschedulable(pod: Data) -> str:
    """The message of the PodScheduled condition of a pending pod, without its part on preemption."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            message, _, _ = condition.get("message", "").partition(". preemption:")
            return str(message)
    return ""


class OwnHands:
    """Performs the actions of stories through our own client, in the process of the control plane."""

    def __init__(self, client: Client, clock: Passing) -> None:
        self._client = client
        self._clock = clock

    async def apply(self, folder: Path) -> None:
        """Create all objects of a folder, the pods once its nodes are ready."""
        documents = list(manifests.read([str(folder)]))
        for document in documents:
            if document.data["kind"] == "Node":
                await self._create(document.data)
        await self._clock.run_fast(_SETTLED)
        while any(taint["key"] == _NOT_READY for node in await self.read(_NODE) for taint in _taints(node)):
            await asyncio.sleep(_PAUSE)
        for document in documents:
            if document.data["kind"] != "Node":
                await self._create(document.data)

    async def _create(self, data: Data) -> None:
        await self._client.create(_as_written(data), data, _NAMESPACE)

    async def create(self, pod: Data) -> str:
        """Create a pod; returns the server's message when it is refused, and nothing when it is admitted."""
        try:
            await self._client.create(_POD, pod, _NAMESPACE)
        except ApiError as error:
            return str(error)
        return ""

    async def taint(self, node: str, taint: str) -> None:
        """Taint a node."""
        pair, _, effect = taint.partition(":")
        key, _, value = pair.partition("=")
        kept = [each for each in await self._taints(node) if (each["key"], each["effect"]) != (key, effect)]
        await self._set_taints(node, [*kept, {"key": key, "value": value, "effect": effect}])

    async def untaint(self, node: str, key: str) -> None:
        """Remove all taints of a key from a node."""
        await self._set_taints(node, [each for each in await self._taints(node) if each["key"] != key])

    async def patch(self, kind: Kind, name: str, patch: list[Data]) -> None:
        """Change an object of the cluster."""
        await self._client.patch(kind, "", name, patch, form=JSON_PATCH)

    async def delete(self, pod: str) -> None:
        """Delete a pod."""
        await self._client.delete(_POD, _NAMESPACE, pod)

    async def read(self, kind: Kind) -> list[Data]:
        """All objects of a kind."""
        return [msgspec.json.decode(item) for item in (await self._client.list(kind)).items]

    async def clear(self, folder: Path) -> None:
        """Delete all objects of a folder, its nodes once nobody's pods are left on them."""
        for document in reversed(list(manifests.read([str(folder)]))):
            with suppress(Missing):
                kind, name = _as_written(document.data), document.data["metadata"]["name"]
                if kind.kind == "Node":
                    await self._drain(name)
                await self._client.delete(kind, _NAMESPACE, name)

    async def _drain(self, node: str) -> None:
        """Take the pods off a node: workloads that the story does not know make others elsewhere."""
        await self._client.patch(_NODE, "", node, {"spec": {"unschedulable": True}})
        leaving = [pod["metadata"] for pod in await self.read(_POD) if pod["spec"].get("nodeName") == node]
        for pod in leaving:
            with suppress(Missing):
                await self._client.delete(_POD, pod["namespace"], pod["name"])
        while {pod["uid"] for pod in leaving} & {pod["metadata"]["uid"] for pod in await self.read(_POD)}:
            await asyncio.sleep(_PAUSE)

    async def _taints(self, node: str) -> list[Data]:
        return _taints(msgspec.json.decode(await self._client.get(_NODE, "", node)))

    async def _set_taints(self, node: str, taints: list[Data]) -> None:
        await self._client.patch(_NODE, "", node, {"spec": {"taints": taints}})


def _taints(node: Data) -> list[Data]:
    taints: list[Data] = node["spec"].get("taints", [])
    return taints


def _as_written(data: Data) -> Kind:
    """The kind of an object in the version that its manifest is written in."""
    kind = kinds.row(data["apiVersion"], data["kind"])
    return replace(kind, version=data["apiVersion"].rpartition("/")[2])
