"""Strategic merge patches: merge patches with merge keys for lists, as kubectl sends them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from moorage.apiserver.patch.errors import PatchError, bounded, malformed
from moorage.registry.merging import PLAIN, MergeShape

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"

Map = dict[str, Any]


@bounded
def apply(document: Map, patch: Any, shape: MergeShape) -> Map:
    """The document with the patch merged in. Unchanged parts are shared, not copied."""
    if not isinstance(patch, dict):
        raise malformed("invalid JSON document")
    return _merged_map(document, patch, shape)


def _merged_map(original: Map, patch: Map, shape: MergeShape) -> Map:
    if _PATCH in patch:
        return _directed(patch)
    merged = _retained(original, patch)
    orders, deletions, plain = _sorted_out(patch)
    for name, order in orders.items():
        plain = _ordered(merged, plain, name, order, shape.fields.get(name, PLAIN))
    for name, value in plain.items():
        if value is None or (_deletes(value) and not isinstance(merged.get(name), dict)):
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value, shape.fields.get(name, PLAIN))
    for name, value in deletions.items():
        if isinstance(old := merged.get(name), list):
            merged[name] = _deleted(old, value)
    return merged


def _merged(original: Any, patch: Any, shape: MergeShape) -> Any:
    if isinstance(patch, dict) and isinstance(original, dict) and not shape.replaces:
        return _merged_map(original, patch, shape)
    if isinstance(patch, list) and isinstance(original, list) and shape.merges:
        return _merged_list(original, patch, shape)
    return _directed(patch) if _is_directive(patch) else _cleaned(patch)


def _directed(patch: Map) -> Map:
    match patch[_PATCH]:
        case "replace":
            return {name: _cleaned(value) for name, value in patch.items() if not _is_instruction(name)}
        case "delete":
            return {}
        case directive:
            raise PatchError(f"unknown patch type: {_shown(directive)} in map: {_shown(patch)}")


def _retained(original: Map, patch: Map) -> Map:
    if _RETAIN not in patch:
        return dict(original)
    listed = patch[_RETAIN]
    if not isinstance(listed, list):
        raise malformed("invalid patch format of retainKeys")
    names = {name for name in listed if isinstance(name, str)}
    if any(value is not None and name not in names for name, value in patch.items() if not _is_instruction(name)):
        raise malformed("invalid patch format of retainKeys")
    return {name: value for name, value in original.items() if name in names}


def _sorted_out(patch: Map) -> tuple[dict[str, Any], dict[str, list[Any]], Map]:
    """The parts of a patch: the orders of lists, the deletions from primitive lists, and the fields."""
    orders: dict[str, Any] = {}
    deletions: dict[str, list[Any]] = {}
    plain: Map = {}
    for name, value in patch.items():
        prefix, slash, field = name.partition("/")
        if prefix == _ORDER:
            if not slash or not isinstance(value, list):
                raise malformed("invalid patch format of setElementOrder list")
            orders[field] = value
        elif prefix == _DELETE:
            if not slash or not isinstance(value, list):
                raise malformed("invalid patch format of primitive list")
            deletions[field] = value
        elif name != _RETAIN:
            plain[name] = value
    return orders, deletions, plain


def _ordered(merged: Map, patch: Map, name: str, order: list[Any], shape: MergeShape) -> Map:
    """Put a list into `merged` in the order of $setElementOrder; returns the rest of the patch."""
    old, new = merged.get(name), patch.get(name)
    for value in (old, new):
        if value is not None and not isinstance(value, list):
            raise PatchError(f"expected a list for {name}, but received {_shown(value)}")
    if old is None and new is None:
        return patch
    if new is not None:
        _check_order(new, order, shape.merge_key)
    if old is None:
        items = _cleaned(new)
    elif new is None:
        items = old
    else:
        items = _merged_list(old, new, shape) if shape.merges else _cleaned(new)
    if items:
        _check_items(items, shape.merge_key)
        items = _arranged(items, order, _ranks(old or [], new or [], shape.merge_key), shape.merge_key)
    merged[name] = items
    return {field: value for field, value in patch.items() if field != name}


def _ranks(old: list[Any], new: list[Any], key: str) -> list[Any]:
    """The order of a list on the server; a new item takes the last place of one that is deleted."""
    deleted = {_identity(item, key) for item in new if _deletes(item)}
    kept = [item for item in old if _identity(item, key) not in deleted]
    kept_places = _places(kept, key)
    fresh = [item for item in new if not _is_directive(item) and _identity(item, key) not in kept_places]
    return [*kept, *fresh][: len(old)]


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """Check that the items of a patch are in the order of its $setElementOrder."""
    identities = [_identity(item, key) for item in patch if not _is_directive(item)]
    remaining = iter([_identity(item, key) for item in order])
    if order and not all(identity in remaining for identity in identities):
        raise PatchError(
            f"The order in patch list:\n{_shown(patch)}\n doesn't match {_ORDER} list:\n{_shown(order)}\n"
        )  # fmt: skip


def _merged_list(original: list[Any], patch: list[Any], shape: MergeShape) -> list[Any]:
    if not original and not patch:
        return original
    _check_items([*original, *patch], shape.merge_key)
    if not isinstance((original or patch)[0], dict):
        items = [*original, *patch]
        return _arranged([items[place] for place in _places(items, "").values()], patch, original, "")
    key = shape.merge_key
    original, patch = _carried_out(original, patch, key)
    merged = list(original)
    places = _places(original, key)
    for item in patch:
        identity = _identity(item, key)
        if identity in places:
            place = places[identity]
            merged[place] = _merged_map(merged[place], item, shape)
        else:
            places[identity] = len(merged)
            merged.append(_cleaned(item))
    return _arranged(merged, patch, original, key)


def _carried_out(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carry out the $patch directives of a list; returns the remaining items of both lists."""
    plain, replaces, deleted = [], False, set()
    for item in patch:
        match item.get(_PATCH, _PATCH):
            case "$patch":
                plain.append(item)
            case "delete":
                deleted.add(_identity(item, key))
            case "replace":
                replaces = True
            case "merge":
                raise PatchError("merging lists cannot yet be specified in the patch")
            case directive:
                raise PatchError(f"unknown patch type: {_shown(directive)} in map: {_shown(item)}")
    if replaces:
        return [], plain
    return [item for item in original if _identity(item, key) not in deleted], plain


