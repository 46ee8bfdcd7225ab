"""Whole requests, drawn at random: who asks, with which method, for which path, with what options and body."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from fuzzing.bodies import JSON, NAMES, PROTOBUF, YAML, Body, encoded, patch, some_object
from fuzzing.texts import LONG, STRANGE, field_selector, label_selector, pick, word
from moorage.api.kinds import KINDS, REVIEWS, Kind

USERS = ("administrator",) * 12 + ("editor",) * 3 + ("namespace admin", "viewer", "authenticated", "nobody")
NO_BODY = Body()
WHOLE, SLOWLY, CUT = "whole", "slowly", "cut off"
NAMESPACE, NARROW = "default", "narrow"
"""Where most is done, and where limit ranges and quotas are, which would soon forbid everything."""
_KEPT = ("namespaces", "rolebindings", "clusterroles", "clusterrolebindings", "resourcequotas", "nodes")
"""What the users of the run need: it is deleted one by one and by a name of ours, never all at once."""
_METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X")
_ACCEPTED = (
    JSON, YAML, PROTOBUF, "*/*", "", f"{JSON};as=Table;v=v1;g=meta.k8s.io", f"{JSON};as=Table;v=v1beta1;g=meta.k8s.io",
    f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io", f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    f"{JSON};as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", f"{JSON};as=X;v=v9;g=x", f"{JSON};q=0, */*;q=nan",
    f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}", "application/cbor", ";;;", "a/b/c", f"{JSON};stream=watch", "\xff",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)  # fmt: skip
_HEADERS = (
    ("Content-Encoding", "gzip"), ("Content-Encoding", "identity"), ("Expect", "100-continue"), ("Expect", "x"),
    ("Range", "bytes=0-1"), ("If-None-Match", "*"), ("If-Match", '"1"'), ("Accept-Encoding", "gzip"), ("X-A", "\xff"),
    ("Accept-Encoding", "gzip;q=0, *"), ("Impersonate-User", "editor"), ("Impersonate-User", ""), ("Upgrade", "h2c"),
    ("Impersonate-Group", "system:masters"), ("Impersonate-Extra-%", "x"), ("Impersonate-Uid", "1"),
    ("Origin", "null"), ("Connection", "close"), ("Connection", "Upgrade"), ("Host", "x"),
    ("Authorization", "Basic eDp5"), ("Cookie", "a"), ("Authorization", "Bearer a.b.c"), ("Authorization", "Bearer"),
    ("Transfer-Encoding", "gzip"), ("Content-Length", "0"), ("Content-Length", "-1"), ("Content-Length", "9" * 30),
    ("X-HTTP-Method-Override", "DELETE"), ("User-Agent", "x" * 999), ("Sec-WebSocket-Protocol", "x"),
    ("Audit-ID", "\x01"), ("X" * LONG, "y"), ("Content-Type", JSON),
)  # fmt: skip
_DOCUMENTS = (
    "/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version", "/healthz", "/livez", "/readyz",
    "/metrics",
    "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/readyz/etcd", "/livez/x",
    "/metrics/x",
    "/debug/pprof", "/logs", "/.well-known/openid-configuration", "/openid/v1/jwks", "/apis/x.example.com/v1",
    "/api/v2",
)  # fmt: skip
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "limit": ("1", "2", "500", "0", "-1", "x", "9" * 25, "1.5"),
    "continue": ("x", "", "eyJ2IjoxfQ", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0", "%",
        "A" * LONG),
    "resourceVersion": ("0", "1", "5", "", "-1", "x", "9" * 19, "9" * 25, "1.0", "١"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "watch": ("1", "true", "false", "x", ""),
    "allowWatchBookmarks": ("true", "x"),
    "sendInitialEvents": ("true", "false", "x"),
    "timeoutSeconds": ("1", "0", "-1", "x", "9" * 25),
    "timeout": ("1s", "10ms", "0", "-1s", "x", "9999999999h", "1h1h"),
    "dryRun": ("All", "All", "", "x"),
    "fieldManager": ("fuzz", "other", "", "x" * 200, "\x00"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "force": ("true", "false", "x"),
    "propagationPolicy": ("Background", "Foreground", "Orphan", "x"),
    "gracePeriodSeconds": ("0", "1", "30", "-1", "x", "9" * 25),
    "orphanDependents": ("true", "x"),
    "pretty": ("true", "false", "x"),
    "ignoreStoreReadErrorWithClusterBreakingPotential": ("true",),
    "verbose": ("1",),
    "exclude": ("etcd",),
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A request as it is sent."""

    number: int
    user: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    delivery: str = WHOLE

    def __str__(self) -> str:
        return f"#{self.number} {self.user}: {self.method} {self.target[:200]} ({len(self.body):,} bytes)"

    @property
    def watching(self) -> bool:
        """Whether the answer may go on for long."""
        return "watch" in self.target

    def head(self, host: str, token: str) -> bytes:
        """The request line and the headers."""
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {host}"]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body:
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    def curl(self, url: str, directory: Path) -> str:
        """A command that asks the same; the body is kept in a file."""
        words = ["curl", "-sik", "--path-as-is", "-g", "-X", self.method]
        words += [f"-HAuthorization: Bearer token-of-{self.user.replace(' ', '-')}"] if self.user != "nobody" else []
        words += [f"-H{name}: {value}" for name, value in self.headers]
        if self.body:
            directory.mkdir(exist_ok=True)
            file = directory / f"{self.number}.body"
            file.write_bytes(self.body)
            words += ["--data-binary", f"@{file}"]
        return shlex.join([*words, url + self.target]) + (f"  # sent {self.delivery}" if self.delivery != WHOLE else "")


