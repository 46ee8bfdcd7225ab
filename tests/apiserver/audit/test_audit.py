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

from moorage.apiserver.audit.log import AuditSettings
from moorage.apiserver.audit.policy import AuditPolicy, AuditRule
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


def policy(level: Any, **more: Any) -> AuditPolicy:
    return AuditPolicy("audit.k8s.io/v1", "Policy", (AuditRule(level),), **more)


@asynccontextmanager
async def audited(path: Path, settings: AuditSettings) -> AsyncIterator[APIServer]:
    server = await start(path / "data", "sqlite", ALL_ON, "127.0.0.1", 0, audit=settings)
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


async def test_stages_that_the_policy_omits_are_not_written(tmp_path: Path) -> None:
    omit = policy("Metadata", omit_stages=("ResponseComplete",))
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
