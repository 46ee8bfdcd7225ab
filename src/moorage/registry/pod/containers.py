"""Validation of the containers of a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, nonnegative, one_of, port, port_number, syntax
from moorage.registry.pod.environment import variable_errors, variable_source_errors
from moorage.registry.pod.resources import resource_errors
from moorage.registry.pod.security import profile_errors
from moorage.registry.pod.volumesources import descending
from moorage.validation.field import duplicate, forbidden, invalid, not_found, not_supported, required, too_many

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_MAX_ID = 2**31 - 1
_BAD_ID = f"must be between 0 and {_MAX_ID}, inclusive"
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy")
_EPHEMERAL = "cannot be set for an Ephemeral Container"


@dataclass(slots=True)
class Around:
    """The parts of a pod that its containers refer to."""

    volumes: dict[str, Data] = field(default_factory=dict)
    claims: frozenset[str] = frozenset()
    grace: int | None = None
    restart_policy: str = ""
    os: str = ""


def container_list_errors(path: str, containers: list[Data], around: Around) -> Errors:
    """Validate the main containers of a pod."""
    if not containers:
        yield required(path)
    names: set[str] = set()
    ports: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        yield from _container_errors(here, container, around)
        name = container.get("name", "")
        if name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        if not _RUNNING.isdisjoint(container):
            yield from _running_errors(here, container, around)
        if "ports" in container:
            yield from _host_port_errors(here, container["ports"], ports)


def init_container_errors(path: str, containers: list[Data], others: Iterable[Data], around: Around) -> Errors:
    """Validate the init containers of a pod."""
    names = {other.get("name") for other in others}
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        yield from _container_errors(here, container, around)
        name = container.get("name", "")
        if name and name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        yield from _host_port_errors(here, container.get("ports", ()), set())
        if container.get("restartPolicy") == "Always":
            yield from _running_errors(here, container, around)
        else:
            for forbidden_field in ("lifecycle", *_PROBES):
                if forbidden_field in container:
                    yield forbidden(f"{here}.{forbidden_field}", _NOT_FOR_INIT)
            yield from _restart_errors(here, container)


def ephemeral_container_errors(path: str, containers: list[Data], others: list[Data], around: Around) -> Errors:
    """Validate the ephemeral containers of a pod."""
    targets = {other.get("name") for other in others}
    names = set(targets)
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        yield from _container_errors(here, container, around)
        name, target = container.get("name", ""), container.get("targetContainerName")
        if name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        if target and target not in targets:
            yield not_found(f"{here}.targetContainerName", target)
        for name in _NOT_EPHEMERAL:
            if container.get(name):
                yield forbidden(f"{here}.{name}", _EPHEMERAL)
        if container.get("resources"):
            yield forbidden(f"{here}.resources", _EPHEMERAL)


def image_space_errors(path: str, containers: Iterable[Data]) -> Errors:
    """Refuse spaces around an image, which only a pod template may have."""
    for index, container in enumerate(containers):
        image = container.get("image", "")
        if image != image.strip():
            yield invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace")


def _container_errors(path: str, container: Data, around: Around) -> Errors:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif problems := namesyntax.label(name):
        yield from syntax(f"{path}.name", name, problems)
    if not container.get("image"):
        yield required(f"{path}.image")
    yield from one_of(f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy"), _MESSAGE_POLICIES)
    for field_name, check in _CHECKS.items():
        if value := container.get(field_name):
            yield from check(f"{path}.{field_name}", value, container, around)
    yield from one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)


def _port_errors(path: str, ports: list[Data], _: Data, __: Around) -> Errors:
    names: set[str] = set()
    for index, entry in enumerate(ports):
        here = f"{path}[{index}]"
        if name := entry.get("name"):
            problems = namesyntax.port_name(name)
            yield from syntax(f"{here}.name", name, problems)
            if not problems and name in names:
                yield duplicate(f"{here}.name", name)
            names.add(name)
        if not entry.get("containerPort"):
            yield required(f"{here}.containerPort")
        else:
            yield from port_number(f"{here}.containerPort", entry["containerPort"])
        if entry.get("hostPort"):
            yield from port_number(f"{here}.hostPort", entry["hostPort"])
        yield from one_of(f"{here}.protocol", entry.get("protocol"), _PROTOCOLS)


def _host_port_errors(path: str, ports: Iterable[Data], taken: set[str]) -> Errors:
    for index, entry in enumerate(ports):
        if entry.get("hostPort"):
            key = f"{entry.get('protocol', '')}/{entry.get('hostIP', '')}/{entry['hostPort']}"
            if key in taken:
                yield duplicate(f"{path}.ports[{index}].hostPort", key)
            taken.add(key)


def _mount_errors(path: str, mounts: list[Data], container: Data, around: Around) -> Errors:
    points: set[str] = set()
    devices = {device.get("name"): device.get("devicePath") for device in container.get("volumeDevices", ())}
    for index, mount in enumerate(mounts):
        here = f"{path}[{index}]"
        name, point = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield required(f"{here}.name")
        if name not in around.volumes:
            yield not_found(f"{here}.name", name)
        if not point:
            yield required(f"{here}.mountPath")
        if point in points:
            yield invalid(f"{here}.mountPath", point, "must be unique")
        points.add(point)
        if name in devices:
            yield invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if point in devices.values():
            yield invalid(f"{here}.mountPath", point, "must not already exist as a path in volumeDevices")
        yield from _mount_option_errors(path, here, mount, container)


def _mount_option_errors(path: str, here: str, mount: Data, container: Data) -> Errors:
    for name in ("subPath", "subPathExpr"):
        if mount.get(name):
            yield from descending(f"{path}.{name}", mount[name])
    if mount.get("subPath") and mount.get("subPathExpr"):
        yield invalid(f"{here}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive")
    yield from _read_only_errors(f"{path}.recursiveReadOnly", mount)
    mode = mount.get("mountPropagation")
    if mode is not None and mode not in _PROPAGATIONS:
        yield not_supported(f"{path}.mountPropagation", mode, _PROPAGATIONS)
    if mode == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{path}.mountPropagation", detail)


def _read_only_errors(path: str, mount: Data) -> Errors:
    mode = mount.get("recursiveReadOnly", "Disabled")
    if mode not in ("Disabled", "Enabled", "IfPossible"):
        yield not_supported(path, mode, ("Disabled", "Enabled", "IfPossible"))
    elif mode != "Disabled" and not mount.get("readOnly"):
        yield forbidden(path, "may only be specified when readOnly is true")
    if mode in ("Enabled", "IfPossible") and mount.get("mountPropagation", "None") != "None":
        yield forbidden(path, "may only be specified when mountPropagation is None or not specified")


def _device_errors(path: str, devices: list[Data], container: Data, around: Around) -> Errors:
    names: set[str] = set()
    places: set[str] = set()
    mounts = {mount.get("name"): mount.get("mountPath") for mount in container.get("volumeMounts", ())}
    for index, device in enumerate(devices):
        here = f"{path}[{index}]"
        name, place = device.get("name", ""), device.get("devicePath", "")
        yield from _device_name_errors(f"{here}.name", name, name in names, around)
        if not place:
            yield required(f"{here}.devicePath")
        elif ".." in place.split("/"):
            yield invalid(f"{here}.devicePath", place, "can not contain backsteps ('..')")
        if place in places:
            yield invalid(f"{here}.devicePath", place, "must be unique")
        if name in mounts:
            yield invalid(f"{here}.name", name, "must not already exist in volumeMounts")
        if place in mounts.values():
            yield invalid(f"{here}.devicePath", place, "must not already exist as a path in volumeMounts")
        names.add(name)
        places.add(place)


def _device_name_errors(path: str, name: str, is_known: bool, around: Around) -> Errors:
    if not name:
        yield required(path)
    if name and is_known:
        yield invalid(path, name, "must be unique")
    volume = around.volumes.get(name)
    if volume is None:
        yield not_found(path, name)
    elif not volume.keys() & {"persistentVolumeClaim", "ephemeral"}:
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        yield invalid(path, name, detail)


def _env_errors(path: str, variables: list[Data], _: Data, around: Around) -> Errors:
    yield from variable_errors(path, variables)
    for index, variable in enumerate(variables):
        file = variable.get("valueFrom", {}).get("fileKeyRef")
        if file is not None and (name := file.get("volumeName", "")) not in around.volumes:
            yield not_found(f"{path}[{index}].valueFrom.fileKeyRef.volumeName", name)


def _env_from_errors(path: str, sources: list[Data], _: Data, __: Around) -> Errors:
    yield from variable_source_errors(path, sources)


def _resource_errors(path: str, resources: Data, _: Data, around: Around) -> Errors:
    yield from resource_errors(path, resources, around.claims)


def _resize_errors(path: str, policies: list[Data], _: Data, around: Around) -> Errors:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)
        yield from one_of(path, name, ("cpu", "memory"))
        yield from one_of(path, restart, ("NotRequired", "RestartContainer"))
        if around.restart_policy == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _security_errors(path: str, context: Data, _: Data, __: Around) -> Errors:
    for name in ("runAsUser", "runAsGroup"):
        if not 0 <= context.get(name, 0) <= _MAX_ID:
            yield invalid(f"{path}.{name}", context[name], _BAD_ID)
    yield from profile_errors(path, context)
    if context.get("procMount", "Default") not in ("Default", "Unmasked"):
        yield not_supported(f"{path}.procMount", context["procMount"], ("Default", "Unmasked"))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, context, detail)
        if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, context, detail)


_CHECKS: dict[str, Callable[[str, Any, Data, Around], Errors]] = {
    "ports": _port_errors,
    "env": _env_errors,
    "envFrom": _env_from_errors,
    "volumeMounts": _mount_errors,
    "volumeDevices": _device_errors,
    "resources": _resource_errors,
    "resizePolicy": _resize_errors,
    "securityContext": _security_errors,
}


_RUNNING = frozenset(("lifecycle", "restartPolicy", "restartPolicyRules", *_PROBES))


def _running_errors(path: str, container: Data, around: Around) -> Errors:
    """Validate what only main containers and sidecars have: lifecycle hooks, probes and restart rules."""
    lifecycle = container.get("lifecycle", {})
    for name in ("postStart", "preStop"):
        if name in lifecycle:
            yield from _handler_errors(f"{path}.lifecycle.{name}", lifecycle[name], around)
    for name in _PROBES:
        if name in container:
            yield from _probe_errors(f"{path}.{name}", container[name], around, is_readiness=name == "readinessProbe")
    yield from _restart_errors(path, container)


def _restart_errors(path: str, container: Data) -> Errors:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    if policy is None:
        if rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in _RESTART_POLICIES:
        yield not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if len(rules) > 20:
        yield too_many(f"{path}.restartPolicyRules", len(rules), 20)
    for index, rule in enumerate(rules):
        here = f"{path}.restartPolicyRules[{index}]"
        if rule.get("action") not in ("Restart", "RestartAllContainers"):
            yield not_supported(f"{here}.action", rule.get("action", ""), ("Restart", "RestartAllContainers"))
        if "exitCodes" not in rule:
            yield required(f"{here}.exitCodes", "must be specified")
        elif rule["exitCodes"].get("operator") not in ("In", "NotIn"):
            yield not_supported(f"{here}.exitCodes.operator", rule["exitCodes"].get("operator", ""), ("In", "NotIn"))


def _probe_errors(path: str, probe: Data, around: Around, *, is_readiness: bool) -> Errors:
    yield from _handler_errors(path, probe, around)
    yield from nonnegative(path, probe, *_PROBE_NUMBERS)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if is_readiness:
        if grace is not None:
            yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif probe.get("successThreshold") != 1:
        yield invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def _handler_errors(path: str, handler: Data, around: Around) -> Errors:
    handlers = [name for name in _HANDLERS if name in handler]
    if not handlers:
        yield required(path, "must specify a handler type")
        return
    for name in handlers[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
    here, action = f"{path}.{handlers[0]}", handler[handlers[0]]
    match handlers[0]:
        case "exec":
            if not action.get("command"):
                yield required(f"{here}.command")
        case "httpGet":
            yield from _http_errors(here, action)
        case "sleep":
            seconds, grace = action.get("seconds", 0), around.grace
            if grace is not None and not 0 <= seconds <= grace:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                yield invalid(here, seconds, detail)
        case _:
            yield from port(f"{here}.port", action.get("port"))


def _http_errors(path: str, action: Data) -> Errors:
    if not action.get("path"):
        yield required(f"{path}.path")
    yield from port(f"{path}.port", action.get("port"))
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        yield not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        yield from syntax(f"{path}.httpHeaders", name, namesyntax.header(name))
