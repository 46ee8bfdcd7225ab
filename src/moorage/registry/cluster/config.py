"""ConfigMaps and Secrets."""

from __future__ import annotations

from base64 import b64decode, b64encode

import msgspec

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax, selectable
from moorage.registry.checks import Errors, syntax, unchanged
from moorage.registry.defaulting import fill
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import Strategy
from moorage.registry.usage import Usage
from moorage.validation.field import forbidden, invalid, required, too_long

_MAX_DATA = 1024 * 1024
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that Secrets of a type must have."""

_JSON_SECRETS = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_FROZEN = "field is immutable when `immutable` is set"


def _default_secret(obj: Data, _: str) -> None:
    fill(obj, (("type", "Opaque"),))
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {name: b64encode(text.encode("utf-8", "surrogatepass")).decode() for name, text in plain.items()}
        obj["data"] = obj.get("data", {}) | encoded


def _config_map_errors(new: Data, old: Data | None) -> Errors:
    data, binary = new.get("data", {}), new.get("binaryData", {})
    for path, keys in (("data", data), ("binaryData", binary)):
        for key in keys:
            yield from syntax(f"{path}[{key}]", key, namesyntax.config_key(key))
    for key in data:
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in data.values())
    if size + sum(map(_decoded_size, binary.values())) > _MAX_DATA:
        yield too_long("", _MAX_DATA)
    yield from _frozen_errors(new, old, "data", "binaryData")


def _secret_errors(new: Data, old: Data | None) -> Errors:
    data, kind = new.get("data", {}), new.get("type", "")
    for key in data:
        yield from syntax(f"data[{key}]", key, namesyntax.config_key(key))
    if sum(map(_decoded_size, data.values())) > _MAX_DATA:
        yield too_long("data", _MAX_DATA)
    yield from _secret_type_errors(kind, data, new.get("metadata", {}).get("annotations", {}))
    if old is not None:
        yield from unchanged("type", kind, old.get("type", ""))
    yield from _frozen_errors(new, old, "data")


def _secret_type_errors(kind: str, data: dict[str, str], annotations: dict[str, str]) -> Errors:
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT_NAME):
        yield required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield required("data[username]")
        yield required("data[password]")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data or (kind == "kubernetes.io/ssh-auth" and not data[key]):
            yield required(f"data[{key}]")
        elif kind in _JSON_SECRETS:
            try:
                msgspec.json.decode(b64decode(data[key]), type=dict)
            except (msgspec.MsgspecError, ValueError) as error:
                yield invalid(f"data[{key}]", "<secret contents redacted>", str(error))


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text.count("=", -2)


def _frozen_errors(new: Data, old: Data | None, *fields: str) -> Errors:
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _FROZEN)
    for field in fields:
        if new.get(field, {}) != old.get(field, {}):
            yield forbidden(field, _FROZEN)


CONFIG_MAP = Strategy(
    kind=kinds.row("v1", "ConfigMap"),
    summary="Settings for programs, not secret.",
    usage=Usage(alias="configmaps"),
    errors=_config_map_errors,
    columns=(NAME, column("Data", cells.size("data", "binaryData"), "How many entries it has."), AGE),
)


SECRET = Strategy(
    kind=kinds.row("v1", "Secret"),
    summary="Data that not everybody may see.",
    usage=Usage(alias="secrets"),
    defaults=_default_secret,
    errors=_secret_errors,
    fields={**selectable.NAMES, "type": selectable.at("type")},
    columns=(
        NAME,
        column("Type", cells.at("type"), "What it is for."),
        column("Data", cells.size("data"), "How many entries it has."),
        AGE,
    ),
)
