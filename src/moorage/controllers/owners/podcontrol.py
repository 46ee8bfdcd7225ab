"""Pods that belong to somebody: claimed by labels, made from a template, deleted by name, with a word about each."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from prometheus_client import CollectorRegistry, Counter

from moorage.api import kinds
from moorage.api.labels import LabelMatcher, selector_of
from moorage.api.meta import LabelSelector, Object, OwnerReference
from moorage.api.pod import Pod, PodCondition
from moorage.client import ApiError, Client, Conflict, Exists, Forbidden, Informer, Invalid, Missing
from moorage.client.client import STRATEGIC, Data
from moorage.client.clock import Clock
from moorage.client.events import NORMAL, WARNING, Recorder
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Controller

POD = kinds.row("v1", "Pod")
OWNER = "owner"
"""The index of pods by the uid of the owner that controls them."""
ORPHANS = "orphans"
"""The index of pods that nobody controls, by namespace."""
_NAMESPACE = "namespace"
_FIRST_DELAY, _LAST_DELAY = 0.1, 30.0
_LAG = 30.0
_REMEMBERED = timedelta(minutes=10)

T = TypeVar("T", bound=Object)


def controller_of(item: Object) -> OwnerReference | None:
    """The one owner that manages an object."""
    return next((each for each in item.metadata.owner_references if each.controller), None)


def index_by_owner(pods: Informer[Any]) -> None:
    """Keep objects by the uid of the owner that controls them, and those that have none by namespace."""
    pods.index(OWNER, lambda item: [owner.uid] if (owner := controller_of(item)) else [])
    pods.index(ORPHANS, lambda item: [] if controller_of(item) else [item.metadata.namespace])


def reference_to(owner: Object) -> Data:
    """How an object says that another controls it."""
    kind = kinds.of(owner)
    return {
        "apiVersion": kind.api_version, "kind": kind.kind, "name": owner.metadata.name, "uid": owner.metadata.uid,
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def is_active(pod: Pod) -> bool:
    """Whether a pod runs or will run: it has not ended, and is not about to."""
    return pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    """Whether a pod is being deleted and has not ended yet."""
    return pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is not None


def ready_condition(pod: Pod) -> PodCondition | None:
    """The condition that says that a pod is ready, when it is."""
    return next((each for each in pod.status.conditions if each.type == "Ready" and each.status == "True"), None)


def seconds_to_availability(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """How long a ready pod must stay so to count as available: 0 when it does, None when it is not ready."""
    ready = ready_condition(pod)
    if ready is None or min_ready_seconds <= 0:
        return None if ready is None else 0.0
    if ready.last_transition_time is None:
        return float(min_ready_seconds)
    return max(0.0, (ready.last_transition_time - now).total_seconds() + min_ready_seconds)


def follow(
    children: Informer[Any],
    owners: Informer[T],
    selector: Callable[[T], LabelSelector | None],
    wake: Callable[[Key], None],
) -> None:
    """Wake an owner when one of its children changes, or an orphan appears that it may adopt."""
    kind = owners.kind.kind
    owners.index(_NAMESPACE, lambda owner: [owner.metadata.namespace])

    def wake_named(namespace: str, reference: OwnerReference) -> None:
        owner = owners.get(namespace, reference.name) if reference.kind == kind else None
        if owner is not None and owner.metadata.uid == reference.uid:
            wake((namespace, reference.name))

    def changed(old: Object | None, new: Object | None) -> None:
        before = controller_of(old) if old is not None else None
        after = controller_of(new) if new is not None else None
        if old is not None and before is not None and (after is None or after.uid != before.uid):
            wake_named(old.metadata.namespace, before)
        if new is None:
            return
        namespace, labels = new.metadata.namespace, new.metadata.labels
        if after is not None:
            wake_named(namespace, after)
        elif labels and (old is None or before is not None or old.metadata.labels != labels):
            for owner in owners.by(_NAMESPACE, namespace):
                if selector_of(selector(owner)).matches(labels):
                    wake((namespace, owner.metadata.name))

    children.on_change(changed)


async def claim(
    client: Client, informer: Informer[T], owner: Object, selector: LabelMatcher, found: Iterable[T]
) -> list[T]:
    """The objects among those found that an owner has: orphans it selects are adopted, others it had are released.

    It returns when the informer has seen what was done.
    """
    mine: list[T] = []
    orphans: list[T] = []
    strangers: list[T] = []
    for item in found:
        reference, matches = controller_of(item), selector.matches(item.metadata.labels)
        if reference is None:
            if matches and item.metadata.deletion_timestamp is None:
                orphans.append(item)
        elif reference.uid == owner.metadata.uid:
            (mine if matches else strangers).append(item)
    if not (orphans or strangers) or owner.metadata.deletion_timestamp is not None:
        return mine
    if orphans and not await _is_alive(client, owner):
        orphans = []
    adoption, release = [reference_to(owner)], [{"$patch": "delete", "uid": owner.metadata.uid}]
    answers = await asyncio.gather(
        *(_own(client, informer, item, adoption) for item in orphans),
        *(_own(client, informer, item, release) for item in strangers),
        return_exceptions=True,
    )
    await informer.caught_up(_latest(each for each in answers if isinstance(each, str)), _LAG)
    for number, answer in enumerate(answers):
        # What is gone needs no owner, and a release that is invalid now was overtaken by somebody else's.
        if isinstance(answer, Missing) or (isinstance(answer, Invalid) and number >= len(orphans)):
            continue
        _raise_first((answer,))
    return mine + [item for item, answer in zip(orphans, answers, strict=False) if isinstance(answer, str)]


async def _own(client: Client, informer: Informer[T], item: T, references: Sequence[Data]) -> str:
    metadata = item.metadata
    patch = {"metadata": {"uid": metadata.uid, "ownerReferences": references}}
    return _revision(await client.patch(informer.kind, metadata.namespace, metadata.name, patch, form=STRATEGIC))


async def _is_alive(client: Client, owner: Object) -> bool:
    """Whether an owner is still there: one that was deleted a moment ago must not adopt."""
    try:
        body = await client.get(kinds.of(owner), owner.metadata.namespace, owner.metadata.name)
    except Missing:
        return False
    fresh = msgspec.json.decode(body, type=Object).metadata
    return fresh.uid == owner.metadata.uid and fresh.deletion_timestamp is None


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: ApiError
    generation: int
    failures: int
    until: datetime


_counters: WeakKeyDictionary[CollectorRegistry, Counter] = WeakKeyDictionary()


def _counter(registry: CollectorRegistry) -> Counter:
    if registry not in _counters:
        text = "Pods that the API server refused to create, by controller."
        _counters[registry] = Counter("moorage_controllers_failed_creates", text, ["controller"], registry=registry)
    return _counters[registry]


class Words(NamedTuple):
    """How events tell of pods."""

    created: str = "Created pod: {pod}"
    deleted: str = "Deleted pod: {pod}"
    not_created: str = "Error creating: {error}"
    not_deleted: str = "Error deleting: {error}"


_WORDS = Words()


class Children:
    """Creates and deletes the pods of owners. It returns when the informer has seen what was done.

    So whoever asks the informer next sees it too, and no pod is made twice. An owner whose pod the server refused
    has to wait before the server is asked again, longer each time, unless the owner is changed.
    """

    def __init__(
        self,
        client: Client,
        pods: Informer[Pod],
        recorder: Recorder,
        *,
        name: str = "",
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
        words: Words = _WORDS,
    ) -> None:
        self._client = client
        self._pods = pods
        self._recorder = recorder
        self._clock = clock or Clock()
        self._failures = _counter(registry).labels(name) if registry is not None else None
        self._words = words
        self._refusals: dict[str, _Refusal] = {}

    @classmethod
    def of(cls, controller: Controller, pods: Informer[Pod], words: Words = _WORDS) -> Children:
        """The children of a controller's objects; failures are counted under its name."""
        return cls(
            controller.client, pods, controller.recorder,
            name=controller.name, clock=controller.clock, registry=controller.context.registry, words=words,
        )  # fmt: skip

    async def create(self, owner: Object, template: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
        """Make a pod from a template as it was written, unknown fields included.

        `metadata` has its name or generateName, and adds to (or replaces) labels and annotations of the template.
        What the server refuses is told in an event of the owner and raised. Returns the pod's name.
        """
        made = await self._create(owner, template, metadata)
        await self._pods.caught_up(made.metadata.resource_version, _LAG)
        return made.metadata.name

    async def create_many(
        self, owner: Object, template: Mapping[str, Any], metadata: Sequence[Mapping[str, Any]]
    ) -> None:
        """Make pods, one at first and twice as many at each step; the first step that fails is the last, and raises.

        So a template that is refused costs one request, however many pods are missing.
        """
        made: list[Object] = []
        failed: list[BaseException] = []
        begin, size = 0, 1
        while begin < len(metadata) and not failed:
            batch = metadata[begin : begin + size]
            answers = await asyncio.gather(
                *(self._create(owner, template, each) for each in batch), return_exceptions=True
            )
            made += [each for each in answers if not isinstance(each, BaseException)]
            failed = [each for each in answers if isinstance(each, BaseException)]
            begin, size = begin + size, size * 2
        await self._pods.caught_up(_latest(each.metadata.resource_version for each in made), _LAG)
        _raise_first(failed)

    async def delete(self, owner: Object, pod: Pod) -> None:
        """Delete a pod, this very one; one that is gone already is as good."""
        await self.delete_many(owner, [pod])

    async def delete_many(self, owner: Object, pods: Sequence[Pod]) -> None:
        """Delete pods, all at the same time. What fails is raised after all have been tried."""
        answers = await asyncio.gather(*(self._delete(owner, pod) for pod in pods), return_exceptions=True)
        await self._pods.caught_up(_latest(each for each in answers if isinstance(each, str)), _LAG)
        _raise_first(answer for answer in answers if not isinstance(answer, Missing))

    def seconds_to_wait(self, owner: Object) -> float:
        """How long the server will not be asked for a pod of this owner."""
        refusal = self._refusals.get(owner.metadata.uid)
        if refusal is None or refusal.generation != owner.metadata.generation:
            return 0.0
        return max(0.0, (refusal.until - self._clock.now()).total_seconds())

    async def _create(self, owner: Object, template: Mapping[str, Any], metadata: Mapping[str, Any]) -> Object:
        if self.seconds_to_wait(owner):
            raise self._refusals[owner.metadata.uid].error
        data, prefix = _pod(owner, template, metadata), str(metadata.get("generateName", ""))
        try:
            body = await self._post(data, owner.metadata.namespace, tries=3 if prefix else 1)
        except (Exists, Conflict):
            raise
        except ApiError as error:
            raise self._refused(owner, error, str(metadata.get("name", "")), prefix) from error
        self._refusals.pop(owner.metadata.uid, None)
        made = msgspec.json.decode(body, type=Object)
        self._say(owner, NORMAL, "SuccessfulCreate", self._words.created, made.metadata.name)
        return made

    async def _post(self, data: Data, namespace: str, tries: int) -> bytes:
        """Create a pod; a name that was generated and is taken is generated again."""
        while True:
            tries -= 1
            try:
                return await self._client.create(POD, data, namespace)
            except Exists:
                if not tries:
                    raise

    def _refused(self, owner: Object, error: ApiError, name: str, prefix: str) -> ApiError:
        """Remember and tell that a pod was refused; the error without the name that was generated for this try."""
        told = type(error)(error.code, error.reason, _without_suffix(str(error), prefix), error.retry_after)
        if not namespace_ends(error):
            if self._failures is not None:
                self._failures.inc()
            self._say(owner, WARNING, "FailedCreate", self._words.not_created, name, told)
        now, uid, generation = self._clock.now(), owner.metadata.uid, owner.metadata.generation
        if not self.seconds_to_wait(owner):
            old = self._refusals.get(uid)
            failures = old.failures + 1 if old is not None and old.generation == generation else 0
            delay = min(_FIRST_DELAY * 2.0 ** min(failures, 30), _LAST_DELAY)
            self._refusals[uid] = _Refusal(told, generation, failures, now + timedelta(seconds=delay))
            for other in [key for key, each in self._refusals.items() if each.until < now - _REMEMBERED]:
                del self._refusals[other]
        return told

    async def _delete(self, owner: Object, pod: Pod) -> str:
        metadata = pod.metadata
        try:
            answer = await self._client.delete(POD, metadata.namespace, metadata.name, uid=metadata.uid)
        except ApiError as error:
            if not isinstance(error, Missing):
                self._say(owner, WARNING, "FailedDelete", self._words.not_deleted, metadata.name, error)
            raise
        self._say(owner, NORMAL, "SuccessfulDelete", self._words.deleted, metadata.name)
        return _revision(answer)

    def _say(
        self, owner: Object, type_: str, reason: str, words: str, pod: str, error: ApiError | None = None
    ) -> None:  # fmt: skip
        self._recorder.event(owner, type_, reason, words.format(owner=owner.metadata.name, pod=pod, error=error))


def namespace_ends(error: Exception) -> bool:
    """Whether something was refused because its namespace is on its way out: no reason to worry anybody."""
    return isinstance(error, Forbidden) and "because it is being terminated" in str(error)


def _pod(owner: Object, template: Mapping[str, Any], metadata: Mapping[str, Any]) -> Data:
    given: Data = dict(template.get("metadata") or {})
    for part in ("labels", "annotations"):
        given[part] = {**(given.get(part) or {}), **(metadata.get(part) or {})}
    own = {key: metadata[key] for key in ("name", "generateName", "finalizers") if key in metadata}
    kept = {key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)}
    return {
        "metadata": {**kept, **own, "ownerReferences": [reference_to(owner)]},
        "spec": template.get("spec") or {},
    }


def _without_suffix(message: str, prefix: str) -> str:
    """A message that is the same at each try: without the random end of a generated name."""
    return re.sub(re.escape(prefix[:58]) + r"[a-z0-9]{5}\b", prefix[:58], message) if prefix else message


def _revision(body: bytes) -> str:
    return msgspec.json.decode(body, type=Object).metadata.resource_version


def _latest(revisions: Iterable[str]) -> str:
    return max(revisions, key=lambda each: int(each or 0), default="")


def _raise_first(answers: Iterable[object]) -> None:
    for each in answers:
        if isinstance(each, BaseException):
            raise each
