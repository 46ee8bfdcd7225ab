"""Validation of the source of a volume, in a pod or in a PersistentVolume."""

from __future__ import annotations

from collections.abc import Callable

from moorage.api.meta import Data
from moorage.quantity import Quantity
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax
from moorage.validation.field import forbidden, invalid, not_supported, required, too_long

SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk", "storageos",
    "projected", "portworxVolume", "scaleIO", "csi", "local", "ephemeral", "image",
)  # fmt: skip
"""Every volume source, in the order in which they are looked for; only one is allowed."""
_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_BAD_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_FIELD_PATHS = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip


def source_errors(path: str, holder: Data) -> Errors:
    """Validate the source of a volume; there must be exactly one."""
    sources = [name for name in SOURCES if name in holder]
    if not sources:
        yield required(path, "must specify a volume type")
        return
    for name in sources[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
    if check := _CHECKS.get(sources[0]):
        yield from check(f"{path}.{sources[0]}", holder[sources[0]])


def backsteps(path: str, place: str) -> Errors:
    """Refuse `..` in a path."""
    if ".." in place.split("/"):
        yield invalid(path, place, "must not contain '..'")


def descending(path: str, place: str) -> Errors:
    """Validate a relative path within a volume."""
    if place.startswith("/"):
        yield invalid(path, place, "must be a relative path")
    yield from backsteps(path, place)


def driver_errors(path: str, name: str) -> Errors:
    """Validate the name of a CSI driver."""
    if not name:
        yield required(path)
        return
    if len(name) > 63:
        yield too_long(path, 63)
    yield from syntax(path, name, namesyntax.subdomain(name.lower()))


def _needs(*names: str) -> Callable[[str, Data], Errors]:
    def check(path: str, source: Data) -> Errors:
        for name in names:
            if not source.get(name):
                yield required(f"{path}.{name}")

    return check


def _empty_dir(path: str, source: Data) -> Errors:
    if "sizeLimit" in source and Quantity.of(source["sizeLimit"]).nano < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(path: str, source: Data) -> Errors:
    place = source.get("path", "")
    if not place:
        yield required(f"{path}.path")
        return
    yield from backsteps(f"{path}.path", place)
    if source.get("type", "") not in _HOST_PATH_TYPES:
        yield not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES)


def _nfs(path: str, source: Data) -> Errors:
    yield from _needs("server", "path")(path, source)
    if source.get("path") and not source["path"].startswith("/"):
        yield invalid(f"{path}.path", source["path"], "must be an absolute path")


def _csi(path: str, source: Data) -> Errors:
    yield from driver_errors(f"{path}.driver", source.get("driver", ""))


def _secret(path: str, source: Data) -> Errors:
    yield from _needs("secretName")(path, source)
    yield from _files(path, source)


def _config_map(path: str, source: Data) -> Errors:
    yield from _needs("name")(path, source)
    yield from _files(path, source)


def _files(path: str, source: Data) -> Errors:
    yield from _mode(f"{path}.defaultMode", source.get("defaultMode", 0))
    for index, item in enumerate(source.get("items", ())):
        here = f"{path}.items[{index}]"
        yield from _needs("key", "path")(here, item)
        yield from _file(here, item)


def _file(path: str, item: Data) -> Errors:
    place = item.get("path", "")
    yield from descending(f"{path}.path", place)
    if place.startswith("..") and not place.startswith("../"):
        yield invalid(f"{path}.path", place, "must not start with '..'")
    yield from _mode(f"{path}.mode", item.get("mode", 0))


def _mode(path: str, mode: int) -> Errors:
    if not 0 <= mode <= 0o777:
        yield invalid(path, mode, _BAD_MODE)


def _downward(path: str, source: Data) -> Errors:
    yield from _mode(f"{path}.defaultMode", source.get("defaultMode", 0))
    for index, item in enumerate(source.get("items", ())):
        here = f"{path}.items[{index}]"
        yield from _needs("path")(here, item)
        yield from _file(here, item)
        if "fieldRef" in item:
            yield from _field_ref(f"{here}.fieldRef", item["fieldRef"])
            if "resourceFieldRef" in item:
                yield invalid(here, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
        elif "resourceFieldRef" not in item:
            yield required(here, "one of fieldRef and resourceFieldRef is required")


def _field_ref(path: str, reference: Data) -> Errors:
    field_path = reference.get("fieldPath", "")
    if not field_path:
        yield required(f"{path}.fieldPath")
    elif field_path.partition("[")[0] not in _FIELD_PATHS:
        yield not_supported(f"{path}.fieldPath", field_path, _FIELD_PATHS)


def _projected(path: str, source: Data) -> Errors:
    yield from _mode(f"{path}.defaultMode", source.get("defaultMode", 0))
    for index, part in enumerate(source.get("sources", ())):
        here = f"{path}.sources[{index}]"
        kinds = sorted(part)
        if len(kinds) > 1:
            yield forbidden(f"{here}.{kinds[1]}", "may not specify more than 1 volume type")
        for name in ("secret", "configMap"):
            if name in part:
                yield from _needs("name")(f"{here}.{name}", part[name])
                yield from _files(f"{here}.{name}", part[name])
        if "serviceAccountToken" in part:
            yield from _token(f"{here}.serviceAccountToken", part["serviceAccountToken"])


def _token(path: str, token: Data) -> Errors:
    seconds = token.get("expirationSeconds", 3600)
    if seconds < 600:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    elif seconds > 2**32:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    yield from _needs("path")(path, token)
    yield from descending(f"{path}.path", token.get("path", ""))


_CHECKS: dict[str, Callable[[str, Data], Errors]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "nfs": _nfs,
    "csi": _csi,
    "local": _needs("path"),
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _needs("claimName"),
    "downwardAPI": _downward,
    "projected": _projected,
}
