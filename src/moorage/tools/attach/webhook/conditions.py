"""Which objects the API server sends to the webhook: those with rules, and those whose rules are written natively."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.api.meta import Data
from moorage.api.placementrules import PREFERRED, REQUIRED
from moorage.api.rules import COVER, DEVICE_TOLERATIONS, NODE_AFFINITY, POD_RULES

_POD = (*POD_RULES, COVER)


def pods_conditions(holder: str = "object") -> list[Data]:
    """What holds the metadata and the specification of pods: with rules, now or before, or with native spellings."""
    old = _before(holder)
    fields = [f"{holder}.spec.?{name} != {old}.spec.?{name}" for name in ("tolerations", "affinity", "schedulerName")]
    return _conditions(holder, _POD, _native(f"{holder}.spec"), fields)


def volumes_conditions() -> list[Data]:
    """PersistentVolumes with rules, now or before."""
    return _conditions("object", (NODE_AFFINITY,))


def claims_conditions(holder: str = "object") -> list[Data]:
    """What holds the metadata of claims with rules, now or before."""
    return _conditions(holder, (DEVICE_TOLERATIONS,))


def _conditions(
    holder: str, names: tuple[str, ...], native: Sequence[str] = (), fields: Sequence[str] = ()
) -> list[Data]:
    """Objects that have something to do with rules, and of these only writes that do: others need no webhook."""
    old, listed = _before(holder), ", ".join(f"'{name}'" for name in names)
    annotation = "{}.?metadata.?annotations[?name]"
    changed = f"[{listed}].exists(name, {annotation.format(holder)} != {annotation.format(old)})"
    ruled = (_annotated(holder, listed), f"oldObject != null && {_annotated(old, listed)}", *native)
    return [
        {"name": "has-rules", "expression": _any(ruled)},
        {"name": "changes-rules", "expression": _any(("oldObject == null", changed, *fields))},
        {"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"},
    ]


def _before(holder: str) -> str:
    return holder.replace("object", "oldObject", 1)


def _any(parts: Sequence[str]) -> str:
    return " ||\n".join(f"({part})" for part in parts)


def _there(path: str) -> str:
    """Whether every step of a path is there: to name a field that an object does not have is an error."""
    steps = path.split(".")
    return " && ".join(f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1))


def _annotated(holder: str, listed: str) -> str:
    path = f"{holder}.metadata.annotations"
    return f"{_there(path)} && [{listed}].exists(name, name in {path})"


def _native(spec: str) -> tuple[str, ...]:
    tolerations, affinity = f"{spec}.tolerations", f"{spec}.affinity.nodeAffinity"
    required, preferred = f"{affinity}.{REQUIRED}.nodeSelectorTerms", f"{affinity}.{PREFERRED}"
    compares = "(has(each.operator) && !(each.operator in ['', 'Equal', 'Exists']))"
    wildcard = "(has(each.key) && each.key.contains('*'))"
    return (
        f"{_there(tolerations)} && {tolerations}.exists(each, {compares} || {wildcard})",
        f"{_there(required)} && {required}.exists(term, {_of_versions('term')})",
        f"{_there(preferred)} && {preferred}.exists(each, has(each.preference) && {_of_versions('each.preference')})",
    )


def _of_versions(term: str) -> str:
    versions = "has(one.operator) && one.operator.startsWith('Semver')"
    return f"has({term}.matchExpressions) && {term}.matchExpressions.exists(one, {versions})"
