"""The oracle of recipes for events is the long way: the same answers, byte for byte, over random events."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moorage.client.clock import ManualClock, timestamp
from tests.apiserver.verbs.twins import START, twins

Data = dict[str, Any]
EVENTS = "/api/v1/namespaces/team/events"
MESSAGES = (
    "Container created",
    "f:count",
    "tests",
    "",
    'a "quoted" word',
    "Ünicode words",
    "node-1",
    "2026-01-01T00:00:00Z",
)
SENDERS = ("", "?fieldManager=team", "?fieldValidation=Strict", "?dryRun=All")


class Events:
    """Makes events that are mostly alike, with few values, so that some of them are equal."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.random = random.Random(seed)
        self._clock = clock

    def name(self) -> str:
        return self.random.choice(("web", "v1", "team", "node-1", "web.1", "Web", *(f"web-{n}" for n in range(30))))

    def time(self) -> str:
        now = timestamp(self._clock.now())
        return self.random.choice((now, now, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z"))

    def event(self) -> Data:
        name, node = self.name(), self.random.choice(("node-1", "node-2"))
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": name,
                    "uid": str(UUID(int=self.random.randrange(5))),
                    "resourceVersion": self.random.choice("123")}  # fmt: skip
        event = {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": f"{name}.{self.random.randrange(50)}", "namespace": "team"},
            "involvedObject": involved, "source": {"component": "kubelet", "host": node},
            "reportingComponent": "kubelet", "reportingInstance": node, "reason": "Started", "type": "Normal",
            "message": self.random.choice((*MESSAGES, *["Successfully assigned it", "Pulled an image"] * 5)),
            "action": "", "firstTimestamp": self.time(), "lastTimestamp": self.time(), "count": 1,
        }  # fmt: skip
        if self.random.random() < 0.3:
            self._spoil(event)
        return event

    def _spoil(self, event: Data) -> None:
        place, value = self.random.choice(
            (
                ("metadata", {"name": event["metadata"]["name"]}),
                ("metadata", event["metadata"] | {"labels": {"name": self.random.choice(("web", "a_b", "x" * 64))}}),
                ("metadata", event["metadata"] | {"resourceVersion": "7"}),
                ("metadata", event["metadata"] | {"uid": str(UUID(int=1))}),
                ("metadata", {"generateName": "web-"}),
                ("metadata", {"name": "web.7", "namespace": "other"}),
                ("involvedObject", event["involvedObject"] | {"namespace": "other"}),
                ("eventTime", "2026-01-01T00:00:00.000000Z"),
                ("count", "1"),
                ("unknown", {"name": "web"}),
                ("related", {"kind": "Node", "name": "node-1"}),
            )
        )
        event[place] = value


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(2))
async def test_a_recipe_makes_of_an_event_what_the_long_way_makes_of_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    events = Events(seed, clock)
    async with twins(tmp_path, monkeypatch, clock) as both:
        await both("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        for _ in range(800):
            clock.advance(events.random.choice((0, 0, 0, 1)))
            event = events.event()
            sender = events.random.choice((*SENDERS, *[""] * 20))
            if await both("POST", EVENTS + sender, event) == 201 and "name" in event["metadata"]:
                await both("GET", f"{EVENTS}/{event['metadata']['name']}", None)
                if events.random.random() < 0.5:
                    await both("DELETE", f"{EVENTS}/{event['metadata']['name']}", None)
        taken = both.replayed
        await both("DELETE", "/api/v1/namespaces/team", None)
        for _ in range(20):
            await both("POST", EVENTS, events.event())
    assert taken == both.replayed > 50
