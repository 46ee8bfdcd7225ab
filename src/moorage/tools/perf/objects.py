"""The objects of a workload, made from template files."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from os.path import normpath
from pathlib import Path
from typing import Any

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.kinds import Kind
from moorage.api.meta import Data
from moorage.api.yamltext import YAMLTextError, parse
from moorage.tools.perf import foreign
from moorage.tools.perf.gotemplate import Template, TemplateError
from moorage.tools.perf.operations import AnyOperation, Churn, CreateNodes, CreatePods

HOSTNAME = "kubernetes.io/hostname"
_IMAGE = "pause:3.10"
_ROOM = {"cpu": "100m", "memory": "500Mi"}
_CONTAINER = {
    "name": "pause",
    "image": _IMAGE,
    "ports": [{"containerPort": 80}],
    "resources": {"limits": _ROOM, "requests": _ROOM},
}
_POD = {"metadata": {"generateName": "pod-"}, "spec": {"containers": [_CONTAINER]}}
_CAPACITY = {"pods": "110", "cpu": "4", "memory": "32Gi"}
_NODE = {"status": {"capacity": _CAPACITY, "conditions": [{"type": "Ready", "status": "True"}]}}
_PATHS = (
    "namespace_template_path", "node_template_path", "pod_template_path", "persistent_volume_template_path",
    "persistent_volume_claim_template_path", "template_path",
)  # fmt: skip


class ObjectsError(ValueError):
    """A template that cannot be used: one sentence, with the file and the line."""


class ObjectTemplate:
    """A template file of one object. Raises ObjectsError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._template = Template(path.read_text())
        except OSError as error:
            raise ObjectsError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ObjectsError(f"{path}: not text in UTF-8") from None
        except TemplateError as error:
            raise ObjectsError(f"{path}:{error.line}: {error.message}") from None
        self._only: Data | None = None

    def render(self, index: int = 0, count: int = 1, params: Mapping[str, Any] | None = None) -> Data:
        """The object of an index among a count. Parts of it may be shared with other objects: read only."""
        if self._only is not None:
            return self._only
        try:
            text = self._template.render({**(params or {}), "Index": index, "Count": count})
            root = next(parse(text), None)
        except (TemplateError, YAMLTextError) as error:
            raise ObjectsError(f"{self.path}:{error.line}: {error.message}") from None
        if root is None or not isinstance(root.data, dict):
            raise ObjectsError(f"{self.path}: an object is a map with apiVersion and kind")
        data = _upgraded(root.data)
        if self._template.is_plain:
            self._only = data
        return data

    def kind_of(self, data: Data) -> Kind:
        """The kind of an object that was made from it."""
        for field in ("apiVersion", "kind"):
            if not data.get(field):
                raise ObjectsError(f"{self.path}: {field}: is missing: every object says its apiVersion and kind")
        kind = kinds.find(str(data["apiVersion"]), str(data["kind"]))
        if kind is None:
            raise ObjectsError(f"{self.path}: there is no kind {data['kind']} in {data['apiVersion']} here")
        return kind


