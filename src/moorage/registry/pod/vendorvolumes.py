"""Validation of volume sources of single vendors and protocols, most of which CSI drivers have replaced."""

from __future__ import annotations

import re
from collections.abc import Callable

from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax
from moorage.validation.field import invalid, not_supported, required

_PARTITION = "must be between 0 and 255, inclusive"
_CACHING = ("None", "ReadOnly", "ReadWrite")
_DISKS = ("Dedicated", "Managed", "Shared")
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_INITIATORS = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.(?:[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*|.*):.*|iqn\.\d{4}-\d{2}\..+", re.ASCII),
    "eui": re.compile(r"eui\.[0-9A-Fa-f]{16}"),
    "naa": re.compile(r"naa\.[0-9A-Fa-f]{32}"),
}


def needs(*names: str) -> Callable[[str, Data], Errors]:
    """A check that fields are there."""

    def check(path: str, source: Data) -> Errors:
        for name in names:
            if not source.get(name):
                yield required(f"{path}.{name}")

    return check


def _disk(name: str) -> Callable[[str, Data], Errors]:
    def check(path: str, source: Data) -> Errors:
        yield from needs(name)(path, source)
        if not 0 <= source.get("partition", 0) <= 255:
            yield invalid(f"{path}.partition", source["partition"], _PARTITION)

    return check


def _with_secret(*names: str) -> Callable[[str, Data], Errors]:
    def check(path: str, source: Data) -> Errors:
        yield from needs(*names)(path, source)
        if "secretRef" in source:
            yield from needs("name")(f"{path}.secretRef", source["secretRef"])

    return check


def _iscsi(path: str, source: Data) -> Errors:
    yield from needs("targetPortal", "iqn")(path, source)
    if source.get("iqn"):
        yield from _initiator(f"{path}.iqn", source["iqn"])
    if not 0 <= source.get("lun", 0) <= 255:
        yield invalid(f"{path}.lun", source["lun"], _PARTITION)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        yield required(f"{path}.secretRef")
    if "initiatorName" in source:
        yield from _initiator(f"{path}.initiatorname", source["initiatorName"])


def _initiator(path: str, name: str) -> Errors:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        yield invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not pattern.fullmatch(name):
        yield invalid(path, name, "must be valid format")


def _fc(path: str, source: Data) -> Errors:
    here, targets, lun = f"{path}.targetWWNs", source.get("targetWWNs"), source.get("lun")
    if not targets and not source.get("wwids"):
        yield required(here, "must specify either targetWWNs or wwids, but not both")
    if targets and source.get("wwids"):
        yield invalid(here, targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets and lun is None:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif targets and lun is not None and not 0 <= lun <= 255:
        yield invalid(f"{path}.lun", lun, _PARTITION)


def _glusterfs(path: str, source: Data) -> Errors:
    yield from needs("endpoints", "path")(path, source)
    if (namespace := source.get("endpointsNamespace")) is not None:
        empty = ("if the endpointnamespace is set, it must be a valid namespace name",)
        yield from syntax(f"{path}.endpointsNamespace", namespace, namesyntax.label(namespace) if namespace else empty)


def _flocker(path: str, source: Data) -> Errors:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def _quobyte(path: str, source: Data) -> Errors:
    detail, registry = "must be a host:port pair or multiple pairs separated by commas", source.get("registry", "")
    if not registry:
        yield required(f"{path}.registry", detail)
    elif len(source.get("tenant", "")) >= 65:
        yield required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    elif any(pair.count(":") != 1 for pair in registry.split(",")):
        yield invalid(f"{path}.registry", registry, detail)
    yield from needs("volume")(path, source)


def _flex(path: str, source: Data) -> Errors:
    yield from needs("driver")(path, source)
    for key in source.get("options", {}):
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            yield invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")


def _azure_file(path: str, source: Data) -> Errors:
    yield from needs("secretName", "shareName")(path, source)
    if source.get("secretNamespace") == "":
        yield required(f"{path}.secretNamespace")


def _azure_disk(path: str, source: Data) -> Errors:
    yield from needs("diskName", "diskURI")(path, source)
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    if caching is not None and caching not in _CACHING:
        yield not_supported(f"{path}.cachingMode", caching, _CACHING)
    if kind is not None and kind not in _DISKS:
        yield not_supported(f"{path}.kind", kind, _DISKS)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        yield not_supported(f"{path}.diskURI", uri, (_MANAGED,))
    elif kind not in (None, "Managed") and not uri.startswith("https://"):
        yield not_supported(f"{path}.diskURI", uri, (_BLOB,))


def _storageos(path: str, source: Data) -> Errors:
    yield from _with_secret("volumeName")(path, source)
    for name in ("volumeName", "volumeNamespace"):
        if source.get(name):
            yield from syntax(f"{path}.{name}", source[name], namesyntax.label(source[name]))


CHECKS: dict[str, Callable[[str, Data], Errors]] = {
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "glusterfs": _glusterfs,
    "flocker": _flocker,
    "rbd": needs("monitors", "image"),
    "quobyte": _quobyte,
    "cephfs": needs("monitors"),
    "iscsi": _iscsi,
    "cinder": _with_secret("volumeID"),
    "fc": _fc,
    "flexVolume": _flex,
    "azureFile": _azure_file,
    "azureDisk": _azure_disk,
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "scaleIO": needs("gateway", "system", "volumeName"),
    "storageos": _storageos,
}
"""What is checked of each source."""
