"""Objects as YAML that every Kubernetes client reads as it was meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from moorage.api.yamlscalars import resolve

_NO_WRAP = 2**31 - 1


class _Dumper(yaml.SafeDumper):
    """Writes the same value as often as it occurs, and every text so that nobody takes it for anything else."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _is_plain(text) else '"')


def _is_plain(text: str) -> bool:
    try:
        return resolve(text) == text
    except ValueError:
        return False


_Dumper.add_representer(str, _text)


def write(documents: Iterable[Any]) -> str:
    """One or more documents."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": _NO_WRAP}
    text: str = yaml.dump_all(documents, Dumper=_Dumper, **options)
    return text
