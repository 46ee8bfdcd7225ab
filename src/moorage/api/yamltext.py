"""The YAML parser: documents as data within limits of depth and size, and the lines of their fields."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from yaml import events
from yaml.reader import ReaderError

from moorage.api.yamlscalars import ScalarError, json_number, key_text, resolve, tagged

MAX_DEPTH = 100
MAX_EVENTS = 20_000_000
"""Scalars and the starts and ends of maps and lists in one document: about 100 MB of manifests, 1 GB of memory."""
MAX_ALIASED = 400_000
"""How many values aliases may add to a document, as in Kubernetes."""

_BAD_YAML = "bad YAML: "
_MAX_DIRECTIVES = 100
_DIRECTIVE = re.compile(r"[\n\r\x85\u2028\u2029]%TAG")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_KEY_IS_NO_STRING = "a key is a map or a list; it must be a string"
_NO_KEY: Any = object()
_MERGE: Any = object()
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[]+)")
# Without libyaml, PyYAML's own parser gives the same events, only slowly.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YAMLTextError(Exception):
    """The text cannot be parsed; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


class YAMLFileError(Exception):
    """A file cannot be read; the sentence names it, and the line where there is one to point at."""


def too_many_values(line: int) -> YAMLTextError:
    """The error for a document that would take too much memory."""
    return YAMLTextError(line, f"more than {MAX_EVENTS:,} values in one document; give it in parts")


class Span(NamedTuple):
    """The part of a text that one value takes, and the line and column where it starts."""

    start: int
    end: int
    line: int
    column: int


class Root(NamedTuple):
    """One document: its data, its span, and the spans of the entries of its `items`."""

    data: Any
    span: Span
    items: Sequence[Span]


MAX_REPEATED = 100
"""How many repeated keys are noted: Kubernetes reports no more problems of a body either."""


class RepeatedKey(NamedTuple):
    """A key that its map has already, and the line on which it is given again."""

    line: int
    key: str


def parse(text: str, line: int = 1, repeated: list[RepeatedKey] | None = None) -> Iterator[Root | None]:
    """Read all documents of a text that starts on the given line of its file; an empty one is None.

    A key that is given twice is an error, unless a list is given: then it is added to that, and its last value counts.
    """
    builder = _Builder(line, repeated)
    handlers: dict[type, Callable[[Any], None]] = {
        events.ScalarEvent: builder.scalar,
        events.MappingStartEvent: builder.start_map,
        events.SequenceStartEvent: builder.start_list,
        events.MappingEndEvent: builder.end,
        events.SequenceEndEvent: builder.end,
        events.AliasEvent: builder.alias,
        events.DocumentStartEvent: builder.start_document,
    }
    count = 0
    for event in _events(text, line):
        count += 1
        if count > MAX_EVENTS:
            raise too_many_values(line + event.start_mark.line)
        handler = handlers.get(type(event))
        if handler is not None:
            handler(event)
        elif type(event) is events.DocumentEndEvent:
            yield builder.finished()
            count = 0


def line_of(text: str, span: Span, path: str) -> int:
    """The line of the field at a path such as `spec.taints[0].key`, or of the nearest field around it."""
    lines = text[span.start : span.end]
    finder = _Finder([step[1] if step[1] is not None else step[2] for step in _STEP.finditer(path)], span.line)
    # The first line of a block map must be indented like its others.
    for event in _events(" " * span.column + lines, span.line):
        if finder.is_done_after(event):
            break
    return finder.line


def read_file(path: Path) -> Any:
    """The first document of a YAML file, None when it is empty. Raises YAMLFileError."""
    try:
        root = next(parse(decode_text(path.read_bytes())), None)
    except OSError as error:
        raise YAMLFileError(f"{path}: {error.strerror or error}") from None
    except YAMLTextError as error:
        raise YAMLFileError(f"{path}:{error.line}: not YAML: {error.message.removeprefix(_BAD_YAML)}") from None
    return root and root.data


