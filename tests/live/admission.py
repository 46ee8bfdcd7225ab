"""What Moorage's own API server does not have, as a way to it: webhook configurations, and calls over HTTPS."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec

from moorage.apiserver.patch.jsonpatch import apply as apply_patch
from moorage.cel.env import kubernetes
from moorage.cel.types import DYN
from moorage.client import Client
from moorage.client.transport import Answer, Transport
from moorage.tools.attach.manifests import Installation, all_objects
from tests.plane import Data

_ENVIRONMENT = kubernetes({"object": DYN, "oldObject": DYN, "request": DYN})
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v1(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?$"
)
_KIND = re.compile(r"/apis/admissionregistration.k8s.io/v1/(?P<plural>\w+)/moorage$")
_OPERATIONS = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE"}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_PAUSE = 0.01


class Webhooks:
    """The webhook configurations that `deploy/` installs, and the port at which their Service is found."""

    def __init__(self, told: Installation) -> None:
        self.configurations: dict[str, Data] = {
            f"{each['kind'].lower()}s": each
            for each in all_objects(told)
            if each["kind"].endswith("WebhookConfiguration")
        }
        self.port = 0
        self.calls = 0
        self.failures = 0
        """How often nobody answered."""

    def of(self, kind: str, asked: Data, item: Data, old: Data | None) -> Iterator[Data]:
        """The webhooks of a configuration that want to see a request."""
        for webhook in self.configurations[f"{kind}webhookconfigurations"]["webhooks"]:
            if any(_is_about(rule, asked) for rule in webhook["rules"]) and all(
                _ENVIRONMENT.compile(each["expression"]).evaluate(item, old, asked)
                for each in webhook["matchConditions"]
            ):
                yield webhook

    async def call(self, webhook: Data, request: Data) -> Data:
        """What a webhook answers. One that does not is asked again, as whoever made the request would."""
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        while True:
            self.calls += 1
            try:
                body = await asyncio.to_thread(self._post, webhook["clientConfig"], msgspec.json.encode(review))
            except (URLError, OSError):
                self.failures += 1
                await asyncio.sleep(_PAUSE)
                continue
            answer = msgspec.json.decode(body)
            assert answer["response"]["uid"] == request["uid"]
            response: Data = answer["response"]
            return response

    def _post(self, client_config: Data, body: bytes) -> bytes:
        authority = base64.b64decode(client_config.get("caBundle", "")).decode()
        url = f"https://127.0.0.1:{self.port}{client_config['service']['path']}?timeout=10s"
        asked = Request(url, body, {"Content-Type": "application/json"})
        with urlopen(asked, context=ssl.create_default_context(cadata=authority), timeout=10) as answer:
            content: bytes = answer.read()
        return content


class Registering:
    """A way to an API server that has webhook configurations, for whoever its roles let read and change them."""

    def __init__(self, inner: Transport, webhooks: Webhooks) -> None:
        self._inner, self._webhooks = inner, webhooks

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        found = _KIND.match(target)
        if found is None:
            return await self._inner.request(method, target, body, content_type)
        plural = found["plural"]
        if not await self._may(plural, method.lower()):
            return Answer(403, b"{}")
        if method == "PATCH":
            configurations = self._webhooks.configurations
            configurations[plural] = apply_patch(configurations[plural], msgspec.json.decode(body))
        return Answer(200, msgspec.json.encode(self._webhooks.configurations[plural]))

    async def _may(self, plural: str, verb: str) -> bool:
        asked = {"group": "admissionregistration.k8s.io", "resource": plural, "name": "moorage", "verb": verb}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        body = msgspec.json.encode({**review, "spec": {"resourceAttributes": asked}})
        answer = await self._inner.request("POST", _REVIEWS, body, "application/json")
        return bool(msgspec.json.decode(answer.body)["status"]["allowed"])

    def stream(self, target: str) -> Any:
        return self._inner.stream(target)

    async def close(self) -> None:
        await self._inner.close()


class Admitting:
    """A way to an API server that calls webhooks before it writes."""

    def __init__(self, client: Client, user: str, webhooks: Webhooks) -> None:
        self._inner, self._user, self._webhooks = client.transport, user, webhooks

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        url = urlsplit(target)
        found = _PATH.match(url.path)
        if method not in _OPERATIONS or found is None or url.query:
            return await self._inner.request(method, target, body, content_type)
        written = await self._written(method, target, body, content_type)
        if isinstance(written, Answer):
            return written
        item, old = written
        asked = {
            "uid": "u", "operation": _OPERATIONS[method], "namespace": found["namespace"] or "",
            "name": item["metadata"].get("name", ""), "userInfo": {"username": self._user},
            "resource": {"group": found["group"] or "", "version": "v1", "resource": found["plural"]},
        }  # fmt: skip
        admitted = await self._admitted(asked, item, old)
        if isinstance(admitted, Answer):
            return admitted
        if admitted == item:
            return await self._inner.request(method, target, body, content_type)
        content = msgspec.json.encode(admitted)
        return await self._inner.request("POST" if old is None else "PUT", target, content, "application/json")

    async def _written(
        self, method: str, target: str, body: bytes, content_type: str
    ) -> tuple[Data, Data | None] | Answer:
        """What would be stored, and what is stored now; an answer when that is an error."""
        if method == "POST":
            return msgspec.json.decode(body), None
        stored = await self._inner.request("GET", target)
        tried = await self._inner.request(method, f"{target}?dryRun=All", body, content_type)
        for answer in (stored, tried):
            if answer.status >= 300:
                return answer
        return msgspec.json.decode(tried.body), msgspec.json.decode(stored.body)

    async def _admitted(self, asked: Data, item: Data, old: Data | None) -> Data | Answer:
        for kind in ("mutating", "validating"):
            for webhook in list(self._webhooks.of(kind, asked, item, old)):
                response = await self._webhooks.call(webhook, {**asked, "object": item, "oldObject": old})
                if not response["allowed"]:
                    return Answer(response["status"]["code"], msgspec.json.encode(response["status"]))
                if "patch" in response:
                    item = apply_patch(item, msgspec.json.decode(base64.b64decode(response["patch"])))
        return item

    def stream(self, target: str) -> Any:
        return self._inner.stream(target)

    async def close(self) -> None:
        await self._inner.close()


def _is_about(rule: Data, asked: Data) -> bool:
    resource = asked["resource"]
    return (
        resource["group"] in rule["apiGroups"]
        and resource["resource"] in rule["resources"]
        and asked["operation"] in rule["operations"]
    )
