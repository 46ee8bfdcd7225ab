"""Changes to valid objects that are likely to be wrong, drawn from the table of fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from moorage.registry.schema import field_table

Data = dict[str, Any]
Path = tuple[str | int, ...]
OWN_FIELDS = frozenset(("expression", "matchCELExpressions"))
"""Fields of the enhancements, which Kubernetes does not know."""
GONE = object()
"""The value of a field that a change removes."""

TEXTS = (
    "", "a", "b", "A", "A_b", "-a", "a-", "a.b", "a..b", "a/b", "/a", "a/b/c", "example.com/x", "Example.com/x",
    "a b", "é", "x" * 63, "x" * 64, "x" * 254, "x" * 317, "0", "1", "-1", "007", "95", "1.5", "10%", "200%", "-5%",
    "10.0.0.1", "10.0.0.0/24", "10.0.0.1/24", "010.0.0.1", "fd00::1", "fd00::/64", "300.0.0.1", "127.0.0.1",
    "/abs", "../up", "a/../b", "a:b", "http", "HTTP", "true", "nonsense", "kubernetes.io/x", "metadata.name",
    "spec.nodeName", "@daily", "* * * *", "60 * * * *", "TZ=UTC * * * * *", "Europe/Nowhere", "1.2.3", "1.2",
    "device.driver == 'a'", "device.nothing == 1", "device.driver ==", "1 + 1",
)  # fmt: skip
WORDS = (
    "Always", "Never", "OnFailure", "IfNotPresent", "TCP", "UDP", "SCTP", "ClusterIP", "NodePort", "LoadBalancer",
    "ExternalName", "ClientIP", "None", "Local", "Cluster", "RollingUpdate", "Recreate", "OnDelete", "Indexed",
    "NonIndexed", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule", "PreferNoSchedule",
    "NoExecute", "File", "FallbackToLogsOnError", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany",
    "ReadWriteOncePod", "Retain", "Delete", "Recycle", "Filesystem", "Block", "Immediate", "WaitForFirstConsumer",
    "Opaque", "kubernetes.io/tls", "ClusterFirst", "Default", "Honor", "Ignore", "DoNotSchedule", "ScheduleAnyway",
    "Allow", "Forbid", "Replace", "ExactCount", "All", "Localhost", "RuntimeDefault", "Unconfined", "Memory",
    "SingleStack", "PreferDualStack", "IPv4", "IPv6", "Persistent", "Ephemeral", "Parallel", "OrderedReady",
    "Normal", "Warning", "True", "User", "Group", "ServiceAccount", "ClusterRole", "Role", "windows", "linux",
)  # fmt: skip
NUMBERS = (
    -(2**31),
    -100,
    -1,
    0,
    1,
    2,
    3,
    5,
    10,
    53,
    80,
    100,
    101,
    511,
    512,
    1000,
    30000,
    32768,
    65535,
    65536,
    2**31 - 1,
)
AMOUNTS = ("0", "1", "-1", "100m", "1Gi", "64Mi", "1.5", "1n", "3")
KEYS = ("cpu", "memory", "storage", "pods", "example.com/gpu", "hugepages-2Mi", "ephemeral-storage", *TEXTS[:20])
TIMES = ("2026-01-01T00:00:00Z", "1999-12-31T23:59:59.123456Z", "yesterday")
_META = ("name", "generateName", "labels", "annotations", "finalizers", "ownerReferences")


class Change(NamedTuple):
    """A value that is put at a path, or taken away."""

    path: Path
    value: Any

    def __str__(self) -> str:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).lstrip(".")
        return f"{where} removed" if self.value is GONE else f"{where} = {self.value!r}"[:160]


def changed(obj: Data, changes: list[Change]) -> Data:
    """A copy of an object with changes, as far as it has what they change."""
    result: Data = copy.deepcopy(obj)
    for change in changes:
        _apply(result, change)
    return result


def _apply(obj: Any, change: Change) -> None:
    *steps, last = change.path
    try:
        for step in steps:
            obj = obj[step]
        if change.value is GONE:
            del obj[last]
        else:
            obj[last] = copy.deepcopy(change.value)
    except (KeyError, IndexError, TypeError):
        return


def draw(random: Random, code: str, obj: Data) -> list[Change]:
    """One, two or three changes to an object of a type."""
    present, absent = _places(code, obj)
    changes = []
    for _ in range(random.choice((1, 1, 1, 1, 2))):
        if absent and random.random() < 0.1:
            path, inner = random.choice(absent)
            changes.append(Change(path, some_value(random, inner, 0)))
        else:
            path, inner = random.choice(present)
            changes.append(Change(path, _other(random, inner, _at(obj, path))))
    return changes


def _places(code: str, obj: Data) -> tuple[list[tuple[Path, str]], list[tuple[Path, str]]]:
    """Where an object has a value, and where it could have one."""
    present: list[tuple[Path, str]] = []
    absent: list[tuple[Path, str]] = []
    for path, inner, there in _walk(code, obj, ()):
        if not _left_alone(path, str(obj["kind"])):
            (present if there else absent).append((path, inner))
    return present, absent


def _left_alone(path: Path, kind: str) -> bool:
    if path[0] in ("apiVersion", "kind") or (path[0] == "status" and kind != "Node"):
        return True
    if path[-1] in OWN_FIELDS and path[-2] != "cel":
        return True
    return path == ("metadata",) or (path[0] == "metadata" and path[1] not in _META)


def _walk(code: str, value: Any, path: Path) -> Iterator[tuple[Path, str, bool]]:
    code = code.lstrip("?")
    if path:
        yield path, code, True
    if code[0] == "[" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(code[1:], item, (*path, index))
    elif code[0] == "{" and isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(code[1:], item, (*path, key))
    elif code in field_table()["types"] and isinstance(value, dict):
        for name, inner in field_table()["types"][code].items():
            if name in value:
                yield from _walk(inner, value[name], (*path, name))
            else:
                yield (*path, name), inner.lstrip("?"), False


def _at(obj: Any, path: Path) -> Any:
    for step in path:
        obj = obj[step]
    return obj


def _other(random: Random, code: str, value: Any) -> Any:
    """Another value in place of one."""
    if random.random() < 0.2:
        return GONE
    if isinstance(value, list) and value and random.random() < 0.7:
        kept = copy.deepcopy(value)
        return random.choice(([], [*kept, kept[0]], kept[1:], [*kept, some_value(random, code[1:], 0)]))
    if isinstance(value, dict) and code[0] == "{" and random.random() < 0.7:
        return {**value, random.choice(KEYS): some_value(random, code[1:], 0)}
    if isinstance(value, str) and random.random() < 0.3:
        return random.choice(
            (value.upper(), value + "x" * 60, f"{value}.", f"-{value}", value[:-1], f"{value}/{value}")
        )
    if isinstance(value, int) and not isinstance(value, bool) and random.random() < 0.5:
        return random.choice((-value, value + 1, value - 1))
    return some_value(random, code, 0)


def some_value(random: Random, code: str, depth: int) -> Any:
    """Some value of a type."""
    code = code.lstrip("?").partition("=")[0]
    if code[0] == "[":
        return [some_value(random, code[1:], depth + 1) for _ in range(random.randrange(3 if depth < 3 else 1))]
    if code[0] == "{":
        return {random.choice(KEYS): some_value(random, code[1:], depth + 1) for _ in range(random.randrange(3))}
    if code not in _LEAVES:
        fields = field_table()["types"][code]
        known = sorted(fields if code == "v1.CELDeviceSelector" else fields.keys() - OWN_FIELDS)
        names = random.sample(known, min(len(known), random.randrange(4 if depth < 3 else 2)))
        return {name: some_value(random, fields[name], depth + 1) for name in names}
    return random.choice(_LEAVES[code])


_LEAVES: dict[str, tuple[Any, ...]] = {
    "s": (*TEXTS, *WORDS),
    "b": (True, False),
    "i": NUMBERS,
    "l": NUMBERS,
    "q": AMOUNTS,
    "x": (*NUMBERS[2:12], "10%", "200%", "-5%", "http", "x" * 16, "", "A"),
    "t": TIMES[:1],
    "m": TIMES[:2],
    "B": ("", "YQ==", "e30="),
    "*": ({}, {"a": 1}, "a", 1, [1]),
}
