"""Validation of the source of a volume, in a pod or in a PersistentVolume."""

from __future__ import annotations

from collections.abc import Callable

from moorage.api.meta import Data
from moorage.quantity import Quantity
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax
from moorage.registry.pod import vendorvolumes
from moorage.registry.pod.references import field_ref_errors, resource_ref_errors
from moorage.registry.pod.vendorvolumes import needs
from moorage.validation.field import forbidden, invalid, not_supported, required, too_long

_POD_SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
"""The volume sources of a pod, in the order in which they are looked for; only one is allowed."""
_VOLUME_SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
"""The same for a PersistentVolume."""
_SPELT = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""What Kubernetes calls a source that is one too many, where it does not call it by its name."""
_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_SECRETS = (
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef",
)  # fmt: skip
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_BAD_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_FIELD_PATHS = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip


def source_errors(path: str, holder: Data) -> Errors:
    """Validate the source of a volume of a pod; there must be exactly one."""
    yield from _one_source(path, holder, _POD_SOURCES)
    if only_source(holder, is_pod=True) == "csi":
        yield from _pod_csi(f"{path}.csi", holder["csi"])


def volume_source_errors(path: str, spec: Data) -> Errors:
    """Validate the source of a PersistentVolume; there must be exactly one."""
    yield from _one_source(path, spec, _VOLUME_SOURCES)
    if only_source(spec) == "csi":
        yield from _volume_csi(f"{path}.csi", spec["csi"])
    secret = spec.get(first, {}).get("secretRef") if (first := only_source(spec)) in ("cinder", "storageos") else None
    if secret is not None:
        yield from needs("namespace")(f"{path}.{first}.secretRef", secret)


def only_source(holder: Data, *, is_pod: bool = False) -> str:
    """The source of a volume that is validated when there are several."""
    return next((name for name in (_POD_SOURCES if is_pod else _VOLUME_SOURCES) if name in holder), "")


def _one_source(path: str, holder: Data, names: tuple[str, ...]) -> Errors:
    sources = [name for name in names if name in holder]
    if not sources:
        yield required(path, "must specify a volume type")
        return
    for name in sources[1:]:
        yield forbidden(f"{path}.{_SPELT.get(name, name)}", "may not specify more than 1 volume type")
    first = sources[0]
    if check := _CHECKS.get(first):
        yield from check(f"{path}.{'persistentDisk' if first == 'gcePersistentDisk' else first}", holder[first])


def _volume_csi(path: str, source: Data) -> Errors:
    yield from needs("volumeHandle")(path, source)
    for name in _SECRETS:
        if (secret := source.get(name)) is not None:
            for part, check in (("name", namesyntax.subdomain), ("namespace", namesyntax.label)):
                here, value = f"{path}.{name}.{part}", secret.get(part, "")
                if not value:
                    yield required(here)
                else:
                    yield from syntax(here, value, check(value))


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


def _empty_dir(path: str, source: Data) -> Errors:
    if "sizeLimit" in source and Quantity.of(source["sizeLimit"]).nano < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(path: str, source: Data) -> Errors:
    yield from _local(path, source)
    if source.get("type", "") not in _HOST_PATH_TYPES:
        yield not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES)


def _local(path: str, source: Data) -> Errors:
    yield from needs("path")(path, source)
    yield from backsteps(f"{path}.path", source.get("path", ""))


def _nfs(path: str, source: Data) -> Errors:
    yield from needs("server", "path")(path, source)
    place = source.get("path", "")
    if not place.startswith("/"):
        yield invalid(f"{path}.path", place, "must be an absolute path")


def _csi(path: str, source: Data) -> Errors:
    yield from driver_errors(f"{path}.driver", source.get("driver", ""))


def _pod_csi(path: str, source: Data) -> Errors:
    if (secret := source.get("nodePublishSecretRef")) is None:
        return
    name = secret.get("name", "")
    if not name:
        yield required(f"{path}.nodePublishSecretRef.name")
    else:
        yield from syntax(f"{path}.name", name, namesyntax.subdomain(name))


def _git(path: str, source: Data) -> Errors:
    yield from needs("repository")(path, source)
    yield from descending(f"{path}.directory", source.get("directory", ""))


def _image(path: str, source: Data) -> Errors:
    policy = source.get("pullPolicy", "")
    if not policy:
        yield required(f"{path}.pullPolicy")
    elif policy not in _PULL_POLICIES:
        yield not_supported(f"{path}.pullPolicy", policy, _PULL_POLICIES)


def _secret(path: str, source: Data) -> Errors:
    yield from needs("secretName")(path, source)
    yield from _files(path, source)


def _config_map(path: str, source: Data) -> Errors:
    yield from needs("name")(path, source)
    yield from _files(path, source)


def _files(path: str, source: Data) -> Errors:
    yield from _mode(f"{path}.defaultMode", source.get("defaultMode", 0))
    for index, item in enumerate(source.get("items", ())):
        here = f"{path}.items[{index}]"
        yield from needs("key", "path")(here, item)
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
    for item in source.get("items", ()):
        yield from _downward_file(path, item)


def _downward_file(path: str, item: Data) -> Errors:
    yield from needs("path")(path, item)
    yield from _file(path, item)
    if "fieldRef" in item:
        yield from field_ref_errors(f"{path}.fieldRef", item["fieldRef"], _FIELD_PATHS)
        if "resourceFieldRef" in item:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in item:
        yield from resource_ref_errors(f"{path}.resourceFieldRef", item["resourceFieldRef"], is_file=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")


def _projected(path: str, source: Data) -> Errors:
    yield from _mode(f"{path}.defaultMode", source.get("defaultMode", 0))
    seen: set[str] = set()
    for index, part in enumerate(source.get("sources", ())):
        here = f"{path}.sources[{index}]"
        for name in ("secret", "configMap"):
            if name in part:
                yield from needs("name")(f"{here}.{name}", part[name])
                yield from _files(f"{here}.{name}", part[name])
        for item in part.get("downwardAPI", {}).get("items", ()):
            yield from _downward_file(f"{here}.downwardAPI", item)
        if "serviceAccountToken" in part:
            yield from _token(path, here, part["serviceAccountToken"])
        if len(part.keys() & {"secret", "configMap", "downwardAPI", "serviceAccountToken"}) > 1:
            yield forbidden(here, "may not specify more than 1 volume type per source")
        for name in ("secret", "configMap", "downwardAPI"):
            for item in part.get(name, {}).get("items", ()):
                place = item.get("path", "")
                if place and place in seen:
                    yield invalid(path, part[name].get("name", place), "conflicting duplicate paths")
                seen.add(place)


def _token(path: str, part: str, token: Data) -> Errors:
    """Validate a token of a service account. Kubernetes tells of its path as if it were one of the volume."""
    seconds = token.get("expirationSeconds", 3600)
    yield from token_seconds_errors(f"{part}.serviceAccountToken.expirationSeconds", seconds)
    yield from needs("path")(path, token)
    yield from descending(f"{path}.path", token.get("path", ""))


def token_seconds_errors(path: str, seconds: int) -> Errors:
    """Validate how long a token of a service account is valid."""
    if seconds < 600:
        yield invalid(path, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > 2**32:
        yield invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")


_CHECKS: dict[str, Callable[[str, Data], Errors]] = {
    **vendorvolumes.CHECKS,
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _git,
    "nfs": _nfs,
    "csi": _csi,
    "local": _local,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": needs("claimName"),
    "downwardAPI": _downward,
    "projected": _projected,
    "image": _image,
}
