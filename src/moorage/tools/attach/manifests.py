"""All that attach mode needs in a cluster: the source of `deploy/` and of `moorage attach manifests`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from moorage.api.meta import Data
from moorage.client import Client
from moorage.client.transport import Answer
from moorage.tools.attach.check import NeededRight, needs
from moorage.tools.attach.covers import LEASE_NAMESPACE
from moorage.tools.attach.run import LABELS, LEASES
from moorage.tools.attach.webhook.certificates import CONFIGURATION, SECRET
from moorage.tools.attach.webhook.conditions import claims_conditions, pods_conditions, volumes_conditions
from moorage.tools.attach.webhook.server import SERVICE

NAME = "moorage"
HEALTH_PORT, WEBHOOK_PORT = 10259, 9443
_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
_LEASES = "leases"
_PRIORITY = "system-cluster-critical"
_LINGERS: Data = {"preStop": {"sleep": {"seconds": 5}}}
"""A webhook goes on answering while API servers may not know yet that it ends."""


class _Nowhere:
    """A way to no cluster: to know what a component would ask, nobody need be asked."""

    async def request(self, *_: Any, **__: Any) -> Answer:
        raise NotImplementedError

    def stream(self, *_: Any, **__: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def close(self) -> None:
        """There is nothing to release."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What differs between clusters."""

    namespace: str = "moorage-system"
    image: str = f"moorage:{version('moorage')}"
    """Pinned by digest where it matters: registry.example.com/moorage@sha256:…"""
    rule_namespaces: str = ""
    """The labels of the namespaces whose pods may have rules; empty for all."""
    webhook: bool = True
    templates: bool = False
    """Whether the webhook moves rules into annotations in pod templates too."""
    monitoring: bool = False
    """Whether a PodMonitor of the Prometheus operator is among the objects."""


def all_objects(told: Installation) -> list[Data]:
    """All objects of an installation."""
    parts = [namespace_objects(told), core_objects(told)]
    if told.webhook:
        parts += [webhook_objects(told), webhook_choices(told)]
    if told.monitoring:
        parts.append(monitoring_objects(told))
    return [each for part in parts for each in part]


def namespace_objects(told: Installation) -> list[Data]:
    """The namespace."""
    labels = {**_labels(), "pod-security.kubernetes.io/enforce": "restricted"}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": told.namespace, "labels": labels}}]


def core_objects(told: Installation) -> list[Data]:
    """The scheduler and the evictors, and what they may do."""
    wanted = needs(Client(_Nowhere()))
    led = [_rule([need.group], [_LEASES], " ".join(need.verbs)) for need in wanted if need.resource == _LEASES]
    named = [{**rule, "resourceNames": list(LEASES)} for rule in _by_verb(led, ("get", "update"))]
    return [
        _account(told, NAME),
        _object(f"{_RBAC}/v1", "ClusterRole", NAME, rules=_rules(wanted)),
        _binding(told, "ClusterRole", NAME),
        _object(f"{_RBAC}/v1", "Role", NAME, LEASE_NAMESPACE, rules=[*_by_verb(led, ("create",)), *named]),
        _binding(told, "Role", NAME, LEASE_NAMESPACE),
        *_policies(told),
        _quota(told),
        _budget(told, NAME),
        _deployment(
            told,
            NAME,
            ["attach", "run", "--bind=0.0.0.0", f"--metrics-port={HEALTH_PORT}", _allowed(told)],
            {"name": "metrics", "containerPort": HEALTH_PORT},
            "HTTP",
            # No limit: what it needs grows with the cluster, and one that is killed for it is killed again.
            {"requests": {"cpu": "100m", "memory": "160Mi"}},
        ),
    ]


def webhook_objects(told: Installation) -> list[Data]:
    """What the webhook needs in any case."""
    secrets, configurations = ["secrets"], [f"{each}webhookconfigurations" for each in ("mutating", "validating")]
    kept = {**_rule([""], secrets, "get update"), "resourceNames": [SECRET]}
    followed = _rule([""], ["namespaces"], "get list watch")
    published = {**_rule([_ADMISSION], configurations, "get patch"), "resourceNames": [CONFIGURATION]}
    port = {"name": "https", "port": 443, "targetPort": "https"}
    return [
        _account(told, SERVICE),
        _object(f"{_RBAC}/v1", "ClusterRole", SERVICE, rules=[published, followed]),
        _binding(told, "ClusterRole", SERVICE),
        _object(f"{_RBAC}/v1", "Role", SERVICE, told.namespace, rules=[_rule([""], secrets, "create"), kept]),
        _binding(told, "Role", SERVICE, told.namespace),
        _object("v1", "Service", SERVICE, told.namespace, spec={"selector": _labels(SERVICE), "ports": [port]}),
        _budget(told, SERVICE),
        _configuration(told, "Validating", "/validate", [*_pods(), *_templates(), *_volumes_and_claims()]),
    ]


