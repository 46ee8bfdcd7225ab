"""The changes of a simulation: each as kubectl has it, made through the API of the private cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

import msgspec

from moorage.api import kinds, labels, manifests
from moorage.api.kinds import Kind
from moorage.api.labels import SelectorError
from moorage.api.meta import Data, Object
from moorage.client import ApiError, Missing
from moorage.features import Gates
from moorage.scheduler.config import Configuration
from moorage.tools.simulation.diary import Diary
from moorage.tools.simulation.drain import drain
from moorage.tools.simulation.newnodes import NODE, add_like, become_ready
from moorage.tools.simulation.privatecluster import PrivateCluster

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SELECTING = frozenset("=!,()")
_head = msgspec.json.Decoder(Object).decode
_SCALED = frozenset(("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"))


class CannotChange(Exception):
    """A change that cannot be made: one sentence."""


@dataclass(slots=True)
class World:
    """What changes are made to."""

    cluster: PrivateCluster
    diary: Diary
    configuration: Configuration
    until: float
    """When the simulation ends at the latest."""

    async def nodes(self, which: str) -> list[str]:
        """The names of the nodes that a name or a label selector means. Raises CannotChange when there is none."""
        listing = await self.cluster.client.list(NODE)
        known = {head.metadata.name: head for head in map(_head, listing.items)}
        if not _SELECTING & set(which):
            if which in known:
                return [which]
            raise CannotChange(f"there is no node {which}{did_you_mean(which, known)}")
        try:
            selector = labels.parse(which)
        except SelectorError as error:
            raise CannotChange(f"{which!r} is no label selector: {error}") from None
        found = sorted(name for name, node in known.items() if selector.matches(node.metadata.labels))
        if not found:
            raise CannotChange(f"no node has the labels {which}")
        return found


class ClusterChange(Protocol):
    """Something that somebody would do to the cluster."""

    @property
    def command(self) -> str:
        """How it is typed."""

    async def make(self, world: World) -> None:
        """Make it. Raises CannotChange."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that does not exist: the names that are near it."""
    near = get_close_matches(name, list(known), 3, 0.6)
    return f": did you mean {' or '.join(near)}?" if near else ""


def kind_named(word: str) -> Kind:
    """The kind that a word of the command line means. Raises CannotChange."""
    low = word.lower()
    for kind in kinds.KINDS:
        if low in (kind.singular, kind.plural, kind.resource, *kind.short_names):
            return kind
    words = [each for kind in kinds.KINDS for each in (kind.singular, *kind.short_names)]
    raise CannotChange(f"{word!r} is no kind of object{did_you_mean(low, words)}")


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object as the command line names it: KIND/NAME, or KIND/NAMESPACE/NAME."""

    kind: Kind
    namespace: str
    name: str

    @staticmethod
    def parse(text: str, namespace: str) -> NamedObject:
        """Raises CannotChange."""
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise CannotChange(f"{text!r} names no object: write KIND/NAME, such as deploy/web")
        kind = kind_named(parts[0])
        space = (parts[1] if len(parts) == 3 else namespace) if kind.namespaced else ""
        return NamedObject(kind, space, parts[-1])

    @property
    def said(self) -> str:
        """As kubectl has it."""
        where = f" -n {self.namespace}" if self.namespace not in ("", "default") else ""
        return f"{self.kind.singular} {self.name}{where}"

    async def read(self, world: World) -> Data:
        """The object. Raises CannotChange when there is none."""
        client = world.cluster.client
        try:
            data: Data = msgspec.json.decode(await client.get(self.kind, self.namespace, self.name))
        except Missing:
            listing = await client.list(self.kind)
            others = [msgspec.json.decode(item)["metadata"] for item in listing.items]
            names = {
                other["name"]
                if other.get("namespace", "") == self.namespace
                else f"{other['namespace']}/{other['name']}"
                for other in others
            }
            raise CannotChange(f"there is no {self.said}{did_you_mean(self.name, names)}") from None
        return data


async def refused_said(work: Any, what: str) -> Any:
    """The outcome of a request. Raises CannotChange with what the API server says to it."""
    try:
        return await work
    except ApiError as error:
        raise CannotChange(f"{what}: {error}") from None


@dataclass(frozen=True, slots=True)
class ApplyManifest:
    """Create or change the objects of a manifest."""

    path: str

    @property
    def command(self) -> str:
        """How it is typed."""
        return f"kubectl apply -f {self.path}"

    async def make(self, world: World) -> None:
        """Make it."""
        try:
            documents = list(manifests.read([self.path]))
        except manifests.ManifestError as error:
            raise CannotChange(str(error)) from None
        if not documents:
            raise CannotChange(f"there is no object in {self.path}")
        for document in documents:
            await self._apply(world, document)

    async def _apply(self, world: World, document: manifests.Document) -> None:
        sent, client = document.data, world.cluster.client
        kind = kinds.find(str(sent.get("apiVersion")), str(sent.get("kind")))
        if kind is None:
            raise CannotChange(f"{document.file}:{document.line}: {sent.get('kind')} is no kind that Moorage knows")
        metadata = sent.get("metadata") or {}
        namespace, name = metadata.get("namespace") or "default" if kind.namespaced else "", metadata.get("name", "")
        what = f"{document.file}:{document.line}: {kind.singular} {name}"
        try:
            known: Data = msgspec.json.decode(await client.get(kind, namespace, name)) if name else {}
        except Missing:
            known = {}
        if known:
            await refused_said(client.update(kind, _merged(known, sent)), what)
            return
        await refused_said(client.create(kind, sent, namespace), what)
        if kind is NODE:
            await become_ready(client, world.cluster.clock, name, (sent.get("spec") or {}).get("taints"))


def _merged(known: Data, sent: Data) -> Data:
    """An object with what a manifest says of it: each field of the specification as a whole, labels one by one."""
    metadata, given = known["metadata"], sent.get("metadata") or {}
    for part in ("labels", "annotations"):
        if given.get(part):
            metadata[part] = {**metadata.get(part, {}), **given[part]}
    others = {name: value for name, value in sent.items() if name not in ("metadata", "status", "spec")}
    spec = {"spec": {**known.get("spec", {}), **sent["spec"]}} if isinstance(sent.get("spec"), dict) else {}
    return {**known, **others, **spec, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object, and in the background what it owns."""

    what: NamedObject

    @property
    def command(self) -> str:
        """How it is typed."""
        return f"kubectl delete {self.what.said}"

    async def make(self, world: World) -> None:
        """Make it."""
        data = await self.what.read(world)
        if self.what.kind.kind == "Pod":
            world.diary.told.pop(data["metadata"]["uid"], None)
        client, what = world.cluster.client, self.what
        await refused_said(client.delete(what.kind, what.namespace, what.name, propagation="Background"), self.command)


