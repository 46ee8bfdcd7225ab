"""Attacks with bodies and objects that are costly to parse, to multiply out or to act on."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from attack_rows.frame import Site, attack

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
YAML = "application/yaml"
CREATED = (201,)
DEFAULT = "/namespaces/default"


@attack("nothing at all", by="authenticated", answers=CREATED)
async def nothing(site: Site) -> None:
    """What the bench itself costs."""
    await site.ask("POST", REVIEWS, {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}})


@attack("120 KB of [ as YAML", by="authenticated")
async def brackets(site: Site) -> None:
    await site.ask("POST", REVIEWS, b"[" * 120_000, YAML)


@attack("120 KB of { as YAML", by="authenticated")
async def braces(site: Site) -> None:
    await site.ask("POST", REVIEWS, b"{" * 120_000, YAML)


@attack("8 × 1 MiB of [ as YAML", by="editor")
async def large_brackets(site: Site) -> None:
    for _ in range(8):
        await site.ask("POST", f"/api/v1{DEFAULT}/configmaps", b"[" * (1 << 20), YAML)


CONTAINERS = [{"name": "c", "image": "pause"}]
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": CONTAINERS}}


async def owner(site: Site, path: str, **spec: Any) -> None:
    """Create an owner of pods; a while later it is deleted with them, so that memory can be given back."""
    body = {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE, **spec},
    }
    await site.ask("POST", path, body)
    await asyncio.sleep(8)
    foreground = {"propagationPolicy": "Foreground"}
    await site.ask("DELETE", f"{path}/x", foreground, by="administrator")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (await site.ask("GET", f"{path}/x", by="administrator")).status == 404:
            break
        await asyncio.sleep(0.2)
    else:
        site.miss("its pods were not gone after a minute")


@attack("StatefulSet with 2,147,483,647 replicas", by="editor", answers=CREATED, keeps=True)
async def ordinals(site: Site) -> None:
    path = f"/apis/apps/v1{DEFAULT}/statefulsets"
    await owner(site, path, replicas=2**31 - 1, podManagementPolicy="Parallel", serviceName="x")


@attack("Deployment with 2,147,483,647 replicas", by="editor", answers=CREATED, keeps=True)
async def replicas(site: Site) -> None:
    await owner(site, f"/apis/apps/v1{DEFAULT}/deployments", replicas=2**31 - 1)


@attack("indexed Job with 100,000 completions at once", by="editor", answers=CREATED, keeps=True)
async def completions(site: Site) -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    body = {"completions": 100_000, "parallelism": 100_000, "completionMode": "Indexed", "template": template}
    await owner(site, f"/apis/batch/v1{DEFAULT}/jobs", **body, manualSelector=True)


@attack("Deployment with maxSurge of 5,000 digits", by="editor")
async def surge(site: Site) -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    spec["strategy"] = {"rollingUpdate": {"maxSurge": "9" * 5_000 + "%"}}
    await site.ask("POST", f"/apis/apps/v1{DEFAULT}/deployments", {"metadata": {"name": "x"}, "spec": spec})


@attack("CronJob with @every and 2,000 digits", by="editor")
async def every(site: Site) -> None:
    template = {"spec": {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}}
    spec = {"schedule": "@every " + "9" * 2_000, "jobTemplate": template}
    await site.ask("POST", f"/apis/batch/v1{DEFAULT}/cronjobs", {"metadata": {"name": "x"}, "spec": spec})


@attack("20,000 %TAG directives, after each sort of line break", by="editor")
async def directives(site: Site) -> None:
    for end in (b"\n", b"\r", "\u2028".encode()):
        tags = b"".join(b"%%TAG !t%d! tag:example.com,2000:%s" % (number, end) for number in range(20_000))
        await site.ask("POST", f"/api/v1{DEFAULT}/configmaps", tags + b"---\nkind: ConfigMap\n", YAML)


@attack("Role with 30 verbs × groups × resources × names", by="namespace admin")
async def rights(site: Site) -> None:
    words = [f"w{number}" for number in range(30)]
    rule = {"verbs": words, "apiGroups": words, "resources": words, "resourceNames": words}
    path = f"/apis/rbac.authorization.k8s.io/v1{DEFAULT}/roles"
    await site.ask("POST", path, {"metadata": {"name": "x"}, "rules": [rule]})


@attack("100,000 repeated keys below one long key, 5 times", by="editor", answers=(201, 400, 409))
async def repeated_keys(site: Site) -> None:
    for number in range(5):
        entries = b",".join([b'"k":1'] * 50_000)
        body = b'{"metadata":{"name":"x%d"},"%s":{%s}}' % (number, b"a" * 50_000, entries)
        await site.ask("POST", f"/api/v1{DEFAULT}/configmaps", body)


async def ten_thousand(site: Site) -> None:
    labels = {f"key-{number}": "value" for number in range(20)}
    objects = [{"metadata": {"name": f"object-{number}", "labels": labels}} for number in range(10_000)]
    await site.fill(f"/api/v1{DEFAULT}/configmaps", objects)


@attack("64 KB selectors on 10,000 objects", by="viewer", prepare=ten_thousand, answers=(200, 400))
async def selectors(site: Site) -> None:
    path = f"/api/v1{DEFAULT}/configmaps"
    many = ",".join(f"!absent-{number}" for number in range(4_500))
    fields = ",".join(f"metadata.name!=x{number}" for number in range(2_500))
    values = f"key-1 notin ({','.join(f'v{number}' for number in range(9_000))})"
    most = ",".join(f"!absent-{number}" for number in range(200))
    for query in (
        f"labelSelector={many}",
        f"fieldSelector={fields}",
        f"labelSelector={values}",
        f"labelSelector={most}",
    ):
        await site.ask("GET", f"{path}?{query}&limit=0")


@attack("pods that request cpu: 1E on a node of their choice", by="editor", answers=CREATED)
async def exabytes(site: Site) -> None:
    requests = {"cpu": "1E", "memory": "999E", "ephemeral-storage": "99999999E"}
    for number in range(20):
        container = {**CONTAINERS[0], "resources": {"requests": requests}}
        spec = {"containers": [container], "nodeName": f"node-{number % 3 + 1}"}
        await site.ask("POST", f"/api/v1{DEFAULT}/pods", {"metadata": {"name": f"x{number}"}, "spec": spec})


@attack("TokenRequest with spec: x; nested k: in managedFields", by="editor", answers=(201, 400, 403))
async def malformed(site: Site) -> None:
    for spec in ("x", {"audiences": 1}):
        await site.ask("POST", f"/api/v1{DEFAULT}/serviceaccounts/default/token", {"spec": spec})
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    fields: Any = {"f:data": {"k:" + "[" * 5_000: {}}}
    metadata = {"name": "x", "managedFields": [{**entry, "fieldsV1": fields}]}
    await site.ask("POST", f"/api/v1{DEFAULT}/configmaps", {"metadata": metadata, "data": {"a": "b"}})


@attack("20,000 managers in managedFields", by="editor", answers=CREATED)
async def managers(site: Site) -> None:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    entries = [{**entry, "manager": f"m{n}", "fieldsV1": {f"f:x{n}": {}}} for n in range(20_000)]
    metadata = {"name": "x", "managedFields": entries}
    await site.ask("POST", f"/api/v1{DEFAULT}/configmaps", {"metadata": metadata, "data": {"a": "b"}})


@attack("Service with 9,000 node ports", by="editor")
async def node_ports(site: Site) -> None:
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 9_001)]
    body = {"metadata": {"name": "x"}, "spec": {"type": "NodePort", "ports": ports}}
    await site.ask("POST", f"/api/v1{DEFAULT}/services", body)


@attack("40 patches at once of an object of 1.3 MB", by="editor", answers=(200, 201, 409, 429), keeps=True)
async def patches(site: Site) -> None:
    path = f"/api/v1{DEFAULT}/configmaps"
    await site.ask("POST", path, {"metadata": {"name": "x"}, "data": {f"k{n}": "v" * 20 for n in range(30_000)}})
    bodies = [{"data": {f"k{number}": "changed"}} for number in range(40)]
    merge = "application/strategic-merge-patch+json"
    await asyncio.gather(*(site.ask("PATCH", f"{path}/x", body, merge) for body in bodies))


@attack("indexed Job, 20 success rules of 64 KB", by="editor", answers=CREATED)
async def success_rules(site: Site) -> None:
    indexes = ",".join(str(number * 2) for number in range(11_000))
    spec = {
        "completionMode": "Indexed",
        "completions": 100_000,
        "parallelism": 1,
        "successPolicy": {"rules": [{"succeededIndexes": indexes, "succeededCount": 1}] * 20},
        "template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}},
    }
    await site.ask("POST", f"/apis/batch/v1{DEFAULT}/jobs", {"metadata": {"name": "x"}, "spec": spec})


@attack("100 bodies of 60,000 values", by="authenticated")
async def many_values(site: Site) -> None:
    """Nothing of what is refused may stay."""
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}, "x": [{}] * 60_000}}
    for _ in range(100):
        await site.ask("POST", REVIEWS, body)


@attack("6 pods of 4,100 containers, whose status finds no room", by="editor", answers=CREATED, linger=5, keeps=True)
async def no_room(site: Site) -> None:
    containers = [{"name": f"c{number}", "image": "image"} for number in range(4100)]
    for number in range(6):
        body = {"metadata": {"name": f"x-{number}"}, "spec": {"containers": containers}}
        await site.ask("POST", f"/api/v1{DEFAULT}/pods", body)


@attack("10 pods of 2,000 containers", by="editor", answers=CREATED, linger=5, keeps=True)
async def many_containers(site: Site) -> None:
    containers = [{"name": f"c{number}", "image": f"image-{number}"} for number in range(2000)]
    for number in range(10):
        body = {"metadata": {"name": f"x-{number}"}, "spec": {"containers": containers}}
        await site.ask("POST", f"/api/v1{DEFAULT}/pods", body)


@attack("ConfigMap with 6,000 owners that are gone", by="editor", answers=CREATED)
async def many_owners(site: Site) -> None:
    owners = [{"apiVersion": "v1", "kind": "Secret", "name": f"o{each}", "uid": f"u{each}"} for each in range(6000)]
    await site.ask("POST", f"/api/v1{DEFAULT}/configmaps", {"metadata": {"name": "x", "ownerReferences": owners}})
