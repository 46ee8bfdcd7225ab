"""What `moorage attach` says about a cluster, and how it leaves one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from moorage.api.rules import COVER, TOLERATIONS
from moorage.client import Client
from moorage.features import NONE_ON
from moorage.tools.attach.check import Outcome, check
from moorage.tools.attach.covers import expire_covers, ruled_pods, states
from tests.plane import Data, api_server, create, pod, read

ENTRY = {"key": "sla", "operator": "Exists", "effect": "NoExecute"}
OWN = {"key": "own", "operator": "Exists", "effect": "NoExecute"}


def ruled(name: str, rules: str, cover: list[Data] | None = None, **spec: Any) -> Data:
    made = pod(name, **spec)
    made["metadata"]["annotations"] = {TOLERATIONS: rules}
    if cover:
        made["metadata"]["annotations"][COVER] = msgspec.json.encode(cover).decode()
    return made


async def facts(client: Client) -> list[str]:
    return [str(fact) for fact in await check(client, "moorage")]


async def test_check_says_what_works_and_what_does_not(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        client = server.client("person")
        assert all(fact.outcome is not Outcome.FAILS for fact in await check(client, "moorage"))
        await create(client, ruled("broken", "- key: [", schedulerName="moorage"))
        await create(client, ruled("elsewhere", "[{key: a, operator: Gt, value: '5'}]"))
        (found,) = (each for each in (pod("descheduler"),))
        found["spec"]["containers"][0]["image"] = "registry.k8s.io/descheduler/descheduler:v0.34"
        await create(client, found)
        said = "\n".join(await facts(client))
        assert "ok    all rights" in said
        assert "fails pod default/broken: annotation moorage.dev/tolerations: line 1" in said
        assert "mind  pod default/elsewhere has rules but schedulerName default-scheduler" in said
        assert "mind  the descheduler's RemovePodsViolatingNodeTaints" in said
        assert "mind  several schedulers: default-scheduler (2 pods), moorage (1 pods)" in said


async def test_expiring_covers_sets_seconds_on_exactly_what_is_recorded(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        client = server.client("person")
        rules = "[{key: sla, operator: Gt, value: '5'}]"
        await create(client, ruled("covered", rules, [ENTRY], tolerations=[ENTRY, OWN], schedulerName="moorage"))
        await create(client, ruled("daemon", rules, [{"operator": "Exists"}], tolerations=[{"operator": "Exists"}]))
        await create(client, pod("other", tolerations=[ENTRY]))
        pods = await ruled_pods(client)
        assert {each.name: each.cover for each in pods} == {"default/covered": (0,), "default/daemon": (0,)}
        assert states(pods, "moorage") == {
            "that wait": 2, "that another scheduler places, without their rules": 1
        }  # fmt: skip
        assert [each.name async for each in expire_covers(client, pods, 60)] == ["default/covered"]
        found = await read(client, "Pod", "covered")
        assert found["spec"]["tolerations"][:2] == [{**ENTRY, "tolerationSeconds": 60}, OWN]
        again = await ruled_pods(client)
        assert next(each for each in again if each.name == "default/covered").cover == (0,), "it stays a cover"
        assert [each.name async for each in expire_covers(client, again, 60)] == []
        assert (await read(client, "Pod", "other"))["spec"]["tolerations"][0] == ENTRY