@dataclass(frozen=True, slots=True)
class ScaleWorkload:
    """Set the number of replicas of a workload."""

    what: NamedObject
    replicas: int

    @property
    def command(self) -> str:
        """How it is typed."""
        return f"kubectl scale {self.what.said} --replicas={self.replicas}"

    async def make(self, world: World) -> None:
        """Make it."""
        if self.what.kind.kind not in _SCALED:
            raise CannotChange(f"a {self.what.kind.kind} has no replicas to scale")
        await self.what.read(world)
        patch = {"spec": {"replicas": self.replicas}}
        client, what = world.cluster.client, self.what
        await refused_said(client.patch(what.kind, what.namespace, what.name, patch), self.command)


async def _patch_nodes(world: World, which: str, patch: Callable[[Data], Data], command: str) -> list[str]:
    names = await world.nodes(which)
    for name in names:
        node = msgspec.json.decode(await world.cluster.client.get(NODE, "", name))
        await refused_said(world.cluster.client.patch(NODE, "", name, patch(node)), command)
    return names


@dataclass(frozen=True, slots=True)
class TaintNodes:
    """Add taints to nodes, or take some away."""

    which: str
    added: tuple[tuple[str, str, str], ...] = ()
    """Key, value and effect of each."""
    removed: tuple[tuple[str, str], ...] = ()
    """Key and effect of each; an empty effect is any."""

    @staticmethod
    def parse(which: str, text: str, *, remove: bool = False) -> TaintNodes:
        """Read `key=value:Effect`, or `key:Effect-` and `key-` for one to be removed. Raises CannotChange."""
        if remove or text.endswith("-"):
            key, _, effect = text.removesuffix("-").partition(":")
            key = key.partition("=")[0]
            _check_taint(text, key, effect or _EFFECTS[0])
            return TaintNodes(which, removed=((key, effect),))
        pair, _, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        _check_taint(text, key, effect)
        return TaintNodes(which, added=((key, value, effect),))

    @property
    def command(self) -> str:
        """How it is typed."""
        words = [f"{key}={value}:{effect}" if value else f"{key}:{effect}" for key, value, effect in self.added]
        words += [f"{key}{f':{effect}' if effect else ''}-" for key, effect in self.removed]
        return f"kubectl taint nodes {_selected(self.which)} {' '.join(words)}{' --overwrite' if self.added else ''}"

    async def make(self, world: World) -> None:
        """Make it."""
        gone = {(key, effect) for key, _, effect in self.added}

        def patch(node: Data) -> Data:
            old = node["spec"].get("taints") or []
            kept = [each for each in old if (each["key"], each["effect"]) not in gone]
            for key, effect in self.removed:
                kept = [each for each in kept if each["key"] != key or (effect and each["effect"] != effect)]
            added = [{"key": key, "value": value, "effect": effect} for key, value, effect in self.added]
            return {"spec": {"taints": [*kept, *added] or None}}

        await _patch_nodes(world, self.which, patch, self.command)


