"""Validation of a PodSpec, in a pod or in a template.

Tolerations and node affinity, with their expressions, are validated by `moorage.validation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.api.meta import Data
from moorage.names import label_key_errors
from moorage.registry import namesyntax
from moorage.registry.checks import NOT_POSITIVE, Errors, label_selector, one_of, syntax
from moorage.registry.metadata import annotation_errors, label_errors, template_metadata_errors
from moorage.registry.pod.claimspec import claim_spec_errors
from moorage.registry.pod.containers import (
    Around,
    container_list_errors,
    ephemeral_container_errors,
    init_container_errors,
)
from moorage.registry.pod.resources import pod_resource_errors, resource_errors
from moorage.registry.pod.security import profile_errors, sysctl_errors
from moorage.registry.pod.volumesources import only_source, source_errors
from moorage.validation.field import duplicate, forbidden, invalid, not_supported, required, too_many

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SIDES = ("podAffinity", "podAntiAffinity")
_MAX_TERMS = 100
"""How many affinity terms a pod may have, and how many constraints: each is compared with every other pod."""
_MAX_INT32 = 2**31 - 1
_BAD_ID = f"must be between 0 and {_MAX_INT32}, inclusive"

_NAMED: dict[str, namesyntax.Syntax] = {
    "serviceAccountName": namesyntax.subdomain,
    "nodeName": namesyntax.subdomain,
    "hostname": namesyntax.label,
    "subdomain": namesyntax.label,
    "hostnameOverride": namesyntax.subdomain,
    "priorityClassName": namesyntax.subdomain,
    "runtimeClassName": namesyntax.subdomain,
}


def pod_spec_errors(path: str, spec: Data, *, is_pod: bool = False, name: str = "") -> Errors:
    """Validate a PodSpec; `name` is that of the pod, if it is known."""
    around = Around(
        claims=frozenset(claim["name"] for claim in spec.get("resourceClaims", ()) if claim.get("name")),
        grace=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        os=spec.get("os", {}).get("name", ""),
    )
    if around.grace is None:
        yield required(f"{path}.terminationGracePeriodSeconds")
    if "volumes" in spec:
        yield from _volume_errors(f"{path}.volumes", spec["volumes"], name, around.volumes)
    containers, starting = spec.get("containers", []), spec.get("initContainers", [])
    yield from container_list_errors(f"{path}.containers", containers, around)
    if starting:
        yield from init_container_errors(f"{path}.initContainers", starting, containers, around)
    if ephemeral := spec.get("ephemeralContainers"):
        yield from ephemeral_container_errors(
            f"{path}.ephemeralContainers", ephemeral, [*containers, *starting], around
        )
    yield from one_of(f"{path}.restartPolicy", around.restart_policy, _RESTART_POLICIES)
    yield from one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    # Most specs have none of the following fields.
    for field, check in _CHECKS.items():
        if field in spec:
            yield from check(f"{path}.{field}", spec[field])
    for field, rule in _NAMED.items():
        if value := spec.get(field):
            yield from syntax(f"{path}.{field}", value, rule(value))
    if spec.get("hostNetwork"):
        yield from _host_network_errors(path, containers, is_pod=is_pod)
    yield from _dns_errors(f"{path}.dnsConfig", spec.get("dnsConfig"), spec.get("dnsPolicy"))


def _volume_errors(path: str, volumes: list[Data], pod: str, by_name: dict[str, Data]) -> Errors:
    """Validate the volumes of a pod, and collect the valid ones by name."""
    generated_claims = (
        {f"{pod}-{volume.get('name', '')}" for volume in volumes if "ephemeral" in volume} if pod else set()
    )
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        errors = list(_one_volume_errors(here, volume, pod))
        name = volume.get("name", "")
        if name in by_name:
            errors.append(duplicate(f"{here}.name", name))
        if not errors:
            by_name[name] = volume
        yield from errors
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim in generated_claims:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            yield invalid(f"{here}.persistentVolumeClaim.claimName", claim, detail)


def _one_volume_errors(path: str, volume: Data, pod: str) -> Errors:
    yield from source_errors(path, volume)
    name = volume.get("name", "")
    if only_source(volume, is_pod=True) == "ephemeral":
        template = volume["ephemeral"].get("volumeClaimTemplate")
        if template is None:
            yield required(f"{path}.ephemeral.volumeClaimTemplate")
        else:
            here = f"{path}.ephemeral.volumeClaimTemplate"
            yield from template_metadata_errors(f"{here}.metadata", template.get("metadata", {}))
            yield from claim_spec_errors(f"{here}.spec", template.get("spec", {}))
        claim = f"{pod}-{name}"
        for problem in namesyntax.subdomain(claim) if pod and name else ():
            yield invalid(f"{path}.name", name, f'PVC name "{claim}": {problem}')
    if not name:
        yield required(f"{path}.name")
    else:
        yield from syntax(f"{path}.name", name, namesyntax.label(name))


def _host_network_errors(path: str, containers: list[Data], *, is_pod: bool) -> Errors:
    for index, container in enumerate(containers):
        for at, port in enumerate(container.get("ports", ())):
            on_host = port.get("hostPort", 0)
            if (is_pod or on_host) and on_host != port.get("containerPort", 0):
                here = f"{path}.containers[{index}].ports[{at}].hostPort"
                yield invalid(here, on_host, "must match `containerPort` when `hostNetwork` is true")


def _dns_errors(path: str, config: Data | None, policy: str | None) -> Errors:
    if policy == "None" and config is None:
        yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    if config is None:
        return
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if policy == "None" and not servers:
        yield required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    if len(servers) > 3:
        yield invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        yield from syntax(f"{path}.nameservers[{index}]", server, namesyntax.address(server))
    yield from _search_errors(path, searches)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            yield required(f"{path}.options[{index}]", "must not be empty")


def _search_errors(path: str, searches: list[str]) -> Errors:
    if len(searches) > 32:
        yield invalid(f"{path}.searches", searches, "must not have more than 32 search paths")
    if len(" ".join(searches)) > 2048:
        detail = "must not have more than 2048 characters (including spaces) in the search list"
        yield invalid(f"{path}.searches", searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            domain = search.removesuffix(".")
            yield from syntax(f"{path}.searches[{index}]", domain, namesyntax.search_domain(domain))


def _claim_errors(path: str, claims: list[Data]) -> Errors:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here = f"{path}[{index}]"
        name = claim.get("name", "")
        if not name:
            yield required(f"{here}.name")
        elif name in seen:
            yield duplicate(f"{here}.name", name)
        else:
            yield from syntax(f"{here}.name", name, namesyntax.label(name))
        seen.add(name)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if len(sources) == 2:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(here, claim, detail)
        if not sources:
            yield invalid(here, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for field in sources:
            yield from syntax(f"{here}.{field}", claim[field], namesyntax.subdomain(claim[field]))


def _gate_errors(path: str, gates: list[Data]) -> Errors:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        yield from syntax(f"{path}[{index}]", name, label_key_errors(name))
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _readiness_errors(path: str, gates: list[Data]) -> Errors:
    for index, gate in enumerate(gates):
        name = gate.get("conditionType", "")
        yield from syntax(f"{path}[{index}].conditionType", name, label_key_errors(name))


def _deadline_errors(path: str, seconds: int) -> Errors:
    if not 1 <= seconds <= _MAX_INT32:
        yield invalid(path, seconds, f"must be between 1 and {_MAX_INT32}, inclusive")


def _preemption_errors(path: str, policy: str) -> Errors:
    yield from one_of(path, policy, _PREEMPTION_POLICIES)


def _overhead_errors(path: str, overhead: Data) -> Errors:
    yield from resource_errors(path, {"limits": overhead}, ())


def _alias_errors(path: str, aliases: list[Data]) -> Errors:
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        yield from syntax(f"{path}[{index}].ip", address, namesyntax.address(address))
        for at, name in enumerate(alias.get("hostnames", ())):
            yield from syntax(f"{path}[{index}].hostnames[{at}]", name, namesyntax.subdomain(name))


def _security_errors(path: str, context: Data) -> Errors:
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        if not 0 <= context.get(name, 0) <= _MAX_INT32:
            yield invalid(f"{path}.{name}", context[name], _BAD_ID)
    for index, group in enumerate(context.get("supplementalGroups", ())):
        if not 0 <= group <= _MAX_INT32:
            yield invalid(f"{path}.supplementalGroups[{index}]", group, _BAD_ID)
    policy = context.get("fsGroupChangePolicy")
    if policy is not None and policy not in ("Always", "OnRootMismatch"):
        yield not_supported(f"{path}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
    groups = context.get("supplementalGroupsPolicy", "Merge")
    if groups not in ("Merge", "Strict"):
        yield not_supported(f"{path}.supplementalGroupsPolicy", groups, ("Merge", "Strict"))
    if context.get("seLinuxChangePolicy", "Recursive") != "Recursive":
        yield not_supported(f"{path}.seLinuxChangePolicy", context["seLinuxChangePolicy"], ("Recursive",))
    yield from sysctl_errors(f"{path}.sysctls", context.get("sysctls", []))
    yield from profile_errors(path, context)


def _os_errors(path: str, system: Data) -> Errors:
    name = system.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif name not in ("linux", "windows"):
        yield not_supported(path, name, ("linux", "windows"))


def _spread_errors(path: str, constraints: list[Data]) -> Errors:
    if len(constraints) > _MAX_TERMS:
        yield too_many(path, len(constraints), _MAX_TERMS)
        return
    last = {(each.get("topologyKey"), each.get("whenUnsatisfiable")): at for at, each in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        skew, key, action = (constraint.get(name) for name in ("maxSkew", "topologyKey", "whenUnsatisfiable"))
        if (skew or 0) <= 0:
            yield invalid(f"{here}.maxSkew", skew or 0, NOT_POSITIVE)
        if not key:
            yield required(f"{here}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield not_supported(f"{here}.whenUnsatisfiable", action or "", _ACTIONS)
        if last[key, action] > index:
            yield duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key or ''}, {action or ''}}}")
        yield from _spread_option_errors(here, constraint, action or "")


def _spread_option_errors(path: str, constraint: Data, action: str) -> Errors:
    domains = constraint.get("minDomains")
    if domains is not None:
        if domains <= 0:
            yield invalid(f"{path}.minDomains", domains, NOT_POSITIVE)
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield invalid(f"{path}.minDomains", domains, detail)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if name in constraint and constraint[name] not in _INCLUSION:
            yield not_supported(f"{path}.{name}", constraint[name], _INCLUSION)
    yield from _label_key_errors(path, constraint)
    yield from label_selector(f"{path}.labelSelector", constraint.get("labelSelector"))


def _label_key_errors(path: str, term: Data) -> Errors:
    """Validate matchLabelKeys: there must be a selector, which must not use these keys itself."""
    selector = term.get("labelSelector")
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field, [])
        if keys and selector is None:
            yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            yield from syntax(f"{path}.{field}[{index}]", key, label_key_errors(key))
    matched = {key: index for index, key in reversed([*enumerate(term.get("matchLabelKeys", ()))])}
    named = set((selector or {}).get("matchLabels", {}))
    for condition in (selector or {}).get("matchExpressions", ()):
        key = condition.get("key")
        if key in matched and key in named:
            detail = "exists in both matchLabelKeys and labelSelector"
            yield invalid(f"{path}[{matched[key]}]", key, detail)
        named.add(key)
    mismatched = frozenset(term.get("mismatchLabelKeys", ()))
    for index, key in enumerate(term.get("matchLabelKeys", ())):
        if key in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def _affinity_errors(path: str, affinity: Data) -> Errors:
    lists = [affinity.get(side, {}).get(which, ()) for side in _SIDES for which in (_REQUIRED, _PREFERRED)]
    if (count := sum(map(len, lists))) > _MAX_TERMS:
        yield too_many(path, count, _MAX_TERMS)
        return
    for side in _SIDES:
        terms = affinity.get(side, {})
        for index, term in enumerate(terms.get(_REQUIRED, ())):
            yield from _affinity_term_errors(f"{path}.{side}.{_REQUIRED}[{index}]", term)
        for index, weighted in enumerate(terms.get(_PREFERRED, ())):
            here = f"{path}.{side}.{_PREFERRED}[{index}]"
            weight = weighted.get("weight", 0)
            if not 1 <= weight <= 100:
                yield invalid(f"{here}.weight", weight, "must be in the range 1-100")
            yield from _affinity_term_errors(f"{here}.podAffinityTerm", weighted.get("podAffinityTerm", {}))


def _affinity_term_errors(path: str, term: Data) -> Errors:
    yield from label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    yield from label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces", ()):
        yield from syntax(f"{path}.namespace", name, namesyntax.label(name))
    yield from _label_key_errors(path, term)
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from syntax(f"{path}.topologyKey", key, label_key_errors(key))


_CHECKS: dict[str, Callable[[str, Any], Errors]] = {
    "activeDeadlineSeconds": _deadline_errors,
    "affinity": _affinity_errors,
    "hostAliases": _alias_errors,
    "nodeSelector": label_errors,
    "os": _os_errors,
    "overhead": _overhead_errors,
    "preemptionPolicy": _preemption_errors,
    "readinessGates": _readiness_errors,
    "resourceClaims": _claim_errors,
    "resources": pod_resource_errors,
    "schedulingGates": _gate_errors,
    "securityContext": _security_errors,
    "topologySpreadConstraints": _spread_errors,
}


def template_errors(path: str, template: Data) -> Errors:
    """Validate a pod template."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    yield from label_errors(f"{path}.labels", metadata.get("labels", {}))
    yield from annotation_errors(f"{path}.annotations", metadata.get("annotations", {}))
    yield from pod_spec_errors(f"{path}.spec", spec)
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
