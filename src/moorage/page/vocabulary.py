"""What can be written into rules, for completion: fields, operators, and what expressions may mention."""

from __future__ import annotations

from functools import cache
from typing import Any

from moorage.api.meta import Data
from moorage.cel import types
from moorage.cel.env import Env
from moorage.cel.environments import NODE_ENV, TAINT_ENV
from moorage.cel.library import Overload
from moorage.features import Gates
from moorage.match.operators import COMPARISONS, selector_comparison
from moorage.page.rules import RULES
from moorage.registry.schema import field_table

_TOLERATION = ("Equal", "Exists")
_SELECTOR = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_VALUES = {
    "v1.TaintEffect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "v1.UnsatisfiableConstraintAction": ("DoNotSchedule", "ScheduleAnyway"),
    "v1.NodeInclusionPolicy": ("Honor", "Ignore"),
    "v1.LabelSelectorOperator": ("In", "NotIn", "Exists", "DoesNotExist"),
}

_MACROS = ("list", "map", "optional_type")
"""What the macros are called on."""


@cache
def vocabulary(gates: Gates) -> Data:
    """The fields of rules by type, the values that fields may have, and the words of both kinds of expressions."""
    structs: dict[str, dict[str, str]] = field_table()["types"]
    spec = structs["v1.PodSpec"]
    fields: dict[str, dict[str, str]] = {"": {name: _type(spec[name]) for name in RULES}}
    waiting = list(fields[""].values())
    while waiting:
        name = waiting.pop()
        if name in structs and name not in fields:
            fields[name] = {field: _type(code) for field, code in structs[name].items()}
            waiting += fields[name].values()
    compared = [each for each in COMPARISONS.values() if gates.enabled(each.gate)]
    selecting = [each.name for each in compared if each.in_selectors and selector_comparison(each.name)]
    operators = {
        "v1.TolerationOperator": [*_TOLERATION, *(each.name for each in compared)],
        "v1.NodeSelectorOperator": [*_SELECTOR, *selecting],
    }
    return {
        "fields": fields,
        "values": {**_VALUES, **operators},
        "expressions": {"taint": _words(TAINT_ENV), "node": _words(NODE_ENV)},
    }


def _type(code: str) -> str:
    """The type that a field leads to: that of its items, or the name of what its text may be."""
    return code.lstrip("?[{").removeprefix("s=") if "." in code else ""


def _words(env: Env) -> Data:
    """The variables with their fields, the functions and the methods, with how they are called and on which types."""
    plain: dict[str, str] = {}
    methods: dict[str, str] = {}
    receivers: dict[str, set[str]] = {}
    for name, overloads in env.functions.items():
        # Labels and taints are texts, so what takes a text is shown before what takes anything else.
        for overload in sorted(overloads, key=_is_of_text) if name.replace(".", "").isidentifier() else ():
            (methods if overload.method else plain).setdefault(name, _signature(name, overload))
            if overload.method:
                receivers.setdefault(name, set()).add(_bare(str(overload.args[0])))
    for macro in env.macros.values():
        (methods if macro.method else plain).setdefault(macro.name, f"{macro.name}(…)")
        if macro.method:
            receivers.setdefault(macro.name, set()).update(_MACROS)
    variables: dict[str, Any] = {
        name: {field: str(kind) for field, kind in env.objects.get(str(of), {}).items()}
        for name, of in env.variables.items()
    }
    on = {name: sorted(kinds) for name, kinds in receivers.items()}
    return {"variables": variables, "functions": plain, "methods": methods, "receivers": on}


def _bare(kind: str) -> str:
    """`list` of `list(string)`."""
    return kind.partition("(")[0]


def _is_of_text(overload: Overload) -> bool:
    return types.STRING not in overload.args[:1]


def _signature(name: str, overload: Overload) -> str:
    """`startsWith(string) bool`: the receiver of a method is left out."""
    args = overload.args[1:] if overload.method else overload.args
    return f"{name}({', '.join(map(str, args))}) {overload.result}"
