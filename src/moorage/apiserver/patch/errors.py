"""What all ways of patching share: their error, and what it takes for two values to be the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from http import HTTPStatus
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Cause(NamedTuple):
    """One reason for an error, as a Status lists it."""

    type: str
    message: str
    field: str


class PatchError(Exception):
    """The patch cannot be applied. `status` is the HTTP status that says why."""

    def __init__(
        self, message: str, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY, causes: Iterable[Cause] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.causes = tuple(causes)


def malformed(message: str) -> PatchError:
    """The error for something that is not a patch at all."""
    return PatchError(message, HTTPStatus.BAD_REQUEST)


def bounded(function: Callable[P, R]) -> Callable[P, R]:
    """Answer what is nested too deeply for the interpreter's stack with an error of the patch."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise malformed("the patch or the object is nested too deeply") from None

    return guarded


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same. Python's `==` is not enough: it takes true for 1."""
    if left is right:
        return True
    kind = type(left)
    if kind is str:
        return bool(left == right)
    if kind is not type(right):
        return {kind, type(right)} == {int, float} and bool(left == right)
    if kind is dict:
        return len(left) == len(right) and all(
            name in right and same(value, right[name]) for name, value in left.items()
        )
    if kind is list:
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
