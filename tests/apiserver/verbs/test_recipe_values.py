"""Values that look as if the server only copied them, and that are something else in another place."""

from __future__ import annotations

import pytest

from tests.apiserver.asked import MERGE, Asked

NODES, LEASES = "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.mark.parametrize("resource", ["kubernetes.io/hostname", "name", "address"])
async def test_an_amount_is_read_as_one_though_a_host_could_be_called_so(ask: Asked, resource: str) -> None:
    for number, amount in enumerate(("1.5", "2.5", "3.5", "4e-3", "5e-3", "6e-3")):
        node = {"metadata": {"name": f"node-{number}"}, "status": {"capacity": {resource: amount}}}
        status, made = await ask.told("POST", NODES, node)
        assert status == 201
        stored = f"{amount[0]}500m" if "." in amount else amount
        assert made["status"]["capacity"] == {resource: stored}
        patch = {
            "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
            "status": {"capacity": {resource: f"{number}.25"}},
        }
        status, made = await ask.told("PATCH", f"{NODES}/node-{number}/status", patch, MERGE)
        assert made["status"]["capacity"] == {resource: f"{number}250m".removeprefix("0")}


@pytest.mark.parametrize("first", ["manager", "operation", "time", "uid"])
async def test_an_object_may_be_called_as_a_field_that_the_server_writes(ask: Asked, first: str) -> None:
    for name in ("a", first, "b"):
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        event = {"metadata": {"name": name}, "involvedObject": about, "reason": "Test"}
        status, made = await ask.told("POST", EVENTS, event)
        assert status == 201
        assert made["metadata"]["name"] == name
        (owned,) = made["metadata"]["managedFields"]
        assert {"manager", "operation", "time"} < owned.keys()
        status, made = await ask.told("POST", LEASES, {"metadata": {"name": name}, "spec": {"holderIdentity": name}})
        assert status == 201
        assert {"name", "uid", "managedFields"} < made["metadata"].keys()
