"""Moorage decides where Kubernetes pods may run: by thresholds, versions, families of keys and expressions.

For programs: `moorage.cel`, a CEL engine; `moorage.match`, the matcher of tolerations and selectors; and
`moorage.read_manifests`. What they need is imported when it is first asked for, so `import moorage` takes no time.
"""

from __future__ import annotations

from os import PathLike, fspath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from moorage import cel, match
    from moorage.api.manifests import Document, ManifestError

__all__ = ["Document", "ManifestError", "cel", "match", "read_manifests"]


def read_manifests(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> Iterator[Document]:
    """Every object in files and folders of YAML or JSON, with its file and line; `-` is standard input.

    Raises ManifestError, which says where, at the first object that cannot be read.
    """
    from moorage.api import manifests

    each = [paths] if isinstance(paths, str | PathLike) else paths
    return manifests.read([fspath(path) for path in each])


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("cel", "match"):
        return import_module(f"moorage.{name}")
    if name in ("Document", "ManifestError"):
        return getattr(import_module("moorage.api.manifests"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
