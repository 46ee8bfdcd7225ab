"""Regular expressions in RE2's syntax, compiled once and kept in a bounded cache, with Go's words for bad ones."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

_MAX_MEMORY = 2**20
_MAX_PATTERNS = 1024

_PROBLEMS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
_ESCAPE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


class PatternError(ValueError):
    """The text is not a regular expression; the message is that of Go's regexp."""


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return options


_OPTIONS = _options()


@lru_cache(maxsize=_MAX_PATTERNS)
def pattern(text: str) -> Any:
    """The compiled regular expression, with the methods of Python's own."""
    # \C is one byte, perhaps half a character: RE2 allows it, Go does not.
    if "\\C" in text and "\\C" in _ESCAPE.findall(text):
        raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise PatternError(_message(error.args[0])) from None
    except UnicodeError:
        raise PatternError("error parsing regexp: invalid UTF-8") from None


def _message(reason: str | bytes) -> str:
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
    problem, colon, place = text.partition(": ")
    return f"error parsing regexp: {_PROBLEMS.get(problem, problem)}" + (colon and f": `{place}`")
