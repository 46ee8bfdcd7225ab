"""The defaults of pods and pod templates."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from moorage.api.meta import Data
from moorage.bounded import remember_short
from moorage.quantity import Quantity
from moorage.registry.defaulting import fill, round_up

_SPEC = (
    ("restartPolicy", "Always"),
    ("dnsPolicy", "ClusterFirst"),
    ("schedulerName", "default-scheduler"),
)
_GRACE_SECONDS = 30
_CONTAINER = (("terminationMessagePath", "/dev/termination-log"), ("terminationMessagePolicy", "File"))
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
_HOOKS = ("postStart", "preStop")
_HTTP_GET = (("path", "/"), ("scheme", "HTTP"))
_MODE = (("defaultMode", 0o644),)
_SOURCES: dict[str, tuple[tuple[str, Any], ...]] = {
    "hostPath": (("type", ""),),
    "secret": _MODE,
    "configMap": _MODE,
    "downwardAPI": _MODE,
    "projected": _MODE,
    "azureDisk": (("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("readOnly", False), ("kind", "Shared")),
}
"""Defaults of volume sources for fields that are absent."""
_EMPTY_SOURCES = {
    "iscsi": (("iscsiInterface", "default"),),
    "rbd": (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")),
    "scaleIO": (("storageMode", "ThinProvisioned"), ("fsType", "xfs")),
}
"""Defaults of volume sources for fields that are absent or empty."""

_PART = r"[a-z0-9]++(?:(?:\.|_|__|-++)[a-z0-9]++)*+"
_HOST = r"(?:[a-zA-Z0-9.-]++|\[[a-fA-F0-9:]++\])(?::[0-9]++)?+"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?(?P<name>{_PART}(?:/{_PART})*+)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[\w+.:-]+)?", re.ASCII
)


def default_pod(pod: Data, _: str = "") -> None:
    """Set the defaults of a pod, which has a few more than a template."""
    spec = pod.setdefault("spec", {})
    if (grace := spec.get("terminationGracePeriodSeconds")) is not None and grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    on_host = spec.get("hostNetwork")
    for field in ("containers", "initContainers"):
        for container in spec.get(field, ()):
            if limits := container.get("resources", {}).get("limits"):
                resources = container["resources"]
                resources["requests"] = limits | resources.get("requests", {})
            for port in container.get("ports", ()) if on_host else ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    default_pod_spec(spec)
    if spec.get("resources"):
        _default_pod_resources(spec)
    status = pod.get("status")
    if status:
        _keep_addresses_alike(status)


def default_pod_spec(spec: Data) -> None:
    """Set the defaults that pods and pod templates share."""
    fill(spec, _SPEC)
    if "terminationGracePeriodSeconds" not in spec:
        spec["terminationGracePeriodSeconds"] = _GRACE_SECONDS
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in spec.get("containers", ()):
        _default_container(container)
    for field in ("initContainers", "ephemeralContainers"):
        for container in spec.get(field, ()):
            _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    if overhead := spec.get("overhead"):
        round_up(overhead)


def default_volume_source(holder: Data) -> None:
    """Set the defaults of the source of a volume, in a pod or in a PersistentVolume."""
    for name in holder.keys() & _SOURCES.keys():
        for field, value in _SOURCES[name]:
            holder[name].setdefault(field, value)
    for name in holder.keys() & _EMPTY_SOURCES.keys():
        fill(holder[name], _EMPTY_SOURCES[name])


def default_claim_spec(spec: Data) -> None:
    """Set the defaults of the spec of a PersistentVolumeClaim."""
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.setdefault("resources", {})
    for part in resources.keys() & {"limits", "requests"}:
        round_up(resources[part])


@remember_short(4096)
def pull_policy(image: str) -> str:
    """Always for an image without a tag or with the tag latest, otherwise IfNotPresent."""
    parts = _IMAGE.fullmatch(image)
    if parts is None:
        return "IfNotPresent"
    tag = parts["tag"] or ("" if parts["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _default_container(container: Data) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for name, value in _CONTAINER:
        if not container.get(name):
            container[name] = value
    resources = container.get("resources")
    if resources is None:
        container["resources"] = {}
    elif resources:
        for part in ("limits", "requests"):
            if amounts := resources.get(part):
                round_up(amounts)
    # Most containers have none of the following fields.
    if not _RARE.isdisjoint(container):
        _default_rare_fields(container)


_RARE = frozenset(("ports", "env", "lifecycle", *_PROBES))


def _default_rare_fields(container: Data) -> None:
    for port in container.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            fill(source["fieldRef"], (("apiVersion", "v1"),))
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            fill(probe, _PROBE)
            if "grpc" in probe:
                probe["grpc"].setdefault("service", "")
            _default_http_get(probe)
    for name in _HOOKS:
        _default_http_get(container.get("lifecycle", {}).get(name, {}))


def _default_http_get(handler: Data) -> None:
    if "httpGet" in handler:
        fill(handler["httpGet"], _HTTP_GET)


def _default_volume(volume: Data) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
        return
    default_volume_source(volume)
    if "image" in volume:
        source = volume["image"]
        fill(source, (("pullPolicy", pull_policy(source.get("reference", ""))),))
    for item in volume.get("downwardAPI", {}).get("items", ()):
        _default_field_ref(item)
    for source in volume.get("projected", {}).get("sources", ()):
        for item in source.get("downwardAPI", {}).get("items", ()):
            _default_field_ref(item)
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if template is not None:
        default_claim_spec(template.setdefault("spec", {}))


def _default_field_ref(item: Data) -> None:
    if "fieldRef" in item:
        fill(item["fieldRef"], (("apiVersion", "v1"),))


def _keep_addresses_alike(status: Data) -> None:
    """Keep podIP and podIPs consistent; the single address wins."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def _default_pod_resources(spec: Data) -> None:
    """Set the requests of the whole pod: the sum of its containers', or its limits."""
    resources = spec["resources"]
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    if limits or requests:
        huge = {
            name: value
            for name, value in _together(spec, "limits").items()
            if name.startswith("hugepages-") and name not in requests
        }
        limits = huge | limits
        if limits:
            resources["limits"] = limits
    if limits:
        needed = {name: value for name, value in _together(spec, "requests").items() if name in ("cpu", "memory")}
        limited = {name: v for name, v in limits.items() if name in ("cpu", "memory") or name.startswith("hugepages-")}
        resources["requests"] = limited | needed | requests


