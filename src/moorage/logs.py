"""Structured logs: a constant message and pairs of keys and values, in klog's text form or as JSON."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

import msgspec

from moorage.gotext import quote

COMPONENT = ContextVar("COMPONENT", default="")
"""The component that works in this task, when several share a process."""
_ROOMS = {"apiserver": "apiserver", "store": "apiserver", "scheduler": "scheduler", "controllers": "controllers"}
_ENCODER = msgspec.json.Encoder(enc_hook=str)
MOST_VERBOSE = logging.INFO - logging.DEBUG


class LogLine:
    """A message, and values by key: None is left out, and a pair of texts is the namespace and name of an object."""

    __slots__ = ("message", "pairs")

    def __init__(self, message: str, pairs: Mapping[str, Any]) -> None:
        self.message = message
        self.pairs = {key: value for key, value in pairs.items() if value is not None}

    def __str__(self) -> str:
        return " ".join((quote(self.message), *(f"{key}={_text(value)}" for key, value in self.pairs.items())))


class Log:
    """The log of one module."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def info(self, message: str, /, *, v: int = 0, **pairs: Any) -> None:
        """Log what is in order, when the log is as verbose as that."""
        level = logging.INFO - v
        if self._logger.isEnabledFor(level):
            self._logger.log(level, LogLine(message, pairs), stacklevel=2)

    def warning(self, message: str, /, *, trace: bool = False, benign: bool = False, **pairs: Any) -> None:
        """Log what somebody may have to see to; with the exception that is being handled, if wanted.

        What is benign is seen at a higher verbosity only.
        """
        level = logging.INFO - 4 if benign else logging.WARNING
        self._logger.log(level, LogLine(message, pairs), exc_info=trace, stacklevel=2)

    def exception(self, message: str, /, *, trace: BaseException | bool = True, **pairs: Any) -> None:
        """Log a fault of the program, with its exception: the one that is being handled, unless another is given."""
        self._logger.error(LogLine(message, pairs), exc_info=trace, stacklevel=2)


@contextmanager
def logging_to(handler: logging.Handler, component: str, verbosity: int, form: str) -> Iterator[None]:
    """Log with a handler, as text or json, and close it in the end."""
    handler.setFormatter(_Json(component) if form == "json" else _Text(component))
    root, ours = logging.getLogger(), logging.getLogger("moorage")
    before = ours.level
    root.addHandler(handler)
    ours.setLevel(logging.INFO - verbosity)
    try:
        yield
    finally:
        ours.setLevel(before)
        root.removeHandler(handler)
        with suppress(OSError):  # of a full disk
            handler.close()


def log_handler(file: Path | None) -> logging.Handler:
    """What writes to a file, or to standard error. OSError when the file cannot be opened."""
    return logging.StreamHandler() if file is None else _File(file, encoding="utf-8", errors="backslashreplace")


class _File(WatchedFileHandler):
    """A file that may be moved away by whoever rotates it. What cannot be written to it goes to standard error."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging calls it
        print(self.format(record), file=sys.stderr)


class _Text(logging.Formatter):
    """Lines as klog writes them: `I1116 20:01:02.123456    4711 leases.py:49] "Became leader" lease="…"`."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the exception after it."""
        line = _line(record)
        time = datetime.fromtimestamp(record.created).strftime("%m%d %H:%M:%S.%f")
        place = f"{os.path.basename(record.pathname)}:{record.lineno}"  # noqa: PTH119 - a path is slow to make
        pairs = {"component": component_of(record, self._component), **line.pairs}
        trace = "\n" + self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
        return f"{_severity(record)[0]}{time} {record.process:7} {place}] {LogLine(line.message, pairs)}{trace}"


class _Json(logging.Formatter):
    """Lines as Kubernetes writes them with --logging-format=json, with the level and the component beside."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        """One line, the exception in it."""
        line = _line(record)
        content: dict[str, Any] = {
            "ts": record.created * 1000,
            "caller": f"{os.path.basename(record.pathname)}:{record.lineno}",  # noqa: PTH119 - a path is slow to make
            "level": {"I": "info", "W": "warning", "E": "error"}[_severity(record)],
            "msg": line.message,
        }
        if record.levelno <= logging.INFO:
            content["v"] = logging.INFO - record.levelno
        content["component"] = component_of(record, self._component)
        content |= {key: _plain(value) for key, value in line.pairs.items()}
        if record.exc_info and record.exc_info[0]:
            content["stacktrace"] = "".join(traceback.format_exception(*record.exc_info))
        return _ENCODER.encode(content).decode()


def component_of(record: logging.LogRecord, otherwise: str) -> str:
    """The component that logged a record: the one whose code it is, or the one that works in this task."""
    room = record.name.split(".")[1:2]
    return _ROOMS.get(room[0] if room else "") or COMPONENT.get() or otherwise


def _line(record: logging.LogRecord) -> LogLine:
    """What is logged; libraries log texts."""
    return record.msg if isinstance(record.msg, LogLine) else LogLine(record.getMessage(), {"logger": record.name})


def _severity(record: logging.LogRecord) -> str:
    return "E" if record.levelno >= logging.ERROR else "W" if record.levelno >= logging.WARNING else "I"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:.12g}"
    if isinstance(value, tuple):
        return quote("/".join(filter(None, value)))
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return quote(str(value))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        namespace, name = value
        return {"name": name, "namespace": namespace} if namespace else {"name": name}
    return value if isinstance(value, str | bool | int | float | list) else str(value)
