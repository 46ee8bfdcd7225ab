"""The plugin framework: a plugin answers for all nodes at once, and gives reasons only for pods that fit nowhere."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from moorage.api.labels import Labels
from moorage.api.meta import Object
from moorage.api.node import Taint
from moorage.client import Client, Informers
from moorage.client.clock import Clock
from moorage.client.events import Recorder
from moorage.features import Gates
from moorage.match.selector import Term
from moorage.match.tolerations import Tolerations
from moorage.scheduler.nominations import Nominations
from moorage.scheduler.table.nodes import Mask, NodeTable, Rows, Scores
from moorage.scheduler.table.shape import PodInfo, Shape

P = ParamSpec("P")
R = TypeVar("R")

MAX_SCORE = 100

Timings = list[tuple[str, str, float]]
"""Extension points, plugins (empty for all of a point together) and the seconds they took."""
PluginStatus = tuple[str, str, str]
"""A plugin, an extension point, and the status code that it gave there."""


class Scope(Enum):
    """What the answers of a plugin depend on."""

    NODE = "node"
    """On the shape of the pod and on the node alone, not on the pods there."""
    ROW = "row"
    """On the shape of the pod and on one row of the table: an answer is kept until that row changes."""
    CLUSTER = "cluster"
    """On anything: the plugin is asked anew for each pod."""


@dataclass(frozen=True, slots=True)
class Skip:
    """The plugin does not concern this pod."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The pod is rejected before any node is filtered."""

    reason: str
    resolvable: bool = False
    """Whether the removal of other pods could help."""


SKIP = Skip()


class Rejection(NamedTuple):
    """Nodes that are rejected, all for one reason."""

    reason: str
    rows: NDArray[np.intp]
    resolvable: bool = False
    """Whether the removal of pods from the node could help."""
    parse_error: bool = False
    """Whether the nodes are rejected because a value could not be parsed."""


class Explained(NamedTuple):
    """Why some nodes were rejected, in words."""

    kind: Hashable
    """What reasons have in common that differ only in values."""
    text: str
    nodes: int
    """How many nodes were rejected for it."""


class Told(NamedTuple):
    """Why some nodes are refused, with the values and numbers that they have in common."""

    kind: Hashable
    """What refusals have in common that differ only in values."""
    subject: str
    """What refuses: `taint sla=800:NoSchedule`, `cpu`, `port 8080/TCP`."""
    reason: str
    rows: NDArray[np.intp]


class Unbindable(Exception):
    """A pre-bind plugin cannot prepare the binding: the pod is tried again later."""


class Demand(NamedTuple):
    """How much of a resource must be left on a node, after what its pods ask for is taken off."""

    resource: str
    amount: int
    reason: str
    """Why the node is rejected when less is left."""


class Nomination(NamedTuple):
    """How room could be made for a pod."""

    node: str = ""
    """The node to nominate the pod to, if there is one."""
    message: str = ""
    """What the event and the condition of the pod say about it."""
    act: Callable[[], Awaitable[None]] | None = None
    """Makes the room; started at once."""
    hopeless: bool = False
    """Whether room can be made nowhere, which ends an earlier nomination."""


@dataclass(slots=True)
class Handle:
    """What plugins work with."""

    table: NodeTable
    client: Client
    informers: Informers
    gates: Gates
    recorder: Recorder
    clock: Clock = field(default_factory=Clock)
    random: random.Random = field(default_factory=random.Random)
    wake: Callable[[str, Object | None, Object | None], None] = lambda *_: None
    """Tell the queue of a change that pods rejected by a plugin (its name) may be waiting for: old and new object."""
    parse_error: Callable[[Tolerations, Taint], None] = lambda *_: None
    """Note that a taint was not tolerated; counted and logged if that is because a value could not be parsed."""
    label_error: Callable[[Iterable[Term], Labels, str], None] = lambda *_: None
    """Note that a node's labels and name match none of some terms; counted and logged if one had no answer."""
    device_error: Callable[[str], None] = lambda _: None
    """Note that a selector had no answer for a device."""
    wildcard_seconds: Callable[[float], None] = lambda _: None
    """Note how long a set of taints took to be matched by tolerations with wildcards."""
    nominations: Nominations = field(default_factory=Nominations)
    """The pods for which room is kept on a node."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What the plugins of one name keep together in all profiles, by that name."""


