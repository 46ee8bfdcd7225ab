"""The body of a request as data: JSON, YAML or protobuf, of the kind that the path names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from moorage.api.kinds import Kind, find
from moorage.api.meta import Data
from moorage.api.yamltext import RepeatedKey, YAMLTextError, parse
from moorage.apiserver.base.offload import LARGE, MAX_METADATA, MAX_VALUES, YAML_COST, holds_more, offload
from moorage.apiserver.http.failures import bad_request, invalid_as, too_large, unsupported_media_type
from moorage.apiserver.http.messages import Request
from moorage.apiserver.request import protobuf
from moorage.apiserver.request.routes import Route
from moorage.apiserver.request.strictness import BodyError, Level, check, level_of, repeated_keys, repeated_yaml_keys
from moorage.registry.table import strategy_of
from moorage.validation import field

READ = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)
_SMALL = 128 << 10
_JSON = ("", "application/json")
_YAML = ("application/yaml", "application/apply-patch+yaml")


def media_type(request: Request) -> str:
    """The type of the body, without parameters."""
    return request.headers.get("content-type").partition(";")[0].strip().lower()


class Body(NamedTuple):
    """A body that was read, and the warnings about keys that it repeats."""

    data: Any
    repeated: Sequence[str] = ()


async def parsed(request: Request) -> Any:
    """The body as data, of a request whose body is small."""
    check_small(request)
    return (await offload(_cost(request), _read, request)).data


def _cost(request: Request) -> int:
    """How long it takes to read a body, in bytes of JSON."""
    return len(request.body) * (YAML_COST if media_type(request) in _YAML else 1)


def check_small(request: Request) -> None:
    """Refuse a body that is larger than any of its kind has to be."""
    if len(request.body) > _SMALL:
        raise too_large(f"limit is {_SMALL}")


def read_yaml(body: bytes) -> Body:
    """The first document of a YAML body; of a repeated key the last value counts."""
    keys: list[RepeatedKey] = []
    try:
        root = next(parse(body.decode(), repeated=keys), None)
    except (YAMLTextError, UnicodeDecodeError) as error:
        raise bad_request(f"error parsing YAML: {error}") from None
    return Body(root and root.data, repeated_yaml_keys(keys))


async def read_object(route: Route, request: Request) -> tuple[Data, list[str]]:
    """The object in a body in the version that is stored, and the warnings about its fields."""
    return await offload(_cost(request), _object, route, request)


def _object(route: Route, request: Request) -> tuple[Data, list[str]]:
    body = _read(request)
    data = body.data
    if not isinstance(data, dict):
        raise bad_request("the body must be an object")
    check_values(data, len(request.body))
    # Before anything is filled in: repeated keys are found by comparing the number of keys.
    problems = body.repeated
    if media_type(request) in _JSON:
        problems = repeated_keys(request.body, data, _level(request))
    data = normalised(route, data)
    return data, check_fields(route.kind, request, data, problems)


def check_fields(
    kind: Kind, request: Request, data: Data, repeated: Sequence[str] = (), before: Data | None = None
) -> list[str]:
    """The warnings about the fields of an object; Refused when it is read strictly and there are any.

    `repeated` are the warnings about keys that its body repeats, `before` is the object that was patched.
    """
    body = request.body if media_type(request) in _JSON else b""
    try:
        return check(kind, data, _level(request), repeated, before, body)
    except BodyError as error:
        if before is not None:
            patched = msgspec.json.encode(data).decode()
            raise invalid_as("", "", "", [field.invalid("patch", patched, error.problem)]) from None
        raise bad_request(str(error)) from None


def _read(request: Request) -> Body:
    kind = media_type(request) or "application/json"
    if kind == "application/json":
        try:
            return Body(msgspec.json.decode(request.body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from None
    if kind in _YAML:
        return read_yaml(request.body)
    if kind == protobuf.MEDIA_TYPE:
        try:
            return Body(protobuf.decode(request.body))
        except protobuf.TooManyValues:
            raise too_large(f"limit is {MAX_VALUES} values") from None
        except protobuf.ProtobufError as error:
            raise bad_request(f"the object provided is unrecognized (must be of type Protobuf): {error}") from None
    raise unsupported_media_type(READ)


def _level(request: Request) -> Level:
    level = level_of(request.parameter("fieldValidation"))
    if not isinstance(level, Level):
        raise bad_request(str(level))
    return level


def check_values(data: Any, size: int = LARGE) -> None:
    """Refuse data of `size` bytes that holds too many values to be validated in a short time."""
    if size < LARGE:
        return
    fields = [value for name, value in data.items() if name != "metadata"] if isinstance(data, dict) else data
    if holds_more(fields, MAX_VALUES) or holds_more(data, MAX_METADATA):
        raise too_large(f"limit is {MAX_VALUES} values")


def normalised(route: Route, data: Data) -> Data:
    """The object in the version that is stored, with metadata, in the namespace of the path."""
    api_version = data.setdefault("apiVersion", route.api_version)
    name = data.setdefault("kind", route.kind.kind)
    if (api_version, name) != (route.api_version, route.kind.kind):
        kind: Kind | None = find(api_version, name) if isinstance(api_version, str) and isinstance(name, str) else None
        if kind is not route.kind:
            expected = f"{route.kind.kind} {route.api_version}"
            raise bad_request(f"the API version and kind in the data ({name} {api_version}) do not match {expected}")
    data = strategy_of(route.kind).stored_form(upgraded(route.kind, data))
    metadata = data.get("metadata")
    if metadata is None:
        metadata = data["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    namespace = metadata.get("namespace")
    if route.kind.namespaced:
        if namespace and namespace != route.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = route.namespace
    elif namespace:
        del metadata["namespace"]
    return data


def upgraded(kind: Kind, data: Data) -> Data:
    """An object of an older version that is served in the newest one; any other as it is."""
    if kind.upgrade is None or data.get("apiVersion") not in [f"{kind.group}/{each}" for each in kind.older_versions]:
        return data
    return kind.upgrade(data) | {"apiVersion": kind.api_version}
