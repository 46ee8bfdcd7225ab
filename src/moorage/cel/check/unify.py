"""Whether one type can stand where another is expected, and what that says about type parameters."""

from __future__ import annotations

import operator

from moorage.cel.types import DYN, Type, TypeKind

Bindings = dict[str, Type]
"""What is known about type variables, by name."""

_WILD = frozenset((TypeKind.DYN, TypeKind.ERROR))
_NULLABLE = frozenset((TypeKind.OPAQUE, TypeKind.OBJECT, TypeKind.DURATION, TypeKind.TIMESTAMP))
_PARAMETERISED = frozenset((TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP))


def substitute(bindings: Bindings, kind: Type) -> Type:
    """The type with its variables replaced by what is known about them."""
    if kind.kind is TypeKind.PARAM:
        bound = bindings.get(kind.name)
        return kind if bound is None else substitute(bindings, bound)
    if not kind.params:
        return kind
    params = [substitute(bindings, param) for param in kind.params]
    # Identity, not equality: equality would look through nested types again at each of their levels.
    return kind if all(map(operator.is_, params, kind.params)) else Type(kind.kind, kind.name, tuple(params))


def settle(bindings: Bindings, kind: Type, settled: dict[int, Type]) -> Type:
    """The type without variables: one that nothing is known about is dyn. Types that were settled before are shared."""
    if not kind.params and kind.kind is not TypeKind.PARAM:
        return kind
    done = settled.get(id(kind))
    if done is None:
        if kind.kind is TypeKind.PARAM:
            done = settle(bindings, bindings.get(kind.name, DYN), settled)
        else:
            params = tuple([settle(bindings, param, settled) for param in kind.params])
            done = Type(kind.kind, kind.name, params)
        settled[id(kind)] = done
    return done


def has_variables(kind: Type) -> bool:
    """Whether type variables occur in the type."""
    return kind.kind is TypeKind.PARAM or any(map(has_variables, kind.params))


def assignable(bindings: Bindings, actual: Type, expected: Type) -> bool:
    """Whether a value of type `actual` may stand for `expected`. Binds variables, also when the answer is no."""
    if expected.kind is TypeKind.PARAM:
        valid, bound = _bind(bindings, actual, expected)
        if valid or bound:
            return valid
    if actual.kind is TypeKind.PARAM:
        return _bind(bindings, expected, actual)[0]
    if actual is expected or actual.kind in _WILD or expected.kind in _WILD:
        return True
    if actual.kind is TypeKind.NULL or expected.kind is TypeKind.NULL:
        return actual.kind is expected.kind or actual.kind in _NULLABLE or expected.kind in _NULLABLE
    if actual.kind is not expected.kind:
        return False
    if actual.kind is TypeKind.TYPE:
        return True
    if actual.name != expected.name or len(actual.params) != len(expected.params):
        return False
    return all(assignable(bindings, a, b) for a, b in zip(actual.params, expected.params, strict=True))


def _bind(bindings: Bindings, kind: Type, variable: Type) -> tuple[bool, bool]:
    """Whether `variable` can stand for `kind`, and whether anything was known about it before."""
    if kind == variable:
        return True, True
    bound = bindings.get(variable.name)
    if bound is None:
        if _occurs(bindings, variable, kind):
            return False, False
        bindings[variable.name] = kind
        return True, False
    if kind == bound:
        return True, True
    if not assignable(bindings, kind, bound):
        return False, True
    general = most_general(kind, bound)
    if not _occurs(bindings, variable, general):
        bindings[variable.name] = general
    return True, True


def most_general(a: Type, b: Type) -> Type:
    """The less specific of two types that agree."""
    return a if _less_specific(a, b) else b


def _less_specific(a: Type, b: Type) -> bool:
    if a.kind is TypeKind.DYN or a.kind is TypeKind.PARAM:
        return True
    if b.kind is TypeKind.DYN or b.kind is TypeKind.PARAM or a.kind is not b.kind:
        return False
    if a.kind is TypeKind.TYPE:
        return True
    if a.kind not in _PARAMETERISED:
        return a == b
    if a.name != b.name or len(a.params) != len(b.params):
        return False
    return all(_less_specific(x, y) for x, y in zip(a.params, b.params, strict=True))


def _occurs(bindings: Bindings, variable: Type, kind: Type) -> bool:
    if kind == variable:
        return True
    if kind.kind is TypeKind.PARAM:
        bound = bindings.get(kind.name)
        return bound is not None and _occurs(bindings, variable, bound)
    return any(_occurs(bindings, variable, param) for param in kind.params)


_SHORT_NAMES = {TypeKind.DURATION: "duration", TypeKind.TIMESTAMP: "timestamp"}


def show(kind: Type) -> str:
    """A type as error messages write it."""
    if kind.params:
        return f"{kind.name}({', '.join(map(show, kind.params))})"
    return _SHORT_NAMES.get(kind.kind, kind.name)