class Fitting(Protocol):
    """What a plugin may ask about the pod that is being placed: all plugins that filter are asked about one node."""

    name: str
    """The schedulerName of the profile."""

    def fits(self, cycle: Cycle, row: int) -> bool:
        """Whether the pod fits on one row as the table is now, beside the pods that are nominated there."""

    def diagnose(self, cycle: Cycle, row: int) -> dict[str, list[Rejection]]:
        """Why the pod does not fit on one row as the table is now, by plugin; nominated pods do not count."""

    def demands(self, cycle: Cycle) -> tuple[Demand, ...]:
        """What must be left on a node, when of all that filters the pod only this depends on the pods there."""

    def nominated_before(self, cycle: Cycle, row: int) -> list[PodInfo]:
        """The other pods that are nominated to a row and have at least the priority of this one."""

    def suitable(self, cycle: Cycle) -> Mask:
        """The rows whose nodes themselves will do, whichever pods are there."""


class Cycle:
    """One attempt to place one pod, and what plugins keep for its duration."""

    __slots__ = ("data", "fitting", "pod", "rejected_by", "statuses", "table", "timings")

    def __init__(self, pod: PodInfo, table: NodeTable, fitting: Fitting, timings: Timings | None = None) -> None:
        self.pod = pod
        self.table = table
        self.fitting = fitting
        self.data: dict[str, Any] = {}
        """What a plugin keeps for a later step, by the plugin's name."""
        self.rejected_by = ""
        """The plugin that rejected the pod before any node was filtered."""
        self.statuses: tuple[PluginStatus, ...] = ()
        """The plugins that took part in the decision."""
        self.timings = timings
        """Where durations are noted, if this attempt is timed."""

    @property
    def shape(self) -> Shape:
        """The shape of the pod."""
        return self.pod.shape


