"""A scheduler or controllers beside another control plane take nothing that is not theirs, and say what they lack."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moorage.api import kinds
from moorage.api.rules import TOLERATIONS
from moorage.apiserver.run import APIServer
from moorage.client import Client, Missing
from moorage.controlplane import ControlPlane, Settings
from tests.live.accounts import bind, kubeconfig, token_of
from tests.live.conftest import ROOT
from tests.plane import api_server, create, eventually, node, pod, read, read_all

Data = dict[str, Any]
LEASE, ROLE = kinds.row("coordination.k8s.io/v1", "Lease"), kinds.row("rbac.authorization.k8s.io/v1", "ClusterRole")
BINDING = kinds.row("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
CLEAN = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: my-scheduler
leaderElection:
  leaderElect: {elect}
  resourceNamespace: kube-system
  resourceName: my-scheduler
"""


class Command:
    """A component that runs as people run it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self) -> str:
        """Its next line."""
        assert self._process.stdout
        return (await self._process.stdout.readline()).decode()

    async def complains(self) -> str:
        """Its log and its last sentence, once it has ended with exit code 2."""
        _, errors = await self._process.communicate()
        assert self._process.returncode == 2
        return errors.decode()


@asynccontextmanager
async def command(*args: str | Path) -> AsyncIterator[Command]:
    """A component while the block lasts."""
    line = [sys.executable, "-m", "moorage", *map(str, args)]
    process = await asyncio.create_subprocess_exec(
        *line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN
    )  # fmt: skip
    try:
        yield Command(process)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()


async def recipe(server: APIServer, folder: Path, elect: str) -> tuple[str | Path, ...]:
    """What Kubernetes' documentation has people do for a second scheduler; the command at its end."""
    client = server.client("test")
    account = await kubeconfig(server, folder / "my-scheduler", "my-scheduler")
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        await bind(client, "my-scheduler", role)
    (folder / "config.yaml").write_text(CONFIG.format(elect=elect))
    return "scheduler", "--kubeconfig", account, "--config", folder / "config.yaml"


async def holder(client: Client, lease: str) -> str:
    """Who holds a lease; empty when nobody does or there is none."""
    try:
        data = await read(client, "Lease", lease, "kube-system", LEASE.api_version)
    except Missing:
        return ""
    found: str = data["spec"]["holderIdentity"]
    return found


async def is_bound(client: Client, name: str) -> bool:
    return bool((await read(client, "Pod", name))["spec"].get("nodeName"))


async def placed_by(client: Client, schedulers: dict[str, str]) -> bool:
    """Whether events say which scheduler placed which pod."""
    events = [each for each in await read_all(client, "Event", "default") if each["reason"] == "Scheduled"]
    return {each["involvedObject"]["name"]: each["reportingComponent"] for each in events} == schedulers


async def test_the_recipe_of_kubernetes_for_a_second_scheduler_works_as_written(tmp_path: Path) -> None:
    plane = await ControlPlane.start(Settings(tmp_path / "data", port=0, nodes=1))
    try:
        client = plane.server.client("test")
        await create(client, pod("mine", schedulerName="my-scheduler"))
        await create(client, pod("theirs"))
        await create(client, pod("nobodys", schedulerName="nobody"))
        await eventually(lambda: is_bound(client, "theirs"))
        assert not await is_bound(client, "mine")
        async with command(*await recipe(plane.server, tmp_path, "false")) as scheduler:
            assert "scheduler at work for https://" in await scheduler.says()
            await eventually(lambda: is_bound(client, "mine"))
            assert not await is_bound(client, "nobodys")
            await eventually(lambda: placed_by(client, {"mine": "my-scheduler", "theirs": "default-scheduler"}))
        assert await holder(client, "my-scheduler") == ""
    finally:
        await plane.stop()


async def test_the_lease_that_the_configuration_names_is_held_once_the_role_allows_it(tmp_path: Path) -> None:
    async with api_server(tmp_path / "data") as server:
        client = server.client("test")
        line = await recipe(server, tmp_path, "true")
        async with command(*line) as refused:
            sentence = await refused.complains()
        assert 'moorage: leases.coordination.k8s.io "my-scheduler" is forbidden: User ' in sentence
        assert '"system:serviceaccount:kube-system:my-scheduler" cannot get resource "leases"' in sentence
        role = await read(client, "ClusterRole", "system:kube-scheduler", "", ROLE.api_version)
        (rule,) = (each for each in role["rules"] if each.get("resourceNames") == ["kube-scheduler"])
        rule["resourceNames"].append("my-scheduler")
        await client.update(ROLE, role)
        async with command(*line) as first:
            assert "at work" in await first.says()
            name = await holder(client, "my-scheduler")
            assert name
            async with command(*line) as second:
                assert f"scheduler: waiting for the lease held by {name}." in await second.says()
                assert not await holder(client, "kube-scheduler")


async def test_a_right_that_is_missing_ends_the_start_with_its_name(tmp_path: Path) -> None:
    async with api_server(tmp_path / "data") as server:
        line = await recipe(server, tmp_path, "false")
        await server.client("test").delete(BINDING, "", "my-scheduler-as-volume-scheduler")
        async with command(*line) as refused:
            sentence = await refused.complains()
        assert sentence.endswith(
            'moorage: user "system:serviceaccount:kube-system:my-scheduler" lacks rights that are required: '
            "list storageclasses.storage.k8s.io, watch storageclasses.storage.k8s.io\n"
        )


