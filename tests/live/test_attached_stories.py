"""All stories in attach form beside a stock cluster, while scheduler, evictor and webhook are killed at random."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.api import kinds, manifests
from moorage.api.decode import convert
from moorage.api.kinds import Kind
from moorage.api.meaning import meant
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.rules import TOLERATIONS, rules_of
from moorage.apiserver.run import APIServer
from moorage.client import Client, Missing
from moorage.client.clock import FastClock
from moorage.client.errors import Invalid
from moorage.client.transport import Answer
from moorage.demo.player import OwnHands, Player, Saw
from moorage.demo.stories import STORIES
from moorage.features import ALL_ON
from moorage.match.tolerations import Tolerations
from moorage.tools.attach.manifests import NAME, Installation
from moorage.tools.attach.run import AttachSettings, attached_evictors, attached_scheduler
from moorage.tools.attach.webhook.rewriting import WebhookSettings
from moorage.tools.attach.webhook.server import SERVICE, serve_webhook
from moorage.tools.convert import all_to_annotations
from tests.live.admission import Admitting, Registering, Webhooks
from tests.live.conftest import ROOT
from tests.live.installed import NAMESPACE, as_account, install
from tests.live.stock import StockTaintEviction, stock_cluster
from tests.plane import create, eventually, node, pod, read, read_all
from tests.seeds import seed

Data = dict[str, Any]
POD, NODE = kinds.row("v1", "Pod"), kinds.row("v1", "Node")
EVICTOR = "evictor"
ROLES = ("scheduler", EVICTOR, "webhook")


class Witness:
    """Sees who binds pods and who deletes them, and whether the rules of a pod say so at that moment."""

    def __init__(self) -> None:
        self.bindings: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.evicted: set[str] = set()
        """The uids of pods that were evicted, by attach mode or by the cluster's own evictor."""
        self._server: APIServer | None = None

    def watch(self, server: APIServer) -> None:
        self._server = server

    async def bound(self, answer: Answer, body: bytes) -> None:
        if answer.status < 300:
            self.bindings[msgspec.json.decode(body)["metadata"]["uid"]] += 1

    async def deletes(self, who: str, target: str) -> None:
        """Somebody who evicts is about to delete a pod."""
        assert self._server is not None
        client, (namespace, name) = self._server.client("witness"), target.split("/")[4:7:2]
        try:
            found = convert(await read(client, "Pod", name, namespace), Pod)
            place = convert(await read(client, "Node", found.spec.node_name), Node)
        except Missing:
            return
        ruled = rules_of(found.metadata.annotations) is not None or bool(found.spec.resource_claims)
        self.evicted.add(found.metadata.uid)
        if who == EVICTOR and not ruled:
            self.wrong.append(f"{name} has no rules, and was evicted")
        if ruled and not found.spec.resource_claims and grace(found, place) is None:
            self.wrong.append(f"{name} may stay on {place.metadata.name}, and was evicted by {who}")


def grace(item: Pod, place: Node) -> int | None:
    """How many seconds what a pod means leaves it on a node; None is for good."""
    tolerations = meant(item.spec, item.metadata.annotations).tolerations
    return Tolerations(tolerations, ALL_ON).grace_seconds(place.spec.taints)


class Seen:
    """A way to an API server under the eyes of a witness."""

    def __init__(self, client: Client, who: str, witness: Witness) -> None:
        self._inner, self._who, self._witness = client.transport, who, witness

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if method == "DELETE" and "/pods/" in target:
            await self._witness.deletes(self._who, target)
        answer = await self._inner.request(method, target, body, content_type)
        if target.endswith("/binding"):
            await self._witness.bound(answer, body)
        return answer

    def stream(self, target: str) -> Any:
        return self._inner.stream(target)

    async def close(self) -> None:
        await self._inner.close()


