"""What is wrong with an expression, and where: shown as cel-go shows it."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

NOWHERE = -1
_SNIPPET_MAX = 16384
_SHOWN_MAX = 100
_TEXT_MAX = 10_000
"""Characters after which no further issue is shown: each shows the whole line that it is in."""
_ISSUE_BYTES = 300


class Source:
    """The text of an expression."""

    __slots__ = ("_lines", "name", "text")

    def __init__(self, text: str, name: str = "<input>") -> None:
        # A lone surrogate is what Python makes of a byte that is not UTF-8; Go reads such a byte as U+FFFD.
        self.text = text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        self.name = name
        self._lines: list[int] | None = None

    def location(self, offset: int) -> tuple[int, int]:
        """Line (from 1) and column (from 0) of an offset; NOWHERE is (-1, -1)."""
        if offset < 0:
            return -1, -1
        if self._lines is None:
            self._lines = [0] + [index + 1 for index, char in enumerate(self.text) if char == "\n"]
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1]

    def line(self, number: int) -> str | None:
        """The text of a line, None when there is no such line."""
        if number < 1 or not self.text:
            return None
        return self.text.split("\n")[number - 1]


class Issue(NamedTuple):
    """One error at an offset of the source."""

    offset: int
    message: str

    def show(self, source: Source) -> str:
        """The message with its position, the line it is in and a caret under the place."""
        line, column = source.location(self.offset)
        text = f"ERROR: {source.name}:{line}:{column + 1}: {self.message}"
        snippet = source.line(line)
        if snippet is None or len(snippet.encode()) > _SNIPPET_MAX:
            return text
        snippet = snippet.replace("\t", " ")
        dots = "".join("." if char.isascii() else "\uff0e" for char in snippet[:column])
        caret = "^" if snippet[column : column + 1].isascii() else "\uff3e"
        return f"{text}\n | {snippet}\n | {dots}{caret}"


class CompileError(Exception):
    """The expression does not parse or does not type-check; `issues` are in the order of their positions."""

    def __init__(self, source: Source, issues: list[Issue]) -> None:
        super().__init__(source, issues)
        self.source = source
        self.issues = sorted(issues, key=lambda issue: issue.offset)

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        return _ISSUE_BYTES * (1 + len(self.issues)) + 4 * len(self.source.text)

    def __str__(self) -> str:
        shown: list[str] = []
        length = 0
        for issue in self.issues[:_SHOWN_MAX]:
            if length > _TEXT_MAX:
                break
            shown.append(issue.show(self.source))
            length += len(shown[-1])
        if len(self.issues) > len(shown):
            shown.append(f"{len(self.issues) - len(shown)} more errors were truncated")
        return "\n".join(shown)


class EvalError(Exception):
    """An expression that type-checks failed on these inputs: the CEL error value, as an exception."""