def decode_text(data: bytes) -> str:
    """The text that bytes hold. Raises YAMLTextError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise YAMLTextError(line, "not text in UTF-8; is it a binary file?") from None


def _events(text: str, line: int) -> Iterator[Any]:
    # The parser compares each with all before it; after every sort of line break that it knows.
    if text.count("%TAG") > _MAX_DIRECTIVES and len(_DIRECTIVE.findall(text)) > _MAX_DIRECTIVES:
        raise YAMLTextError(line, f"there are more than {_MAX_DIRECTIVES} %TAG directives")
    try:
        next_event = _Parser(text).get_event
        while (event := next_event()) is not None:
            yield event
    except ReaderError as error:
        before = text.encode()[: error.position].count(b"\n")
        raise YAMLTextError(line + before, f"{_BAD_YAML}{_character(error)} is not allowed") from None
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text, line) from None


def _character(error: ReaderError) -> str:
    return f"the character U+{error.character:04X}"


def _explained(error: yaml.MarkedYAMLError, text: str, line: int) -> YAMLTextError:
    """Libyaml's error in one sentence, with the line that it points to."""
    mark = error.problem_mark or error.context_mark
    at = mark.line if mark else 0
    problem = error.problem or "it cannot be read"
    if "found a tab" in problem or (
        "cannot start any token" in problem and mark and text[mark.index : mark.index + 1] == "\t"
    ):
        problem = "a tab stands where the line is indented; YAML wants spaces"
    elif error.context and error.context_mark and error.context_mark.line != at:
        problem += f" {error.context} that starts on line {line + error.context_mark.line}"
    return YAMLTextError(min(line + at, line + text.count("\n")), f"{_BAD_YAML}{problem}")