def _check_taint(text: str, key: str, effect: str) -> None:
    if not key or effect not in _EFFECTS:
        raise CannotChange(f"{text!r} is no taint: write key=value:Effect, where Effect is {', '.join(_EFFECTS)}")


def _selected(which: str) -> str:
    return f"-l {which}" if _SELECTING & set(which) else which


@dataclass(frozen=True, slots=True)
class LabelNodes:
    """Set a label of nodes, or remove it."""

    which: str
    key: str
    value: str | None

    @staticmethod
    def parse(which: str, text: str) -> LabelNodes:
        """Read `key=value`, or `key-` for one to be removed. Raises CannotChange."""
        key, equals, value = text.partition("=")
        if equals and key:
            return LabelNodes(which, key, value)
        if text.endswith("-") and len(text) > 1:
            return LabelNodes(which, text[:-1], None)
        raise CannotChange(f"{text!r} is no label: write key=value, or key- to remove it")

    @property
    def command(self) -> str:
        """How it is typed."""
        word = f"{self.key}-" if self.value is None else f"{self.key}={self.value} --overwrite"
        return f"kubectl label nodes {_selected(self.which)} {word}"

    async def make(self, world: World) -> None:
        """Make it."""
        await _patch_nodes(world, self.which, lambda _: {"metadata": {"labels": {self.key: self.value}}}, self.command)


@dataclass(frozen=True, slots=True)
class CordonNodes:
    """Mark nodes as unschedulable, or as schedulable again."""

    which: str
    on: bool = True

    @property
    def command(self) -> str:
        """How it is typed."""
        return f"kubectl {'cordon' if self.on else 'uncordon'} {_selected(self.which)}"

    async def make(self, world: World) -> None:
        """Make it."""
        await _patch_nodes(world, self.which, lambda _: {"spec": {"unschedulable": self.on or None}}, self.command)


@dataclass(frozen=True, slots=True)
class DrainNodes:
    """Evict all pods of nodes, as far as disruption budgets allow."""

    which: str

    @property
    def command(self) -> str:
        """How it is typed."""
        return f"kubectl drain {_selected(self.which)} --ignore-daemonsets --delete-emptydir-data --force"

    async def make(self, world: World) -> None:
        """Make it."""
        names = await _patch_nodes(world, self.which, lambda _: {"spec": {"unschedulable": True}}, self.command)
        await drain(world.cluster, world.diary, names, world.until)


@dataclass(frozen=True, slots=True)
class AddNodes:
    """Add nodes that are like another one, without its pods."""

    count: int
    like: str

    @property
    def command(self) -> str:
        """How it is said."""
        return f"add {self.count} node{'' if self.count == 1 else 's'} like {self.like}"

    async def make(self, world: World) -> None:
        """Make it."""
        await world.nodes(self.like)
        if self.count < 1:
            raise CannotChange(f"--add-nodes {self.count}: give a number above 0")
        client = world.cluster.client
        model: Data = msgspec.json.decode(await client.get(NODE, "", self.like))
        taken = {_head(item).metadata.name for item in (await client.list(NODE)).items}
        free = (
            name for number in range(1, len(taken) + self.count + 1) if (name := f"{self.like}-{number}") not in taken
        )
        for _, name in zip(range(self.count), free, strict=False):
            await add_like(client, world.cluster.clock, model, name)


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """Remove nodes: their kubelets are gone with them."""

    which: str

    @property
    def command(self) -> str:
        """How it is typed."""
        return f"kubectl delete nodes {_selected(self.which)}"

    async def make(self, world: World) -> None:
        """Make it."""
        for name in await world.nodes(self.which):
            await refused_said(world.cluster.client.delete(NODE, "", name), self.command)


@dataclass(frozen=True, slots=True)
class SetGates:
    """Restart all components with other feature gates."""

    gates: Gates

    @property
    def command(self) -> str:
        """How it is typed."""
        return f"restart with --feature-gates {self.gates}"

    async def make(self, world: World) -> None:
        """Make it."""
        await world.cluster.start(self.gates, world.configuration)


@dataclass(frozen=True, slots=True)
class SetConfiguration:
    """Restart the scheduler with another configuration."""

    configuration: Configuration = field(repr=False)
    path: str

    @property
    def command(self) -> str:
        """How it is typed."""
        return f"restart the scheduler with --config {self.path}"

    async def make(self, world: World) -> None:
        """Make it."""
        world.configuration = self.configuration
        await world.cluster.start(world.cluster.gates, self.configuration)
