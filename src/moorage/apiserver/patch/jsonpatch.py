"""JSON patches (RFC 6902) with the limits, the leniency and the messages of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from moorage.apiserver.patch.errors import PatchError, bounded, malformed, same
from moorage.gotext import quote

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024

_INDEX = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MISSING = object()

PatchOperation = dict[str, Any]
JsonContainer = dict[str, Any] | list[Any]


@bounded
def apply(document: Any, patch: Any) -> Any:
    """The document after all operations. Unchanged parts are shared, not copied."""
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise malformed("error decoding patch: a JSON patch is a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}",
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        )
    draft = _Draft(document)
    for operation in patch:
        kind = operation.get("op")
        perform = _OPERATIONS.get(kind) if isinstance(kind, str) else None
        if perform is None:
            raise PatchError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        perform(draft, operation)
    return draft.root


class _Draft:
    """A copy-on-write view of a document: the original is never changed."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied = 0
        # By id, with a reference, because an id is only unique while its object is alive.
        self._own: dict[int, JsonContainer] = {}

    def read(self, path: list[str]) -> Any:
        """The value at a path; _MISSING when there is none."""
        here = self.root
        for token in path:
            here = _child(here, token)
        return here

    def write(self, path: list[str]) -> JsonContainer | None:
        """The container at a path, copied so that it can be changed; None when there is none."""
        if not isinstance(self.root, dict | list):
            return None
        here: JsonContainer = self._owned(self.root)
        self.root = here
        for token in path:
            child = _child(here, token)
            if not isinstance(child, dict | list):
                return None
            child = self._owned(child)
            if isinstance(here, dict):
                here[token] = child
            else:
                here[int(token)] = child
            here = child
        return here

    def _owned(self, container: JsonContainer) -> JsonContainer:
        if id(container) in self._own:
            return container
        copy = container.copy()
        self._own[id(copy)] = copy
        return copy


def _child(container: Any, token: str) -> Any:
    if isinstance(container, dict):
        return container.get(token, _MISSING)
    if isinstance(container, list) and _INDEX.fullmatch(token):
        position = int(token)
        if -len(container) <= position < len(container):
            return container[position]
    return _MISSING


def _position(operation: PatchOperation, member: str, token: str, length: int) -> int:
    """The index in a list; as in Kubernetes, `-1` is the last item."""
    if not _INDEX.fullmatch(token):
        problem = f"value was not a proper array index: '{token}'"
    elif not -length <= int(token) < length:
        problem = f"Unable to access invalid index: {int(token)}: invalid index referenced"
    else:
        return int(token) % length
    raise PatchError(f"error in {operation['op']} for path: '{operation[member]}': {problem}")


def _missing(operation: PatchOperation, member: str) -> PatchError:
    kind, path = operation["op"], operation[member]
    if member == "from":
        where = f"doc is missing from path: {path}"
    else:
        where = _WHERE[kind].format(quote(path) if kind in ("add", "remove") else path)
    return PatchError(f"{kind} operation does not apply: {where}: missing value")


_WHERE = {
    "add": "doc is missing path: {}",
    "remove": "doc is missing path: {}",
    "replace": "doc is missing path: {}",
    "move": "doc is missing destination path: {}",
    "copy": "doc is missing destination path: {}",
    "test": "is missing path: {}",
}


def _pointer(operation: PatchOperation, member: str) -> list[str]:
    text = operation.get(member)
    if not isinstance(text, str):
        raise PatchError(f"{operation['op']} operation failed to decode {member}: missing value")
    if text and not text.startswith("/"):
        raise _missing(operation, member)
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _value(operation: PatchOperation) -> Any:
    if "value" not in operation:
        raise PatchError(f"{operation['op']} operation, missing value field: missing value")
    return operation["value"]


def _parent(draft: _Draft, operation: PatchOperation, member: str) -> tuple[JsonContainer, str]:
    """The container of an operation's target, and the last token of the path."""
    path = _pointer(operation, member)
    parent = draft.write(path[:-1]) if path else None
    if parent is None:
        raise _missing(operation, member)
    return parent, path[-1]


def _insert(draft: _Draft, operation: PatchOperation, value: Any) -> None:
    if operation["path"] == "":
        draft.root = value
        return
    parent, token = _parent(draft, operation, "path")
    if isinstance(parent, dict):
        parent[token] = value
    elif token == "-":
        parent.append(value)
    else:
        parent.insert(_position(operation, "path", token, len(parent) + 1), value)


def _take(draft: _Draft, operation: PatchOperation, member: str) -> Any:
    parent, token = _parent(draft, operation, member)
    if isinstance(parent, list):
        return parent.pop(_position(operation, member, token, len(parent)))
    if token not in parent:
        problem = f"Unable to remove nonexistent key: {token}: missing value"
        raise PatchError(f"error in {operation['op']} for path: '{operation[member]}': {problem}")
    return parent.pop(token)


def _add(draft: _Draft, operation: PatchOperation) -> None:
    _pointer(operation, "path")
    _insert(draft, operation, _value(operation))


def _remove(draft: _Draft, operation: PatchOperation) -> None:
    _take(draft, operation, "path")


def _replace(draft: _Draft, operation: PatchOperation) -> None:
    value = _value(operation)
    if not _pointer(operation, "path"):
        draft.root = value
        return
    parent, token = _parent(draft, operation, "path")
    if isinstance(parent, dict):
        parent[token] = value  # Present or not: the RFC demands that it is, Kubernetes does not.
    else:
        parent[_position(operation, "path", token, len(parent))] = value


def _move(draft: _Draft, operation: PatchOperation) -> None:
    _pointer(operation, "path")
    _insert(draft, operation, _take(draft, operation, "from"))


def _copy(draft: _Draft, operation: PatchOperation) -> None:
    _pointer(operation, "path")
    value = draft.read(_pointer(operation, "from"))
    if value is _MISSING:
        raise _missing(operation, "from")
    # Copies of copies grow exponentially: without a limit a short patch fills the memory.
    draft.copied += _size(value)
    if draft.copied > MAX_COPIED_BYTES:
        raise PatchError(
            f"Unable to complete the copy, the accumulated size increase of copy is {draft.copied}, "
            f"exceeding the limit {MAX_COPIED_BYTES}"
        )
    _insert(draft, operation, _cloned(value))


def _size(value: Any) -> int:
    """Approximately how many bytes a value has as JSON."""
    if isinstance(value, dict):
        return 2 + sum(len(name) + 4 + _size(child) for name, child in value.items())
    if isinstance(value, list):
        return 2 + sum(1 + _size(child) for child in value)
    return len(value) + 2 if isinstance(value, str) else 4


def _cloned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cloned(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_cloned(child) for child in value]
    return value


def _test(draft: _Draft, operation: PatchOperation) -> None:
    path = _pointer(operation, "path")
    value = draft.read(path)
    if value is _MISSING and not isinstance(draft.read(path[:-1]), dict):
        raise _missing(operation, "path")
    if not same(None if value is _MISSING else value, operation.get("value")):
        raise PatchError(f"testing value {operation['path']} failed: test failed")


_OPERATIONS: dict[str, Callable[[_Draft, PatchOperation], None]] = {
    "add": _add, "remove": _remove, "replace": _replace, "move": _move, "copy": _copy, "test": _test,
}  # fmt: skip