class _Builder:
    """Builds data from events with an explicit stack, so that deep nesting cannot overflow Python's or C's."""

    __slots__ = (
        "aliased", "anchors", "here", "items", "key", "line", "merged", "repeated", "root", "span", "stack", "starts",
        "weights",
    )  # fmt: skip

    def __init__(self, line: int, repeated: list[RepeatedKey] | None) -> None:
        self.line = line
        self.repeated = repeated
        self.start_document(None)

    def start_document(self, _: Any) -> None:
        self.root: Any = None
        self.here: Any = None
        self.key: Any = _NO_KEY
        self.merged: set[str] | None = None
        self.stack: list[tuple[Any, Any, set[str] | None]] = []
        self.anchors: dict[str, Any] = {}
        self.aliased = 0
        self.weights: dict[int, tuple[tuple[int, int], Any]] = {}
        self.starts: list[Any] = []
        self.items: list[Span] = []
        self.span = Span(0, 0, self.line, 0)

    def finished(self) -> Root | None:
        return None if self.root is None else Root(self.root, self.span, self.items)

    def scalar(self, event: Any) -> None:
        text, is_plain = event.value, event.implicit[0]
        if text == "<<" and is_plain and self.wants_key():
            self.key = _MERGE
            return
        if event.tag is not None:
            value = self.checked(event, tagged, event.tag, text)
        else:
            value = resolve(text) if is_plain else text
        if event.anchor is not None:
            self.anchors[event.anchor] = value
        self.place(event, value)

    def place(self, event: Any, value: Any) -> None:
        """Take a scalar or an alias, as a key or as a value."""
        if self.wants_key():
            self.read_key(event, value if type(value) is str else self.checked(event, key_text, value))
        else:
            self.put(event, self.checked(event, json_number, value) if type(value) is float else value)

    def wants_key(self) -> bool:
        return self.key is _NO_KEY and type(self.here) is dict

    def checked(self, event: Any, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except ScalarError as error:
            raise self.error(event, str(error)) from None

    def read_key(self, event: Any, key: str) -> None:
        if key in self.here:
            if self.merged is not None and key in self.merged:
                self.merged.remove(key)
            elif self.repeated is not None:
                if len(self.repeated) < MAX_REPEATED:
                    self.repeated.append(RepeatedKey(self.line + event.start_mark.line, key))
                del self.here[key]
            else:
                raise self.error(event, f"key {key!r} is given twice")
        # The same few keys come in every document.
        self.key = sys.intern(key)

    def put(self, event: Any, value: Any) -> None:
        """Put a complete value into the map, list or document that contains it."""
        here = self.here
        if type(here) is list:
            here.append(value)
        elif here is None:
            self.root = value
            if not self.stack and type(value) not in (dict, list):
                self.span = self.span_of(event.start_mark, event)
        elif self.key is _MERGE:
            self.key = _NO_KEY
            self.merge(event, value)
        else:
            here[self.key] = value
            self.key = _NO_KEY

    def merge(self, event: Any, value: Any) -> None:
        """Add the entries of other maps. As in Kubernetes, they replace earlier keys and yield to later ones."""
        maps = value if type(value) is list else [value]
        if not all(type(source) is dict for source in maps):
            raise self.error(event, "<< wants a map or a list of maps")
        merged = self.merged = self.merged or set()
        for source in reversed(maps):
            merged.update(source.keys() - self.here.keys())
            self.here.update(source)

    def start_map(self, event: Any) -> None:
        self.start(event, {})

    def start_list(self, event: Any) -> None:
        self.start(event, [])

    def start(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        if self.wants_key():
            raise self.error(event, _KEY_IS_NO_STRING)
        if len(self.stack) == MAX_DEPTH:
            raise self.error(event, _TOO_DEEP)
        if event.anchor is not None:
            self.anchors[event.anchor] = value
        if not self.stack or self.is_item():
            self.starts.append(event.start_mark)
        self.stack.append((self.here, self.key, self.merged))
        self.here, self.key, self.merged = value, _NO_KEY, None

    def end(self, event: Any) -> None:
        value = self.here
        self.here, self.key, self.merged = self.stack.pop()
        if not self.stack:
            self.span = self.span_of(self.starts.pop(), event)
        elif self.is_item():
            self.items.append(self.span_of(self.starts.pop(), event))
        self.put(event, value)

    def is_item(self) -> bool:
        """Whether the next value is an entry of the document's `items`."""
        return len(self.stack) == 2 and self.stack[1][1] == "items" and type(self.here) is list

    def span_of(self, start: Any, event: Any) -> Span:
        return Span(start.index, event.end_mark.index, self.line + start.line, start.column)

    def alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self.anchors:
            raise self.error(event, f"alias *{name} has no anchor &{name} before it")
        value = self.anchors[name]
        if isinstance(value, (dict, list)):
            if self.wants_key():
                raise self.error(event, _KEY_IS_NO_STRING)
            if value is self.here or any(value is frame[0] for frame in self.stack):
                raise self.error(event, f"anchor &{name} contains itself")
        self.measure(event, value)
        self.place(event, value)

    def measure(self, event: Any, value: Any) -> None:
        """Count the values that an alias repeats: they are shared in memory, but visited once for each alias."""
        weight, height = self.weigh(value)
        if len(self.stack) + height > MAX_DEPTH:
            raise self.error(event, _TOO_DEEP)
        self.aliased += weight
        if self.aliased > MAX_ALIASED:
            raise self.error(event, f"aliases repeat more than {MAX_ALIASED:,} values")

    def weigh(self, value: Any) -> tuple[int, int]:
        """How many values there are in one, long texts counting as several, and how deep it is; counted once each."""
        if not isinstance(value, (dict, list)):
            return 1 + (len(value) // 100 if isinstance(value, str) else 0), 0
        if id(value) not in self.weights:
            parts = [self.weigh(part) for part in (value.values() if isinstance(value, dict) else value)]
            keys = sum(map(len, value)) // 100 if isinstance(value, dict) else 0
            weight = 1 + keys + sum(part[0] for part in parts), 1 + max((part[1] for part in parts), default=0)
            self.weights[id(value)] = weight, value  # which keeps the value, and so its number
        return self.weights[id(value)][0]

    def error(self, event: Any, message: str) -> YAMLTextError:
        return YAMLTextError(self.line + event.start_mark.line, message)


class _Finder:
    """Follows a path through events, up to the line of the last step that exists."""

    def __init__(self, steps: list[str], line: int) -> None:
        self.steps = steps
        self.first = line
        self.line = line
        self.level = 0
        self.followed = 0
        self.in_map = False
        self.at_key = False
        self.is_hit = False
        self.index = -1

    def is_done_after(self, event: Any) -> bool:
        kind = type(event)
        if kind in (events.MappingEndEvent, events.SequenceEndEvent):
            self.level -= 1
            return self.level < self.followed
        if not isinstance(event, events.NodeEvent):
            return False
        is_start = isinstance(event, events.CollectionStartEvent)
        is_next = self.level == self.followed and self.is_next(event)
        self.level += is_start
        if not is_next:
            return False
        if not is_start or self.followed == len(self.steps):
            return True
        self.followed += 1
        self.in_map = self.at_key = kind is events.MappingStartEvent
        self.index = -1
        return False

    def is_next(self, event: Any) -> bool:
        """Whether the value that starts here is the next step of the path."""
        if self.followed == 0:
            return True
        step = self.steps[self.followed - 1]
        if not self.in_map:
            self.index += 1
            self.is_hit = step == str(self.index)
        elif self.at_key:
            self.at_key = False
            self.is_hit = type(event) is events.ScalarEvent and _key(event) == step
            if self.is_hit:
                self.line = self.first + event.start_mark.line
            return False
        else:
            self.at_key = True
            return self.is_hit
        if self.is_hit:
            self.line = self.first + event.start_mark.line
        return self.is_hit


def _key(event: Any) -> str:
    value = resolve(event.value) if event.implicit[0] else event.value
    return value if isinstance(value, str) else key_text(value)
