"""The body of a request as data: JSON, YAML or protobuf, of the kind that the path names."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.api.kinds import Kind, find
from moorage.api.yamltext import YAMLTextError, parse
from moorage.apiserver.base.objects import Data
from moorage.apiserver.base.offload import LARGE, MAX_METADATA, MAX_VALUES, holds_more
from moorage.apiserver.http.failures import bad_request, too_large, unsupported_media_type
from moorage.apiserver.http.messages import Request
from moorage.apiserver.request import protobuf
from moorage.apiserver.request.eventversions import to_core
from moorage.apiserver.request.routes import Route
from moorage.apiserver.request.strictness import BodyError, Level, check, level_of, repeated_keys, repeated_yaml_keys

READ = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)
_LITTLE = 128 << 10


def media_type(request: Request) -> str:
    """The type of the body, without parameters."""
    return request.headers.get("content-type").partition(";")[0].strip().lower()


def parsed(request: Request) -> Any:
    """The body as data, of a request that has little to say: it is read at once."""
    check_little(request)
    return _parsed(request)


def check_little(request: Request) -> None:
    """Refuse a body that is too large to be read at once."""
    if len(request.body) > _LITTLE:
        raise too_large(f"limit is {_LITTLE}")


def _parsed(request: Request) -> Any:
    kind = media_type(request) or "application/json"
    if kind == "application/json":
        try:
            return msgspec.json.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from None
    if kind in ("application/yaml", "application/apply-patch+yaml"):
        return from_yaml(request.body)
    if kind == protobuf.MEDIA_TYPE:
        try:
            return protobuf.decode(request.body)
        except protobuf.TooManyValues:
            raise too_large(f"limit is {MAX_VALUES} values") from None
        except protobuf.ProtobufError as error:
            raise bad_request(f"the object provided is unrecognized (must be of type Protobuf): {error}") from None
    raise unsupported_media_type(READ)


def from_yaml(body: bytes) -> Any:
    """The first document of a YAML body; of a key that is given twice the last one counts."""
    try:
        _, text = repeated_yaml_keys(body.decode())
        root = next(parse(text), None)
    except (YAMLTextError, UnicodeDecodeError) as error:
        raise bad_request(f"error parsing YAML: {error}") from None
    return root and root.data


def check_fields(kind: Kind, request: Request, data: Data, before: Data | None = None) -> list[str]:
    """What is to be warned of in the fields of a body; Refused when it is read strictly and there is anything.

    `before` is the object that was patched.
    """
    return _warned(kind, request, data, _repeated(request, data), before)


def sent(route: Route, request: Request) -> tuple[Data, list[str]]:
    """The object in the body as it is stored, and what is to be warned of in its fields."""
    data = _parsed(request)
    if not isinstance(data, dict):
        raise bad_request("the body must be an object")
    check_values(data, len(request.body))
    # Before anything is filled in: keys that were lost in reading are found by their number.
    problems = _repeated(request, data)
    data = normalised(route, data)
    return data, _warned(route.kind, request, data, problems)


def _repeated(request: Request, data: Data) -> list[str]:
    kind = media_type(request)
    if kind in ("", "application/json"):
        return repeated_keys(request.body, data, _level(request))
    if kind in ("application/yaml", "application/apply-patch+yaml"):
        return repeated_yaml_keys(request.body.decode())[0]
    return []


def _warned(kind: Kind, request: Request, data: Data, problems: list[str], before: Data | None = None) -> list[str]:
    body = request.body if media_type(request) in ("", "application/json") else b""
    try:
        return check(kind, data, _level(request), problems, before, body)
    except BodyError as error:
        raise bad_request(str(error)) from None


def _level(request: Request) -> Level:
    level = level_of(request.parameter("fieldValidation"))
    if not isinstance(level, Level):
        raise bad_request(str(level))
    return level


def check_values(data: Any, size: int = LARGE) -> None:
    """Refuse data of so many bytes if it holds more values than anybody would write, and than can be judged soon."""
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
    if route.kind.upgrade is not None and api_version != route.kind.api_version:
        data = route.kind.upgrade(data) | {"apiVersion": route.kind.api_version}
    elif route.kind.group == "events.k8s.io":
        data = to_core(data)
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
