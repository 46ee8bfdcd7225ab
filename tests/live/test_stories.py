"""Every user story, applied together with all the others, through kubectl and through the official client.

The server listens as any other; it runs in the test's own process, so that its clock can run fast.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as official
from kubernetes import config, dynamic
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import DynamicApiError

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.client.clock import FastClock
from moorage.controlplane import ControlPlane, Settings
from moorage.demo.player import Hands, Player, Saw
from moorage.demo.stories import STORIES
from moorage.features import ALL_ON
from tests.live.conftest import ROOT, Live
from tests.plane import eventually

Data = dict[str, Any]
EXAMPLES = ROOT / "examples"


class KubectlHands:
    """A person with kubectl."""

    def __init__(self, kubeconfig: Path) -> None:
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}

    async def _kubectl(self, *args: str, stdin: str = "") -> tuple[str, str]:
        process = await asyncio.create_subprocess_exec(
            "kubectl", *args, env=self._env,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, problems = await process.communicate(stdin.encode())
        return output.decode(), problems.decode() if process.returncode else ""

    async def _do(self, *args: str) -> str:
        output, problem = await self._kubectl(*args)
        assert not problem, f"kubectl {' '.join(args)}: {problem}"
        return output

    async def apply(self, folder: Path) -> None:
        await self._do("apply", "-R", "-f", str(folder))

    async def create(self, pod: Data) -> str:
        manifest = {"apiVersion": "v1", "kind": "Pod", **pod}
        return (await self._kubectl("create", "-f", "-", stdin=json.dumps(manifest)))[1]

    async def taint(self, node: str, taint: str) -> None:
        await self._do("taint", "node", node, taint, "--overwrite")

    async def untaint(self, node: str, key: str) -> None:
        await self._do("taint", "node", node, f"{key}-")

    async def patch(self, kind: Kind, name: str, patch: list[Data]) -> None:
        await self._do("patch", kind.singular, name, "--type", "json", "-p", json.dumps(patch))

    async def delete(self, pod: str) -> None:
        await self._do("delete", "pod", pod, "--wait=false")

    async def read(self, kind: Kind) -> list[Data]:
        items: list[Data] = json.loads(await self._do("get", kind.resource, "-A", "-o", "json"))["items"]
        return items


class OfficialHands:
    """A program with the official Python client."""

    def __init__(self, kubeconfig: Path) -> None:
        connect: Any = config.new_client_from_config
        make: Any = dynamic.DynamicClient
        connection = connect(str(kubeconfig))
        self._core: Any = official.CoreV1Api(connection)
        self._client = make(connection)

    def _resource(self, api_version: str, kind: str) -> Any:
        return self._client.resources.get(api_version=api_version, kind=kind)

    async def apply(self, folder: Path) -> None:
        await asyncio.to_thread(self._apply, folder)

    def _apply(self, folder: Path) -> None:
        for document in _documents(folder):
            resource = self._resource(document["apiVersion"], document["kind"])
            resource.create(body=document, namespace="default" if resource.namespaced else None)

    async def create(self, pod: Data) -> str:
        try:
            await asyncio.to_thread(self._core.create_namespaced_pod, "default", {"apiVersion": "v1", **pod})
        except ApiException as error:
            message: str = json.loads(error.body or "{}")["message"]
            return message
        return ""

    async def taint(self, node: str, taint: str) -> None:
        pair, _, effect = taint.partition(":")
        key, _, value = pair.partition("=")
        new = {"key": key, "value": value, "effect": effect}
        await self._change_taints(
            node, lambda old: [*(each for each in old if (each["key"], each["effect"]) != (key, effect)), new]
        )

    async def untaint(self, node: str, key: str) -> None:
        await self._change_taints(node, lambda old: [taint for taint in old if taint["key"] != key])

    async def _change_taints(self, node: str, change: Callable[[list[Data]], list[Data]]) -> None:
        nodes = self._resource("v1", "Node")
        while True:
            current = (await asyncio.to_thread(nodes.get, name=node)).to_dict()
            current["spec"]["taints"] = change(current["spec"].get("taints", []))
            try:
                await asyncio.to_thread(nodes.replace, body=current)
            except DynamicApiError as error:
                if error.status != 409:
                    raise
            else:
                return

    async def patch(self, kind: Kind, name: str, patch: list[Data]) -> None:
        resource = self._resource(kind.api_version, kind.kind)
        media_type = "application/json-patch+json"
        await asyncio.to_thread(resource.patch, body=patch, name=name, content_type=media_type)

    async def delete(self, pod: str) -> None:
        await asyncio.to_thread(self._core.delete_namespaced_pod, pod, "default")

    async def read(self, kind: Kind) -> list[Data]:
        resource = self._resource(kind.api_version, kind.kind)
        items: list[Data] = (await asyncio.to_thread(resource.get)).to_dict()["items"]
        return items


def _documents(folder: Path) -> list[Data]:
    return [item for file in sorted(folder.rglob("*.yaml")) for item in yaml.safe_load_all(file.read_text())]


@pytest.fixture
async def played(tmp_path: Path) -> AsyncIterator[Callable[[Callable[[Path], Hands]], Coroutine[Any, Any, list[str]]]]:
    """Apply all stories at once, play them one after another, and return what was not as expected."""
    clock = FastClock()
    settings = Settings(
        tmp_path, port=0, clock=clock, apiserver_gates=ALL_ON, scheduler_gates=ALL_ON, controllers_gates=ALL_ON
    )
    plane = await ControlPlane.start(settings)

    async def play(make: Callable[[Path], Hands]) -> list[str]:
        hands = await asyncio.to_thread(make, plane.server.kubeconfig)
        await hands.apply(EXAMPLES)
        player = Player(hands, clock, EXAMPLES)
        return [
            f"{story.folder}: expected that {saw.expected}, but it is {saw.seen}"
            for story in STORIES
            async for saw in player.follow(story)
            if isinstance(saw, Saw) and not saw.well
        ]

    yield play
    await plane.stop()


Play = Callable[[Callable[[Path], Hands]], Coroutine[Any, Any, list[str]]]


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
BOTH = pytest.mark.parametrize(
    "make",
    [pytest.param(KubectlHands, marks=needs_kubectl, id="kubectl"), pytest.param(OfficialHands, id="official client")],
)


@BOTH
async def test_every_story_comes_true(make: Callable[[Path], Hands], played: Play) -> None:
    assert await played(make) == []


NODE, POD = kinds.row("v1", "Node"), kinds.row("v1", "Pod")
READINESS = {"key": "readiness.k8s.io/*", "operator": "Exists"}


def node(name: str, group: str, *taints: str) -> Data:
    spec = {"taints": [{"key": key, "value": "", "effect": "NoSchedule"} for key in taints]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"group": group}}, "spec": spec}


def workload(kind: str, name: str, group: str, toleration: Data, **spec: Any) -> Data:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "nodeSelector": {"group": group}, "tolerations": [toleration],
            "containers": [{"name": "app", "image": "myapp:latest"}],
        },
    }  # fmt: skip
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def apply(hands: Hands, folder: Path, *objects: Data) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    await hands.apply(folder)


async def settled(hands: Hands, app: str, *nodes: str) -> dict[str, str]:
    """Wait until the pods of a workload run on these nodes and nowhere else. Returns their uids by node."""

    async def look() -> dict[str, str]:
        pods = [pod for pod in await hands.read(POD) if pod["metadata"].get("labels", {}).get("app") == app]
        assert all(pod["status"]["phase"] == "Running" for pod in pods)
        assert all("deletionTimestamp" not in pod["metadata"] for pod in pods)
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == sorted(nodes)
        return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in pods}

    uids: dict[str, str] = await eventually(look)
    return uids


@BOTH
async def test_a_daemon_set_runs_under_readiness_taints_that_come_and_go(
    make: Callable[[Path], Hands], whole: Live, tmp_path: Path
) -> None:
    hands, group = make(whole.kubeconfig), make.__name__.lower()
    first, second, third = (f"{group}-{number}" for number in (1, 2, 3))
    agent = workload("DaemonSet", f"{group}-agent", group, READINESS)
    app = agent["metadata"]["name"]
    await apply(hands, tmp_path / "a", node(first, group, "readiness.k8s.io/cni"), node(second, group), agent)
    begun = await settled(hands, app, first, second)
    # Readiness taints come and go, also such as evict: the agents stay.
    await hands.taint(second, "readiness.k8s.io/storage=:NoExecute")
    await hands.untaint(first, "readiness.k8s.io/cni")
    await apply(hands, tmp_path / "b", node(third, group, "readiness.k8s.io/gpu", "readiness.k8s.io/dns"))
    now = await settled(hands, app, first, second, third)
    assert {name: now[name] for name in begun} == begun
    # A taint of another family ends the agent of its node, which comes back when the taint is gone.
    await hands.taint(second, "maintenance.example.com/disk=:NoExecute")
    assert await settled(hands, app, first, third) == {name: now[name] for name in (first, third)}
    await hands.untaint(second, "maintenance.example.com/disk")
    again = await settled(hands, app, first, second, third)
    assert again[second] != now[second]


@BOTH
async def test_a_drop_of_the_sla_moves_inference_elsewhere(
    make: Callable[[Path], Hands], whole: Live, tmp_path: Path
) -> None:
    hands, group = make(whole.kubeconfig), f"sla-{make.__name__.lower()}"
    good, better = f"{group}-good", f"{group}-better"
    toleration = {"key": "example.com/sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}
    inference = workload("Deployment", f"{group}-inference", group, toleration, replicas=3)
    app = inference["metadata"]["name"]
    await apply(hands, tmp_path / "a", node(good, group), node(better, group))
    await hands.taint(good, "example.com/sla=960:NoExecute")
    await hands.taint(better, "example.com/sla=900:NoExecute")
    await apply(hands, tmp_path / "b", inference)
    await settled(hands, app, good, good, good)
    await hands.taint(better, "example.com/sla=999:NoExecute")
    await hands.taint(good, "example.com/sla=940:NoExecute")
    await settled(hands, app, better, better, better)
