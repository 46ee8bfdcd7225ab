"""Which objects the API server sends to the webhook: those with rules, and those whose rules are written natively."""

from __future__ import annotations

from moorage.api.meta import Data
from moorage.api.placementrules import PREFERRED, REQUIRED
from moorage.api.rules import COVER, DEVICE_TOLERATIONS, NODE_AFFINITY, POD_RULES

_POD = (*POD_RULES, COVER)


def pods_condition(holder: str = "object") -> Data:
    """What holds the metadata and the specification of pods: with rules, now or before, or with native spellings."""
    old = holder.replace("object", "oldObject", 1)
    parts = (_annotated(holder, _POD), f"oldObject != null && {_annotated(old, _POD)}", *_native(f"{holder}.spec"))
    return _condition(*parts)


def volumes_condition() -> Data:
    """PersistentVolumes with rules, now or before."""
    return _annotations_condition("object", NODE_AFFINITY)


def claims_condition(holder: str = "object") -> Data:
    """What holds the metadata of claims with rules, now or before."""
    return _annotations_condition(holder, DEVICE_TOLERATIONS)


def _annotations_condition(holder: str, *names: str) -> Data:
    old = holder.replace("object", "oldObject", 1)
    return _condition(_annotated(holder, names), f"oldObject != null && {_annotated(old, names)}")


def _condition(*parts: str) -> Data:
    return {"name": "has-rules", "expression": " ||\n".join(f"({part})" for part in parts)}


def _there(path: str) -> str:
    """Whether every step of a path is there: to name a field that an object does not have is an error."""
    steps = path.split(".")
    return " && ".join(f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1))


def _annotated(holder: str, names: tuple[str, ...]) -> str:
    path = f"{holder}.metadata.annotations"
    listed = ", ".join(f"'{name}'" for name in names)
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