def _query(random: Random, **given: str) -> str:
    options: dict[str, str] = dict(given)
    for name, values in _OPTIONS.items() if random.random() < 0.4 else ():
        if random.random() < 0.06:
            options.setdefault(name, random.choice((*values, word(random)) if random.random() < 0.1 else values))
    if random.random() < 0.1:
        options["labelSelector"] = label_selector(random)
    if random.random() < 0.07:
        options["fieldSelector"] = field_selector(random)
    if "watch" in options:
        options["timeoutSeconds"] = "1"
    parts = [f"{name}={quote(value, safe='')}" for name, value in options.items()]
    if parts and random.random() < 0.05:
        parts.append(random.choice((parts[0], "a=%zz", "=", "&", "dryRun", "a;b", "\xff", "%00=%00")))
    return "?" + "&".join(parts) if parts else ""


def stream(seed: int) -> Iterator[Asked]:
    """Requests without end, the same ones for the same seed."""
    random, number = Random(seed), 0
    while True:
        number += 1
        yield _delivered(random, replace(random.choice(_SORTS)(random), number=number))


def _delivered(random: Random, asked: Asked) -> Asked:
    """With further headers, in some way of sending."""
    headers = list(asked.headers)
    if random.random() < 0.2:
        headers.append(("Accept", random.choice(_ACCEPTED)))
    while random.random() < 0.03:
        headers.append(random.choice(_HEADERS))
    if headers and random.random() < 0.02:
        headers.append(random.choice(headers))
    delivery = random.choices((WHOLE, SLOWLY, CUT), (95, 3, 2))[0]
    user = random.choice(USERS if asked.target.find("/namespaces/") > 0 else (USERS[0], USERS[0], USERS[0], *USERS))
    return replace(asked, user=user, headers=tuple(headers), delivery=delivery)


def _asked(method: str, target: str, body: Body = NO_BODY) -> Asked:
    headers = (("Content-Type", body.media_type),) if body.media_type else ()
    return Asked(0, "", method, target, headers, body.content)


def collection(kind: Kind, version: str = "", namespace: str = NAMESPACE) -> str:
    """The path of all objects of a kind."""
    if kind.plural in ("limitranges", "resourcequotas") and namespace == NAMESPACE:
        namespace = NARROW
    base = f"/apis/{kind.group}" if kind.group else "/api"
    inside = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    return f"{base}/{version or kind.version}{inside}/{kind.plural}"


def _create(random: Random) -> Asked:
    kind, name = random.choice(KINDS), random.choice(NAMES)
    version = random.choice((kind.version, *kind.older_versions))
    body = encoded(random, some_object(random, kind, name))
    namespace = random.choice((NAMESPACE,) * 9 + (NARROW,))
    return _asked("POST", collection(kind, version, namespace) + _query(random), body)


def _update(random: Random) -> Asked:
    kind, name = random.choice(KINDS), random.choice(NAMES)
    part = random.choice(("", "", "", "", *(f"/{each}" for each in kind.subresources)))
    body = encoded(random, some_object(random, kind, name))
    return _asked("PUT", f"{collection(kind)}/{name}{part}{_query(random)}", body)


def _patch(random: Random) -> Asked:
    kind, name = random.choice(KINDS), random.choice(NAMES)
    part = random.choice(("", "", "", "", *(f"/{each}" for each in kind.subresources)))
    manager = {"fieldManager": random.choice(("fuzz", "other"))} if random.random() < 0.8 else {}
    return _asked("PATCH", f"{collection(kind)}/{name}{part}{_query(random, **manager)}", patch(random, kind, name))


