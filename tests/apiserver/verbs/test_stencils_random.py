"""The oracle of stencils is the long way: the same answers over random templates, names, labels and changes between."""

from __future__ import annotations

import random
import re
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.apiserver.run import APIServer
from moorage.apiserver.verbs import stencils
from moorage.apiserver.verbs.stencils import Stencil, Stencils
from tests.apiserver.asked import MERGE, Asked
from tests.plane import api_server

Data = dict[str, Any]
TEAM = "/api/v1/namespaces/team"
PODS = f"{TEAM}/pods"
LIMIT = {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
SELECTOR = {"matchLabels": {"app": "web"}}
TERM = {"labelSelector": SELECTOR, "topologyKey": "zone"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPECS: tuple[Data, ...] = (
    {},
    {"tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}]},
    {"tolerations": [{"expression": "taint.key == 'a'", "tolerationSeconds": 3}]},
    {"priorityClassName": "high"},
    {"priorityClassName": "absent"},
    {"runtimeClassName": "sandbox"},
    {"runtimeClassName": "absent"},
    {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": CLAIM}}]},
    {"topologySpreadConstraints": [SPREAD]},
    {"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["rev"]}]},
    {"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}},
    {"affinity": {"podAffinity": {REQUIRED: [{**TERM, "mismatchLabelKeys": ["rev"]}]}}},
    {"schedulingGates": [{"name": "example.com/later"}]},
    {"nodeName": "n1", "hostNetwork": True},
    {"restartPolicy": "Sometimes"},
    {"unknown": 1},
    {"overhead": {"cpu": "1"}},
)
METADATA: tuple[Data, ...] = (
    {},
    {"labels": {"app": "web", "rev": "1"}},
    {"labels": {"app": "web", "rev": "1"}},
    {"labels": {"app": "web"}},
    {"annotations": {"a": "b"}, "labels": {"rev": "1"}},
    {"finalizers": ["example.com/hold"]},
    {"managedFields": []},
)
OWN = re.compile(r'"(uid|resourceVersion|creationTimestamp|deletionTimestamp|lastTransitionTime|time)":"[^"]*"')
CLASSES = {"priorityClassName", "runtimeClassName"}
NAMES = ("web-1", "web-2", "main", "a.b", "A", "x" * 64)
PRIORITY = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIME = "/apis/node.k8s.io/v1/runtimeclasses"
CHANGES: tuple[tuple[str, str, Data | None], ...] = (
    ("POST", PRIORITY, {"metadata": {"name": "high"}, "value": 7}),
    ("POST", PRIORITY, {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True}),
    ("DELETE", f"{PRIORITY}/usual", None),
    ("DELETE", f"{PRIORITY}/high", None),
    ("POST", RUNTIME, {"metadata": {"name": "sandbox"}, "handler": "s", "overhead": {"podFixed": {"cpu": "1"}}}),
    ("POST", RUNTIME, {"metadata": {"name": "sandbox"}, "handler": "s", "scheduling": {"nodeSelector": {"s": "y"}}}),
    ("DELETE", f"{RUNTIME}/sandbox", None),
    ("PATCH", "/api/v1/namespaces/team", {"metadata": {"annotations": {"note": "x"}}}),
    ("POST", f"{TEAM}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [LIMIT]}}),
    ("DELETE", f"{TEAM}/limitranges/l", None),
    ("POST", f"{TEAM}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}),
    ("DELETE", f"{TEAM}/resourcequotas/q", None),
)


class Twin:
    """A server of its own, asked without what is special to one pod: identity, time and revision."""

    def __init__(self, server: APIServer) -> None:
        self._ask = Asked(server.transport("tests"))

    async def __call__(self, method: str, path: str, sent: Data | None) -> tuple[int, str]:
        answer = await self._ask(method, path, sent, MERGE if method == "PATCH" else "application/json")
        text = answer.body.decode()
        text = re.sub(
            r'"(uid|resourceVersion|creationTimestamp|deletionTimestamp|lastTransitionTime|time)":"[^"]*"',
            r'"\1":""',
            text,
        )
        return answer.status, text


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(2))
async def test_a_stencil_makes_what_the_long_way_makes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    randomly, stamped = random.Random(seed), 0
    templates = [template for template in product(METADATA, SPECS) for _ in range(5)]
    if seed % 2:
        randomly.shuffle(templates)
    find, get = stencils.new_pod, Stencils.get

    def counted(self: Stencils, *args: Any) -> Stencil | None:
        nonlocal stamped
        stencil = get(self, *args)
        stamped += stencil is not None
        return stencil

    monkeypatch.setattr(Stencils, "get", counted)
    async with api_server(tmp_path / "fast") as fast_server, api_server(tmp_path / "slow") as slow_server:
        fast, slow = Twin(fast_server), Twin(slow_server)

        async def both(method: str, path: str, sent: Data | None) -> int:
            monkeypatch.setattr("moorage.apiserver.verbs.create.new_pod", find)
            outcome = await fast(method, path, sent)
            monkeypatch.setattr("moorage.apiserver.verbs.create.new_pod", lambda *_: None)
            assert await slow(method, path, sent) == outcome, (method, path, sent)
            return outcome[0]

        await both("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        for number, (metadata, spec) in enumerate(templates):
            if randomly.random() < (0.4 if spec.keys() & CLASSES else 0.02):
                await both(*randomly.choice(CHANGES))
            name = randomly.choice((*NAMES, *[f"web-{number}"] * 10))
            containers = [{"name": "main", "image": "app:1"}]
            pod = msgspec.to_builtins(
                {"metadata": {"name": name, **metadata}, "spec": {"containers": containers, **spec}}
            )
            for label in pod["metadata"].get("labels", ()):
                pod["metadata"]["labels"][label] = randomly.choice(("web", "1", "1", "2", "2", "3", "-"))
            if await both("POST", PODS, pod) == 201 and randomly.random() < 0.8:
                await both("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0", None)
    assert stamped > (10 if seed % 2 else 50)
