"""Namespaces are given what pods need, and end when all that is in them has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client, Forbidden
from moorage.controllers.cluster.namespaces import Namespaces
from moorage.controllers.cluster.serviceaccounts import ServiceAccounts, root_ca
from tests.controllers.small_cluster import becomes, cluster, gone
from tests.controllers.waiting import read
from tests.plane import api_server, create, pod

NAMESPACE = kinds.row("v1", "Namespace")


def namespace(name: str, **metadata: Any) -> Data:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def configmap(name: str, **metadata: Any) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team", **metadata}}


async def end(client: Client) -> None:
    await client.delete(NAMESPACE, "", "team")


def condition(data: Data, type_: str) -> Data:
    conditions = [each for each in data["status"].get("conditions", ()) if each["type"] == type_]
    return conditions[0] if conditions else {}


async def test_a_namespace_takes_all_that_is_in_it_along(tmp_path: Path) -> None:
    async with cluster(tmp_path, Namespaces) as client:
        await create(client, namespace("team"))
        await create(client, configmap("one"))
        await create(client, pod("one", "team"))
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await create(client, {**lease, "metadata": {"name": "one", "namespace": "team"}})
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "one", "namespace": "team"}}
        await create(client, {**event, "involvedObject": {"namespace": "team"}})
        await end(client)
        await gone(client, "Namespace", "team")
        for kind in ("ConfigMap", "Pod", "Event"):
            await gone(client, kind, "one", namespace="team")
        await create(client, namespace("team"))


async def test_an_empty_namespace_ends_too(tmp_path: Path) -> None:
    async with cluster(tmp_path, Namespaces) as client:
        await create(client, namespace("team"))
        await end(client)
        await gone(client, "Namespace", "team")


async def test_pods_have_their_time_and_the_rest_waits_for_them(tmp_path: Path) -> None:
    async with cluster(tmp_path, Namespaces) as client:
        await create(client, namespace("team"))
        await create(client, configmap("one"))
        await create(client, pod("runs", "team", nodeName="node-1", terminationGracePeriodSeconds=20))
        await end(client)
        ending = await becomes(
            client, "Namespace", "team", lambda data: condition(data, "NamespaceContentRemaining").get("status")
        )
        assert ending["status"]["phase"] == "Terminating"
        left = condition(ending, "NamespaceContentRemaining")
        assert (left["status"], left["reason"]) == ("True", "SomeResourcesRemain")
        assert left["message"] == "Some resources are remaining: pods. has 1 resource instances"
        running = await read(client, "Pod", "runs", "team")
        assert running["metadata"]["deletionGracePeriodSeconds"] == 20
        assert await read(client, "ConfigMap", "one", "team")
        await client.delete(kinds.row("v1", "Pod"), "team", "runs", grace=0)
        await gone(client, "Namespace", "team")


async def test_a_finalizer_inside_is_waited_for_and_named(tmp_path: Path) -> None:
    async with cluster(tmp_path, Namespaces) as client:
        await create(client, namespace("team"))
        await create(client, configmap("held", finalizers=["example.com/hold"]))
        await end(client)
        ending = await becomes(
            client, "Namespace", "team", lambda data: condition(data, "NamespaceFinalizersRemaining").get("status")
        )
        message = condition(ending, "NamespaceFinalizersRemaining")["message"]
        assert (
            message
            == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
        with pytest.raises(Forbidden, match="because it is being terminated"):
            await create(client, configmap("late"))
        await client.patch(kinds.row("v1", "ConfigMap"), "team", "held", {"metadata": {"finalizers": None}})
        await gone(client, "Namespace", "team")


async def test_without_the_controller_a_namespace_stays_terminating(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        await create(client, namespace("team"))
        await end(client)
        data = await read(client, "Namespace", "team")
        assert data["status"]["phase"] == "Terminating"
        assert data["spec"]["finalizers"] == ["kubernetes"]
        await client.update(NAMESPACE, {**data, "spec": {"finalizers": []}}, subresource="finalize")
        await gone(client, "Namespace", "team")


async def test_every_namespace_has_a_default_account_and_the_certificate(tmp_path: Path) -> None:
    async with cluster(tmp_path, ServiceAccounts, root_ca("-----BEGIN…")) as client:
        await create(client, namespace("team"))
        for name in ("team", "default", "kube-system"):
            await becomes(client, "ServiceAccount", "default", bool, namespace=name)
            published = await becomes(client, "ConfigMap", "kube-root-ca.crt", bool, namespace=name)
            assert published["data"] == {"ca.crt": "-----BEGIN…"}


async def test_a_namespace_gets_back_what_it_was_given(tmp_path: Path) -> None:
    async with cluster(tmp_path, ServiceAccounts, root_ca("right")) as client:
        first = await becomes(client, "ServiceAccount", "default", bool)
        await client.delete(kinds.row("v1", "ServiceAccount"), "default", "default")
        uid = first["metadata"]["uid"]
        await becomes(client, "ServiceAccount", "default", lambda data: data["metadata"]["uid"] != uid)
        await becomes(client, "ConfigMap", "kube-root-ca.crt", bool)
        maps = kinds.row("v1", "ConfigMap")
        await client.patch(maps, "default", "kube-root-ca.crt", {"data": {"ca.crt": "wrong"}})
        await becomes(client, "ConfigMap", "kube-root-ca.crt", lambda data: data["data"] == {"ca.crt": "right"})


async def test_a_namespace_that_ends_is_given_nothing_any_more(tmp_path: Path) -> None:
    async with cluster(tmp_path, Namespaces, ServiceAccounts, root_ca("x")) as client:
        await create(client, namespace("team"))
        await becomes(client, "ServiceAccount", "default", bool, namespace="team")
        await end(client)
        await gone(client, "Namespace", "team")
