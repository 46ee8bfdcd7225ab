"""Zones: how fast nodes that failed may get NoExecute taints, by how many nodes of their zone failed."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from moorage.api.node import Node
from moorage.api.wellknown import LABEL_EXCLUDE_DISRUPTION, LABEL_REGION, LABEL_ZONE
from moorage.client.clock import Clock, Timer
from moorage.controllers.frame.ratelimit import TokenBucket

_RATE, _SLOW_RATE = 0.1, 0.01
_LARGE_ZONE = 50
_UNHEALTHY_SHARE, _UNHEALTHY_NODES = 0.55, 3
_TOGETHER = 5.0
"""Seconds for which failures are gathered: that a whole zone failed is known before one of its nodes is tainted."""


class ZoneState(Enum):
    """How much of a zone has failed."""

    NORMAL = "most nodes are ready"
    PARTIAL = "most nodes are not ready: it may be the network, so slowly, and not at all in a small zone"
    FULL = "no node is ready"


class _Seen(NamedTuple):
    zone: str
    ready: bool


@dataclass(slots=True)
class _Zone:
    bucket: TokenBucket
    ready: int = 0
    unready: int = 0
    waiting: OrderedDict[str, float] = field(default_factory=OrderedDict)
    timer: Timer | None = None

    @property
    def state(self) -> ZoneState:
        if not self.ready and self.unready:
            return ZoneState.FULL
        share = self.unready / max(1, self.ready + self.unready)
        if self.unready >= _UNHEALTHY_NODES and share >= _UNHEALTHY_SHARE:
            return ZoneState.PARTIAL
        return ZoneState.NORMAL

    @property
    def rate(self) -> float:
        if self.state is ZoneState.PARTIAL:
            return _SLOW_RATE if self.ready + self.unready > _LARGE_ZONE else 0.0
        return _RATE


class Zones:
    """Permits NoExecute taints for nodes that failed: one in ten seconds and zone, as the state of the zone allows.

    When no node anywhere is ready, it is rather this process that is cut off, and no taint is permitted. `turned` is
    called when that begins and when it ends: nodes that still wait must ask again.
    """

    def __init__(
        self, clock: Clock, registry: CollectorRegistry, allowed: Callable[[str], None], turned: Callable[[bool], None]
    ) -> None:
        self._clock = clock
        self._allowed = allowed
        self._turned = turned
        self._seen: dict[str, _Seen] = {}
        self._zones: dict[str, _Zone] = {}
        self._permitted: set[str] = set()
        self.cut_off = False
        """Whether no node anywhere is ready."""
        gauges = {
            "zone_size": "Nodes in a zone.",
            "zone_health": "The percentage of nodes in a zone that are ready.",
            "unhealthy_nodes_in_zone": "Nodes in a zone that are not ready.",
        }
        self._size, self._health, self._unhealthy = (
            Gauge(f"node_collector_{name}", words, ["zone"], registry=registry) for name, words in gauges.items()
        )
        self._evictions = Counter(
            "node_collector_evictions", "Nodes that were given a NoExecute taint.", ["zone"], registry=registry
        )

    def see(self, node: Node, *, ready: bool) -> None:
        """Note whether a node is ready."""
        name, seen = node.metadata.name, _Seen(zone_of(node), ready)
        if ready:
            self.withdraw(node)
        if LABEL_EXCLUDE_DISRUPTION in node.metadata.labels:
            self._zone(seen.zone)
            self._count(name, None)
        elif self._seen.get(name) != seen:
            self._count(name, seen)

    def forget(self, node: Node) -> None:
        """A node is gone."""
        self._count(node.metadata.name, None)
        self.withdraw(node)

    def ask(self, node: Node) -> bool:
        """Whether a node may be tainted now; if not, `allowed` will be called when it may."""
        name, key = node.metadata.name, zone_of(node)
        if name in self._permitted:
            return True
        zone = self._zone(key)
        if name not in zone.waiting and not self.cut_off:
            zone.waiting[name] = self._clock.monotonic()
            self._serve(key)
        return name in self._permitted

    def used(self, node: Node) -> None:
        """A node was given its taint."""
        if node.metadata.name in self._permitted:
            self._permitted.discard(node.metadata.name)
            self._evictions.labels(zone_of(node)).inc()

    def withdraw(self, node: Node) -> None:
        """A node need not be tainted any more."""
        name = node.metadata.name
        self._permitted.discard(name)
        if zone := self._zones.get(zone_of(node)):
            zone.waiting.pop(name, None)

    def stop(self) -> None:
        """Cancel all timers."""
        for zone in self._zones.values():
            if zone.timer is not None:
                zone.timer.cancel()

    def _zone(self, key: str) -> _Zone:
        if key not in self._zones:
            self._zones[key] = _Zone(TokenBucket(self._clock, _RATE, 1))
        return self._zones[key]

    def _count(self, name: str, seen: _Seen | None) -> None:
        old = self._seen.pop(name, None)
        if old is not None and (seen is None or seen.zone != old.zone):
            self._zones[old.zone].waiting.pop(name, None)
        if seen is not None:
            self._seen[name] = seen
        for each, number in ((old, -1), (seen, 1)):
            if each is not None:
                zone = self._zone(each.zone)
                if each.ready:
                    zone.ready += number
                else:
                    zone.unready += number
        for key in {each.zone for each in (old, seen) if each is not None}:
            self._measure(key)
        self._turn()

    def _measure(self, key: str) -> None:
        zone = self._zones[key]
        size = zone.ready + zone.unready
        self._size.labels(key).set(size)
        self._unhealthy.labels(key).set(zone.unready)
        self._health.labels(key).set(100 * zone.ready / size if size else 100)
        if zone.bucket.rate != zone.rate:
            zone.bucket.rate = zone.rate
            self._serve(key)

    def _turn(self) -> None:
        used = [zone for zone in self._zones.values() if zone.ready or zone.unready]
        cut_off = bool(used) and all(zone.state is ZoneState.FULL for zone in used)
        if cut_off == self.cut_off:
            return
        self.cut_off = cut_off
        self._permitted.clear()
        for zone in self._zones.values():
            zone.waiting.clear()
        self._turned(cut_off)

    def _serve(self, key: str) -> None:
        """Permit the nodes whose turn it is, and set the timer for the next one."""
        zone = self._zones[key]
        if zone.timer is not None:
            zone.timer.cancel()
            zone.timer = None
        while zone.waiting:
            name, asked = next(iter(zone.waiting.items()))
            wait = round(asked + _TOGETHER - self._clock.monotonic(), 6)
            if wait <= 0:
                wait = zone.bucket.take()
            if wait > 0:
                if wait < math.inf:
                    zone.timer = self._clock.call_later(wait, lambda: self._serve(key))
                return
            del zone.waiting[name]
            self._permitted.add(name)
            self._allowed(name)


def zone_of(node: Node) -> str:
    """The zone of a node as metrics spell it; all nodes without one share one."""
    labels = node.metadata.labels
    region, zone = labels.get(LABEL_REGION, ""), labels.get(LABEL_ZONE, "")
    return f"{region}:{zone}" if region or zone else ""
