"""Attach mode as `deploy/` installs it: its service accounts and roles, and nothing that these do not allow."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import yaml

from moorage.api import kinds
from moorage.apiserver.run import APIServer
from moorage.client import Client, Exists
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import load
from moorage.tools.attach.manifests import Installation, all_objects
from tests.plane import Data, create

NAMESPACE = "moorage-system"
_ACCOUNT = kinds.row("v1", "ServiceAccount")


async def install(server: APIServer, objects: Iterable[Data] = (), *, programs: bool = False) -> None:
    """Create what of an installation this API server has; it has no webhook configurations and no policies.

    Tests run the programs themselves, unless their Deployments are asked for.
    """
    person = server.client("administrator")
    for each in objects or all_objects(Installation()):
        if kinds.find(each["apiVersion"], each["kind"]) and (programs or each["kind"] != "Deployment"):
            try:
                await create(person, each)
            except Exists:
                continue


def without(resource: str, verb: str) -> list[Data]:
    """An installation whose roles lack one right."""
    objects = all_objects(Installation())
    for each in objects:
        for rule in each.get("rules", ()):
            if rule["resources"] == [resource]:
                rule["verbs"] = [known for known in rule["verbs"] if known != verb]
    return objects


async def as_account(server: APIServer, name: str) -> Client:
    """Whoever has the token of one of our service accounts."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await server.client("administrator").post(_ACCOUNT, NAMESPACE, name, "token", asked)
    config = yaml.safe_load(server.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": msgspec.json.decode(answer)["status"]["token"]}
    file = server.kubeconfig.parent / f"{name}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return Client(HTTPSTransport(load(file), name))
