"""Kubeconfig files: where kubectl looks for them, and how it merges several into one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from moorage.api.decode import DecodeError, convert
from moorage.api.yamltext import YAMLFileError, read_file

_S = TypeVar("_S", bound=msgspec.Struct)
_PARTS = ("clusters", "users", "contexts")


class KubeconfigError(Exception):
    """A kubeconfig cannot be used; the sentence names the file and the field."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A named entry of a kubeconfig, and the file that it stands in."""

    file: str
    where: str
    data: Any = field(repr=False)

    def fail(self, name: str, problem: str) -> NoReturn:
        """Raise a KubeconfigError about a field of the entry, or about all of it."""
        raise KubeconfigError(f"{self.file}: {self.where}{'.' if name else ''}{name}: {problem}")

    def read(self, struct: type[_S]) -> _S:
        """The entry as a struct. Raises KubeconfigError."""
        try:
            return convert(self.data, struct)
        except DecodeError as error:
            return self.fail(error.path, error.message)

    def path(self, path: str) -> Path:
        """A path that the entry names: a relative one is meant from the folder of its file."""
        return Path(self.file).parent.absolute() / path

    def content(self, name: str, path: str) -> bytes:
        """The content of a file that a field names. Raises KubeconfigError."""
        try:
            return self.path(path).read_bytes()
        except OSError as error:
            return self.fail(name, f"{self.path(path)}: {error.strerror or error}")


def found(environment: Mapping[str, str]) -> list[Path]:
    """The files that kubectl reads when none is named: those of KUBECONFIG, else the one in the home folder."""
    named = environment.get("KUBECONFIG", "")
    if named:
        return [Path(each) for each in dict.fromkeys(named.split(os.pathsep)) if each]
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - an account need not have a home
    return [Path(home) / ".kube" / "config"]


class Merged:
    """Kubeconfig files as one: of entries with the same name, and of current contexts, the first counts."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.name = os.pathsep.join(map(str, files))
        """The files, for messages."""
        self.current_context = ""
        self._entries: dict[str, dict[str, FileEntry]] = {part: {} for part in _PARTS}
        for file in files:
            self._add(file)

    @property
    def is_empty(self) -> bool:
        """Whether the files say nothing at all."""
        return not self.current_context and not any(self._entries.values())

    def fail(self, where: str, problem: str) -> NoReturn:
        """Raise a KubeconfigError about what no single file says."""
        raise KubeconfigError(f"{self.name}: {where}: {problem}")

    def entry(self, part: str, name: str) -> FileEntry:
        """An entry of `clusters`, `users` or `contexts`. Raises KubeconfigError."""
        entries = self._entries[part]
        if name not in entries:
            self.fail(part, f"there is no {part.removesuffix('s')} named {name!r}" if entries else "is missing")
        return entries[name]

    def _add(self, file: Path) -> None:
        try:
            data = read_file(file)
        except YAMLFileError as error:
            raise KubeconfigError(str(error)) from None
        if data is None:
            return
        if not isinstance(data, dict):
            raise KubeconfigError(f"{file}: is no kubeconfig: expected a map with clusters, users and contexts")
        current = data.get("current-context")
        self.current_context = self.current_context or (current if isinstance(current, str) else "")
        for part in _PARTS:
            for name, entry in _entries(str(file), part, data.get(part)).items():
                self._entries[part].setdefault(name, entry)


def _entries(file: str, part: str, listed: Any) -> dict[str, FileEntry]:
    entries: dict[str, FileEntry] = {}
    inner = part.removesuffix("s")
    if not isinstance(listed, list | None):
        raise KubeconfigError(f"{file}: {part}: expected a list")
    for each in listed or ():
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(name, str):
            raise KubeconfigError(f"{file}: {part}: every entry is a map with a name and a {inner}")
        if name in entries:
            raise KubeconfigError(f"{file}: {part}: {name!r} is given twice")
        entries[name] = FileEntry(file, f"{part}[{name}].{inner}", each.get(inner) or {})
    return entries
