"""Checks that many fields share."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.features import Gate
from moorage.names import label_key_errors, label_value_errors
from moorage.validation.field import FieldError, forbidden, invalid


def label_key(path: str, key: str) -> Iterator[FieldError]:
    """Errors of a label or taint key."""
    for problem in label_key_errors(key):
        yield invalid(path, key, problem)


def label_value(path: str, value: str) -> Iterator[FieldError]:
    """Errors of a label or taint value."""
    for problem in label_value_errors(value):
        yield invalid(path, value, problem)


def gate_is_off(path: str, gate: Gate) -> FieldError:
    """A field is set that only exists when a gate is on."""
    return forbidden(path, f"may not be set unless the feature gate {gate.value} is enabled")
