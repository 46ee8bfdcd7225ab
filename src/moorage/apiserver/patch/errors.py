"""What all kinds of patches share: their errors, and the equality of JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from http import HTTPStatus
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Cause(NamedTuple):
    """One cause of an error, as in the details of a Status."""

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
    """Turn a RecursionError by deep nesting into a PatchError."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise malformed("the patch or the object is nested too deeply") from None

    return guarded


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal. Python's `==` is not enough: True equals 1."""
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
