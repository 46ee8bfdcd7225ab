"""Manifests from files, folders and standard input: a document for each object, with its file and lines."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from moorage.api.meta import Data
from moorage.api.yamltext import (
    MAX_DEPTH,
    MAX_EVENTS,
    Root,
    Span,
    YAMLTextError,
    decode_text,
    line_of,
    parse,
    too_many_values,
)

MAX_FILE_SIZE = 256 * 2**20
STDIN = "<stdin>"

_SUFFIXES = (".yaml", ".yml", ".json")
_JSON_START = re.compile(r"\s*(?=\{)")
_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_HELM = re.compile(
    r"\{\{-?\s*(?:[.$]|/\*|(?:if|else|end|range|with|define|include|template|toYaml|tpl|default|required|printf)\b)"
)
_UNRENDERED = "this is a Helm template and not YAML: render it first: helm template CHART > rendered.yaml"
_NAMES = {dict: "a map", list: "a list", str: "text", bool: "true or false", type(None): "null"}


class ManifestError(Exception):
    """A manifest cannot be read. `document` and `line` count from 1 and are 0 where there is none to point at."""

    def __init__(self, message: str, file: str, document: int = 0, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.document = document
        self.line = line

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: document {self.document}: {self.message}" if self.document else f"{place}: {self.message}"


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One object of a manifest. An entry of a List is a document too, with the number of the List."""

    file: str
    index: int
    line: int
    data: Data
    text: str = field(repr=False)
    span: Span = field(repr=False)
    prefix: str = field(default="", repr=False)
    """The path of the object inside of its span."""

    def line_of(self, path: str) -> int:
        """The line of a field such as `spec.taints[0].key`, or of the nearest field around it that exists."""
        # Keeping the position of every field would take more memory than the data, so the text is parsed again.
        return _line(self.text, self.span, f"{self.prefix}.{path}")


def read(paths: Iterable[str], stdin: BinaryIO | None = None) -> Iterator[Document]:
    """Read every object of the given files, folders (all that is below them) and, for `-`, standard input."""
    for path in paths:
        for file in _files(path):
            name = STDIN if file == "-" else file
            yield from _documents(name, _text(file, name, stdin))


def _files(path: str) -> list[str]:
    try:
        if path == "-" or not Path(path).is_dir():
            return [path]
        files = [
            str(Path(folder, name))
            for folder, _, names in os.walk(path, onerror=_raise)
            for name in names
            if name.endswith(_SUFFIXES)
        ]
    except (OSError, ValueError) as error:
        raise ManifestError(_reason(error), getattr(error, "filename", None) or path) from None
    if not files:
        raise ManifestError(f"no {', '.join(_SUFFIXES)} files in this folder", path)
    return sorted(files)


def _raise(error: OSError) -> None:
    raise error


