"""A server with PodTolerationRestriction: the namespace decides, also about the hundredth pod of a template."""

from __future__ import annotations

import json
from pathlib import Path

from moorage.registry.pod.tolerations import DEFAULTS, RESTRICTION, WHITELIST
from tests.apiserver.asked import MERGE, Asked
from tests.plane import Data, api_server

PODS, NAMESPACE = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default"
SLA = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}
LOST = [{"key": f"node.kubernetes.io/{name}", "operator": "Exists"} for name in ("not-ready", "unreachable")]


def pod(number: int) -> Data:
    spec: Data = {"containers": [{"name": "c", "image": "i"}], "tolerations": [SLA]}
    return {"metadata": {"generateName": f"web-{number}-"}, "spec": spec}


async def annotate(ask: Asked, whitelist: list[Data], defaults: tuple[Data, ...] = ()) -> None:
    texts = {WHITELIST: json.dumps(whitelist), DEFAULTS: json.dumps(defaults)}
    status, _ = await ask.told("PATCH", NAMESPACE, {"metadata": {"annotations": texts}}, MERGE)
    assert status == 200


async def test_a_namespace_decides_what_its_pods_tolerate(tmp_path: Path) -> None:
    async with api_server(tmp_path, plugins=(RESTRICTION,)) as server:
        ask = Asked(server.transport("tests"))
        assert [(await ask.told("POST", PODS, pod(number)))[0] for number in range(4)] == [201] * 4
        await annotate(ask, [*LOST, {**SLA, "value": "990"}])
        for number in range(4):
            status, told = await ask.told("POST", PODS, pod(number))
            assert (status, told["reason"]) == (403, "Forbidden")
            assert "spec.tolerations[0] (`Gt 950` of key sla) is covered by no entry of it" in told["message"]
        gpu = {**SLA, "key": "gpu"}
        await annotate(ask, [*LOST, {**SLA, "value": "900"}, gpu], (gpu,))
        for number in range(4):
            status, told = await ask.told("POST", PODS, pod(number))
            assert (status, [each["key"] for each in told["spec"]["tolerations"]][::3]) == (201, ["sla", "gpu"])
        one = f"{PODS}/{told['metadata']['name']}"
        await annotate(ask, LOST)
        labelled, _ = await ask.told("PATCH", one, {"metadata": {"labels": {"a": "b"}}}, MERGE)
        more = [*told["spec"]["tolerations"], {**SLA, "key": "other"}]
        widened, told = await ask.told("PATCH", one, {"spec": {"tolerations": more}}, MERGE)
        assert (labelled, widened) == (200, 403)
        assert "of key other) is covered by no entry" in told["message"]


async def test_it_is_off_by_default(ask: Asked) -> None:
    await annotate(ask, LOST)
    assert (await ask.told("POST", PODS, pod(0)))[0] == 201
