"""A pod from a stencil is, byte for byte, the pod that the long way makes, but for name, identity and time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.apiserver.http.messages import Headers, Request, Response, Target
from moorage.apiserver.local import LocalTransport
from moorage.apiserver.verbs.admission import Surroundings
from moorage.apiserver.verbs.stencils import Outline, Stencils
from moorage.store.protocol import Item
from tests.plane import api_server

PODS = "/api/v1/namespaces/default/pods"
Data = dict[str, Any]
CONTAINER = {"name": "main", "image": "myapp:v1", "resources": {"requests": {"cpu": "100m"}}}


def data_of(response: Response) -> Data:
    assert isinstance(response.body, bytes)
    data: Data = msgspec.json.decode(response.body)
    return data


class Server:
    """A server that tells how many of the pods it made came from a stencil."""

    def __init__(self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        self._transport = transport
        self.stamped = 0
        found = Stencils.get

        def get(stencils: Stencils, *args: Any) -> Any:
            stencil = found(stencils, *args)
            self.stamped += stencil is not None
            return stencil

        monkeypatch.setattr(Stencils, "get", get)

    async def ask(self, body: Any, target: str = PODS, method: str = "POST", agent: str = "tests") -> Response:
        to = Target(target.encode())
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        fields = Headers([("content-type", "application/json"), ("user-agent", agent)])
        return await self._transport.respond(Request(method, to.path, to.segments, to.query, fields, data))

    async def create(self, body: Any, target: str = PODS, agent: str = "tests") -> str:
        """Make a pod; returns it as text in which only the parts that belong to it alone are missing."""
        response = await self.ask(body, target, agent=agent)
        assert response.status == 201, response.body
        assert isinstance(response.body, bytes)
        metadata = data_of(response)["metadata"]
        text = response.body.decode()
        for own in (metadata["name"], metadata["uid"]):
            text = text.replace(f'"{own}"', '"own"')
        text = re.sub(r'"resourceVersion":"\d+"', '"resourceVersion":"own"', text)
        return text.replace(metadata["creationTimestamp"], "now") + str(sorted(response.headers))


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    async with api_server(tmp_path) as running:
        yield Server(running.transport("tests"), monkeypatch)


def pod(name: str, metadata: Data | None = None, **spec: Any) -> Data:
    return {"metadata": {"name": name, **(metadata or {})}, "spec": {"containers": [CONTAINER], **spec}}


TOLERATION = {"key": "tier", "operator": "Gt", "value": "10", "effect": "NoExecute", "tolerationSeconds": 5}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    "template",
    [
        pod("NAME"),
        pod("NAME", {"labels": {"app": "web"}, "annotations": {"share": "50%, %(name)b"}, "ownerReferences": [OWNER]}),
        pod("NAME", {"creationTimestamp": None, "finalizers": ["example.com/hold"]}),
        pod("NAME", tolerations=[TOLERATION], nodeSelector={"disk": "ssd"}),
        pod("NAME", schedulingGates=[{"name": "example.com/later"}]),
        pod("NAME", nodeName="node-1", priorityClassName="system-node-critical"),
        pod("NAME", unknownField=1, containers=[CONTAINER, CONTAINER | {"name": "second", "command": None}]),
        {"spec": {"containers": [CONTAINER]}, "metadata": {"labels": {"name": "other"}, "name": "NAME"}},
        {"metadata": {"generateName": "web-"}, "spec": {"containers": [CONTAINER]}},
    ],
    ids=["plain", "owned", "finalizer", "toleration", "gated", "bound", "warned", "late name", "generated"],
)  # fmt: skip
async def test_pods_of_one_template_are_equal(server: Server, template: Data) -> None:
    body = msgspec.json.encode(template)
    made = [await server.create(body.replace(b"NAME", b"pod-%d" % number)) for number in range(4)]
    assert set(made) == {made[0]}
    assert server.stamped == 2, "the third and the fourth"


async def test_spaces_in_the_body_do_not_matter(server: Server) -> None:
    body = b'{ "metadata" : { "name":\n "NAME" }, "spec": {"containers": [{"name": "a", "image": "b"}]} }'
    made = {await server.create(body.replace(b"NAME", b"pod-%d" % number)) for number in range(3)}
    assert (len(made), server.stamped) == (1, 1)


async def test_the_name_in_other_places_stays_there(server: Server) -> None:
    """A pod may be called as its container, its label or a key are; and those keep their names."""
    for name in ("first", "second", "third", "main", "app", "web", "metadata", "name"):
        response = await server.ask(pod(name, {"labels": {"app": "web"}}))
        made = data_of(response)
        assert response.status == 201
        assert made["metadata"]["name"] == name
        assert made["metadata"]["labels"] == {"app": "web"}
        assert made["spec"]["containers"][0]["name"] == "main"
    assert server.stamped > 2


async def test_each_pod_has_its_own_labels(server: Server) -> None:
    for name in ("a-0", "a-1", "a-2", "a-3"):
        response = await server.ask(pod(name, {"labels": {"pod": name, "app": "web"}}))
        made = data_of(response)["metadata"]
        assert (made["name"], made["labels"]) == (name, {"pod": name, "app": "web"})
    assert server.stamped == 2
    for labels, code in (({"pod": "no label", "app": ""}, 422), ({"pod": 1, "app": "web"}, 400), ({"pod": "x"}, 201)):
        assert (await server.ask(pod(f"b-{code}", {"labels": labels}))).status == code


async def test_labels_that_become_part_of_a_selector_are_no_gaps(server: Server) -> None:
    spread = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["pod"],
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    for name in ("a-0", "a-1", "a-2"):
        await server.create(pod(name, {"labels": {"pod": name, "app": "web"}}, topologySpreadConstraints=[spread]))
    assert not server.stamped


async def test_keys_given_twice_are_told_each_time(server: Server) -> None:
    body = b'{"metadata":{"name":"%b","labels":{"a":"1","a":"2"}},"spec":{"containers":[{"name":"c","image":"i"}]}}'
    for name in (b"a", b"b", b"c"):
        assert "duplicate field" in await server.create(body % name)
    body = b'{"spec":{},"metadata":{"name":"%b"},"spec":{"containers":[{"name":"c","image":"i"}]}}'
    for name in (b"d", b"e", b"f"):
        assert "duplicate field" in await server.create(body % name)
    assert server.stamped == 1


async def test_who_asks_and_how_is_part_of_the_template(server: Server) -> None:
    for number in range(3):
        await server.create(pod(f"pod-{number}"))
    for target, agent in ((PODS, "kubectl/v1.36"), (f"{PODS}?fieldManager=someone", "tests")):
        made = await server.create(pod(f"by-{len(agent)}"), target, agent)
        assert '"manager":"tests"' not in made
    strict = await server.ask(pod("strict", unknownField=1), f"{PODS}?fieldValidation=Strict")
    assert strict.status == 400


async def test_names_are_checked_each_time(server: Server) -> None:
    for number in range(3):
        await server.create(pod(f"pod-{number}"))
    for name, code in (("pod-1", 409), ("Upper", 422), ("a" * 64, 201), ("a" * 254, 422), ("a.b", 201), ("", 422)):
        assert (await server.ask(pod(name))).status == code, name


async def test_a_dry_run_stores_nothing(server: Server) -> None:
    for number in range(3):
        await server.create(pod(f"pod-{number}"))
    assert (await server.ask(pod("dry"), f"{PODS}?dryRun=All")).status == 201
    assert (await server.ask(b"", f"{PODS}/dry", "GET")).status == 404


async def test_a_new_default_priority_counts_at_once(server: Server) -> None:
    for number in range(3):
        await server.create(pod(f"pod-{number}"))
    chosen = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    assert (await server.ask(chosen, "/apis/scheduling.k8s.io/v1/priorityclasses")).status == 201
    for number in range(3, 6):
        response = await server.ask(pod(f"pod-{number}"))
        assert data_of(response)["spec"]["priority"] == 7
    await server.ask(b"", "/apis/scheduling.k8s.io/v1/priorityclasses/usual", "DELETE")
    response = await server.ask(pod("last"))
    assert data_of(response)["spec"]["priority"] == 0


async def test_nothing_is_made_in_a_namespace_that_ends(server: Server) -> None:
    there = "/api/v1/namespaces/short/pods"
    assert (await server.ask({"metadata": {"name": "short"}}, "/api/v1/namespaces")).status == 201
    for number in range(3):
        await server.create(pod(f"pod-{number}"), there)
    await server.ask(b"", "/api/v1/namespaces/short", "DELETE")
    refused = await server.ask(pod("late"), there)
    assert refused.status == 403
    assert "because it is being terminated" in data_of(refused)["message"]


async def test_long_claim_names_are_still_refused(server: Server) -> None:
    """An ephemeral volume's claim is named after its pod."""
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"name": "v" * 60, "ephemeral": {"volumeClaimTemplate": claim}}
    for name in ("a", "b", "c"):
        assert (await server.ask(pod(name, volumes=[volume]))).status == 201
    assert not server.stamped


async def test_few_templates_are_kept() -> None:
    """Whoever sends ever new bodies fills no memory."""
    stencils = Stencils()
    item = Item("/pod", b'{"metadata":{"creationTimestamp":"now","managedFields":[{"fieldsV1":{}}]}}', 1)
    for number in range(3000):
        for _ in range(2):
            stencils.learn(Outline(b'{"spec":%d,"metadata":' % number, b"", b"}", None), item, (), Surroundings(()))
    assert len(stencils) == 256 + 1024
