"""Components are killed at random in the midst of rolling updates and coming and going taints: nothing is lost."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.live.conftest import Live, eventually
from tests.live.processes import Component, apart

Data = dict[str, Any]
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
REPLICAS, COUNT, STEPS = 12, 8, 16
SLA = {"key": "example.com/sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}
NO_ANSWER = (OSError, HTTPException)


class Witness:
    """Follows all pods through every fault of the server, and notes what must never happen."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._trust = live.trust()
        self._nodes: dict[str, str] = {}
        self._gone: set[str] = set()
        self._stopped = threading.Event()
        self._news = threading.Condition()
        self.seen = 0
        self.sins: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(30)

    @property
    def pods(self) -> int:
        """How many pods there ever were."""
        return len(self._nodes)

    def wait_for_news(self, seconds: float) -> None:
        """Wait until something happens to a pod, but not for ever."""
        with self._news:
            self._news.wait(seconds)

    def _run(self) -> None:
        revision = ""
        while not self._stopped.is_set():
            try:
                revision = self._follow(revision or self._list())
            except NO_ANSWER:
                self._stopped.wait(0.05)
            except Expired:
                revision = ""

    def _list(self) -> str:
        code, answer = self._live.http("GET", PODS)
        if code != 200:
            raise OSError(code)
        there = {pod["metadata"]["uid"] for pod in answer["items"]}
        for pod in answer["items"]:
            self._note(pod)
        self._gone |= self._nodes.keys() - there
        revision: str = answer["metadata"]["resourceVersion"]
        return revision

    def _follow(self, revision: str) -> str:
        """Note changes until the server ends the watch, or its own end."""
        target = f"{self._live.url}{PODS}?watch=true&resourceVersion={revision}&timeoutSeconds=2"
        request = Request(target, headers={"Authorization": f"Bearer {self._live.token}"})
        try:
            with urlopen(request, context=self._trust, timeout=5) as lines:
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise Expired
                    revision = event["object"]["metadata"]["resourceVersion"]
                    self._note(event["object"])
                    if event["type"] == "DELETED":
                        self._gone.add(event["object"]["metadata"]["uid"])
        except (*NO_ANSWER, ValueError):
            # A line that is cut off was not understood, so it is asked for again.
            self._stopped.wait(0.05)
        return revision

    def _note(self, pod: Data) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        node, before = pod["spec"].get("nodeName", ""), self._nodes.get(uid, "")
        if uid in self._gone:
            self.sins.append(f"{name} came back after it was gone")
        if before and node != before:
            self.sins.append(f"{name} was on {before} and is on {node or 'no node'}")
        self._nodes[uid] = node
        self.seen += 1
        with self._news:
            self._news.notify_all()


class Expired(Exception):
    """The server does not know any more what happened since."""


class Chaos:
    """A cluster in which things are done, whether or not the server is there at the moment."""

    def __init__(self, live: Live, parts: dict[str, Component]) -> None:
        self._live = live
        self._parts = parts
        self.tainted: set[str] = set()
        self.version = 1

    def ask(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Data:
        """Ask until there is an answer; what a lost answer to an earlier try has done already is fine."""

        def attempt() -> Data:
            try:
                code, answer = self._live.http(method, path, body, media_type=media_type)
            except NO_ANSWER as error:
                raise AssertionError from error
            assert code in (200, 201, 409), answer
            found: Data = answer
            return found

        asked: Data = eventually(attempt)
        return asked

    def furnish(self) -> None:
        for number in range(COUNT):
            self._node(f"n{number}")
        labels = {"app": "web"}
        container = {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}
        template = {"metadata": {"labels": labels}, "spec": {"tolerations": [SLA], "containers": [container]}}
        spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
        self.ask("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})

    def _node(self, name: str) -> None:
        taint = {"key": "example.com/sla", "value": "990", "effect": "NoExecute"}
        self.ask("POST", NODES, {"metadata": {"name": name}, "spec": {"taints": [taint]}})

    def step(self, luck: random.Random) -> str:
        """Do something at random."""
        what = luck.choice(("kill", "kill", "kill", "drop", "drop", "recover", "roll out"))
        if what == "kill":
            part = self._parts[luck.choice(list(self._parts))]
            part.kill()
            part.start()
            return f"killed the {part.name}"
        if what == "drop" and len(self.tainted) < COUNT // 2:
            return self._set_sla(luck.choice([f"n{number}" for number in range(COUNT)]), "900")
        if what == "recover" and self.tainted:
            return self._set_sla(luck.choice(sorted(self.tainted)), "990")
        self.version += 1
        patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": f"web:{self.version}"}]
        self.ask("PATCH", f"{DEPLOYMENTS}/web", patch, "application/json-patch+json")
        return f"version {self.version}"

    def _set_sla(self, node: str, value: str) -> str:
        def change() -> bool:
            taints = self.ask("GET", f"{NODES}/{node}")["spec"]["taints"]
            others = [each for each in taints if each["key"] != "example.com/sla"]
            new = {"key": "example.com/sla", "value": value, "effect": "NoExecute"}
            self.ask("PATCH", f"{NODES}/{node}", {"spec": {"taints": [*others, new]}}, MERGE)
            return True

        eventually(change)
        (self.tainted.add if value == "900" else self.tainted.discard)(node)
        return f"{node} has {value}"

    def is_whole(self) -> bool:
        """Whether every replica of the last version runs where it may, and nothing else does."""
        status = self.ask("GET", f"{DEPLOYMENTS}/web")["status"]
        counts = [status.get(f"{name}Replicas", 0) for name in ("updated", "ready", "available")]
        assert [status.get("replicas"), *counts] == [REPLICAS] * 4
        assert not status.get("unavailableReplicas")
        pods = self.ask("GET", PODS)["items"]
        assert {(pod["status"]["phase"], pod["spec"]["containers"][0]["image"]) for pod in pods} == {
            ("Running", f"web:{self.version}")
        }
        assert len(pods) == REPLICAS
        assert not {pod["spec"]["nodeName"] for pod in pods} & self.tainted
        return True


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[tuple[Live, Chaos]]:
    live, parts = apart(tmp_path / "data")
    try:
        for part in parts.values():
            part.start()
        yield live, Chaos(live, parts)
    finally:
        for part in reversed(parts.values()):
            part.stop()


@pytest.mark.parametrize("seed", [20260101])
def test_components_are_killed_at_random_and_the_workload_stays_whole(seed: int, chaos: tuple[Live, Chaos]) -> None:
    live, cluster = chaos
    luck = random.Random(seed)
    with Witness(live) as witness:
        cluster.furnish()
        eventually(cluster.is_whole, 30)
        done = []
        for _ in range(STEPS):
            done.append(cluster.step(luck))
            witness.wait_for_news(luck.uniform(0, 0.5))
        eventually(cluster.is_whole, 60)
        assert witness.sins == [], done
        # A seed is of use only when each has been killed, and killed in the midst of something.
        assert {"killed the apiserver", "killed the scheduler", "killed the controllers"} <= set(done)
        assert cluster.version > 1
    assert witness.pods > REPLICAS