class Crew:
    """The parts of attach mode, tasks here, each cancelled wherever it is and started again; test_attach_killed has
    real processes.
    """

    def __init__(self, server: APIServer, clock: FastClock, webhooks: Webhooks, witness: Witness) -> None:
        self._server, self._clock, self._webhooks, self._witness = server, clock, webhooks, witness
        self._running: dict[str, asyncio.Task[None]] = {}
        self.kills: Counter[str] = Counter()

    def start(self, role: str) -> None:
        self._running[role] = asyncio.create_task(self._run(role), name=role)

    async def kill(self, role: str) -> None:
        self.kills[role] += 1
        task = self._running.pop(role)
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def kill_at_random(self, chance: random.Random) -> None:
        while True:
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            role = chance.choice(ROLES)
            await self.kill(role)
            await asyncio.sleep(chance.uniform(0, 0.1))
            self.start(role)

    async def stop(self) -> None:
        for role in list(self._running):
            await self.kill(role)

    async def _run(self, role: str) -> None:
        account = await as_account(self._server, SERVICE if role == "webhook" else NAME)
        try:
            if role == "webhook":
                client = Client(Registering(account.transport, self._webhooks))
                await serve_webhook(client, WebhookSettings(), NAMESPACE, "127.0.0.1", 0, self._found, self._clock)
            client = Client(Seen(account, role, self._witness))
            make: Callable[..., Any] = attached_evictors if role == EVICTOR else attached_scheduler
            await make(client, AttachSettings(), self._clock).run()
        finally:
            await account.close()

    def _found(self, port: int) -> None:
        self._webhooks.port = port


class AnnotatingHands(OwnHands):
    """Writes the rules of pods as annotations, as everybody beside a stock cluster does."""

    def __init__(self, client: Client, clock: FastClock, witness: Witness) -> None:
        super().__init__(client, clock)
        self.client, self._witness = client, witness

    async def read(self, kind: Kind) -> list[Data]:
        """All objects of a kind, and evictions without an event: who evicts may be killed before it says so."""
        found = await super().read(kind)
        if kind.kind == "Event":
            seen = ({"uid": uid} for uid in self._witness.evicted)
            found += ({"reason": "TaintManagerEviction", "involvedObject": each} for each in seen)
        return found

    async def create(self, pod: Data) -> str:
        (annotated,) = all_to_annotations([{"apiVersion": "v1", "kind": "Pod", **pod}], "moorage")
        return await super().create(annotated)


def converted(into: Path) -> Path:
    """The manifests of all stories in the form that a stock API server takes."""
    for story in STORIES:
        documents = [document.data for document in manifests.read([str(ROOT / "examples" / story.folder)])]
        (into / story.folder).mkdir(parents=True)
        objects = all_to_annotations(documents, "moorage")
        (into / story.folder / "manifests.json").write_bytes(b"\n".join(map(msgspec.json.encode, objects)))
    return into


@asynccontextmanager
async def attached_cluster(
    directory: Path, clock: FastClock
) -> AsyncIterator[tuple[APIServer, Crew, Webhooks, Witness]]:
    """A stock cluster that calls the webhook, and attach mode beside it as `deploy/` installs it."""
    webhooks, witness = Webhooks(Installation()), Witness()

    def client_of(server: APIServer, name: str) -> Client:
        plain = server.client(name)
        admitted = Client(Admitting(plain, name, webhooks)) if name == "kube-controller-manager" else plain
        evicts = name in (StockTaintEviction.name, "kube-scheduler")
        return Client(Seen(plain, name, witness)) if evicts else admitted

    async with stock_cluster(directory, clock, clients=client_of) as server:
        witness.watch(server)
        await install(server)
        crew = Crew(server, clock, webhooks, witness)
        for role in ROLES:
            crew.start(role)
        try:
            yield server, crew, webhooks, witness
        finally:
            await crew.stop()


async def nobody_stays_who_may_not(client: Client) -> None:
    """Every pod with rules leaves a node that they refuse."""

    async def settled() -> bool:
        nodes = {each["metadata"]["name"]: convert(each, Node) for each in await read_all(client, "Node")}
        pods = [convert(each, Pod) for each in await read_all(client, "Pod")]
        return not any(
            grace(each, nodes[each.spec.node_name]) == 0
            for each in pods
            if each.spec.node_name in nodes and rules_of(each.metadata.annotations)
        )

    await eventually(settled)


