"""Components are killed at random during rolling updates and changes of taints, and the workload stays whole."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.live.conftest import Live, eventually
from tests.live.processes import Component, apart, start_all
from tests.plane import PATIENCE
from tests.seeds import FUZZING, seed

Data = dict[str, Any]
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
REPLICAS, COUNT = 12, 8
STEPS = 40 if FUZZING else 12
SEED = seed(20260101)
PARTS = ("apiserver", "scheduler", "controllers")
SLA = {"key": "example.com/sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}
NO_ANSWER = (OSError, HTTPException)


class Witness:
    """A watcher that follows all pods across restarts of the server and notes what must never happen."""

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
        self._thread.join(PATIENCE)

    @property
    def pods(self) -> int:
        """How many pods there ever were."""
        return len(self._nodes)

    def wait_for_news(self, seconds: float) -> None:
        """Wait until something happens to a pod, at most for some seconds."""
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
        uids = {pod["metadata"]["uid"] for pod in answer["items"]}
        for pod in answer["items"]:
            self._note(pod)
        self._gone |= self._nodes.keys() - uids
        revision: str = answer["metadata"]["resourceVersion"]
        return revision

    def _follow(self, revision: str) -> str:
        """Note changes until the watch ends. Returns the last revision."""
        target = f"{PODS}?watch=true&resourceVersion={revision}&timeoutSeconds=1"
        address = urlsplit(self._live.url).netloc
        try:
            with closing(HTTPSConnection(address, context=self._trust, timeout=PATIENCE)) as connection:
                connection.request("GET", target, headers={"Authorization": f"Bearer {self._live.token}"})
                lines = connection.getresponse()
                if lines.status != 200:
                    raise HTTPException(lines.status)
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise Expired
                    revision = event["object"]["metadata"]["resourceVersion"]
                    self._note(event["object"])
                    if event["type"] == "DELETED":
                        self._gone.add(event["object"]["metadata"]["uid"])
        except (*NO_ANSWER, ValueError):
            # The server was killed, perhaps within a line: the watch resumes at the last event that was complete.
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
    """The revision is too old to resume from."""


class Chaos:
    """A cluster that is changed again and again, whether or not its components run at the moment."""

    def __init__(self, live: Live, parts: dict[str, Component]) -> None:
        self._live = live
        self._parts = parts
        self.tainted: set[str] = set()
        self.version = 1

    def ask(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Data:
        """Ask until there is an answer. A conflict is one: an earlier attempt may have succeeded without an answer."""

        def attempt() -> Data:
            try:
                code, answer = self._live.http(method, path, body, media_type=media_type)
            except NO_ANSWER as error:
                raise AssertionError from error
            assert code in (200, 201, 409), answer
            content: Data = answer
            return content

        answered: Data = eventually(attempt)
        return answered

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

    def step(self, what: str, chance: random.Random) -> str:
        """Kill a component, change the SLA of a node, or roll out a version. Returns what was done."""
        if what in PARTS:
            part = self._parts[what]
            part.kill()
            part.start()
            return f"killed the {part.name}"
        if what == "drop" and len(self.tainted) < COUNT // 2:
            return self._set_sla(chance.choice([f"n{number}" for number in range(COUNT)]), "900")
        if what == "recover" and self.tainted:
            return self._set_sla(chance.choice(sorted(self.tainted)), "990")
        self.version += 1
        patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": f"web:{self.version}"}]
        self.ask("PATCH", f"{DEPLOYMENTS}/web", patch, "application/json-patch+json")
        return f"version {self.version}"

    def _set_sla(self, node: str, value: str) -> str:
        def change() -> bool:
            taints = self.ask("GET", f"{NODES}/{node}")["spec"]["taints"]
            others = [taint for taint in taints if taint["key"] != "example.com/sla"]
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
        start_all(parts)
        yield live, Chaos(live, parts)
    finally:
        for part in reversed(parts.values()):
            part.stop()


def plan(chance: random.Random) -> list[str]:
    """Some steps in any order; every component is killed, and a version is rolled out, at least once."""
    always = [*PARTS, "roll out"]
    steps = [*always, *chance.choices((*always, "drop", "drop", "recover"), k=STEPS - len(always))]
    chance.shuffle(steps)
    return steps


@pytest.mark.seeded
def test_components_are_killed_at_random_and_the_workload_stays_whole(chaos: tuple[Live, Chaos]) -> None:
    live, cluster = chaos
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    with Witness(live) as witness:
        cluster.furnish()
        eventually(cluster.is_whole)
        done = []
        for what in plan(chance):
            done.append(cluster.step(what, chance))
            witness.wait_for_news(chance.uniform(0, 0.5))
        eventually(cluster.is_whole)
        assert witness.sins == [], done
    assert witness.pods > REPLICAS
