"""What is installed in a cluster for attach mode: the same by each way, valid, and exactly the rights that are used."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from moorage.api import kinds
from moorage.api.rules import COVER, TOLERATIONS
from moorage.cel.env import kubernetes
from moorage.cel.types import DYN
from moorage.client import Client
from moorage.client.clock import Clock, timestamp
from moorage.client.errors import Forbidden
from moorage.client.leases import LeadershipLost
from moorage.client.rights import RightsMissing
from moorage.features import NONE_ON
from moorage.tools.attach.check import Outcome, check
from moorage.tools.attach.manifests import NAME, Installation, all_objects, webhook_choices
from moorage.tools.attach.removal import Removal, RemovalError
from moorage.tools.attach.run import AttachSettings, run_attached
from moorage.tools.attach.webhook.rewriting import WebhookSettings
from moorage.tools.attach.webhook.server import SERVICE, serve_webhook
from tests.live.conftest import ROOT
from tests.live.installed import as_account, install, without
from tests.live.stock import stock_cluster
from tests.plane import api_server, create, eventually, node, pod, read, read_all

Data = dict[str, Any]
DEPLOY = ROOT / "deploy"
OVERLAYS = {
    "webhook": Installation(),
    "webhook-templates": Installation(templates=True),
    "no-webhook": Installation(webhook=False),
    "monitoring": Installation(monitoring=True),
}


def by_name(objects: list[Data]) -> dict[tuple[str, ...], Data]:
    named: dict[tuple[str, ...], Data] = {}
    for each in objects:
        named[each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]] = each
    assert len(named) == len(objects)
    return named


def texts(folder: Path) -> dict[Path, str]:
    return {path.relative_to(folder): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_files_are_those_that_the_source_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "deploy.py", tmp_path], check=True)
    assert texts(tmp_path) == texts(DEPLOY), "run: python scripts/deploy.py"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_what_the_command_prints(overlay: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    line = ["kubectl", "kustomize", str(DEPLOY / "kustomize" / "overlays" / overlay)]
    rendered = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    assert by_name(list(yaml.safe_load_all(rendered))) == by_name(all_objects(OVERLAYS[overlay]))


def helm(*arguments: str) -> str:
    if (program := os.environ.get("HELM") or shutil.which("helm")) is None:
        pytest.skip("there is no helm on the PATH, nor in HELM: go install helm.sh/helm/v3/cmd/helm@latest")
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_makes_what_the_command_prints(overlay: str) -> None:
    told = OVERLAYS[overlay]
    values = {
        "createNamespace": True, "webhook.enabled": told.webhook, "webhook.templates": told.templates,
        "monitoring.enabled": told.monitoring,
    }  # fmt: skip
    settings = [word for name, value in values.items() for word in ("--set", f"{name}={str(value).lower()}")]
    chart = str(DEPLOY / "helm" / "moorage")
    helm("lint", "--strict", chart)
    rendered = helm("template", "moorage", chart, "-n", told.namespace, "--kube-version", "1.36.0", *settings)
    objects = [each for each in yaml.safe_load_all(rendered) if each is not None]
    assert by_name(objects) == by_name(all_objects(told))


def test_namespace_image_and_who_may_have_rules_can_be_chosen_with_helm_as_with_the_command() -> None:
    told = Installation("elsewhere", "registry.example.com/moorage@sha256:0123", "team in (a,b),!guest")
    rendered = helm("template", "moorage", str(DEPLOY / "helm" / "moorage"), "-n", told.namespace, "--kube-version",
                    "1.36.0", "--set", f"image={told.image}", "--set", "createNamespace=true",
                    "--set-literal", f"ruleNamespaces={told.rule_namespaces}")  # fmt: skip
    objects = [each for each in yaml.safe_load_all(rendered) if each is not None]
    assert by_name(objects) == by_name(all_objects(told))


def test_a_webhook_that_is_to_end_answers_for_as_long_as_it_may_be_asked() -> None:
    (pods,) = (each["spec"]["template"] for each in webhook_choices(Installation()) if each["kind"] == "Deployment")
    (container,) = pods["spec"]["containers"]
    assert 0 < container["lifecycle"]["preStop"]["sleep"]["seconds"] < 30, "how long a pod has to end"


POLICIES: dict[str, Data] = {
    each["metadata"]["name"]: each["spec"]
    for each in all_objects(Installation())
    if each["kind"] == "ValidatingAdmissionPolicy"
}
ENVIRONMENT = kubernetes({"object": DYN, "oldObject": DYN, "request": DYN})


def allowed(item: Data, old: Data | None, policy: str = NAME) -> bool:
    programs = [ENVIRONMENT.compile(each["expression"]) for each in POLICIES[policy]["validations"]]
    return all(program.evaluate(item, old, {}) for program in programs)


def written(policy: str) -> tuple[list[str], list[str]]:
    (rule,) = POLICIES[policy]["matchConstraints"]["resourceRules"]
    return rule["operations"], rule["resources"]


TYPES = msgspec.json.decode(files("moorage.registry").joinpath("fields.json").read_bytes())["types"]
STATUS_OF_OTHERS = sorted(TYPES["v1.PodStatus"].keys() - {"conditions", "nominatedNodeName"})


def changed(path: str, value: Any) -> Data:
    item = msgspec.json.decode(msgspec.json.encode(OLD))
    *steps, last = path.split("/")
    inner = item
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return dict(item)


def condition(name: str, status: str) -> Data:
    return {"type": name, "status": status}


OLD: Data = pod("a", tolerations=[{"key": "a", "operator": "Exists"}], nodeSelector={"a": "b"})
OLD["metadata"] |= {"annotations": {"example.com/a": "b", COVER: "[]"}, "labels": {"a": "b"}}
OLD["status"] = {"conditions": [condition("Ready", "False")]}


def test_the_policy_lets_our_account_change_tolerations_and_our_annotations_alone() -> None:
    assert allowed(OLD, OLD)
    assert allowed(changed("spec/tolerations", [{"operator": "Exists"}]), OLD)
    for kept in ({"example.com/a": "b"}, {"example.com/a": "b", COVER: "x", "moorage.dev/evict-at": "y"}):
        assert allowed(changed("metadata/annotations", kept), OLD)
    leaves = [condition("PodScheduled", "False"), condition("DisruptionTarget", "True"), *OLD["status"]["conditions"]]
    assert allowed(changed("status", {"conditions": leaves, "nominatedNodeName": "a"}), OLD)
    bare = pod("a")
    assert allowed({**bare, "metadata": {**bare["metadata"], "annotations": {COVER: "[]"}}}, bare)
    for path, value in (
        ("metadata/annotations", {}),
        ("metadata/annotations", {"example.com/a": "c"}),
        ("metadata/annotations", {"example.com/a": "b", "other": "c"}),
        ("metadata/generateName", "other-"),
        ("metadata/labels", {}),
        ("metadata/finalizers", ["a/b"]),
        ("metadata/ownerReferences", [{"name": "a"}]),
        ("spec/containers", [{"name": "app", "image": "other"}]),
        ("spec/initContainers", [{"name": "app", "image": "other"}]),
        ("spec/nodeSelector", {}),
        ("spec/affinity", {"nodeAffinity": {}}),
        ("spec/activeDeadlineSeconds", 5),
        ("spec/schedulingGates", [{"name": "a"}]),
        *(("status", {**OLD["status"], name: "other"}) for name in STATUS_OF_OTHERS),
        ("status", {"conditions": [condition("Ready", "True"), condition("PodScheduled", "True")]}),
        ("status", {"conditions": []}),
    ):
        assert not allowed(changed(path, value), OLD), path
    assert written(NAME) == (["UPDATE"], ["pods", "pods/status"]), "a status is written with labels and annotations"
    for policy in POLICIES.values():
        by_us = ENVIRONMENT.compile(policy["matchConditions"][0]["expression"])
        for name, is_ours in (("system:serviceaccount:moorage-system:moorage", True), ("kubernetes-admin", False)):
            assert by_us.evaluate(OLD, OLD, {"userInfo": {"username": name}}) is is_ours


def test_the_policy_lets_our_account_bind_pods_and_give_them_nothing_but_our_annotations() -> None:
    name = f"{NAME}-bindings"
    assert written(name) == (["CREATE"], ["pods/binding"])
    for metadata, may in (
        ({}, True),
        ({"annotations": {COVER: "[]"}}, True),
        ({"labels": {"topology.kubernetes.io/zone": "a"}}, True),
        ({"labels": {"a": "b"}}, False),
        ({"annotations": {"example.com/a": "b"}}, False),
    ):
        assert allowed({"metadata": {"name": "a", **metadata}}, None, name) is may, metadata


async def test_attach_mode_needs_no_more_than_the_roles_that_are_installed(tmp_path: Path) -> None:
    async with stock_cluster(tmp_path) as server:
        await install(server)
        client, person = await as_account(server, NAME), server.client("person")
        running = asyncio.create_task(run_attached(client, AttachSettings(), leads=True))
        await create(person, node("good", taints=[{"key": "sla", "value": "990", "effect": "NoExecute"}]))
        made = pod("ruled", schedulerName="moorage", terminationGracePeriodSeconds=0)
        made["metadata"]["annotations"] = {TOLERATIONS: "[{key: sla, operator: Gt, value: '950'}]"}
        await create(person, made)

        async def placed() -> bool:
            return bool((await read(person, "Pod", "ruled"))["spec"].get("nodeName"))

        async def gone() -> bool:
            names = [each["metadata"]["name"] for each in await read_all(person, "Pod", "default")]
            return "ruled" not in names

        assert [str(each) for each in await check(client, "moorage") if each.outcome is Outcome.FAILS] == []
        await eventually(placed)
        await person.patch(kinds.row("v1", "Node"), "", "good", {"spec": {"taints": [
            {"key": "sla", "value": "900", "effect": "NoExecute"}]}})  # fmt: skip
        await eventually(gone)
        with pytest.raises(Forbidden):
            await client.list(kinds.row("v1", "Secret"), "kube-system")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


async def test_attach_mode_says_when_it_works_for_whom_it_waits_and_which_right_is_missing(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        await install(server)
        client, first, second = await as_account(server, NAME), list[str](), list[str]()

        def started(said: list[str]) -> asyncio.Task[None]:
            return asyncio.create_task(run_attached(client, AttachSettings(), leads=True, say=said.append))

        async def both_work() -> bool:
            return {"scheduler: at work", "evictors: at work"} <= set(first)

        async def both_wait() -> bool:
            return len(second) == 2

        running = [started(first)]
        await eventually(both_work)
        running.append(started(second))
        await eventually(both_wait)
        assert all("waiting for the lease held by" in line for line in second)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        role, in_namespace = (kinds.row("rbac.authorization.k8s.io/v1", each) for each in ("ClusterRole", "Role"))
        await server.client("person").patch(in_namespace, "kube-system", NAME, {"rules": []})
        with pytest.raises(Forbidden, match='cannot get resource "leases"'):
            await run_attached(client, AttachSettings(), leads=True)
        roles = {each["metadata"]["name"]: each for each in without("nodes", "list") if each["kind"] == "ClusterRole"}
        await server.client("person").patch(role, "", NAME, {"rules": roles[NAME]["rules"]})
        account = "system:serviceaccount:moorage-system:moorage"
        with pytest.raises(RightsMissing, match=f'user "{account}" lacks rights that are required: list nodes'):
            await run_attached(client, AttachSettings(), leads=True)
        await client.close()


async def test_attach_mode_that_loses_a_lease_ends_with_that_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> None:
        raise LeadershipLost("a leads no longer")

    monkeypatch.setattr("moorage.tools.attach.run.lead", lost)
    async with api_server(tmp_path, NONE_ON) as server:
        with pytest.raises(LeadershipLost, match="a leads no longer"):
            await run_attached(server.client("person"), AttachSettings(), leads=True)


async def test_the_webhook_needs_no_more_than_the_roles_that_are_installed(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        await install(server)
        client = await as_account(server, SERVICE)
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        told = (WebhookSettings(), "moorage-system", "127.0.0.1", 0, port.set_result)
        serving = asyncio.create_task(serve_webhook(client, *told))
        await asyncio.wait((port, serving), return_when=asyncio.FIRST_COMPLETED)
        assert port.done()
        with pytest.raises(Forbidden):
            await client.list(kinds.row("v1", "Secret"), "moorage-system")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await client.close()


async def test_who_may_have_rules_is_told_to_everybody_who_asks() -> None:
    told = Installation(rule_namespaces="team=a")
    commands = [
        each["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in all_objects(told)
        if each["kind"] == "Deployment"
    ]
    assert [command[1] for command in commands] == ["run", "webhook"]
    assert all("--rule-namespaces=team=a" in command for command in commands)


async def everything(client: Client) -> set[tuple[str, str, str]]:
    """What there is of the kinds that are installed."""
    found = set()
    for each in all_objects(Installation()):
        if kind := kinds.find(each["apiVersion"], each["kind"]):
            listed = await read_all(client, each["kind"], api_version=each["apiVersion"])
            found |= {(kind.kind, one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in listed}
    return found


async def test_removing_attach_mode_deletes_what_was_installed_and_nothing_else(tmp_path: Path) -> None:
    async with stock_cluster(tmp_path) as server:
        person = server.client("person")
        own = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "moorage", "namespace": "default"}}
        await create(person, own)
        before = await everything(person)
        await install(server, programs=True)
        cover = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
        kept = pod("kept", schedulerName="moorage", tolerations=[cover])
        kept["metadata"]["annotations"] = {
            TOLERATIONS: "[{key: a, operator: Gt, value: '5'}]",
            COVER: msgspec.json.encode([cover]).decode(),
        }
        await create(person, kept)
        everywhere = {"operator": "Exists"}
        daemon = pod("daemon", schedulerName="moorage", tolerations=[everywhere])
        daemon["metadata"]["annotations"] = {COVER: msgspec.json.encode([everywhere]).decode()}
        await create(person, daemon)
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {**kept["spec"], "nodeSelector": {"a": "none"}}}
        workload = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await create(
            person, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": workload}
        )
        said = [line async for line in Removal(person, "moorage-system").lines(60)]
        covers = [f"default/{each}: has a cover, 1 of its native tolerations" for each in ("daemon", "kept")]
        assert [each.removesuffix(f", recorded in {COVER}") for each in said[:2]] == covers
        ends = [each for each in said if ": its cover" in each]
        assert ends == [
            "default/kept: its cover ends after 60 s",
            "default/daemon: its cover stays, because only tolerations of NoExecute alone can end",
        ]
        waiting = [line for line in said if "new pods of it wait" in line]
        assert waiting == [
            "ReplicaSet default/web: new pods of it wait for the scheduler moorage, until its template names another"
        ]
        assert "deleted Deployment moorage-system/moorage" in said
        assert said[-1] == "deleted Namespace moorage-system"

        async def is_as_before() -> bool:
            return await everything(person) == before

        await eventually(is_as_before)
        assert (await read(person, "Pod", "kept"))["spec"]["tolerations"][0]["tolerationSeconds"] == 60
        again = [line async for line in Removal(person, "moorage-system").lines()]
        assert again == [*said[:2], *waiting]


async def test_a_namespace_in_which_there_is_more_stays(tmp_path: Path) -> None:
    async with stock_cluster(tmp_path) as server:
        person = server.client("person")
        await install(server, programs=True)
        for name in ("a", "b", "c", "d", "kube-root-ca.crt"):
            metadata = {"name": name, "namespace": "moorage-system"}
            await create(person, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        said = [line async for line in Removal(person, "moorage-system").lines()]
        more = "ConfigMap a, ConfigMap b, ConfigMap c and 1 more"
        assert said[-1] == f"Namespace moorage-system stays, because there is more in it: {more}"
        left = {each["metadata"]["name"] for each in await read_all(person, "ConfigMap", "moorage-system")}
        assert left == {"a", "b", "c", "d", "kube-root-ca.crt"}
        assert "deleted ServiceAccount moorage-system/moorage" in said


async def test_what_helm_installed_or_still_works_is_not_removed(tmp_path: Path) -> None:
    async with api_server(tmp_path, NONE_ON) as server:
        person = server.client("person")
        await install(server, programs=True)
        account = kinds.row("v1", "ServiceAccount")
        notes = {"meta.helm.sh/release-name": "here", "meta.helm.sh/release-namespace": "moorage-system"}
        await person.patch(account, "moorage-system", NAME, {"metadata": {"annotations": notes}})
        with pytest.raises(RemovalError, match="first `helm uninstall here -n moorage-system`"):
            assert [line async for line in Removal(person, "moorage-system").lines()] == []
        lease = {"holderIdentity": "somebody", "leaseDurationSeconds": 15}
        metadata = {"name": "moorage-scheduler", "namespace": "kube-system"}
        await create(person, {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": lease})
        await renew(person)
        with pytest.raises(RemovalError, match="it holds moorage-scheduler: stop it first"):
            assert [line async for line in Removal(person, "elsewhere", Passing(person)).lines()] == []
        await renew(person)
        said = [line async for line in Removal(person, "elsewhere", Passing()).lines()]
        assert "deleted ClusterRole moorage" in said, "whoever was stopped without releasing its lease is waited for"


LEASE = kinds.row("coordination.k8s.io/v1", "Lease")


async def renew(client: Client, after: float = 0.0) -> None:
    now = timestamp(datetime.now(UTC) + timedelta(seconds=after), micro=True)
    await client.patch(LEASE, "kube-system", "moorage-scheduler", {"spec": {"renewTime": now, "acquireTime": now}})


class Passing(Clock):
    """Time that passes when somebody waits, and a leader that renews its lease meanwhile, if there is one."""

    def __init__(self, leader: Client | None = None) -> None:
        self._leader, self._passed = leader, 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._passed)

    async def sleep(self, seconds: float) -> None:
        self._passed += seconds
        if self._leader is not None:
            await renew(self._leader, self._passed)