def _read(random: Random) -> Asked:
    kind, name = random.choice(KINDS), random.choice(NAMES)
    version = random.choice((kind.version, *kind.older_versions))
    path = collection(kind, version, random.choice((NAMESPACE, NAMESPACE, "", "kube-system", "absent")))
    if random.random() < 0.3:
        path = f"{collection(kind, version)}/{name}" + random.choice(("", *(f"/{each}" for each in kind.subresources)))
    watch = {"watch": "1"} if random.random() < 0.15 else {}
    return _asked(random.choice(("GET", "GET", "GET", "HEAD")), path + _query(random, **watch))


def _delete(random: Random) -> Asked:
    kind, name = random.choice(KINDS), random.choice(NAMES)
    options = {
        "kind": "DeleteOptions",
        "apiVersion": random.choice(("v1", "meta.k8s.io/v1", kind.api_version)),
        "gracePeriodSeconds": pick(random, 0, 0, 1, -1),
        "propagationPolicy": pick(random, "Background", "Foreground", "Orphan"),
        "preconditions": pick(random, {}, {"uid": "x"}, {"resourceVersion": "1"}),
    }
    kept = {key: value for key, value in options.items() if random.random() < 0.3}
    body = encoded(random, kept) if random.random() < 0.5 else NO_BODY
    if random.random() < 0.15:
        dry = {"dryRun": "All"} if kind.plural in _KEPT else {}
        return _asked("DELETE", collection(kind) + _query(random, **dry), body)
    return _asked("DELETE", f"{collection(kind)}/{name}{_query(random)}", body)


def _act(random: Random) -> Asked:
    """Post to a sub-resource or a review, with a body that is likely to be of its type."""
    fields: dict[str, tuple[Any, ...]] = {
        "spec": ({"replicas": pick(random, 0, 1, 3)}, {"audiences": [word(random)]}, {"expirationSeconds": 600}),
        "target": ({"kind": "Node", "name": "hollow-1"}, {"name": word(random)}),
        "metadata": ({"name": random.choice(NAMES)}, {"name": "x0", "resourceVersion": word(random)}),
        "deleteOptions": ({"gracePeriodSeconds": 0}, {"propagationPolicy": "Orphan"}),
    }
    data: dict[str, Any] = {key: pick(random, *values) for key, values in fields.items() if random.random() < 0.7}
    if random.random() < 0.5:
        review = random.choice(REVIEWS)
        attributes = {random.choice(("verb", "group", "resource", "path", "name", "x")): pick(random, word(random))}
        data["spec"] = {
            random.choice(("resourceAttributes", "nonResourceAttributes")): pick(random, attributes),
            "user": pick(random, "editor"),
            "groups": pick(random, ["a"]),
            "extra": pick(random, {"a": ["b"]}),
            "token": pick(random, word(random), "a.b.c"),
            "namespace": pick(random, "default"),
        }
        return _asked("POST", collection(review) + _query(random), encoded(random, data))
    kind = random.choice([each for each in KINDS if each.subresources])
    path = f"{collection(kind)}/{random.choice(NAMES)}/{random.choice(kind.subresources)}"
    return _asked(random.choice(("POST", "POST", "PUT")), path + _query(random), encoded(random, data))


def _wander(random: Random) -> Asked:
    """A path that is wrong, half, or spelt in an unusual way, with any method."""
    kind = random.choice(KINDS)
    path = random.choice((collection(kind), f"{collection(kind)}/{random.choice(NAMES)}", random.choice(_DOCUMENTS)))
    segments = path.split("/")
    at = random.randrange(len(segments))
    strange = quote(random.choice(STRANGE), safe=random.choice(("", "/%~")))
    segments[at : at + random.randrange(2)] = [
        random.choice(
            (strange, "..", ".", "", "%2e%2e", "%2F", "watch", "*", "a" * LONG, "%", "%ff", segments[at].upper())
        )
    ]
    path = "/".join(segments) if random.random() < 0.6 else path
    body = encoded(random, some_object(random, kind, "x0")) if random.random() < 0.3 else NO_BODY
    method = random.choice(_METHODS)
    if method == "DELETE":
        return _asked(method, f"{path}?dryRun=All", body)
    return _asked(method, (path or "/") + random.choice((_query(random), "", "?", "#x", "?a?b")), body)


_SORTS = (_create,) * 8 + (_update,) * 3 + (_patch,) * 5 + (_read,) * 4 + (_delete,) * 2 + (_act,) * 2 + (_wander,) * 2