@pytest.mark.seeded
async def test_every_story_comes_true_whoever_is_killed(tmp_path: Path) -> None:
    clock, chance = FastClock(), random.Random(seed(16))
    folder = converted(tmp_path / "examples")
    async with attached_cluster(tmp_path / "data", clock) as (server, crew, webhooks, witness):
        plain = server.client("person")
        bystander = await bystanding(plain)
        hands = AnnotatingHands(Client(Admitting(plain, "person", webhooks)), clock, witness)
        player, wrong = Player(hands, clock, folder), []
        killing = asyncio.create_task(crew.kill_at_random(chance))
        for story in STORIES:
            wrong += [
                f"{story.folder}: expected that {saw.expected}, but it is {saw.seen}"
                async for saw in player.play(story)
                if isinstance(saw, Saw) and not saw.well
            ]
            await nobody_stays_who_may_not(plain)
            await hands.clear(folder / story.folder)
        await later_changes(plain, hands)
        assert not killing.done(), killing.exception()
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        assert wrong == []
        assert witness.wrong == []
        assert max(witness.bindings.values()) == 1, "nothing is bound twice"
        assert await bystanding(plain) == bystander, "pods without rules are untouched"
        assert min(crew.kills[role] for role in ROLES) > 2, crew.kills
        assert webhooks.calls > len(STORIES)


async def bystanding(client: Client) -> Data:
    """A pod without rules on a node of its own: what it is, and what it tolerates."""
    own = {"key": "example.com/bystander", "operator": "Exists"}
    try:
        found = await read(client, "Pod", "bystander")
    except Missing:
        taints = [{"key": "example.com/bystander", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        await create(client, node("bystander", {"example.com/bystander": "yes"}, taints))
        await create(client, pod("bystander", tolerations=[own], nodeSelector={"example.com/bystander": "yes"}))
        found = await running(client, "bystander")
    metadata = found["metadata"]
    return {"uid": metadata["uid"], "annotations": metadata.get("annotations"), "spec": found["spec"]}


async def running(client: Client, name: str) -> Data:
    async def runs() -> Data | None:
        made = await read(client, "Pod", name)
        return made if made["status"].get("phase") == "Running" else None

    found: Data = await eventually(runs)
    return found


FAMILY = "[{key: 'example.com/*', operator: Exists}, {key: sla, operator: Gt, value: '950'}]"
FOR_A_TIME = "[{operator: Exists, effect: NoExecute, tolerationSeconds: 1000}]"


async def later_changes(client: Client, hands: AnnotatingHands) -> None:
    """A family that is tolerated gets another taint, a value changes and still matches; then rules are deleted."""
    await create(client, node("later"))

    async def ruled(name: str, rules: str) -> Data:
        made = pod(name, terminationGracePeriodSeconds=0, nodeSelector={"kubernetes.io/hostname": "later"})
        made["metadata"]["annotations"] = {TOLERATIONS: rules}
        await create(hands.client, made)
        return await running(client, name)

    first = await ruled("later", FAMILY)
    for taint in ("sla=990:NoExecute", "sla=960:NoExecute", "example.com/a:NoExecute", "example.com/b=c:NoExecute"):
        await hands.taint("later", taint)
        marker = f"marker-{zlib.crc32(taint.encode())}"
        await ruled(marker, FOR_A_TIME)

        async def judged(name: str = marker) -> bool:
            return "moorage.dev/evict-at" in (await read(client, "Pod", name))["metadata"]["annotations"]

        await eventually(judged)
        assert (await running(client, "later"))["metadata"]["uid"] == first["metadata"]["uid"]
    removal = {"metadata": {"annotations": {TOLERATIONS: None}}}
    with pytest.raises(Invalid, match="existing toleration can not be modified"):
        await hands.client.patch(POD, "default", "later", removal)
    # Whoever the webhook does not see can do it, and gains nothing by it.
    await client.patch(POD, "default", "later", removal)

    async def gone() -> bool:
        return "later" not in [each["metadata"]["name"] for each in await read_all(client, "Pod")]

    await eventually(gone)