def webhook_choices(told: Installation) -> list[Data]:
    """What of the webhook depends on whether it rewrites templates."""
    arguments = ["attach", "webhook", "--bind=0.0.0.0", f"--port={WEBHOOK_PORT}", f"--namespace={told.namespace}"]
    arguments.append(_allowed(told))
    port = {"name": "https", "containerPort": WEBHOOK_PORT}
    arguments += ["--templates"] if told.templates else []
    resources = {"requests": {"cpu": "50m", "memory": "160Mi"}, "limits": {"memory": "1Gi"}}
    return [
        _configuration(told, "Mutating", "/mutate", [*_pods(), *(_templates() if told.templates else ())]),
        _deployment(told, SERVICE, arguments, port, "HTTPS", resources, lifecycle=_LINGERS),
    ]


def monitoring_objects(told: Installation) -> list[Data]:
    """For the Prometheus operator."""
    endpoints = [{"port": "metrics", "path": "/metrics"}]
    spec = {"selector": {"matchLabels": _labels(NAME)}, "podMetricsEndpoints": endpoints}
    return [_object("monitoring.coreos.com/v1", "PodMonitor", NAME, told.namespace, spec=spec)]


def _allowed(told: Installation) -> str:
    return f"--rule-namespaces={told.rule_namespaces}"


def _labels(component: str = "") -> Data:
    return {**LABELS, **({"app.kubernetes.io/component": component} if component else {})}


def _object(api_version: str, kind: str, name: str, namespace: str = "", **content: object) -> Data:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": _labels()}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _account(told: Installation, name: str) -> Data:
    return _object("v1", "ServiceAccount", name, told.namespace)


def _rule(groups: list[str], resources: list[str], verbs: str) -> Data:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs.split()}


def _by_verb(rules: Iterable[Data], verbs: tuple[str, ...]) -> list[Data]:
    """The parts of rules that are about some verbs: one to create something cannot name it."""
    return [{**rule, "verbs": [verb for verb in rule["verbs"] if verb in verbs]} for rule in rules]


def _rules(wanted: Iterable[NeededRight]) -> list[Data]:
    """The rules of a role, each resource once."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for need in wanted:
        if need.resource != _LEASES or "watch" in need.verbs:
            verbs.setdefault((need.group, need.resource), []).extend(need.verbs)
    return [_rule([group], [resource], " ".join(dict.fromkeys(each))) for (group, resource), each in verbs.items()]


def _binding(told: Installation, kind: str, name: str, namespace: str = "") -> Data:
    subject = {"kind": "ServiceAccount", "name": name, "namespace": told.namespace}
    reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
    return _object(f"{_RBAC}/v1", f"{kind}Binding", name, namespace, roleRef=reference, subjects=[subject])


_UNCHANGED = (
    "spec.containers", "spec.?initContainers", "spec.?activeDeadlineSeconds", "spec.?terminationGracePeriodSeconds",
    "spec.?schedulingGates", "spec.?nodeSelector", "spec.?affinity", "spec.?schedulerName",
    "metadata.?generateName", "metadata.?labels", "metadata.?finalizers", "metadata.?ownerReferences",
    *(f"?status.?{name}" for name in (
        "phase", "reason", "message", "observedGeneration", "podIP", "podIPs", "hostIP", "hostIPs", "startTime",
        "qosClass", "resize", "resources", "allocatedResources",
        "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses",
        "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses",
    )),
)  # fmt: skip
"""What an API server lets change in a pod, but for tolerations and annotations, and why it waits or leaves.

