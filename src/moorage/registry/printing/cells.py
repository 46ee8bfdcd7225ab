"""The cells of printed tables: one function for everything that a column can show of an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from moorage.registry.printing.ages import UNKNOWN, moment, since
from moorage.registry.printing.podsummary import PodSummary, Printable

NONE, UNSET = "<none>", "<unset>"


Cell = str | int | bool


class PrintedRow:
    """One object, as the columns read it."""

    __slots__ = ("_pod", "item", "metadata", "now", "spec", "status")

    def __init__(self, item: Printable, now: datetime) -> None:
        self.item = item
        self.metadata = _part(item, "metadata")
        self.spec = _part(item, "spec")
        self.status = _part(item, "status")
        self.now = now
        self._pod: PodSummary | None = None

    @property
    def pod(self) -> PodSummary:
        """The summary of a pod, computed once for three columns."""
        if self._pod is None:
            self._pod = PodSummary(self.item)
        return self._pod


def _part(item: Printable, name: str) -> Printable:
    part = item.get(name)
    return part if isinstance(part, dict) else {}


Getter = Callable[[PrintedRow], Any]


def name(row: PrintedRow) -> str:
    """The object's name."""
    return str(row.metadata.get("name", ""))


def age(row: PrintedRow) -> str:
    """How long ago the object was created."""
    return since(row.metadata.get("creationTimestamp"), row.now)


def created_at(row: PrintedRow) -> str:
    """When the object was created."""
    created = moment(row.metadata.get("creationTimestamp"))
    return created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if created else UNKNOWN


def at(path: str, default: Cell = "") -> Getter:
    """The value of a field; `default` stands for an absent or empty one."""
    *parents, last = path.split(".")

    def get(row: PrintedRow) -> Any:
        part: Any = row.item
        for parent in parents:
            part = part.get(parent) or {}
        return part.get(last) or default

    return get


def value(path: str, default: Cell) -> Getter:
    """The value of a field, even if it is empty, false or 0; `default` stands for an absent one."""
    *parents, last = path.split(".")

    def get(row: PrintedRow) -> Any:
        part: Any = row.item
        for parent in parents:
            part = part.get(parent) or {}
        content = part.get(last)
        return default if content is None else content

    return get


def number(path: str) -> Getter:
    """A number; 0 when it is absent."""
    return at(path, 0)


def size(*paths: str) -> Getter:
    """The total number of items of lists or maps."""
    getters = [at(path) for path in paths]
    return lambda row: sum(len(get(row)) for get in getters)


def ago(path: str, absent: str) -> Getter:
    """How long ago the time in a field was."""
    get = at(path)
    return lambda row: since(time, row.now) if (time := get(row)) else absent


def joined(values: Iterable[Any], separator: str = ",", otherwise: str = "") -> str:
    """Values joined by a separator; `otherwise` when there are none."""
    return separator.join(map(str, values)) or otherwise


def label_text(labels: Mapping[str, str] | None) -> str:
    """Labels in the order of their keys."""
    return joined(sorted(f"{key}={value}" for key, value in (labels or {}).items()), otherwise=NONE)


_REQUIREMENTS = {
    "In": "{0} in ({1})",
    "NotIn": "{0} notin ({1})",
    "Exists": "{0}",
    "DoesNotExist": "!{0}",
}


def selector_text(selector: Printable | None) -> str:
    """A label selector in the syntax of commands. Raises ValueError when it is invalid."""
    requirements = [(key, f"{key}={value}") for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    for expression in (selector or {}).get("matchExpressions") or ():
        form, values = _REQUIREMENTS.get(expression.get("operator", "")), expression.get("values") or ()
        if form is None or bool(values) != ("{1}" in form):
            raise ValueError("not a label selector")
        requirements.append((expression["key"], form.format(expression["key"], joined(sorted(values)))))
    return joined(text for _, text in sorted(requirements, key=lambda requirement: requirement[0]))


def selector(path: str) -> Getter:
    """A label selector."""
    get = value(path, "")

    def text(row: PrintedRow) -> str:
        try:
            return selector_text(get(row) or None) or NONE
        except ValueError:
            return "<error>"

    return text


def items(path: str, field: str) -> Getter:
    """One field of all items of a list."""
    get = at(path)
    return lambda row: joined(item.get(field, "") for item in get(row))


def ratio(have: str, want: str) -> Getter:
    """A ratio such as ready replicas; an absent second number is 1."""
    numerator, denominator = number(have), value(want, 1)
    return lambda row: f"{numerator(row)}/{denominator(row)}"


def truth(path: str) -> Getter:
    """A boolean as text."""
    get = value(path, "")
    words = {True: "True", False: "False"}
    return lambda row: words.get(get(row), UNSET)


def condition_status(conditions: Iterable[Printable], type_: str) -> str:
    """The status of the first condition of a type; empty when there is none."""
    return next((condition.get("status", "") for condition in conditions if condition.get("type") == type_), "")


def phase(row: PrintedRow) -> str:
    """The phase, or Terminating."""
    return "Terminating" if row.metadata.get("deletionTimestamp") else row.status.get("phase") or ""
