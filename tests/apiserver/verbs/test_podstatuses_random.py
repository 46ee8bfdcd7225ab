"""The oracle of recipes for statuses is the long way: the same pods, byte for byte, after random patches."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.apiserver.base.recipes import Recipes
from moorage.apiserver.run import APIServer
from moorage.apiserver.verbs.podstatuses import status_write
from moorage.client.clock import ManualClock, timestamp
from tests.apiserver.asked import MERGE, Asked
from tests.plane import api_server

Data = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
START = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESSES = ("10.0.0.1", "10.0.0.10", "10.0.0.2", "9.9.9.9", "fd00::1", "10.0.0.256", "")
LATEST, VERSION = "latest-version", re.compile(rb'"resourceVersion":"(\d+)"')
OWN = re.compile(rb'(uid|resourceVersion)(\\*":\\*")[^"\\]*')
SORTS = 20
IDS = tuple(f"hollow://{sha256(name.encode()).hexdigest()}" for name in "abc")
SPECS: tuple[Data, ...] = (
    {"containers": [{"name": "main", "image": "app:1"}]},
    {"containers": [{"name": "main", "image": "app:1"}, {"name": "side", "image": "app:2"}], "restartPolicy": "Never"},
)


class Twin:
    """A server of its own, asked without the UIDs and revisions of its objects."""

    def __init__(self, server: APIServer) -> None:
        self._ask = Asked(server.transport("tests"))
        self._version = b""
        """The resourceVersion of the object that was read last."""

    async def __call__(self, method: str, path: str, sent: Data | None) -> tuple[int, bytes]:
        body = b"" if sent is None else msgspec.json.encode(sent).replace(LATEST.encode(), self._version)
        answer = await self._ask(method, path, body, MERGE if method == "PATCH" else "application/json")
        if found := VERSION.search(answer.body):
            self._version = found[1]
        return answer.status, OWN.sub(rb"\1\2", answer.body)


class Kubelet:
    """Makes statuses of few values, so that some of them are equal, in random order and in odd forms."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.random = self._values = random.Random(seed)
        self._clock = clock

    def patch(self, pod: Data) -> Data:
        """A patch of one of some sorts, with values of its own."""
        self.random = random.Random(self._values.randrange(SORTS))
        version = LATEST if self.random.random() < 0.95 else "1"
        patch: Data = {"metadata": {"resourceVersion": version}, "status": self.status(pod)}
        if self.random.random() < 0.05:
            patch["metadata"]["labels"] = {"a": "b"}
        self.random = self._values
        return patch

    def time(self) -> str:
        odd = ("2026-01-01T00:00:00+00:00", "2026-02-30T00:00:00Z", "")
        usual = (timestamp(self._clock.now()), "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")
        return self.random.choice(odd if self._values.random() < 0.01 else usual)

    def condition(self, name: str, pod: Data) -> Data:
        known = {each["type"]: each["lastTransitionTime"] for each in pod["status"].get("conditions", ())}
        since = known.get(name) if self.random.random() < 0.7 else None
        return {"type": name, "status": self.random.choice(("True", "True", "False")),
                "lastTransitionTime": since or self.time(), "observedGeneration": 1}  # fmt: skip

    def status(self, pod: Data) -> Data:
        address = self._values.choice(ADDRESSES[:4] if self._values.random() < 0.95 else ADDRESSES)
        status: Data = {
            "phase": self.random.choice(("Running", "Running", "Pending", "Failed")), "startTime": self.time(),
            "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}], "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [self.condition(name, pod) for name in ("PodScheduled", "Ready")],
        }  # fmt: skip
        if self.random.random() < 0.1:
            status["podIPs"].append({"ip": self._values.choice(ADDRESSES[:4])})
        if self.random.random() < 0.1:
            status["message"] = self.random.choice((address, status["startTime"], "tests", 'a "quoted" 10.0.0.1'))
        if self.random.random() < 0.05:
            status["unknown"] = {"ip": address}
        ended = {"terminated": {"exitCode": 0, "startedAt": self.time(), "finishedAt": self.time()}}
        status["containerStatuses"] = [
            {"name": each["name"], "image": "app:1", "imageID": "", "containerID": self._values.choice(IDS),
             "restartCount": 0, "ready": True, "lastState": {},
             "state": ended if self.random.random() < 0.1 else {"running": {"startedAt": self.time()}}}
            for each in pod["spec"]["containers"]
        ]  # fmt: skip
        return status


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(2))
async def test_a_recipe_makes_of_a_pod_what_the_long_way_makes_of_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, replayed = ManualClock(START), 0
    kubelet = Kubelet(seed, clock)
    get = Recipes.get

    async def never(*_: object) -> None:
        return None

    def counted(self: Recipes, sort: Any) -> Any:
        nonlocal replayed
        found: Any = get(self, sort)
        replayed += found is not None
        return found

    monkeypatch.setattr(Recipes, "get", counted)
    async with (
        api_server(tmp_path / "fast", clock=clock) as fast_server,
        api_server(tmp_path / "slow", clock=clock) as slow_server,
    ):
        fast, slow = Twin(fast_server), Twin(slow_server)

        async def both(method: str, path: str, sent: Data | None) -> Data:
            monkeypatch.setattr("moorage.apiserver.verbs.patch.status_write", status_write)
            outcome = await fast(method, path, sent)
            monkeypatch.setattr("moorage.apiserver.verbs.patch.status_write", never)
            assert await slow(method, path, sent) == outcome, (method, path, sent)
            answer: Data = msgspec.json.decode(outcome[1])
            return answer

        for number in range(300):
            name = f"pod-{number}"
            labels = {"ip": "10.0.0.1"} if kubelet.random.random() < 0.2 else {}
            spec = kubelet.random.choice(SPECS)
            await both("POST", PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
            binding = {"metadata": {"name": name}, "target": {"name": f"node-{number % 7}"}}
            await both("POST", f"{PODS}/{name}/binding", binding)
            for _ in range(kubelet.random.choice((1, 1, 2, 3))):
                clock.advance(kubelet.random.choice((0, 0, 1)))
                pod = await both("GET", f"{PODS}/{name}", None)
                query = "?fieldManager=kubelet" if kubelet.random.random() < 0.1 else ""
                await both("PATCH", f"{PODS}/{name}/status{query}", kubelet.patch(pod))
                await both("GET", f"{PODS}/{name}", None)
    assert replayed > 20
