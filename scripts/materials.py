"""The bill of materials of a release, in CycloneDX: what requirements.lock pins, and which needs which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

Data = dict[str, Any]
_PIN = re.compile(r"^([\w.-]+)==([^\s;]+)(?: ; (.+?))?(?: \\)?$", re.MULTILINE)
_NAME = re.compile(r"[\w.-]+")


class Pin(NamedTuple):
    """A package of the lock file."""

    name: str
    version: str
    marker: str
    """Where it is installed; empty for everywhere."""

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def pins(lock: str) -> list[Pin]:
    """The packages of a lock file."""
    return [Pin(*found) for found in _PIN.findall(lock)]


def bill(name: str, version: str, lock: str, needs: list[str], epoch: int) -> Data:
    """The bill of materials of a package, given the lock file and what it needs directly."""
    pinned = pins(lock)
    purl = f"pkg:pypi/{name}@{version}"
    graph = {purl: needs} | {pin.purl: _requires(pin) for pin in pinned}
    main = {"type": "application", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, purl + lock)}",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": main},
        "components": [_component(pin) for pin in pinned],
        "dependencies": [{"ref": ref, "dependsOn": sorted(_refs(pinned, each))} for ref, each in graph.items()],
    }


def _refs(pinned: Sequence[Pin], requirements: Iterable[str]) -> Iterator[str]:
    """The packages that are required; a package can be pinned twice, for different versions of Python."""
    names = [_NAME.match(each) for each in requirements if "extra ==" not in each]
    required = {_normal(name[0]) for name in names if name}
    return (pin.purl for pin in pinned if _normal(pin.name) in required)


def _component(pin: Pin) -> Data:
    found: Data = {"type": "library", "bom-ref": pin.purl, "name": pin.name, "version": pin.version, "purl": pin.purl}
    if (installed := _installed(pin)) and (license_name := _license(installed)):
        found["licenses"] = [{"license": {"name": license_name}}]
    if pin.marker:
        found["properties"] = [{"name": "marker", "value": pin.marker}]
    return found


def _installed(pin: Pin) -> Distribution | None:
    try:
        found = distribution(pin.name)
    except PackageNotFoundError:
        return None
    return found if found.version == pin.version else None


def _requires(pin: Pin) -> list[str]:
    installed = _installed(pin)
    return list(installed.requires or ()) if installed else []


def _license(installed: Distribution) -> str:
    metadata = installed.metadata
    classified = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or () if "License ::" in text]
    declared = metadata.json.get("license_expression") or " AND ".join(classified) or metadata.json.get("license") or ""
    return str(declared)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
