"""DeviceClasses."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.checks import Errors
from moorage.registry.strategy import SPEC, Strategy
from moorage.validation.field import required, too_long, too_many

_MAX_SELECTORS = 32
_MAX_EXPRESSION = 10 * 1024


def _errors(new: Data, _: Data | None) -> Errors:
    """Validate a DeviceClass."""
    yield from device_selector_errors("spec.selectors", new.get("spec", {}).get("selectors", ()))


def device_selector_errors(path: str, selectors: list[Data]) -> Errors:
    """Validate the expressions that select devices."""
    if len(selectors) > _MAX_SELECTORS:
        yield too_many(path, len(selectors), _MAX_SELECTORS)
    for index, selector in enumerate(selectors):
        expression = selector.get("cel", {}).get("expression", "")
        if "cel" not in selector:
            yield required(f"{path}[{index}].cel")
        elif not expression:
            yield required(f"{path}[{index}].cel.expression")
        elif len(expression.encode("utf-8", "surrogatepass")) > _MAX_EXPRESSION:
            yield too_long(f"{path}[{index}].cel.expression", _MAX_EXPRESSION)


DEVICE_CLASS = Strategy(
    kind=kinds.row("resource.k8s.io/v1", "DeviceClass"),
    errors=_errors,
    first_generation=1,
    counted=SPEC,
)
