"""Objects of every kind for property tests: shaped as the table of fields says, or not shaped at all."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from moorage.api.kinds import KINDS, Kind
from moorage.registry import schema

TEXTS = (
    "", "a", "a.b", "A", "-", "x/y", "example.com/x", "Always", "Never", "OnFailure", "None", "All", "10%", "200%",
    "80", "TCP", "ClusterIP", "ExternalName", "ClientIP", "RollingUpdate", "OnDelete", "Indexed", "In", "Exists",
    "* * * * *", "@daily", "image:latest", "10.0.0.1", "é", "\x00", "Bound", "Opaque", "system-x", "kubernetes",
)  # fmt: skip
NUMBERS = (-(2**31), -1, 0, 1, 2, 80, 100, 65535, 65536, 2**31 - 1)
AMOUNTS: tuple[str | int | float, ...] = ("0", "1", "-1", "100m", "1Gi", "1.5", "1n", "1e3", 0, 1, 0.5)
NAMES = ("cpu", "memory", "storage", "a", "example.com/gpu", "hugepages-2Mi", "", "pods")
TIMES = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00", "0001-01-01T00:00:00Z")
MICRO_TIMES = ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.500000+02:00", "0001-01-01T00:00:00.000000Z")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(TEXTS) | st.text(max_size=5),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), child, max_size=3),
    max_leaves=8,
)  # fmt: skip

_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "s": st.sampled_from(TEXTS),
    "b": st.booleans(),
    "i": st.sampled_from(NUMBERS),
    "l": st.sampled_from(NUMBERS),
    "q": st.sampled_from(AMOUNTS),
    "x": st.sampled_from(("10%", "200%", "x", *NUMBERS)),
    "t": st.sampled_from(TIMES),
    "m": st.sampled_from(MICRO_TIMES),
    "B": st.sampled_from(("", "YQ==", "e30=")),
    "*": JSON,
}


@cache
def _value(code: str) -> st.SearchStrategy[Any]:
    code = code.lstrip("?").partition("=")[0]
    if code[0] == "[":
        return st.lists(_value(code[1:]), max_size=2)
    if code[0] == "{":
        return st.dictionaries(st.sampled_from(NAMES), _value(code[1:]), max_size=2)
    return _LEAVES[code] if code in _LEAVES else st.deferred(lambda: _struct(code))


@cache
def _struct(name: str) -> st.SearchStrategy[dict[str, Any]]:
    codes = schema.field_table()["types"][name]

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        fields = draw(st.lists(st.sampled_from(sorted(codes)), max_size=8, unique=True))
        return {field: draw(_value(codes[field])) for field in fields}

    return build()


def part(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Parts of objects, by the name of their type in Go."""
    return _struct(name)


def shaped(kind: Kind) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose fields hold what they can hold; null and other spellings of amounts and times included."""
    codes = schema.field_table()["types"][schema.field_table()["kinds"][f"{kind.group}/{kind.kind}"]]
    parts = {name: _value(code) for name, code in codes.items()}
    return st.fixed_dictionaries(
        {"metadata": parts["metadata"], **({"spec": parts["spec"]} if "spec" in parts else {})},
        optional={name: part for name, part in parts.items() if name not in ("metadata", "spec")},
    )


def unshaped(kind: Kind) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose fields hold anything."""
    codes = schema.field_table()["types"][schema.field_table()["kinds"][f"{kind.group}/{kind.kind}"]]
    inner = st.dictionaries(st.sampled_from(("name", "containers", "template", "selector", "x")), JSON, max_size=3)
    return st.dictionaries(st.sampled_from(sorted(codes)), JSON | inner, max_size=5)


kinds = st.sampled_from(KINDS)
