"""The admission webhook over HTTPS: what each replica answers, and how they come by one certificate."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
from cryptography import x509

from moorage.api import kinds
from moorage.apiserver.patch.jsonpatch import apply as apply_patch
from moorage.client import Client, Unavailable
from moorage.client.transport import Answer
from moorage.features import NONE_ON
from moorage.tools.attach.webhook.certificates import SECRET, WebhookCertificates
from moorage.tools.attach.webhook.server import LIMITS, serve_webhook, service_names
from tests.plane import Data, api_server, create, read
from tests.tools.test_webhook import HERE, answered, review, ruled


class Registering:
    """A way to an API server that also has webhook configurations."""

    def __init__(self, client: Client) -> None:
        self._transport = client.transport
        self.configurations: dict[str, Data] = {}
        self.writes = 0
        self.is_away = False
        for kind in ("mutating", "validating"):
            webhooks = [{"name": f"{name}.moorage.dev", "clientConfig": {}} for name in ("pods", "templates")]
            self.configurations[f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/moorage"] = {
                "webhooks": webhooks
            }

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if self.is_away:
            raise Unavailable(503, "", "away")
        if target not in self.configurations:
            return await self._transport.request(method, target, body, content_type)
        if method == "PATCH":
            self.writes += 1
            self.configurations[target] = apply_patch(self.configurations[target], msgspec.json.decode(body))
        return Answer(200, msgspec.json.encode(self.configurations[target]))

    def stream(self, target: str) -> Any:
        return self._transport.stream(target)

    async def close(self) -> None:
        await self._transport.close()

    @property
    def bundles(self) -> set[str]:
        return {
            base64.b64decode(each["clientConfig"].get("caBundle", "")).decode()
            for configuration in self.configurations.values()
            for each in configuration["webhooks"]
        }


@asynccontextmanager
async def registered(directory: Path) -> AsyncIterator[tuple[Client, Registering]]:
    async with api_server(directory, NONE_ON) as server:
        client = server.client("webhook")
        await create(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "moorage-system"}})
        transport = Registering(client)
        yield Client(transport), transport


@asynccontextmanager
async def serving(client: Client) -> AsyncIterator[int]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve_webhook(client, HERE, "moorage-system", "127.0.0.1", 0, port.set_result))
    try:
        yield await port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def post(port: int, path: str, body: bytes | None, authority: str) -> tuple[int, bytes]:
    def send() -> tuple[int, bytes]:
        asked = Request(f"https://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
        try:
            with urlopen(asked, context=ssl.create_default_context(cadata=authority)) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    return await asyncio.to_thread(send)


async def test_reviews_are_answered_over_https_by_every_replica(tmp_path: Path) -> None:
    async with registered(tmp_path) as (client, known), serving(client) as one, serving(client) as other:
        (authority,) = known.bundles
        for port in (one, other):
            assert await post(port, "/readyz", None, authority) == (200, b"ok")
            code, body = await post(port, "/mutate?timeout=5s", review(ruled()), authority)
            assert (code, answered(body)["patchType"]) == (200, "JSONPatch")
            code, body = await post(port, "/validate", review(ruled(rules="- key: [")), authority)
            assert (code, answered(body)["allowed"]) == (200, False)
        assert (await post(one, "/mutate", b"{}", authority))[0] == 400
        assert (await post(one, "/mutate", None, authority))[0] == 405
        assert (await post(one, "/elsewhere", b"{}", authority))[0] == 404
        assert known.writes == 2  # one for each configuration: the second replica found its work done


async def test_an_api_server_that_does_not_answer_is_not_asked_about_namespaces_at_each_review(tmp_path: Path) -> None:
    async with registered(tmp_path) as (client, known), serving(client) as port:
        (authority,) = known.bundles
        known.is_away = True
        for namespace, expected in (("default", 200), ("not-seen-yet", 500)):
            asked = msgspec.json.decode(review(ruled()))
            asked["request"]["namespace"] = namespace
            assert (await post(port, "/validate", msgspec.json.encode(asked), authority))[0] == expected


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with registered(tmp_path) as (client, known), serving(client) as port:
        (authority,) = known.bundles
        code, _ = await post(port, "/mutate", b" " * (LIMITS.body_size + 1), authority)
        assert code == 413


async def kept(client: Client) -> dict[str, bytes]:
    secret = await read(client, "Secret", SECRET, "moorage-system")
    return {name: base64.b64decode(text) for name, text in secret["data"].items()}


NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_replicas_that_start_together_agree_on_one_certificate(tmp_path: Path) -> None:
    async with registered(tmp_path) as (client, known):
        replicas = [WebhookCertificates(client, "moorage-system", service_names("moorage-system")) for _ in range(5)]
        await asyncio.gather(*(each.renew(NOW) for each in replicas))
        assert known.bundles == {(await kept(client))["ca.crt"].decode()}


async def test_certificates_are_renewed_and_an_older_one_stays_trusted(tmp_path: Path) -> None:
    async with registered(tmp_path) as (client, known):
        certificates = WebhookCertificates(client, "moorage-system", service_names("moorage-system"))
        await certificates.renew(NOW)
        first = await kept(client)
        await certificates.renew(NOW + timedelta(days=300))
        assert await kept(client) == first
        await certificates.renew(NOW + timedelta(days=340))
        second = await kept(client)
        assert second["tls.crt"] != first["tls.crt"]
        assert second["ca.crt"] == first["ca.crt"]
        await certificates.renew(NOW + timedelta(days=3640))
        third = await kept(client)
        assert third["ca.crt"] != first["ca.crt"]
        assert known.bundles == {third["ca.crt"].decode()}
        # Another replica may go on with the older certificate for a while: the new authority vouches for it.
        authority, older = (x509.load_pem_x509_certificate(each) for each in (third["ca.crt"], second["tls.crt"]))
        older.verify_directly_issued_by(authority)


async def test_a_secret_that_is_deleted_is_written_again_and_one_that_is_broken_is_made_anew(tmp_path: Path) -> None:
    async with registered(tmp_path) as (client, _):
        certificates = WebhookCertificates(client, "moorage-system", service_names("moorage-system"))
        await certificates.renew(NOW)
        first = await kept(client)
        row = kinds.row("v1", "Secret")
        await client.delete(row, "moorage-system", SECRET)
        await certificates.renew(NOW)
        assert await kept(client) == first
        await client.patch(row, "moorage-system", SECRET, {"data": {"other": base64.b64encode(b"kept").decode()}})
        await certificates.renew(NOW)
        assert await kept(client) == {**first, "other": b"kept"}
        await client.patch(
            row, "moorage-system", SECRET, {"data": {"tls.key": base64.b64encode(first["ca.key"]).decode()}}
        )
        await certificates.renew(NOW)
        assert (await kept(client))["ca.crt"] == first["ca.crt"]
        assert (await kept(client))["tls.key"] not in (first["tls.key"], first["ca.key"])
