"""The same verbs through three real clients: kubectl, the official Python client, and plain HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from kubernetes import config, dynamic
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import DynamicApiError

from moorage.api import kinds
from tests.live.conftest import Live

Data = dict[str, Any]


class Refused(Exception):
    """The server refused a request; the message is the one that a user sees."""


class Client(Protocol):
    def create(self, data: Data) -> Data: ...

    def get(self, data: Data) -> Data: ...

    def names(self, api_version: str, kind: str, *, selector: str = "") -> list[str]: ...

    def replace(self, data: Data) -> Data: ...

    def patch(self, data: Data, change: Data) -> Data: ...

    def delete(self, data: Data) -> None: ...


class Kubectl:
    def __init__(self, live: Live) -> None:
        self._live = live

    def _run(self, *args: str, stdin: Data | None = None) -> Any:
        run = self._live.kubectl(*args, stdin=json.dumps(stdin) if stdin else "", check=False)
        if run.returncode:
            raise Refused(run.stderr.strip())
        return json.loads(run.stdout) if "json" in args else run.stdout

    def _named(self, data: Data) -> list[str]:
        kind = kinds.row(data["apiVersion"], data["kind"])
        return [kind.resource, data["metadata"]["name"], "-n", data["metadata"].get("namespace", "default")]

    def create(self, data: Data) -> Data:
        created: Data = self._run("create", "-f", "-", "-o", "json", stdin=data)
        return created

    def get(self, data: Data) -> Data:
        item: Data = self._run("get", *self._named(data), "-o", "json")
        return item

    def names(self, api_version: str, kind: str, *, selector: str = "") -> list[str]:
        listed = self._run("get", kinds.row(api_version, kind).resource, "-o", "json", "-l", selector)
        return sorted(item["metadata"]["name"] for item in listed["items"])

    def replace(self, data: Data) -> Data:
        replaced: Data = self._run("replace", "-f", "-", "-o", "json", stdin=data)
        return replaced

    def patch(self, data: Data, change: Data) -> Data:
        patched: Data = self._run(
            "patch", *self._named(data), "--type", "merge", "-p", json.dumps(change), "-o", "json"
        )
        return patched

    def delete(self, data: Data) -> None:
        self._run("delete", *self._named(data), "--wait=false")


class Official:
    def __init__(self, live: Live) -> None:
        connect: Any = config.new_client_from_config
        make: Any = dynamic.DynamicClient
        self._client = make(connect(str(live.kubeconfig)))

    def _resource(self, data: Data) -> Any:
        return self._client.resources.get(api_version=data["apiVersion"], kind=data["kind"])

    def _ask(self, verb: str, data: Data, **more: Any) -> Any:
        namespace = data["metadata"].get("namespace", "default") if "metadata" in data else None
        try:
            return getattr(self._resource(data), verb)(namespace=namespace, **more).to_dict()
        except (ApiException, DynamicApiError) as error:
            raise Refused(json.loads(error.body or "{}")["message"]) from None

    def create(self, data: Data) -> Data:
        created: Data = self._ask("create", data, body=data)
        return created

    def get(self, data: Data) -> Data:
        item: Data = self._ask("get", data, name=data["metadata"]["name"])
        return item

    def names(self, api_version: str, kind: str, *, selector: str = "") -> list[str]:
        listed = self._ask("get", {"apiVersion": api_version, "kind": kind}, label_selector=selector)
        return sorted(item["metadata"]["name"] for item in listed["items"])

    def replace(self, data: Data) -> Data:
        replaced: Data = self._ask("replace", data, body=data)
        return replaced

    def patch(self, data: Data, change: Data) -> Data:
        media_type = "application/merge-patch+json"
        name = data["metadata"]["name"]
        patched: Data = self._ask("patch", data, body=change, name=name, content_type=media_type)
        return patched

    def delete(self, data: Data) -> None:
        self._ask("delete", data, name=data["metadata"]["name"])


class Http:
    def __init__(self, live: Live) -> None:
        self._live = live

    def _path(self, data: Data, *, named: bool = True) -> str:
        kind = kinds.row(data["apiVersion"], data["kind"])
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        metadata = data.get("metadata", {})
        scope = f"/namespaces/{metadata.get('namespace', 'default')}" if kind.namespaced and metadata else ""
        return f"{root}{scope}/{kind.plural}" + (f"/{metadata['name']}" if named else "")

    def _ask(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Any:
        code, content = self._live.http(method, path, body, media_type=media_type)
        if code >= 400:
            raise Refused(content["message"])
        return content

    def create(self, data: Data) -> Data:
        created: Data = self._ask("POST", self._path(data, named=False), data)
        return created

    def get(self, data: Data) -> Data:
        item: Data = self._ask("GET", self._path(data))
        return item

    def names(self, api_version: str, kind: str, *, selector: str = "") -> list[str]:
        path = self._path({"apiVersion": api_version, "kind": kind}, named=False)
        return sorted(
            item["metadata"]["name"] for item in self._ask("GET", f"{path}?labelSelector={selector}")["items"]
        )

    def replace(self, data: Data) -> Data:
        replaced: Data = self._ask("PUT", self._path(data), data)
        return replaced

    def patch(self, data: Data, change: Data) -> Data:
        patched: Data = self._ask("PATCH", self._path(data), change, "application/merge-patch+json")
        return patched

    def delete(self, data: Data) -> None:
        self._ask("DELETE", self._path(data))


CLIENTS: dict[str, Callable[[Live], Client]] = {
    "kubectl": Kubectl,
    "official Python client": Official,
    "plain HTTP": Http,
}
