"""The pods of an owner: claimed by labels, created from a template, deleted, with an event for each."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from moorage.api import kinds
from moorage.api.labels import LabelMatcher, picks, size_of
from moorage.api.meta import Data, LabelSelector, Object, OwnerReference
from moorage.api.pod import Pod
from moorage.client import ApiError, Client, Conflict, Exists, Forbidden, Informer, Invalid, Missing
from moorage.client.backoff import Backoff
from moorage.client.client import STRATEGIC
from moorage.client.clock import Clock
from moorage.client.events import NORMAL, WARNING, Recorder
from moorage.client.informer import Key
from moorage.controllers.frame.controller import Controller, resource_version
from moorage.controllers.frame.gathering import gather_some, raise_first
from moorage.controllers.frame.gradual import Gradual
from moorage.controllers.frame.pods import POD, controller_of, is_ending, is_finished, ready_condition

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter

OWNER = "owner"
"""The index of pods by the uid of the owner that controls them."""
ORPHANS = "orphans"
"""The index of pods that nobody controls, by namespace."""
_NAMESPACE = "namespace"
_RETRIES = Backoff(first=0.1, last=30.0)
_LAG = 30.0
_REMEMBERED = timedelta(minutes=10)

T = TypeVar("T", bound=Object)


def index_by_owner(pods: Informer[Any]) -> None:
    """Keep objects by the uid of the owner that controls them, and those that have none by namespace."""
    pods.index(OWNER, lambda item: [owner.uid] if (owner := controller_of(item)) else [])
    pods.index(ORPHANS, lambda item: [] if controller_of(item) else [item.metadata.namespace])


def reference_to(owner: Object) -> Data:
    """The owner reference of an object that another controls."""
    kind = kinds.of(owner)
    return {
        "apiVersion": kind.api_version, "kind": kind.kind, "name": owner.metadata.name, "uid": owner.metadata.uid,
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def is_active(pod: Pod) -> bool:
    """Whether a pod runs or will run: it has not ended, and is not about to."""
    return not is_finished(pod) and not is_ending(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether a pod is being deleted and has not ended yet."""
    return is_ending(pod) and not is_finished(pod)


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
    gradual: Gradual,
) -> None:
    """Enqueue an owner when one of its children changes, or an orphan appears that it may adopt."""
    followers = _FOLLOWERS.get(children)
    if followers is None:
        followers = _FOLLOWERS[children] = _Followers(gradual)
        children.on_change(followers.changed)
    followers.by_kind[owners.kind.kind] = _Follower(owners, selector, wake)


class _Follower(Generic[T]):
    """The owners of one kind."""

    def __init__(
        self, owners: Informer[T], selector: Callable[[T], LabelSelector | None], wake: Callable[[Key], None]
    ) -> None:
        self._owners = owners
        self._selector = selector
        self._wake = wake
        owners.index(_NAMESPACE, lambda owner: [owner.metadata.namespace])

    def wake_named(self, namespace: str, reference: OwnerReference) -> None:
        owner = self._owners.get(namespace, reference.name)
        if owner is not None and owner.metadata.uid == reference.uid:
            self._wake((namespace, reference.name))

    def wake_matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[int]:
        for owner in list(self._owners.by(_NAMESPACE, namespace)):
            selector = self._selector(owner)
            if picks(selector, labels):
                self._wake((namespace, owner.metadata.name))
            yield 1 + size_of(selector)


class _Followers:
    """Those who follow the children in one informer, by the kind of the owner. Most children concern one of them."""

    def __init__(self, gradual: Gradual) -> None:
        self.by_kind: dict[str, _Follower[Any]] = {}
        self._gradual = gradual

    def changed(self, old: Object | None, new: Object | None) -> None:
        before = controller_of(old) if old is not None else None
        after = controller_of(new) if new is not None else None
        if old is not None and before is not None and (after is None or after.uid != before.uid):
            self._wake_named(old.metadata.namespace, before)
        if new is None:
            return
        namespace, labels = new.metadata.namespace, new.metadata.labels
        if after is not None:
            self._wake_named(namespace, after)
        elif labels and (old is None or before is not None or old.metadata.labels != labels):
            for kind, follower in self.by_kind.items():
                key = kind, namespace, frozenset(labels.items())
                self._gradual.add(key, partial(follower.wake_matching, namespace, labels))

    def _wake_named(self, namespace: str, reference: OwnerReference) -> None:
        follower = self.by_kind.get(reference.kind)
        if follower is not None:
            follower.wake_named(namespace, reference)