async def test_a_control_plane_holds_the_leases_so_that_others_wait(tmp_path: Path) -> None:
    plane = await ControlPlane.start(Settings(tmp_path, port=0, nodes=1))
    try:
        client = plane.server.client("test")
        for component in ("scheduler", "controllers"):
            await eventually(partial(holder, client, f"moorage-{component}"))
            async with command(component, "--kubeconfig", plane.server.kubeconfig) as second:
                assert f"{component}: waiting for the lease held by moorage-up." in await second.says()
    finally:
        await plane.stop()
    async with api_server(tmp_path) as server:
        assert await holder(server.client("test"), "moorage-scheduler") == ""


async def test_a_control_plane_that_was_killed_starts_again_without_waiting_for_its_own_lease(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "moorage.client.leases")
    left = {"holderIdentity": "moorage-up", "leaseDurationSeconds": 15, "leaseTransitions": 7}
    async with api_server(tmp_path) as server:
        for lease in ("moorage-scheduler", "moorage-controllers"):
            await server.client("test").create(LEASE, {"metadata": {"name": lease}, "spec": left}, "kube-system")
    plane = await ControlPlane.start(Settings(tmp_path, port=0, nodes=1))
    try:
        client = plane.server.client("test")
        await create(client, pod("web"))
        await eventually(lambda: is_bound(client, "web"))
    finally:
        await plane.stop()
    assert '"Became leader" lease="kube-system/moorage-scheduler" identity="moorage-up"' in caplog.text
    assert "Waiting" not in caplog.text


@pytest.mark.parametrize("options", [(), ("--controllers", "*,-taint-eviction")], ids=["by default", "all but one"])
async def test_beside_a_controller_manager_only_evictions_run_unless_more_is_asked_for(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        lease = {"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": "theirs"}}
        await client.create(LEASE, lease, "kube-system")
        log = tmp_path / "log"
        file = ("--kubeconfig", server.kubeconfig)
        async with command("controllers", *file, "--log-file", log, *options) as controllers:
            assert "controllers at work" in await controllers.says()
            assert await holder(client, "kube-controller-manager") == "theirs"
            assert await holder(client, "moorage-controllers")
        (line,) = (line for line in log.read_text().splitlines() if '"Controllers"' in line)
    evictions = '["taint-eviction-controller","device-taint-eviction-controller"]'
    if options:
        assert 'notRunning=["taint-eviction-controller"]' in line
    else:
        assert f"running={evictions} " in line
        assert line.endswith('because="the lease kube-system/kube-controller-manager is held by theirs"')


async def test_beside_a_scheduler_only_pods_that_name_ours_are_placed(tmp_path: Path) -> None:
    plane = await ControlPlane.start(Settings(tmp_path / "data", port=0, nodes=1))
    try:
        client, log = plane.server.client("test"), tmp_path / "log"
        lease = {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": "theirs"}}
        await client.create(LEASE, lease, "kube-system")
        args = ("scheduler", "--kubeconfig", str(plane.server.kubeconfig), "--leader-elect-resource-name", "second")
        async with command(*args, "--log-file", log) as scheduler:
            assert "scheduler at work" in await scheduler.says()
            await create(client, pod("ours", schedulerName="moorage"))
            await create(client, pod("theirs"))
            await eventually(lambda: placed_by(client, {"ours": "moorage", "theirs": "default-scheduler"}))
            assert await holder(client, "second")
            assert await holder(client, "kube-scheduler") == "theirs"
    finally:
        await plane.stop()
    because = "the lease kube-system/kube-scheduler is held by theirs"
    assert f'"Placing pods" component="scheduler" schedulerNames=["moorage"] because="{because}"' in log.read_text()


TAINT = {"key": "readiness.k8s.io/cni", "effect": "NoExecute"}
RULED = {
    "family": "[{key: 'readiness.k8s.io/*', operator: Exists}]",
    "other": "[{key: other, operator: Exists}]",
    "plain": "",
}


@pytest.mark.parametrize(
    ("options", "staying"),
    [
        ((), {"family", "plain"}),
        (("--controllers", "taint-eviction"), {"family"}),
        (("--rule-namespaces", "a=b"), {"plain"}),
    ],
    ids=["by default", "named", "where nobody may have rules"],
)  # fmt: skip
async def test_rules_count_beside_a_controller_manager_and_who_is_named_judges_all_pods(
    tmp_path: Path, options: tuple[str, ...], staying: set[str]
) -> None:
    async with api_server(tmp_path) as server:
        client = server.client("test")
        lease = {"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": "theirs"}}
        await client.create(LEASE, lease, "kube-system")
        await create(client, node("tainted", taints=[TAINT]))
        for name, rules in RULED.items():
            made = pod(name, nodeName="tainted", terminationGracePeriodSeconds=0)
            made["metadata"]["annotations"] = {TOLERATIONS: rules} if rules else {}
            await create(client, made)

        async def left() -> bool:
            return {each["metadata"]["name"] for each in await read_all(client, "Pod", "default")} == staying

        async with command("controllers", "--kubeconfig", server.kubeconfig, *options):
            await eventually(left)


async def test_the_rights_that_are_documented_are_enough_for_the_controllers(tmp_path: Path) -> None:
    async with api_server(tmp_path / "data") as server:
        client = server.client("test")
        lease = {"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": "theirs"}}
        await client.create(LEASE, lease, "kube-system")
        page = (ROOT / "docs" / "controllers.md").read_text()
        (recipe,) = re.findall(r"```sh\n(kubectl create serviceaccount.*?)```", page, re.DOTALL)
        variables = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
        await asyncio.to_thread(subprocess.run, ["bash", "-ec", recipe], env=variables, check=True)
        account = await token_of(server, tmp_path / "account", "moorage-controllers")
        async with command("controllers", "--kubeconfig", account) as controllers:
            assert "controllers at work" in await controllers.says()
