"""The set of fields of an object, and the fields in which two objects differ."""

from __future__ import annotations

import json
from typing import Any

from moorage.apiserver.patch.errors import malformed, same
from moorage.apiserver.patch.fieldset import LEAF, SELF, FieldSet, key_element, scalar, words
from moorage.registry.merging import PLAIN, MergeShape

FieldChange = tuple[FieldSet | None, FieldSet | None]
"""The fields that were added or changed, and those that were removed; None when there are none."""

_NOTHING: FieldChange = (None, None)


def element(item: Any, shape: MergeShape) -> str | None:
    """The name of a list item in a set of fields; None when it has none."""
    if shape.is_set:
        return None if item is None or isinstance(item, dict | list) else f"v:{scalar(item)}"
    if not isinstance(item, dict):
        return None
    keys = []
    for key in shape.keys:
        value = item.get(key)
        if value is None:
            value = shape.defaults.get(key)
        if isinstance(value, dict | list):
            return None
        if value is not None:
            keys.append((key, value))
    if len(keys) == 1:
        return f'k:{{"{keys[0][0]}":{scalar(keys[0][1])}}}'
    return key_element(keys) if keys else None


def named_items(items: Any, shape: MergeShape) -> dict[str, list[Any]] | None:
    """The items of a list by name, more than one where names repeat; None when they cannot be told apart."""
    if not isinstance(items, list):
        return None
    named: dict[str, list[Any]] = {}
    for item in items:
        name = element(item, shape)
        if name is None:
            return None
        if name in named:
            named[name].append(item)
        else:
            named[name] = [item]
    return named


def everything(value: Any, shape: MergeShape) -> FieldSet:
    """A field with all fields below it."""
    if type(value) is dict and value and not shape.atomic:
        fields: dict[str, Any] = {SELF: LEAF}
        shapes = shape.fields
        for name, child in value.items():
            kind = type(child)
            if kind is str:
                fields["f:" + name] = LEAF
            elif kind is dict or kind is list:
                fields["f:" + name] = everything(child, shapes.get(name, PLAIN))
            elif child is not None:
                fields["f:" + name] = LEAF
        return fields if len(fields) > 1 else LEAF
    if shape.associative and value and (named := named_items(value, shape)):
        return {SELF: LEAF, **{name: _item(items, shape) for name, items in named.items()}}
    return LEAF


def _item(items: list[Any], shape: MergeShape) -> FieldSet:
    """A list item; items with the same name cannot be told apart and are owned as one."""
    return everything(items[0], shape) if len(items) == 1 else LEAF


def changes(old: dict[str, Any], new: dict[str, Any], shape: MergeShape) -> tuple[FieldSet, FieldSet]:
    """The fields that an update adds or changes, and those that it removes; null is the same as absent."""
    changed, removed = _map_change(old, new, shape)
    return changed or LEAF, removed or LEAF


def _map_change(old: dict[str, Any], new: dict[str, Any], shape: MergeShape) -> FieldChange:
    changed: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    shapes = shape.fields
    for name, value in new.items():
        before = old.get(name)
        if before is value or (type(value) is str and before == value):
            continue
        more, less = _change(before, value, shapes.get(name, PLAIN))
        if more is not None:
            changed["f:" + name] = more
        if less is not None:
            removed["f:" + name] = less
    if not old.keys() <= new.keys():
        for name, before in old.items():
            if name not in new:
                _, less = _change(before, None, shapes.get(name, PLAIN))
                if less is not None:
                    removed["f:" + name] = less
    return changed or None, removed or None


def _change(old: Any, new: Any, shape: MergeShape) -> FieldChange:
    if old is None and shape.by_value and isinstance(new, dict | list):
        old = type(new)()
    if old is None:
        return (None if new is None else everything(new, shape)), None
    if new is None:
        return None, everything(old, shape)
    if isinstance(old, dict) and isinstance(new, dict) and not shape.atomic:
        return _map_change(old, new, shape)
    if same(old, new):
        return _NOTHING
    if shape.associative and isinstance(old, list) and isinstance(new, list):
        change = _list_change(old, new, shape)
        if change is not None:
            return change
    below = {name: fields for name, fields in everything(old, shape).items() if name != SELF}
    return everything(new, shape), below or None


def _list_change(old: list[Any], new: list[Any], shape: MergeShape) -> FieldChange | None:
    before, after = named_items(old, shape), named_items(new, shape)
    if before is None or after is None:
        return None
    changed: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    for name in before.keys() | after.keys():
        more, less = _item_change(before.get(name, []), after.get(name, []), shape)
        if more is not None:
            changed[name] = more
        if less is not None:
            removed[name] = less
    return changed or None, removed or None


def _item_change(old: list[Any], new: list[Any], shape: MergeShape) -> FieldChange:
    if not old:
        return _item(new, shape), None
    if not new:
        return None, _item(old, shape)
    if len(old) == len(new) == 1:
        return _NOTHING if shape.is_set else _map_change(old[0], new[0], shape)
    return _NOTHING if same(old, new) else (_item(new, shape), _item(old, shape))


def field_set(config: Any, shape: MergeShape) -> FieldSet:
    """The fields that a manager owns by applying a configuration: its leaves and its list items."""
    return _map_set(config, shape, "")


def _map_set(config: dict[str, Any], shape: MergeShape, path: str) -> FieldSet:
    shapes = shape.fields
    return {"f:" + name: _set(value, shapes.get(name, PLAIN), f"{path}.{name}") for name, value in config.items()}


def _set(value: Any, shape: MergeShape, path: str) -> FieldSet:
    if shape.associative and value is not None:
        return _list_set(value, shape, path)
    if isinstance(value, dict) and value and not shape.atomic:
        return _map_set(value, shape, path)
    return LEAF


def _list_set(items: Any, shape: MergeShape, path: str) -> FieldSet:
    if not isinstance(items, list):
        raise malformed(f"{path}: expected list, got {'map' if isinstance(items, dict) else 'scalar'}")
    fields: dict[str, Any] = {}
    for index, item in enumerate(items):
        name = element(item, shape)
        if name is None:
            raise malformed(f"{path}: element {index}: {_why_unnamed(item, shape)}")
        if name in fields:
            raise malformed(f"{path}: duplicate entries for key {words(name)}")
        below = _map_set(item, shape, path + words(name)) if isinstance(item, dict) else LEAF
        fields[name] = {SELF: LEAF, **below} if below else LEAF
    return fields


def _why_unnamed(item: Any, shape: MergeShape) -> str:
    if shape.is_set:
        what = "an explicit null" if item is None else f"a {'map' if isinstance(item, dict) else 'list'} type"
        return f"associative list without keys has an element that's {what}"
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if any(isinstance(item.get(key), dict | list) for key in shape.keys):
        return f"the keys {', '.join(shape.keys)} may not be maps or lists"
    return (
        f"associative list with keys has an element that omits all key fields {json.dumps(shape.keys)} "
        "(and doesn't have default values for any key fields)"
    )