_FOLLOWERS: WeakKeyDictionary[Informer[Any], _Followers] = WeakKeyDictionary()


async def claim(
    client: Client, informer: Informer[T], owner: Object, selector: LabelMatcher, candidates: Iterable[T]
) -> list[T]:
    """The objects among the candidates that an owner controls, after adoption and release by its selector.

    It returns when the informer has seen the changes.
    """
    owned: list[T] = []
    orphans: list[T] = []
    released: list[T] = []
    for item in candidates:
        reference, matches = controller_of(item), selector.matches(item.metadata.labels)
        if reference is None:
            if matches and item.metadata.deletion_timestamp is None:
                orphans.append(item)
        elif reference.uid == owner.metadata.uid:
            (owned if matches else released).append(item)
    if not (orphans or released) or owner.metadata.deletion_timestamp is not None:
        return owned
    if orphans and not await _is_alive(client, owner):
        orphans = []
    adoption, release = [reference_to(owner)], [{"$patch": "delete", "uid": owner.metadata.uid}]
    answers = await gather_some(
        _own(client, informer, item, references)
        for items, references in ((orphans, adoption), (released, release))
        for item in items
    )
    await informer.caught_up(_latest(each for each in answers if isinstance(each, str)), _LAG)
    for number, answer in enumerate(answers):
        # What is gone needs no owner, and a release that is invalid now was overtaken by somebody else's.
        if isinstance(answer, Missing) or (isinstance(answer, Invalid) and number >= len(orphans)):
            continue
        raise_first((answer,))
    return owned + [item for item, answer in zip(orphans, answers, strict=False) if isinstance(answer, str)]


async def _own(client: Client, informer: Informer[T], item: T, references: Sequence[Data]) -> str:
    metadata = item.metadata
    patch = {"metadata": {"uid": metadata.uid, "ownerReferences": references}}
    return resource_version(await client.patch(informer.kind, metadata.namespace, metadata.name, patch, form=STRATEGIC))


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
        from prometheus_client import Counter  # slow to import, and most commands expose nothing

        text = "Pods that the API server refused to create, by controller."
        _counters[registry] = Counter("moorage_controllers_failed_creates", text, ["controller"], registry=registry)
    return _counters[registry]


class EventMessages(NamedTuple):
    """The messages of events about pods."""

    created: str = "Created pod: {pod}"
    deleted: str = "Deleted pod: {pod}"
    not_created: str = "Error creating: {error}"
    not_deleted: str = "Error deleting: {error}"


_MESSAGES = EventMessages()


