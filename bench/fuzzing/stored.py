"""Whether everything that was stored can be read, listed, watched, patched with nothing, and deleted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import ClientSession as Session

from attack_rows.frame import Site
from fuzzing.asking import NAMESPACE, NARROW, collection
from fuzzing.bodies import JSON, MERGE_PATCH, NAMES, STRATEGIC, VALID
from fuzzing.sending import Told
from moorage.api.kinds import KINDS, Kind

Data = dict[str, Any]
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
PATIENCE = 60.0
_MOST = 40
"""So many objects of a kind are tried one by one."""
_OURS = {*NAMES, *(obj["metadata"]["name"] for several in VALID.values() for obj in several)}
_OTHERS = {"bound", "editor", "viewer", "namespace-admin", "default", "kube-root-ca.crt", "kubernetes"}
"""What a namespace has before the run."""
_EVENT = next(kind for kind in KINDS if kind.api_version == "v1" and kind.kind == "Event")
_FINE = (200, 201, 202, 404, 409)
"""Controllers change and delete objects at any time."""


async def unusable(site: Site) -> list[str]:
    """What is wrong with objects that are stored, in words; then they are deleted."""
    async with site.session("administrator") as session:
        problems: list[str] = []
        for found in await asyncio.gather(*(_read_all(session, kind) for kind in KINDS)):
            problems += found
        for kind in KINDS:
            for obj in (await _ours(session, kind))[:_MOST]:
                problems += await _try(session, kind, obj)
        return [*problems, *await _delete_all(session), *await _delete_events(session)]


async def _ask(session: Session, method: str, path: str, body: Data | None = None, media_type: str = JSON) -> Told:
    head = {"Content-Type": media_type} if method == "PATCH" else {"Accept": media_type}
    data = None if body is None else json.dumps(body)
    async with session.request(method, path, data=data, headers=head) as answer:
        return Told(answer.status, await answer.text())


async def _read_all(session: Session, kind: Kind) -> list[str]:
    problems = []
    asked = [(version, form, "") for version in (kind.version, *kind.older_versions) for form in (JSON, TABLE)]
    for version, form, query in (*asked, (kind.version, JSON, "?watch=1&timeoutSeconds=1&resourceVersion=0")):
        path = collection(kind, version, "") + query
        told = await _ask(session, "GET", path, media_type=form)
        if told.status != 200 or '"type":"ERROR"' in told.text:
            problems.append(f"GET {path} as {form}: {told.status} {told.text[:300]}")
    return problems


async def _ours(session: Session, kind: Kind) -> list[Data]:
    told = await _ask(session, "GET", collection(kind, "", ""))
    return [obj for obj in json.loads(told.text).get("items", ()) if _is_ours(kind, obj)]


def _is_ours(kind: Kind, obj: Data) -> bool:
    """Whether the run brought an object about, and its end should be tried."""
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace")
    if namespace in (NAMESPACE, NARROW):
        return kind.plural != "events" and name not in _OTHERS
    return name in _OURS


def _path(kind: Kind, obj: Data) -> str:
    return f"{collection(kind, '', obj['metadata'].get('namespace', ''))}/{obj['metadata']['name']}"


async def _try(session: Session, kind: Kind, obj: Data) -> list[str]:
    problems = []
    for method, media_type in (("GET", JSON), ("PATCH", MERGE_PATCH), ("PATCH", STRATEGIC)):
        told = await _ask(session, method, _path(kind, obj), {} if method == "PATCH" else None, media_type)
        if told.status not in _FINE:
            text = f"{told.status} {told.text[:400]}\n    {json.dumps(obj)[:2_000]}"
            problems.append(f"{method} {_path(kind, obj)} as {media_type}: {text}")
    return problems


async def _delete_all(session: Session) -> list[str]:
    problems: dict[str, None] = {}
    end = time.monotonic() + PATIENCE
    left: list[str] = []
    while time.monotonic() < end:
        objects = [(kind, obj) for kind in KINDS for obj in await _ours(session, kind)]
        left = [_path(kind, obj) for kind, obj in objects]
        if not left:
            return list(problems)
        for kind, obj in objects:
            problems |= dict.fromkeys([problem async for problem in _delete(session, kind, obj)])
    return [*problems, f"not gone after {PATIENCE:.0f} s: {', '.join(left[:10])}"]


async def _delete_events(session: Session) -> list[str]:
    """Delete what controllers and kubelets said, which the server would keep for an hour."""
    told = {space: await _ask(session, "DELETE", collection(_EVENT, "", space)) for space in (NAMESPACE, NARROW)}
    return [f"DELETE events of {space}: {each}" for space, each in told.items() if each.status not in _FINE]


async def _delete(session: Session, kind: Kind, obj: Data) -> AsyncIterator[str]:
    path, metadata = _path(kind, obj), obj["metadata"]
    if metadata.get("finalizers"):
        told = await _ask(session, "PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
        if told.status not in _FINE:
            yield f"PATCH {path} without finalizers: {told.status} {told.text[:400]}"
    if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds"):
        told = await _ask(session, "DELETE", f"{path}?gracePeriodSeconds=0")
        if told.status not in _FINE:
            yield f"DELETE {path}: {told.status} {told.text[:400]}"
