"""Validation of the environment variables of containers."""

from __future__ import annotations

from collections.abc import Callable

from moorage.api.meta import Data
from moorage.registry import namesyntax
from moorage.registry.checks import Errors, syntax
from moorage.registry.pod.references import field_ref_errors, resource_ref_errors
from moorage.registry.pod.volumesources import backsteps
from moorage.validation.field import invalid, required

_FIELD_PATHS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_NO_SOURCE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)  # fmt: skip


def variable_errors(path: str, variables: list[Data]) -> Errors:
    """Validate the variables of a container."""
    for index, variable in enumerate(variables):
        here = f"{path}[{index}]"
        name = variable.get("name", "")
        if not name:
            yield required(f"{here}.name")
        elif problems := namesyntax.variable(name):
            yield from syntax(f"{here}.name", name, problems)
        if "valueFrom" in variable:
            yield from _value_from_errors(f"{here}.valueFrom", variable["valueFrom"], variable.get("value"))


def _value_from_errors(path: str, source: Data, value: str | None) -> Errors:
    sources = [name for name in _ENV_SOURCES if name in source]
    for name in sources:
        yield from _ENV_CHECKS[name](f"{path}.{name}", source[name])
    if not sources:
        yield invalid(path, "", _NO_SOURCE)
    elif value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _field_ref(path: str, reference: Data) -> Errors:
    yield from field_ref_errors(path, reference, _FIELD_PATHS)


def _resource_field_ref(path: str, reference: Data) -> Errors:
    yield from resource_ref_errors(path, reference, is_file=False)


def _key_ref(path: str, reference: Data) -> Errors:
    name, key = reference.get("name", ""), reference.get("key", "")
    yield from syntax(f"{path}.name", name, namesyntax.subdomain(name))
    if not key:
        yield required(f"{path}.key")
    else:
        yield from syntax(f"{path}.key", key, namesyntax.config_key(key))


def _file_key_ref(path: str, reference: Data) -> Errors:
    for name, check in (("key", namesyntax.variable), ("volumeName", namesyntax.label)):
        value = reference.get(name, "")
        if not value:
            yield required(f"{path}.{name}")
        else:
            yield from syntax(f"{path}.{name}", value, check(value))
    place = reference.get("path", "")
    if not place:
        yield required(f"{path}.path")
    else:
        yield from backsteps(f"{path}.path", place)


_ENV_CHECKS: dict[str, Callable[[str, Data], Errors]] = {
    "fieldRef": _field_ref,
    "resourceFieldRef": _resource_field_ref,
    "configMapKeyRef": _key_ref,
    "secretKeyRef": _key_ref,
    "fileKeyRef": _file_key_ref,
}


def variable_source_errors(path: str, sources: list[Data]) -> Errors:
    """Validate the ConfigMaps and Secrets that become variables."""
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            yield from syntax(f"{here}.prefix", prefix, namesyntax.variable(prefix))
        references = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in references:
            referred = source[name].get("name", "")
            if not referred:
                yield required(f"{here}.{name}.name")
            else:
                yield from syntax(f"{here}.{name}.name", referred, namesyntax.prefix(namesyntax.subdomain, referred))
        if not references:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(references) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")