class Plugin:
    """A plugin overrides the extension points that it takes part in; the others cost nothing.

    One whose scope is ROW is asked `applies` once a shape, and `filter` and `score` for the rows that changed; one
    whose scope is NODE only where the node itself has changed.
    One whose scope is CLUSTER is asked `applies` as well, and then, for each pod, `pre_filter` and `pre_score` first.
    """

    name: ClassVar[str]
    scope: ClassVar[Scope] = Scope.ROW
    by_amounts: ClassVar[bool] = False
    """Whether `filter` and `score` depend on nothing of a row but how much there is of each resource and is asked for.

    Scope ROW only. Whenever a pod is placed its row is asked about again, and many rows are of one size and equally
    full: what was said of one is then kept for all.
    """
    reason: ClassVar[str] = ""
    """Why a node is rejected, when `diagnose` is not overridden."""
    resolvable: ClassVar[bool] = False
    """Whether the removal of pods could make a rejected node fit, when `diagnose` is not overridden."""

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        self.handle = handle
        self.args = args

    def pre_enqueue(self, pod: PodInfo) -> str:
        """Why a pod must not even be tried yet; empty when it may."""
        raise NotImplementedError

    def sort_key(self, pod: PodInfo, added: float) -> Any:
        """What pods in the queue are ordered by."""
        raise NotImplementedError

    def applies(self, shape: Shape) -> bool:
        """Whether pods of a shape concern this plugin at all."""
        return True

    def warm(self, pod: PodInfo) -> Iterator[None]:
        """Prepare in small steps what would take long when it is first needed. Scope CLUSTER only."""
        raise NotImplementedError

    def pre_filter(self, cycle: Cycle) -> Skip | Reject | None:
        """Prepare for a pod, leave it to the others, or reject it. Scope CLUSTER only.

        A pod that is left to the others must be so too without some of the pods that are there.
        """
        return None

    def demands(self, shape: Shape) -> tuple[Demand, ...]:
        """What decides alone whether `filter` accepts a node, when it is how much its pods leave of resources."""
        return ()

    def named(self, shape: Shape) -> frozenset[str] | Reject | None:
        """The only nodes that pods of a shape can go to, when the shape names them."""
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Mask:
        """Which of these rows are feasible."""
        raise NotImplementedError

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Rejection]:
        """Why `filter` rejected these rows. A row may have several reasons."""
        yield Rejection(self.reason, rows, self.resolvable)

    def explain(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Explained]:
        """What a person should know beside the reasons that `diagnose` gave: which values, and what is wrong with them.

        Asked after each attempt that fails, so it must be quick, however many different values there are.
        """
        raise NotImplementedError

    def tell(self, cycle: Cycle, rows: NDArray[np.intp]) -> Iterable[Told]:
        """Why `filter` rejected these rows, with all values and numbers, for whoever asks about a pod.

        A row may be told of several times. Numbers that change with every pod do not belong into `explain`: an event
        and the condition of a waiting pod would be written anew each time.
        """
        for rejection in self.diagnose(cycle, rows):
            yield Told(rejection.reason, self.name, rejection.reason, rejection.rows)

    def search(self, cycle: Cycle, rejections: Mapping[str, list[Rejection]]) -> Iterator[None]:
        """Take in small steps, of about a millisecond each, what `post_filter` would need long for.

        Other pods may be placed between two of them. `post_filter` keeps what was found and is still true.
        """
        raise NotImplementedError

    def post_filter(self, cycle: Cycle, rejections: Mapping[str, list[Rejection]]) -> Nomination:
        """Find a way to make room for a pod that fits nowhere."""
        raise NotImplementedError

    def pre_score(self, cycle: Cycle) -> Skip | None:
        """Say whether to be asked for scores of this pod. Scope CLUSTER only."""
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """How good each of these rows is: any number when `normalize` follows, 0 to 100 otherwise."""
        raise NotImplementedError

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """The scores of all feasible rows, on a scale from 0 to 100."""
        raise NotImplementedError

    def reserve(self, cycle: Cycle, node: str) -> str:
        """Take what the pod needs on a node before it is bound; a reason when it is not to be had."""
        raise NotImplementedError

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Give back what was reserved; also called when it was not."""

    async def permit(self, cycle: Cycle, node: str) -> str:
        """Hold the pod back until it may be bound; a reason when it may not."""
        raise NotImplementedError

    async def pre_bind(self, cycle: Cycle, node: str) -> None:
        """Do what must be done before the pod is bound; raises when it cannot."""
        raise NotImplementedError

    async def bind(self, cycle: Cycle, node: str) -> None:
        """Bind the pod; raises when it cannot."""
        raise NotImplementedError


def timed(cycle: Cycle, point: str, plugin: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function, and note how long it took if this attempt is timed."""
    if cycle.timings is None:
        return work(*args, **kwargs)
    start = time.perf_counter()
    result = work(*args, **kwargs)
    cycle.timings.append((point, plugin, time.perf_counter() - start))
    return result


def overrides(plugin: type[Plugin], point: str) -> bool:
    """Whether a plugin takes part in an extension point."""
    return getattr(plugin, point) is not getattr(Plugin, point)


def normalized(scores: Scores, *, reverse: bool = False) -> Scores:
    """Scores scaled so that the largest is 100, or, in reverse, so that it is 0."""
    largest = int(scores.max()) if len(scores) else 0
    if largest <= 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled: Scores = MAX_SCORE * scores // largest
    return MAX_SCORE - scaled if reverse else scaled