Fields that an older API server does not have are equal there: absent before and after. As `dyn`, so that it does not
warn about them in the status of the policy.
"""
_OWN_CONDITIONS = "each.type in ['PodScheduled', 'DisruptionTarget']"
_OURS = "name.startsWith('moorage.dev/')"


def _by_us(told: Installation) -> str:
    return f"request.userInfo.username == 'system:serviceaccount:{told.namespace}:{NAME}'"


def _policies(told: Installation) -> list[Data]:
    """Let our service account change nothing of a pod but its tolerations and our annotations, in any way.

    Of its status, which others trust, it may write why the pod waits or leaves.
    """
    others = f"?status.?conditions.orValue([]).filter(each, !({_OWN_CONDITIONS}))"
    expressions = [f"dyn(object).{path} == dyn(oldObject).{path}" for path in (*_UNCHANGED, others)]
    for one, other in (("object", "oldObject"), ("oldObject", "object")):
        here, there = (f"{each}.metadata.?annotations.orValue({{}})" for each in (one, other))
        same = f"(name in {there} && {there}[name] == {here}[name])"
        expressions.append(f"{here}.all(name, {_OURS} || {same})")
    # The labels and annotations of a binding become those of its pod; the API server itself adds where the node is.
    bound = [
        f"object.metadata.?annotations.orValue({{}}).all(name, {_OURS})",
        "object.metadata.?labels.orValue({}).all(name, name.startsWith('topology.kubernetes.io/'))",
    ]
    return [
        *_policy(told, NAME, "UPDATE", ["pods", "pods/status"], expressions),
        *_policy(told, f"{NAME}-bindings", "CREATE", ["pods/binding"], bound),
    ]


def _policy(told: Installation, name: str, operation: str, resources: list[str], expressions: list[str]) -> list[Data]:
    only = "Moorage may change only tolerations and moorage.dev annotations, and say why a pod waits or leaves"
    written = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": resources}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [written]},
        "matchConditions": [{"name": "by-moorage", "expression": _by_us(told)}],
        "validations": [{"expression": each, "message": only, "reason": "Forbidden"} for each in expressions],
    }
    bound = {"policyName": name, "validationActions": ["Deny"]}
    return [
        _object(f"{_ADMISSION}/v1", "ValidatingAdmissionPolicy", name, spec=spec),
        _object(f"{_ADMISSION}/v1", "ValidatingAdmissionPolicyBinding", name, spec=bound),
    ]


def _quota(told: Installation) -> Data:
    """Allow the priority of our pods: some clusters refuse it wherever no quota names it."""
    named = {"scopeName": "PriorityClass", "operator": "In", "values": [_PRIORITY]}
    spec = {"hard": {"pods": "100"}, "scopeSelector": {"matchExpressions": [named]}}
    return _object("v1", "ResourceQuota", NAME, told.namespace, spec=spec)


def _budget(told: Installation, name: str) -> Data:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _labels(name)}}
    return _object("policy/v1", "PodDisruptionBudget", name, told.namespace, spec=spec)


def _deployment(
    told: Installation, name: str, arguments: list[str], port: Data, scheme: str, resources: Data, **more: Data
) -> Data:
    alive, ready = (
        {"httpGet": {"path": path, "port": port["name"], "scheme": scheme}, "timeoutSeconds": 5}
        for path in ("/healthz", "/readyz")
    )
    container: Data = {
        "name": name,
        "image": told.image,
        "args": arguments,
        "ports": [port],
        "livenessProbe": {**alive, "initialDelaySeconds": 20, "periodSeconds": 20, "failureThreshold": 3},
        "readinessProbe": {**ready, "periodSeconds": 5},
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        **more,
    }  # fmt: skip
    spec = {
        "serviceAccountName": name,
        "priorityClassName": _PRIORITY,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_apart(name)]}},
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }  # fmt: skip
    template = {"metadata": {"labels": _labels(name)}, "spec": spec}
    content = {"replicas": 2, "selector": {"matchLabels": _labels(name)}, "template": template}
    return _object("apps/v1", "Deployment", name, told.namespace, spec=content)


def _apart(name: str) -> Data:
    term = {"labelSelector": {"matchLabels": _labels(name)}, "topologyKey": "kubernetes.io/hostname"}
    return {"weight": 100, "podAffinityTerm": term}


def _configuration(told: Installation, kind: str, path: str, webhooks: list[Data]) -> Data:
    service = {"name": SERVICE, "namespace": told.namespace, "path": path}
    again = {"reinvocationPolicy": "IfNeeded"} if kind == "Mutating" else {}
    # The policy says what our own account may write, so that deadlines are written while no webhook runs.
    others = {"name": "by-others", "expression": f"!({_by_us(told)})"}
    listed = [
        {
            **webhook,
            "matchConditions": [others, *webhook["matchConditions"]],
            "clientConfig": {"service": service},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": 10,
            **again,
        }
        for webhook in webhooks
    ]
    return _object(f"{_ADMISSION}/v1", f"{kind}WebhookConfiguration", CONFIGURATION, webhooks=listed)


def _sent(name: str, conditions: list[Data], *rules: tuple[str, list[str]]) -> Data:
    """Objects of some kinds that meet all conditions."""
    written = [
        {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": resources}
        for group, resources in rules
    ]
    return {"name": f"{name}.moorage.dev", "rules": written, "matchConditions": conditions}


def _pods() -> list[Data]:
    return [_sent("pods", pods_conditions(), ("", ["pods"]))]


def _templates() -> list[Data]:
    workloads = ("apps", ["deployments", "replicasets", "statefulsets", "daemonsets"]), ("batch", ["jobs"])
    inside = "object.spec.template", "object.spec.jobTemplate.spec.template", "object.template"
    return [
        _sent("templates", pods_conditions(inside[0]), *workloads, ("", ["replicationcontrollers"])),
        _sent("cronjobs", pods_conditions(inside[1]), ("batch", ["cronjobs"])),
        _sent("podtemplates", pods_conditions(inside[2]), ("", ["podtemplates"])),
    ]


def _volumes_and_claims() -> list[Data]:
    devices = "resource.k8s.io"
    return [
        _sent("volumes", volumes_conditions(), ("", ["persistentvolumes"])),
        _sent("claims", claims_conditions(), (devices, ["resourceclaims"])),
        _sent("claimtemplates", claims_conditions("object.spec"), (devices, ["resourceclaimtemplates"])),
    ]
