"""Pod templates inside of objects whose kind is not ours: Argo Rollouts, Kubeflow jobs, KServe services and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.api.decode import DecodeError, convert
from moorage.api.manifests import Document, ManifestError
from moorage.api.meta import Data
from moorage.api.pod import PodTemplate

_PLACEMENT = ("tolerations", "affinity", "nodeSelector")
"""The fields that are read; the others may be spelled in that kind's own way."""
_METADATA = ("name", "generateName", "namespace", "labels", "annotations")


def embedded(document: Document) -> tuple[list[tuple[str, PodTemplate]], list[ManifestError]]:
    """The pod specifications of an object, each with its path and as a template; and those that cannot be read."""
    found, problems = [], []
    for path, spec in _pod_specs(document.data):
        placement = {name: spec[name] for name in _PLACEMENT if name in spec}
        metadata = document.data.get("metadata")
        kept = {name: metadata[name] for name in _METADATA if name in metadata} if isinstance(metadata, dict) else {}
        head = {"apiVersion": document.data["apiVersion"], "kind": document.data["kind"], "metadata": kept}
        try:
            found.append((path, convert({**head, "template": {"spec": placement}}, PodTemplate)))
        except DecodeError as error:
            place = path + error.path.removeprefix("template.spec")
            problem = f"{place}: {error.message}"
            problems.append(ManifestError(problem, document.file, document.index, document.line_of(place)))
    return found, problems


def _pod_specs(data: Data) -> Iterator[tuple[str, Data]]:
    """Everything that looks like a pod specification, with its path, in the order of the text."""
    waiting: list[tuple[str, Any]] = [("", data)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            if _is_pod_spec(value):
                yield path, value
            inner = [(f"{path}.{name}" if path else str(name), each) for name, each in value.items()]
            waiting += reversed([each for each in inner if each[0] != "metadata"])
        elif isinstance(value, list):
            waiting += reversed([(f"{path}[{index}]", each) for index, each in enumerate(value)])


def _is_pod_spec(value: Data) -> bool:
    affinity = value.get("affinity")
    return (
        _holds_maps(value.get("containers"))
        or _holds_maps(value.get("tolerations"))
        or (isinstance(affinity, dict) and "nodeAffinity" in affinity)
    )


def _holds_maps(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)
