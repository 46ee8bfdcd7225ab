"""RuntimeClasses."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax, unchanged
from moorage.registry.defaulting import round_up
from moorage.registry.merging import ATOMIC, pointer, shape
from moorage.registry.metadata import label_errors
from moorage.registry.pod.resources import resource_errors
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import Strategy
from moorage.validation.field import duplicate, required

_KEYS = ("key", "operator", "value", "effect", "expression")


def _defaults(obj: Data, _: str) -> None:
    if fixed := (obj.get("overhead") or {}).get("podFixed"):
        round_up(fixed)


def _errors(new: Data, old: Data | None) -> Errors:
    handler, scheduling = new.get("handler", ""), new.get("scheduling") or {}
    if not handler:
        yield required("handler")
    else:
        yield from syntax("handler", handler, namesyntax.label(handler))
    yield from resource_errors("overhead", {"limits": (new.get("overhead") or {}).get("podFixed", {})}, ())
    yield from label_errors("scheduling.nodeSelector", scheduling.get("nodeSelector", {}))
    seen = set()
    for index, toleration in enumerate(scheduling.get("tolerations", ())):
        key = tuple(toleration.get(name, "") for name in _KEYS)
        if key in seen:
            yield duplicate(f"scheduling.tolerations[{index}]", toleration)
        seen.add(key)
    if old is not None:
        yield from unchanged("handler", handler, old.get("handler", ""))


RUNTIME_CLASS = Strategy(
    kind=kinds.row("node.k8s.io/v1", "RuntimeClass"),
    bare_finalizers=("create", "update"),
    defaults=_defaults,
    errors=_errors,
    conditional=True,
    merge=shape(scheduling=pointer(nodeSelector=ATOMIC)),
    columns=(NAME, column("Handler", cells.at("handler"), "What runs the containers."), AGE),
)