class Objects:
    """The objects of a workload; paths of templates are relative to the folder of its file."""

    def __init__(self, folder: Path, pod_template: str) -> None:
        self._folder = folder
        self._pod_template = pod_template
        self._templates: dict[str, ObjectTemplate] = {}
        self._nodes = 0

    def template(self, path: str) -> ObjectTemplate:
        """The template in a file."""
        if path not in self._templates:
            self._templates[path] = ObjectTemplate(Path(normpath(self._folder / path)))
        return self._templates[path]

    def check(self, operations: Iterable[AnyOperation]) -> None:
        """Render every template once, so that mistakes are reported before anything runs. Raises ObjectsError."""
        for operation in operations:
            paths = [path for name in _PATHS if (path := getattr(operation, name, ""))]
            paths += operation.template_paths if isinstance(operation, Churn) else []
            if isinstance(operation, CreatePods) and not operation.pod_template_path and self._pod_template:
                paths.append(self._pod_template)
            for path in paths:
                template = self.template(path)
                data = template.render(params=getattr(operation, "template_params", None))
                if refused := foreign.in_object(data):
                    raise ObjectsError(f"{template.path}: {refused}")
                try:
                    convert(data, template.kind_of(data).struct)
                except DecodeError as error:
                    raise ObjectsError(f"{template.path}: {error}") from None

    def namespaces(self, prefix: str, count: int, path: str) -> Iterator[Data]:
        """Namespaces PREFIX-0, PREFIX-1 and so on."""
        for index in range(count):
            data = self.template(path).render() if path else {}
            yield {**data, "metadata": {**data.get("metadata", {}), "name": f"{prefix}-{index}"}}

    def nodes(self, operation: CreateNodes, prefix: str) -> Iterator[Data]:
        """Nodes with a host name and the labels that the operation gives them."""
        for index in range(operation.count):
            data: Data = _NODE
            if path := operation.node_template_path:
                data = self.template(path).render(index, operation.count, operation.template_params)
            metadata = data.get("metadata") or {}
            name = metadata.get("name") or f"{metadata.get('generateName') or prefix}{self._nodes}"
            self._nodes += 1
            labels = {**(metadata.get("labels") or {}), HOSTNAME: name, **_labels(operation, index)}
            node = {**data, "metadata": {**metadata, "name": name, "labels": labels}}
            if strategy := operation.node_allocatable_strategy:
                status = data.get("status") or {}
                room = status.get("allocatable") or status.get("capacity") or {}
                node["status"] = {**status, "allocatable": {**room, **strategy.node_allocatable}}
            yield node

    def pods(self, operation: CreatePods) -> Iterator[Data]:
        """Pods, each with a `signature` label."""
        path = operation.pod_template_path or self._pod_template
        for index in range(operation.count):
            if not path:
                yield _POD
                continue
            data = self.template(path).render(index, operation.count, operation.template_params)
            metadata = data.get("metadata") or {}
            label = f"signature-label-{index // operation.signature_batch_size}"
            labels = {**(metadata.get("labels") or {}), "signature": label}
            yield {**data, "metadata": {**metadata, "labels": labels}}

    def volume(self, operation: CreatePods, namespace: str, index: int) -> tuple[Data, Data]:
        """A volume and its claim, bound to each other."""
        claim_name, name = f"pvc-{index}", f"{namespace}-vol-{index}"
        volume = self.template(operation.persistent_volume_template_path).render(index, operation.count)
        claim = self.template(operation.persistent_volume_claim_template_path).render(index, operation.count)
        spec = {**(volume.get("spec") or {}), "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name,
        }}  # fmt: skip
        for source, field in (("csi", "volumeHandle"), ("awsElasticBlockStore", "volumeID")):
            if source in spec:
                spec[source] = {**spec[source], field: name}
        bound = {**volume, "metadata": {**volume.get("metadata", {}), "name": name}, "spec": spec}
        named = {**claim, "metadata": {**claim.get("metadata", {}), "name": claim_name}}
        return bound, {**named, "spec": {**(claim.get("spec") or {}), "volumeName": name}}


def _upgraded(data: Data) -> Data:
    """An object converted from an older version of its kind to the one that is used here."""
    kind = kinds.find(str(data.get("apiVersion")), str(data.get("kind")))
    if kind is None or kind.upgrade is None or data["apiVersion"] == kind.api_version:
        return data
    return {**kind.upgrade(data), "apiVersion": kind.api_version}


def with_claim(pod: Data, index: int) -> Data:
    """A pod that uses the claim with a number."""
    volume = {"name": "vol", "persistentVolumeClaim": {"claimName": f"pvc-{index}"}}
    return {**pod, "spec": {**(pod.get("spec") or {}), "volumes": [volume]}}


def _labels(operation: CreateNodes, index: int) -> dict[str, str]:
    if strategy := operation.label_node_prepare_strategy:
        return {strategy.label_key: strategy.label_values[index % len(strategy.label_values)]}
    if unique := operation.unique_node_label_strategy:
        return {unique.label_key: str(uuid.uuid4())}
    return {}
