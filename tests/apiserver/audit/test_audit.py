"""Everything that is asked of the API server can be read in its audit log, in Kubernetes' own form."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moorage.apiserver import run
from moorage.apiserver.access.credentials import SharedFiles
from moorage.apiserver.audit.log import AuditSettings
from moorage.apiserver.audit.policy import AuditPolicy, AuditRule
from moorage.apiserver.base.flows import PriorityLevel
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.listener import Server
from moorage.apiserver.run import APIServer, start
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import load
from moorage.features import ALL_ON
from tests.apiserver.asked import MERGE, YAML, Asked

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "stringData": {"password": "hunter2"}}
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"a": "1"}}
Event = dict[str, Any]


def policy(level: Any, omit: tuple[Any, ...] = ("RequestReceived",), **more: Any) -> AuditPolicy:
    return AuditPolicy("audit.k8s.io/v1", "Policy", (AuditRule(level),), omit_stages=omit, **more)


@asynccontextmanager
async def audited(path: Path, settings: AuditSettings, **options: Any) -> AsyncIterator[APIServer]:
    server = await start(path / "data", "sqlite", ALL_ON, "127.0.0.1", 0, audit=settings, **options)
    try:
        yield server
    finally:
        await server.stop(1)


def events(file: Path, uri: str = "") -> list[Event]:
    lines: list[Event] = [json.loads(line) for line in file.read_text().splitlines()]
    return [each for each in lines if each["requestURI"].startswith(uri)]


def log(tmp_path: Path, level: str = "Metadata", **more: Any) -> AuditSettings:
    return AuditSettings(tmp_path / "audit.log", policy(level), **more)


async def test_a_request_over_https_is_one_event_in_kubernetes_form(tmp_path: Path) -> None:
    settings = log(tmp_path)
    async with audited(tmp_path, settings) as server:
        transport = HTTPSTransport(load(server.kubeconfig), "kubectl/v1.36")
        try:
            assert (await transport.request("POST", MAPS, json.dumps(MAP).encode(), "application/json")).status == 201
        finally:
            await transport.close()
    (event,) = events(settings.file, MAPS)
    stamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
    assert stamp.fullmatch(event["requestReceivedTimestamp"])
    assert event.pop("requestReceivedTimestamp") <= event.pop("stageTimestamp")
    assert len(event.pop("auditID")) == 36
    groups = event["user"].pop("groups")
    assert "system:masters" in groups
    assert event == {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": "ResponseComplete",
        "requestURI": MAPS, "verb": "create", "user": {"username": "admin"}, "sourceIPs": ["127.0.0.1"],
        "userAgent": "kubectl/v1.36",
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": "web", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    }  # fmt: skip


LEVELS = [("Metadata", False, False), ("Request", True, False), ("RequestResponse", True, True)]


@pytest.mark.parametrize(("level", "sent", "answered"), LEVELS)
async def test_objects_are_written_as_the_level_says(tmp_path: Path, level: str, sent: bool, answered: bool) -> None:
    settings = log(tmp_path, level)
    async with audited(tmp_path, settings) as server:
        ask = Asked(server.transport("tests"))
        assert (await ask("POST", SECRETS, SECRET)).status == 201
        assert (await ask("PATCH", f"{SECRETS}/db", {"metadata": {"labels": {"a": "b"}}}, MERGE)).status == 200
        assert (await ask("GET", f"{SECRETS}/db")).status == 200
    text = settings.file.read_text()
    assert ("hunter2" in text) is sent
    assert ("aHVudGVyMg==" in text) is answered
    create, patch, get = events(settings.file, SECRETS)
    assert [("requestObject" in each) for each in (create, patch, get)] == [sent, sent, False]
    assert [("responseObject" in each) for each in (create, patch, get)] == [answered] * 3
    if sent:
        assert patch["requestObject"] == {"metadata": {"labels": {"a": "b"}}}


async def test_a_body_in_yaml_is_written_as_json(tmp_path: Path) -> None:
    settings = log(tmp_path, "Request")
    async with audited(tmp_path, settings) as server:
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n"
        assert (await Asked(server.transport("tests"))("POST", MAPS, text, YAML)).status == 201
    (event,) = events(settings.file, MAPS)
    assert event["requestObject"] == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}


async def test_who_owns_which_fields_can_be_left_out(tmp_path: Path) -> None:
    settings = log(tmp_path)._replace(policy=policy("RequestResponse", omit_managed_fields=True))
    async with audited(tmp_path, settings) as server:
        assert (await Asked(server.transport("tests"))("POST", MAPS, MAP)).status == 201
    (event,) = events(settings.file, MAPS)
    assert event["responseObject"]["data"] == {"a": "1"}
    assert "managedFields" not in event["responseObject"]["metadata"]


async def test_a_failure_says_why(tmp_path: Path) -> None:
    settings = log(tmp_path)
    async with audited(tmp_path, settings) as server:
        assert (await Asked(server.transport("tests"))("GET", f"{MAPS}/none")).status == 404
    (event,) = events(settings.file, MAPS)
    status = event["responseStatus"]
    assert (status["code"], status["reason"], status["message"]) == (404, "NotFound", 'configmaps "none" not found')


def get(server: APIServer, path: str, **headers: str) -> int:
    """The status of an answer over HTTPS."""
    trust = ssl.create_default_context(cadata=server.trusted)
    request = urllib.request.Request(f"{server.url}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def test_a_request_without_rights_or_credentials_is_written_too(tmp_path: Path) -> None:
    settings = log(tmp_path)
    async with audited(tmp_path, settings) as server:
        assert await asyncio.to_thread(get, server, SECRETS) == 401
        headers = {
            "Authorization": f"Bearer {server.token}", "Impersonate-User": "alice",
            "X-Forwarded-For": "192.0.2.7, nonsense",
        }  # fmt: skip
        assert await asyncio.to_thread(partial(get, server, f"{MAPS}?limit=5&labelSelector=a%3Db", **headers)) == 403
    assert server.token not in settings.file.read_text()
    (unknown,) = events(settings.file, SECRETS)
    assert (unknown["user"], unknown["responseStatus"]["code"]) == ({}, 401)
    (forbidden,) = events(settings.file, MAPS)
    assert forbidden["requestURI"] == f"{MAPS}?limit=5&labelSelector=a%3Db"
    assert forbidden["user"]["username"] == "admin"
    assert forbidden["impersonatedUser"]["username"] == "alice"
    assert forbidden["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert forbidden["sourceIPs"] == ["192.0.2.7", "127.0.0.1"]


async def test_a_watch_is_written_when_it_starts_and_when_it_ends(tmp_path: Path) -> None:
    settings = log(tmp_path)
    async with audited(tmp_path, settings) as server, server.transport("tests").stream(f"{ACCOUNTS}?watch=1") as lines:
        assert b"ADDED" in await anext(lines)
    begun, ended = events(settings.file, ACCOUNTS)
    assert (begun["stage"], ended["stage"]) == ("ResponseStarted", "ResponseComplete")
    assert begun["auditID"] == ended["auditID"]
    assert begun["verb"] == "watch"


async def test_a_request_is_written_when_it_is_received_and_when_it_is_answered(tmp_path: Path) -> None:
    settings = AuditSettings(tmp_path / "audit.log", policy("RequestResponse", omit=()))
    async with audited(tmp_path, settings) as server:
        headers = {"Authorization": f"Bearer {server.token}", "Impersonate-User": "alice"}
        assert await asyncio.to_thread(partial(get, server, MAPS, **headers)) == 403
        assert (await Asked(server.transport("tests"))("POST", MAPS, MAP)).status == 201
    found = events(settings.file, MAPS)
    assert len(found) == 4
    for received, complete in zip(found[::2], found[1::2], strict=True):
        assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
        assert received["auditID"] == complete["auditID"]
        assert received["stageTimestamp"] == received["requestReceivedTimestamp"]
        later = {"responseStatus", "annotations", "requestObject", "responseObject", "impersonatedUser"}
        same = received.keys() - {"stage", "stageTimestamp", "requestReceivedTimestamp", "objectRef"}
        assert {key: received[key] for key in same} == {key: complete[key] for key in same}
        assert not later & received.keys()
        assert complete["responseStatus"]["code"] in (403, 201)


async def test_requests_that_flow_control_turns_away_are_written_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Server] = []

    def limited(*args: Any, **options: Any) -> Server:
        options["limits"] = Limits(seats=2, queued=0, watches=0, retry_time=0.01)
        made.append(Server(*args, **options))
        return made[0]

    monkeypatch.setattr(run, "Server", limited)
    (tmp_path / "tokens").write_text("admin,admin,1,system:masters\nsecret,ann,2\n")
    settings = log(tmp_path)._replace(policy=policy("Metadata", omit=()))
    async with audited(tmp_path, settings, shared=SharedFiles(tokens=tmp_path / "tokens")) as server:
        reads = {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "ann"},
            "subjects": [{"kind": "User", "name": "ann"}], "roleRef": {"kind": "ClusterRole", "name": "view"},
        }  # fmt: skip
        bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert (await Asked(server.transport("tests"))("POST", bindings, reads)).status == 201
        ask = partial(get, server, Authorization="Bearer secret")
        assert await asyncio.to_thread(ask, f"{ACCOUNTS}?watch=1") == 429
        made[0].control.levels[PriorityLevel.WORKLOAD].seats.take("somebody")
        assert await asyncio.to_thread(ask, MAPS) == 429
        metrics = (await server.transport("tests").request("GET", "/metrics")).body.decode()
    for uri, what in ((MAPS, "too many of yours are waiting"), (ACCOUNTS, "you have too many watches")):
        received, refused = (each for each in events(settings.file, uri) if each["user"]["username"] == "ann")
        assert (received["stage"], refused["stage"]) == ("RequestReceived", "ResponseComplete")
        assert received["auditID"] == refused["auditID"]
        status = refused["responseStatus"]
        assert (status["code"], status["reason"]) == (429, "TooManyRequests")
        assert what in status["message"]
    assert re.search(r'apiserver_request_total\{code="429",.*resource="configmaps"', metrics)


async def test_stages_that_the_policy_omits_are_not_written(tmp_path: Path) -> None:
    omit = policy("Metadata", omit=("RequestReceived", "ResponseComplete"))
    settings = log(tmp_path)._replace(policy=omit)
    async with audited(tmp_path, settings) as server:
        assert (await Asked(server.transport("tests"))("GET", MAPS)).status == 200
    assert not settings.file.exists()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"data": 123456789012345678901234567890, "metadata": {"name": "a"}}', "application/json"),
        (b"[" * 100_000, "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"a: !!binary x\n", YAML),
        (b"a: " + b"x" * 200_000, YAML),
        (b"k8s\x00nonsense", "application/vnd.kubernetes.protobuf"),
        (b'{"metadata": "\\ud800"}', "application/json"),
    ],
)
async def test_nobody_can_keep_a_request_out_of_the_log_by_what_it_holds(
    tmp_path: Path, body: bytes, kind: str
) -> None:
    settings = log(tmp_path, "RequestResponse")
    async with audited(tmp_path, settings) as server:
        await Asked(server.transport("tests"))("POST", MAPS, body, kind)
    (event,) = events(settings.file, MAPS)
    assert event["responseStatus"]["code"] >= 400
