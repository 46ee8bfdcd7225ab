"""Checks of tolerations and taints, on nodes and on devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.features import Gate, Gates
from moorage.gotext import quote
from moorage.match.expressions import TaintExpression
from moorage.match.operators import COMPARISONS, comparison
from moorage.match.tolerations import EQUAL, EXISTS, NO_EXECUTE
from moorage.names import label_key_errors, label_value_errors
from moorage.validation.expressions import ExpressionBudget
from moorage.validation.field import FieldError, duplicate, forbidden, invalid, not_supported, required, too_many
from moorage.validation.syntax import gate_is_off, label_key, label_value

NODE_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DEVICE_EFFECTS = ("NoExecute", "NoSchedule", "None")
MAX_DEVICE_TAINTS = MAX_DEVICE_TOLERATIONS = 16


def toleration_errors(
    path: str, tolerations: Iterable[Toleration], gates: Gates, budget: ExpressionBudget
) -> Iterator[FieldError]:
    """What is wrong with the tolerations of a pod."""
    for index, toleration in enumerate(tolerations):
        yield from _pod_toleration(f"{path}[{index}]", toleration, gates, budget)


def _pod_toleration(path: str, toleration: Toleration, gates: Gates, budget: ExpressionBudget) -> Iterator[FieldError]:
    if toleration.expression:
        yield from _expression(path, toleration, gates, budget)
        return
    yield from _key(f"{path}.key", toleration.key, gates)
    if not toleration.key and toleration.operator != EXISTS:
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", toleration.operator, detail)
    if toleration.toleration_seconds is not None and toleration.effect != NO_EXECUTE:
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", toleration.effect, detail)
    # Kubernetes reports the value of Equal and Exists on the operator.
    if toleration.operator in ("", EQUAL):
        if problems := label_value_errors(toleration.value):
            yield invalid(f"{path}.operator", toleration.value, ";".join(problems))
    elif toleration.operator == EXISTS:
        if toleration.value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield invalid(f"{path}.operator", toleration.value, detail)
    else:
        yield from _comparison(path, toleration, gates)
    if toleration.effect and toleration.effect not in NODE_EFFECTS:
        yield not_supported(f"{path}.effect", toleration.effect, NODE_EFFECTS)


def device_toleration_errors(
    path: str, tolerations: tuple[Toleration, ...], gates: Gates, budget: ExpressionBudget
) -> Iterator[FieldError]:
    """What is wrong with the tolerations of a device request. An empty operator is Equal, as defaulting makes it."""
    if len(tolerations) > MAX_DEVICE_TOLERATIONS:
        yield too_many(path, len(tolerations), MAX_DEVICE_TOLERATIONS)
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        if toleration.expression:
            yield from _expression(here, toleration, gates, budget)
            continue
        yield from _key(f"{here}.key", toleration.key, gates)
        if toleration.operator == EXISTS:
            if toleration.value:
                yield invalid(f"{here}.value", toleration.value, "must be empty for operator `Exists`")
        elif toleration.operator in ("", EQUAL):
            yield from label_value(f"{here}.value", toleration.value)
        else:
            yield from _comparison(here, toleration, gates)
        if toleration.effect and toleration.effect not in DEVICE_EFFECTS:
            yield not_supported(f"{here}.effect", toleration.effect, DEVICE_EFFECTS)


def taint_errors(path: str, taints: Iterable[Taint]) -> Iterator[FieldError]:
    """What is wrong with the taints of a node. A value need not be a number or a version."""
    seen = set()
    for index, taint in enumerate(taints):
        here = f"{path}[{index}]"
        yield from label_key(f"{here}.key", taint.key)
        if problems := label_value_errors(taint.value):
            yield invalid(f"{here}.value", taint.value, ";".join(problems))
        yield from _taint_effect(f"{here}.effect", taint.effect, NODE_EFFECTS)
        if (taint.key, taint.effect) in seen:
            yield duplicate(here, taint, "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))


def device_taint_list_errors(path: str, taints: tuple[Taint, ...]) -> Iterator[FieldError]:
    """What is wrong with the taints of a device."""
    if len(taints) > MAX_DEVICE_TAINTS:
        yield too_many(path, len(taints), MAX_DEVICE_TAINTS)
    for index, taint in enumerate(taints):
        yield from device_taint_errors(f"{path}[{index}]", taint)


def device_taint_errors(path: str, taint: Taint) -> Iterator[FieldError]:
    """What is wrong with one taint of a device."""
    yield from label_key(f"{path}.key", taint.key)
    yield from label_value(f"{path}.value", taint.value)
    yield from _taint_effect(f"{path}.effect", taint.effect, DEVICE_EFFECTS)


def supported_operators(gates: Gates) -> list[str]:
    """The operators that the gates allow now."""
    return [EQUAL, EXISTS, *sorted(name for name in COMPARISONS if comparison(name, gates))]


def _taint_effect(path: str, effect: str, effects: tuple[str, ...]) -> Iterator[FieldError]:
    if not effect:
        yield required(path)
    elif effect not in effects:
        yield not_supported(path, effect, effects)


def _key(path: str, key: str, gates: Gates) -> Iterator[FieldError]:
    if not gates.enabled(Gate.WILDCARD):
        if key:
            yield from label_key(path, key)
    elif odd := sorted(set(key).intersection("?[]\\")):
        yield invalid(
            path, key, f"only '*' is a wildcard in a toleration key: {', '.join(map(quote, odd))} not allowed"
        )
    elif key:
        for problem in label_key_errors(key.replace("*", "x")):
            yield invalid(path, key, problem)


def _comparison(path: str, toleration: Toleration, gates: Gates) -> Iterator[FieldError]:
    compared = comparison(toleration.operator, gates)
    if compared is None:
        yield not_supported(f"{path}.operator", toleration.operator, supported_operators(gates))
    else:
        for problem in compared.values.refusals(toleration.value):
            yield invalid(f"{path}.value", toleration.value, problem)


def _expression(path: str, toleration: Toleration, gates: Gates, budget: ExpressionBudget) -> Iterator[FieldError]:
    for name in ("key", "operator", "value", "effect"):
        if getattr(toleration, name):
            yield forbidden(f"{path}.{name}", "may not be set when `expression` is set")
    if gates.enabled(Gate.CEL):
        yield from budget.check(f"{path}.expression", toleration.expression, TaintExpression)
    else:
        yield gate_is_off(f"{path}.expression", Gate.CEL)
