"""Service accounts with roles of their own, and kubeconfigs for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from moorage.api import kinds
from moorage.apiserver.run import APIServer
from moorage.client import Client
from tests.plane import create

Data = dict[str, Any]
_GROUP = "rbac.authorization.k8s.io"
_ACCOUNT = kinds.row("v1", "ServiceAccount")


async def bind(client: Client, account: str, role: str, namespace: str = "kube-system") -> None:
    """Let a service account do in all namespaces what a role says."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    reference = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role}
    metadata = {"name": f"{account}-as-{role.rpartition(':')[2]}"}
    binding = {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRoleBinding", "metadata": metadata}
    await create(client, {**binding, "subjects": [subject], "roleRef": reference})


async def kubeconfig(server: APIServer, file: Path, account: str, namespace: str = "kube-system") -> Path:
    """Create a service account, and a kubeconfig with a token of it."""
    metadata = {"name": account, "namespace": namespace}
    await create(server.client("test"), {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    return await token_of(server, file, account, namespace)


async def token_of(server: APIServer, file: Path, account: str, namespace: str = "kube-system") -> Path:
    """A kubeconfig with a token of a service account that is there."""
    client = server.client("test")
    answer = await client.post(_ACCOUNT, namespace, account, "token", {"spec": {"expirationSeconds": 3600}})
    token = msgspec.json.decode(answer)["status"]["token"]
    trusted = str(server.kubeconfig.parent / "ca.crt")
    config: Data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": server.url, "certificate-authority": trusted}}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": account}}],
        "current-context": "it",
    }
    file.write_text(json.dumps(config))
    return file