def _text(file: str, name: str, stdin: BinaryIO | None) -> str:
    try:
        if file == "-":
            data = (stdin or sys.stdin.buffer).read(MAX_FILE_SIZE + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(MAX_FILE_SIZE + 1)
    except (OSError, ValueError) as error:
        raise ManifestError(_reason(error), name) from None
    if len(data) > MAX_FILE_SIZE:
        raise ManifestError(f"larger than {MAX_FILE_SIZE // 2**20} MiB; give it in parts", name)
    try:
        return decode_text(data)
    except YAMLTextError as error:
        raise ManifestError(error.message, name, line=error.line) from None


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _documents(file: str, text: str) -> Iterator[Document]:
    objects = _json_objects(text) if _JSON_START.match(text) else None
    roots = _yaml_roots(file, text) if objects is None else _json_roots(file, text, objects)
    for number, root in roots:
        for data, span, prefix in _unlisted(root):
            line = _line(text, span, prefix) if prefix else span.line
            if not isinstance(data, dict):
                what = _NAMES.get(type(data), "a number")
                raise ManifestError(
                    f"an object is a map with apiVersion and kind, but this is {what}", file, number, line
                )
            yield Document(file, number, line, data, text, span, prefix)


def _line(text: str, span: Span, path: str) -> int:
    try:
        return line_of(text, span, path)
    except YAMLTextError:
        # JSON that is no YAML: a key of more than 1,024 characters, say.
        return span.line


def _yaml_roots(file: str, text: str) -> Iterator[tuple[int, Root]]:
    number = 0
    try:
        for number, root in enumerate(parse(text), 1):
            if root is not None:
                yield number, root
    except YAMLTextError as error:
        message = _UNRENDERED if _HELM.search(text) else error.message
        raise ManifestError(message, file, number + 1, error.line) from None


def _unlisted(root: Root) -> Iterator[tuple[Any, Span, str]]:
    """The objects of a document: itself, or the entries of a List, or those of the Lists in it."""
    waiting: list[tuple[Any, Span, str, Sequence[Span]]] = [(root.data, root.span, "", root.items)]
    while waiting:
        data, span, prefix, spans = waiting.pop()
        if not _is_list(data):
            yield data, span, prefix
            continue
        items = data.get("items") or []
        _name_items(data, items)
        if len(spans) == len(items):
            entries = [(item, own, "", ()) for item, own in zip(items, spans, strict=True)]
        else:
            entries = [(item, span, f"{prefix}.items[{index}]", ()) for index, item in enumerate(items)]
        waiting += reversed(entries)


def _is_list(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(kind := data.get("kind"), str):
        return False
    items = data.get("items")
    return kind.endswith("List") and (isinstance(items, list) or (kind == "List" and items is None))


def _name_items(envelope: Data, items: Iterable[Any]) -> None:
    """Fill in apiVersion and kind of the entries: the API server leaves them out in a PodList."""
    kind = envelope["kind"].removesuffix("List")
    if kind and "apiVersion" in envelope:
        for item in items:
            if isinstance(item, dict):
                item.setdefault("apiVersion", envelope["apiVersion"])
                item.setdefault("kind", kind)


class _Head(msgspec.Struct):
    """The part of a JSON object that tells whether it is a List; its entries are decoded one by one, later."""

    kind: Any = None
    items: msgspec.Raw = msgspec.Raw(b"null")


def _json_objects(text: str) -> list[Span] | None:
    """The spans of the JSON objects in a text, or None when it is not only JSON."""
    start = _start_of(text, 0)
    try:
        msgspec.json.decode(text, type=_Head)
        return [Span(start, len(text), 1 + text.count("\n", 0, start), 0)]
    except (msgspec.DecodeError, RecursionError):
        pass
    spans: list[Span] = []
    line, last = 1, 0
    try:
        while start < len(text):
            _, end = _LENIENT_DECODER.raw_decode(text, start)
            line += text.count("\n", last, start)
            spans.append(Span(start, end, line, 0))
            last, start = start, _start_of(text, end)
    except (ValueError, RecursionError):
        return None
    return spans


def _json_roots(file: str, text: str, objects: Sequence[Span]) -> Iterator[tuple[int, Root]]:
    for number, span in enumerate(objects, 1):
        try:
            for root in _json_entries(text, span):
                yield number, root
        except YAMLTextError as error:
            raise ManifestError(error.message, file, number, error.line) from None


def _json_entries(text: str, span: Span) -> Iterator[Root]:
    """The object in a span, or the entries of a List one by one, so that a long List takes little memory."""
    entries = _json_items(text, span)
    if not entries:
        yield Root(_json(text, span), span, ())
        return
    # Without its entries the text is an empty List; the line breaks stay, so that errors have the right line.
    first, end = entries[0].start, entries[-1].end
    rest = text[span.start : first] + "\n" * text.count("\n", first, end) + text[end : span.end]
    envelope = _json(rest, Span(0, len(rest), span.line, 0))
    for entry in entries:
        item = _json(text, entry)
        _name_items(envelope, [item])
        yield Root(item, entry, ())


def _json_items(text: str, span: Span) -> list[Span]:
    try:
        head = msgspec.json.decode(text[span.start : span.end], type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return []
    items = bytes(head.items).decode()
    if not isinstance(head.kind, str) or not head.kind.endswith("List") or not items.startswith("["):
        return []
    spans = []
    end = text.index(items, span.start)
    line = span.line + text.count("\n", span.start, end)
    for raw in msgspec.json.decode(items, type=list[msgspec.Raw]):
        item = bytes(raw).decode()
        start = text.index(item, end)
        line += text.count("\n", end, start)
        end = start + len(item)
        spans.append(Span(start, end, line, 0))
        line += item.count("\n")
    return spans


def _json(text: str, span: Span) -> Any:
    """The value in a span. Errors are left to the YAML parser, which knows the line."""
    part = text[span.start : span.end]
    if sum(map(part.count, ",:{[")) > MAX_EVENTS:
        raise too_many_values(span.line)
    try:
        return _strict_json(part)
    except (ValueError, RecursionError):
        root = next(parse(part, span.line), None)
        return root and root.data


def _strict_json(text: str) -> Any:
    data = _DECODER.decode(text)
    if _depth_exceeds(data, MAX_DEPTH):
        raise ValueError("too deep")
    if _SURROGATE.search(text):
        json.dumps(data, ensure_ascii=False).encode()
    return data


def _depth_exceeds(data: Any, limit: int) -> bool:
    level = [data]
    for _ in range(limit):
        deeper: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                deeper += value.values()
            elif isinstance(value, list):
                deeper += value
        if not deeper:
            return False
        level = deeper
    return any(isinstance(value, (dict, list)) for value in level)


def _unique(pairs: list[tuple[str, Any]]) -> Data:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key is given twice")
    return data


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no JSON number")
    return number


_LENIENT_DECODER = json.JSONDecoder()
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)


def _start_of(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None  # it may be empty
    return match.end()
