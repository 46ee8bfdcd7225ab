"""A gate is turned off and the server started again: old objects can still be changed, new ones are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage.features import Gate
from tests.live.conftest import Live

Data = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
ON = "AllAlpha=true"

NUMBER = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}
VERSION = {"key": "kernel", "operator": "SemverGt", "value": "5.10.0", "effect": "NoSchedule"}
EXPRESSION = {"expression": "taint.key.startsWith('sla')"}
FAMILY = {"key": "readiness.k8s.io/*", "operator": "Exists", "effect": "NoSchedule"}
VERSION_TERM = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}
EXPRESSION_TERM = {"matchCELExpressions": ["node.labels['zone'] == 'a'"]}

UNSUPPORTED = 'operator: Unsupported value: "{}": supported values: '
NO_OPERATOR = 'operator: Invalid value: "SemverGt": not a valid selector operator'
FORBIDDEN = ": Forbidden: may not be set unless the feature gate TaintTolerationNodeAffinityCEL is enabled"
BAD_NAME = 'key: Invalid value: "readiness.k8s.io/*": name part must consist of alphanumeric characters'


def pod(**spec: Any) -> Data:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "app", "image": "myapp"}], **spec}}


def tolerating(toleration: Data) -> Data:
    return pod(tolerations=[toleration])


def requiring(term: Data) -> Data:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod(affinity={"nodeAffinity": terms})


def preferring(term: Data) -> Data:
    terms = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    return pod(affinity={"nodeAffinity": terms})


def volume(term: Data) -> Data:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec}


def claim(toleration: Data) -> Data:
    exactly = {"deviceClassName": "gpu", "tolerations": [toleration]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}


class Use(NamedTuple):
    """A field of an object that needs a gate."""

    path: str
    make: Callable[[Data], Data]
    part: Data
    refusal: str
    """The error for a new object when the gate is off."""


USES = {
    Gate.COMPARISON: {
        "toleration": Use(PODS, tolerating, NUMBER, UNSUPPORTED.format("Gt")),
        "device toleration": Use(CLAIMS, claim, NUMBER, UNSUPPORTED.format("Gt")),
    },
    Gate.SEMVER: {
        "toleration": Use(PODS, tolerating, VERSION, UNSUPPORTED.format("SemverGt")),
        "device toleration": Use(CLAIMS, claim, VERSION, UNSUPPORTED.format("SemverGt")),
        "required term": Use(PODS, requiring, VERSION_TERM, NO_OPERATOR),
        "preferred term": Use(PODS, preferring, VERSION_TERM, NO_OPERATOR),
        "volume": Use(VOLUMES, volume, VERSION_TERM, NO_OPERATOR),
    },
    Gate.CEL: {
        "toleration": Use(PODS, tolerating, EXPRESSION, FORBIDDEN),
        "device toleration": Use(CLAIMS, claim, EXPRESSION, FORBIDDEN),
        "required term": Use(PODS, requiring, EXPRESSION_TERM, FORBIDDEN),
        "preferred term": Use(PODS, preferring, EXPRESSION_TERM, FORBIDDEN),
        "volume": Use(VOLUMES, volume, EXPRESSION_TERM, FORBIDDEN),
    },
    Gate.WILDCARD: {
        "toleration": Use(PODS, tolerating, FAMILY, BAD_NAME),
        "device toleration": Use(CLAIMS, claim, FAMILY, BAD_NAME),
    },
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    live = Live(tmp_path / "data", command="apiserver", gates=ON)
    live.start()
    yield live
    live.stop()


def restart(server: Live, gates: str) -> None:
    server.stop()
    server.gates = gates
    server.start()


def created(server: Live, use: Use, name: str) -> tuple[int, Data]:
    return server.http("POST", use.path, {**use.make(use.part), "metadata": {"name": name}})


def changed(server: Live, path: str, change: Data) -> Data:
    code, answer = server.http("PATCH", path, change, media_type=MERGE)
    assert code == 200, answer
    content: Data = answer
    return content


def check_old(server: Live, use: Use, path: str) -> None:
    """An object from before can be labelled, replaced, reported on and, if it is a pod, tolerate more and be bound."""
    before = server.http("GET", path)[1]
    after = changed(server, path, {"metadata": {"labels": {"changed": "yes"}}})
    assert after["spec"] == before["spec"]
    after["metadata"]["annotations"] = {"replaced": "yes"}
    assert server.http("PUT", path, after)[0] == 200
    if use.path == VOLUMES:
        changed(server, f"{path}/status", {"status": {"message": "reported"}})
    if use.path == PODS:
        adding(server, path, {"key": "more", "operator": "Exists"}, expected=200)
        if use.make is tolerating:
            adding(server, path, use.part, expected=200)
        changed(server, f"{path}/status", {"status": {"message": "reported"}})
        assert server.http("POST", f"{path}/binding", {"target": {"kind": "Node", "name": "n1"}})[0] == 201


def adding(server: Live, path: str, toleration: Data, *, expected: int) -> Data:
    add = {"op": "add", "path": "/spec/tolerations/-", "value": toleration}
    code, answer = server.http("PATCH", path, [add], media_type=JSON_PATCH)
    assert code == expected, answer
    content: Data = answer
    return content


def check_new(server: Live, use: Use, name: str) -> None:
    """An object that begins to use the gate is refused, whether it is created or changed so."""
    code, answer = created(server, use, name)
    assert (code, use.refusal in answer["message"]) == (422, True), answer["message"]
    if use.make is tolerating:
        assert server.http("POST", PODS, {**pod(), "metadata": {"name": "plain"}})[0] == 201
        assert use.refusal in adding(server, f"{PODS}/plain", use.part, expected=422)["message"]


@pytest.mark.parametrize("gate", USES, ids=lambda gate: gate.value)
def test_what_used_a_gate_before_it_was_turned_off_can_still_be_changed(server: Live, gate: Gate) -> None:
    uses = [(name.replace(" ", "-"), use) for name, use in USES[gate].items()]
    for name, use in uses:
        code, answer = created(server, use, f"old-{name}")
        assert code == 201, answer
    restart(server, f"{ON},{gate.value}=false")
    for name, use in uses:
        check_old(server, use, f"{use.path}/old-{name}")
        check_new(server, use, f"new-{name}")
    restart(server, ON)
    for name, use in uses:
        assert created(server, use, f"new-{name}")[0] == 201
        changed(server, f"{use.path}/old-{name}", {"metadata": {"labels": {"again": "yes"}}})