def _deleted(original: list[Any], patch: list[Any]) -> list[Any]:
    gone = {_identity(item, "") for item in patch}
    return [item for item in original if isinstance(item, dict | list) or _identity(item, "") not in gone]


def _arranged(items: list[Any], order: Iterable[Any], live: Iterable[Any], key: str) -> list[Any]:
    """The items in the order of the patch, with those that only the server has in between, by the server's order."""
    ordered, live_places = _places(order, key), _places(live, key)
    pairs = [(_identity(item, key), item) for item in items]
    ours = sorted((pair for pair in pairs if pair[0] in ordered), key=lambda pair: ordered[pair[0]])
    theirs = deque(pair for pair in pairs if pair[0] not in ordered)
    woven = []
    for identity, item in ours:
        while theirs and theirs[0][0] in live_places and live_places[theirs[0][0]] < live_places.get(identity, -1):
            woven.append(theirs.popleft()[1])
        woven.append(item)
    return woven + [item for _, item in theirs]


def _places(items: Iterable[Any], key: str) -> dict[Any, int]:
    """The first index of each item."""
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_identity(item, key), place)
    return places


def _identity(item: Any, key: str) -> Any:
    """What identifies a list item: the value of its merge key, or the item itself."""
    if isinstance(item, dict):
        if key not in item:
            raise PatchError(f"map: {_shown(item)} does not contain declared merge key: {key}")
        item = item[key]
    if isinstance(item, dict | list):
        raise PatchError("lists of lists are not supported")
    return type(item), item


def _check_items(items: list[Any], key: str) -> None:
    kinds = {_KINDS.get(type(item), type(item)) for item in items}
    if list in kinds:
        raise PatchError("lists of lists are not supported")
    if len(kinds) > 1:
        raise PatchError(f"list element types are not identical: {_shown(items)}")
    if dict in kinds and not key:
        raise PatchError("cannot merge lists without merge key")


_KINDS: dict[type, type] = {float: int}


def _is_instruction(name: str) -> bool:
    return name in (_PATCH, _RETAIN) or name.startswith((f"{_DELETE}/", f"{_ORDER}/"))


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _deletes(value: Any) -> bool:
    return _is_directive(value) and value[_PATCH] == "delete"


def _cleaned(value: Any) -> Any:
    """The value for a field that the document does not have: without nulls and directives."""
    if isinstance(value, dict):
        return {
            name: _cleaned(child)
            for name, child in value.items()
            if child is not None and not _is_instruction(name) and not _is_directive(child)
        }
    if isinstance(value, list):
        return [_cleaned(child) for child in value if not _is_directive(child)]
    return value


def _shown(value: Any) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{_shown(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_shown, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
