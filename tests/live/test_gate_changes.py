"""Upgrade, downgrade, upgrade: gates change component by component while pods run, wait and are created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage.features import Gate
from tests.live.conftest import Live, eventually
from tests.live.processes import Component, apart

Data = dict[str, Any]
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
EVENTS = "/api/v1/namespaces/default/events"
MERGE = "application/merge-patch+json"
KEY = "example.com/tier"


class Use(NamedTuple):
    """A toleration that needs a gate, and whether running pods are evicted when the controllers lose the gate."""

    toleration: Data
    value: str
    refusal: str
    evicts: bool


USES = {
    Gate.COMPARISON: Use(
        {"key": KEY, "operator": "Gt", "value": "950"}, "990", 'operator: Unsupported value: "Gt"', evicts=False
    ),
    Gate.SEMVER: Use(
        {"key": KEY, "operator": "SemverGt", "value": "1.30.0"},
        "v1.31.0",
        'operator: Unsupported value: "SemverGt"',
        evicts=False,
    ),
    Gate.CEL: Use(
        {"expression": f"taint.key == '{KEY}' && taint.value.startsWith('go')"},
        "gold",
        "expression: Forbidden: may not be set unless the feature gate TaintTolerationNodeAffinityCEL is enabled",
        evicts=True,
    ),
    Gate.WILDCARD: Use(
        {"key": "example.com/*", "operator": "Exists"}, "any", 'key: Invalid value: "example.com/*"', evicts=True
    ),
}


class Cluster:
    """A server whose components have gates of their own, and which is restarted when they change."""

    def __init__(self, live: Live, gate: Gate) -> None:
        self.live = live
        self._gate = gate

    def start(self, *off_in: str) -> None:
        """(Re)start with all gates on, except the one under test in some components."""
        off = f"AllAlpha=true,{self._gate.value}=false"
        flags = [text for component in off_in for text in (f"--{component}-feature-gates", off)]
        self.live.more = ("--nodes", "0", *flags)
        if self.live.process is not None:
            assert self.live.stop() == 0
        self.live.start()

    def create(self, path: str, data: Data) -> Data:
        code, answer = self.live.http("POST", path, data)
        assert code == 201, answer
        created: Data = answer
        return created

    def refusal(self, path: str, data: Data) -> str:
        code, answer = self.live.http("POST", path, data)
        assert code == 422, answer
        message: str = answer["message"]
        return message

    def read(self, path: str) -> Data:
        code, answer = self.live.http("GET", path)
        assert code == 200, answer
        content: Data = answer
        return content

    def change(self, path: str, patch: Data) -> None:
        code, answer = self.live.http("PATCH", path, patch, media_type=MERGE)
        assert code == 200, answer

    def delete(self, path: str) -> None:
        code, answer = self.live.http("DELETE", path)
        assert code in (200, 202), answer

    def pods(self, app: str) -> list[Data]:
        items: list[Data] = self.read(f"{PODS}?labelSelector=app%3D{app}")["items"]
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def running(self, app: str, node: str) -> str:
        """Wait until a pod runs on a node. Returns its uid."""

        def look() -> str:
            pods = self.pods(app)
            assert [(pod["status"]["phase"], pod["spec"].get("nodeName")) for pod in pods] == [("Running", node)]
            uid: str = pods[0]["metadata"]["uid"]
            return uid

        return str(eventually(look))

    def waits(self, app: str, why: str) -> None:
        """Wait until a condition of the pod says why it is pending."""

        def look() -> bool:
            pods = self.pods(app)
            assert len(pods) == 1
            pod = pods[0]
            assert not pod["spec"].get("nodeName")
            messages = [condition.get("message", "") for condition in pod["status"].get("conditions", ())]
            assert any(why in message for message in messages), messages
            return True

        eventually(look)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[[Gate], Cluster]]:
    live = Live(tmp_path / "data")
    yield lambda gate: Cluster(live, gate)
    live.stop()


def node(name: str, taint: Data, **spec: Any) -> Data:
    return {"metadata": {"name": name, "labels": {"place": name}}, "spec": {"taints": [taint], **spec}}


def pod(app: str, toleration: Data, place: str) -> Data:
    spec = {
        "nodeSelector": {"place": place}, "tolerations": [toleration],
        "containers": [{"name": "app", "image": "myapp:latest"}],
    }  # fmt: skip
    return {"metadata": {"name": app, "labels": {"app": app}}, "spec": spec}


def deployment(app: str, toleration: Data, place: str) -> Data:
    template = pod(app, toleration, place)
    del template["metadata"]["name"]
    return {"metadata": {"name": app}, "spec": {"selector": {"matchLabels": {"app": app}}, "template": template}}


@pytest.mark.parametrize("gate", Gate, ids=[gate.value for gate in Gate])
def test_down_and_up_again(gate: Gate, cluster: Callable[[Gate], Cluster]) -> None:
    use, server = USES[gate], cluster(gate)
    untolerated = "had untolerated taint(s)"

    # Everything is on: pods run where only the gate lets them, and one waits for a node that is cordoned.
    server.start()
    server.create(NODES, node("home", {"key": KEY, "value": use.value, "effect": "NoExecute"}))
    later = node("later", {"key": KEY, "value": use.value, "effect": "NoSchedule"}, unschedulable=True)
    server.create(NODES, later)
    server.create(PODS, pod("runner", use.toleration, "home"))
    server.create(DEPLOYMENTS, deployment("web", use.toleration, "home"))
    server.create(PODS, pod("waiter", use.toleration, "later"))
    runner = server.running("runner", "home")
    server.running("web", "home")
    server.waits("waiter", "were unschedulable")

    # Downgrade, the scheduler first: pending pods stay pending, and the API server still takes new ones.
    server.start("scheduler")
    server.change(f"{NODES}/later", {"spec": {"unschedulable": False}})
    server.waits("waiter", untolerated)
    server.create(PODS, pod("newcomer", use.toleration, "later"))
    server.waits("newcomer", untolerated)
    assert server.running("runner", "home") == runner

    # Then the API server: new pods are refused, old ones can be changed, and a workload reports that it cannot go on.
    server.start("scheduler", "apiserver")
    assert use.refusal in server.refusal(PODS, pod("latecomer", use.toleration, "later"))
    server.change(f"{PODS}/runner", {"metadata": {"labels": {"seen": "yes"}}})
    server.delete(f"{PODS}/{server.pods('web')[0]['metadata']['name']}")
    _cannot_create(server, use.refusal)
    server.waits("waiter", untolerated)
    assert server.running("runner", "home") == runner

    # Then the controllers: eviction reads two of the gates each time that it judges a pod, and the other two never.
    server.start("scheduler", "apiserver", "controllers")
    if use.evicts:
        eventually(lambda: not server.pods("runner"))
    else:
        _evicts_a_pod_without_toleration(server)
        assert server.running("runner", "home") == runner

    # Upgrade, the API server first: the workload goes on by itself, and its pod waits for the scheduler.
    server.start("scheduler")
    server.waits("web", untolerated)
    server.create(PODS, pod("latecomer", use.toleration, "later"))

    # Everything is on again, and nobody had to repair anything.
    server.start()
    for app, place in (("web", "home"), ("waiter", "later"), ("newcomer", "later"), ("latecomer", "later")):
        server.running(app, place)
    if not use.evicts:
        assert server.running("runner", "home") == runner


def test_controllers_that_were_refused_go_on_by_themselves(tmp_path: Path) -> None:
    """The API server alone loses its gate and gets it back; the controllers beside it are never touched."""
    toleration, refusal = USES[Gate.WILDCARD].toleration, USES[Gate.WILDCARD].refusal
    live, parts = apart(tmp_path / "data")
    server = Cluster(live, Gate.WILDCARD)
    without, with_it = (
        Component("apiserver", "--data-dir", str(live.directory), "--port", live.url.rpartition(":")[2],
                  "--feature-gates", f"{Gate.WILDCARD.value}={on}")
        for on in ("false", "true")
    )  # fmt: skip
    try:
        with_it.start()
        parts["controllers"].start()
        parts["scheduler"].start()
        server.create(NODES, node("home", {"key": KEY, "value": "any", "effect": "NoExecute"}))
        server.create(DEPLOYMENTS, deployment("web", toleration, "home"))
        server.running("web", "home")
        with_it.stop()
        without.start()
        (pod,) = server.pods("web")
        server.delete(f"{PODS}/{pod['metadata']['name']}")
        _cannot_create(server, refusal)
        without.stop()
        with_it.start()
        server.running("web", "home")
        eventually(lambda: _is_well(server.read(f"{DEPLOYMENTS}/web")["status"]))
    finally:
        for part in (parts["scheduler"], parts["controllers"], without, with_it):
            part.stop()


def _evicts_a_pod_without_toleration(server: Cluster) -> None:
    """Create a pod on the tainted node and wait until it is evicted: by then all older pods have been judged."""
    intruder = pod("intruder", {"key": "other", "operator": "Exists"}, "home")
    intruder["spec"]["nodeName"] = "home"
    server.create(PODS, intruder)
    eventually(lambda: not server.pods("intruder"))


def _is_well(status: Data) -> bool:
    failing = any(condition["type"] == "ReplicaFailure" for condition in status["conditions"])
    return status.get("availableReplicas") == 1 and not failing


def _cannot_create(server: Cluster, refusal: str) -> None:
    """One event says that pods are refused and counts the attempts, which back off; the ReplicaSet has a condition."""

    def reported() -> bool:
        events = [
            event for event in server.read(EVENTS)["items"]
            if event["reason"] == "FailedCreate" and event["involvedObject"]["kind"] == "ReplicaSet"
        ]  # fmt: skip
        assert [refusal in event["message"] for event in events] == [True]
        assert 3 <= events[0]["count"] <= 15
        conditions = server.read(REPLICA_SETS)["items"][0]["status"].get("conditions", [])
        assert ("ReplicaFailure", "True") in [(condition["type"], condition["status"]) for condition in conditions]
        return True

    eventually(reported)
    assert server.pods("web") == []