class PodControl:
    """Creates and deletes the pods of owners. It returns when the informer has seen the changes.

    So the next reconciliation sees them too, and no pod is created twice. After the server has refused a pod, it is not
    asked for another one of the same owner for some time, longer after each refusal, unless the owner is changed.
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
        messages: EventMessages = _MESSAGES,
    ) -> None:
        self._client = client
        self._pods = pods
        self._recorder = recorder
        self._clock = clock or Clock()
        self._failures = _counter(registry).labels(name) if registry is not None else None
        self._messages = messages
        self._refusals: dict[str, _Refusal] = {}

    @classmethod
    def of(cls, controller: Controller, pods: Informer[Pod], messages: EventMessages = _MESSAGES) -> PodControl:
        """For the objects of a controller; failures are counted under its name."""
        return cls(
            controller.client, pods, controller.recorder,
            name=controller.name, clock=controller.clock, registry=controller.context.registry, messages=messages,
        )  # fmt: skip

    async def create(self, owner: Object, template: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
        """Create a pod from a template as stored, unknown fields included.

        `metadata` has its name or generateName, and adds to (or replaces) labels and annotations of the template.
        A refusal becomes an event of the owner and is raised. Returns the pod's name.
        """
        pod = await self._create(owner, template, metadata)
        await self._pods.caught_up(pod.metadata.resource_version, _LAG)
        return pod.metadata.name

    async def create_many(
        self, owner: Object, template: Mapping[str, Any], metadata: Sequence[Mapping[str, Any]]
    ) -> None:
        """Create pods, one at first and twice as many in each batch; a batch that fails is the last one, and raises.

        So a template that is refused costs one request, however many pods are missing.
        """
        created: list[Object] = []
        failed: list[BaseException] = []
        begin, size = 0, 1
        while begin < len(metadata) and not failed:
            batch = metadata[begin : begin + size]
            answers = await asyncio.gather(
                *(self._create(owner, template, each) for each in batch), return_exceptions=True
            )
            created += [each for each in answers if not isinstance(each, BaseException)]
            failed = [each for each in answers if isinstance(each, BaseException)]
            begin, size = begin + size, size * 2
        await self._pods.caught_up(_latest(each.metadata.resource_version for each in created), _LAG)
        raise_first(failed)

    async def delete(self, owner: Object, pod: Pod) -> None:
        """Delete exactly this pod; that it is gone already is no error."""
        await self.delete_many(owner, [pod])

    async def delete_many(self, owner: Object, pods: Sequence[Pod]) -> None:
        """Delete pods, some at a time. The first error is raised after all have been tried."""
        answers = await gather_some(self._delete(owner, pod) for pod in pods)
        await self._pods.caught_up(_latest(each for each in answers if isinstance(each, str)), _LAG)
        raise_first(answer for answer in answers if not isinstance(answer, Missing))

    def seconds_to_wait(self, owner: Object) -> float:
        """For how many seconds the server will not be asked for a pod of this owner."""
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
        pod = msgspec.json.decode(body, type=Object)
        self._event(owner, NORMAL, "SuccessfulCreate", self._messages.created, pod.metadata.name)
        return pod

    async def _post(self, data: Data, namespace: str, tries: int) -> bytes:
        """Create a pod; a generated name that exists already is generated again."""
        while True:
            tries -= 1
            try:
                return await self._client.create(POD, data, namespace)
            except Exists:
                if not tries:
                    raise

    def _refused(self, owner: Object, error: ApiError, name: str, prefix: str) -> ApiError:
        """Remember that a pod was refused, and say so in an event. Returns the error without the generated name."""
        refusal = type(error)(error.code, error.reason, _without_suffix(str(error), prefix), error.retry_after)
        if not is_namespace_terminating(error):
            if self._failures is not None:
                self._failures.inc()
            self._event(owner, WARNING, "FailedCreate", self._messages.not_created, name, refusal)
        now, uid, generation = self._clock.now(), owner.metadata.uid, owner.metadata.generation
        if not self.seconds_to_wait(owner):
            old = self._refusals.get(uid)
            failures = old.failures + 1 if old is not None and old.generation == generation else 1
            until = now + timedelta(seconds=_RETRIES.delay(failures))
            self._refusals[uid] = _Refusal(refusal, generation, failures, until)
            for other in [key for key, each in self._refusals.items() if each.until < now - _REMEMBERED]:
                del self._refusals[other]
        return refusal

    async def _delete(self, owner: Object, pod: Pod) -> str:
        metadata = pod.metadata
        try:
            answer = await self._client.delete(POD, metadata.namespace, metadata.name, uid=metadata.uid)
        except ApiError as error:
            if not isinstance(error, Missing):
                self._event(owner, WARNING, "FailedDelete", self._messages.not_deleted, metadata.name, error)
            raise
        self._event(owner, NORMAL, "SuccessfulDelete", self._messages.deleted, metadata.name)
        return resource_version(answer)

    def _event(
        self, owner: Object, type_: str, reason: str, text: str, pod: str, error: ApiError | None = None
    ) -> None:  # fmt: skip
        self._recorder.event(owner, type_, reason, text.format(owner=owner.metadata.name, pod=pod, error=error))


def is_namespace_terminating(error: Exception) -> bool:
    """Whether something was refused because its namespace is being terminated, which is no failure to report."""
    return isinstance(error, Forbidden) and "because it is being terminated" in str(error)


def _pod(owner: Object, template: Mapping[str, Any], metadata: Mapping[str, Any]) -> Data:
    inherited: Data = dict(template.get("metadata") or {})
    for part in ("labels", "annotations"):
        inherited[part] = {**(inherited.get(part) or {}), **(metadata.get(part) or {})}
    own = {key: metadata[key] for key in ("name", "generateName", "finalizers") if key in metadata}
    kept = {key: inherited[key] for key in ("labels", "annotations", "finalizers") if inherited.get(key)}
    return {
        "metadata": {**kept, **own, "ownerReferences": [reference_to(owner)]},
        "spec": template.get("spec") or {},
    }


def _without_suffix(message: str, prefix: str) -> str:
    """A message that is the same at each try: without the random end of a generated name."""
    return re.sub(re.escape(prefix[:58]) + r"[a-z0-9]{5}\b", prefix[:58], message) if prefix else message


def _latest(revisions: Iterable[str]) -> str:
    return max(revisions, key=lambda each: int(each or 0), default="")