def _together(spec: Data, part: str) -> Data:
    """The resources of all containers together: the maximum of the init phase and of the running phase."""
    running: Counter[str] = Counter()
    sidecars: Counter[str] = Counter()
    peak: dict[str, int] = {}
    for container in spec.get("containers", ()):
        running.update(_nanos(container, part))
    for container in spec.get("initContainers", ()):
        amounts = _nanos(container, part)
        if container.get("restartPolicy") == "Always":
            running.update(amounts)
            sidecars.update(amounts)
            amounts = dict(sidecars)
        else:
            amounts = {name: value + sidecars[name] for name, value in amounts.items()}
        peak = {name: max(peak.get(name, 0), amounts.get(name, 0)) for name in peak.keys() | amounts.keys()}
    return {
        name: str(Quantity(max(running[name], peak.get(name, 0)), _format_of(spec, part, name)))
        for name in running.keys() | peak.keys()
    }


def _nanos(container: Data, part: str) -> dict[str, int]:
    amounts = container.get("resources", {}).get(part, {})
    return {name: Quantity.parse(value).nano for name, value in amounts.items()}


def _format_of(spec: Data, part: str, name: str) -> Any:
    """The format of a sum, which is that of its first quantity."""
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        amounts = container.get("resources", {}).get(part, {})
        if name in amounts:
            return Quantity.parse(amounts[name]).format
    return Quantity.parse("0").format
