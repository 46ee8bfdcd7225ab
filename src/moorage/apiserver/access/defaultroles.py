"""The default roles and bindings of Kubernetes, for the kinds that are served here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from moorage.api.meta import Data
from moorage.apiserver.access.roles import RBAC_GROUP
from moorage.apiserver.base.users import AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED

READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")
READ_WRITE = (*READ, *WRITE)
READ_UPDATE = (*READ, "update", "patch")
CHANGE = ("update", "patch")

CORE = ""
APPS, BATCH, POLICY = "apps", "batch", "policy"
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
COORDINATION, EVENTS = "coordination.k8s.io", "events.k8s.io"
DEVICES, RUNTIME, SCHEDULING, STORAGE = "resource.k8s.io", "node.k8s.io", "scheduling.k8s.io", "storage.k8s.io"

HEALTH = ("/livez", "/readyz", "/healthz")
_AGGREGATE = f"{RBAC_GROUP}/aggregate-to-"
_CONTROLLER = "system:controller:"
_MANAGER = "system:kube-controller-manager"
_SCHEDULER = "system:kube-scheduler"


def _rule(verbs: Iterable[str], groups: str | Sequence[str], *resources: str, names: Sequence[str] = ()) -> Data:
    rule = {
        "verbs": [*verbs],
        "apiGroups": [groups] if isinstance(groups, str) else [*groups],
        "resources": [*resources],
    }
    return {**rule, "resourceNames": [*names]} if names else rule


def _paths(*paths: str, verbs: Iterable[str] = ("get",)) -> Data:
    return {"verbs": [*verbs], "nonResourceURLs": [*paths]}


EVENT_RULE = _rule(("create", "update", "patch"), (CORE, EVENTS), "events")
_REVIEW_RULES = (
    _rule(("create",), AUTHENTICATION, "tokenreviews"),
    _rule(("create",), AUTHORIZATION, "subjectaccessreviews"),
)

VIEW_RULES = (
    _rule(
        READ, CORE, "pods", "pods/status", "pods/log", "serviceaccounts", "services", "services/status",
        "persistentvolumeclaims", "persistentvolumeclaims/status", "configmaps", "namespaces", "namespaces/status",
        "replicationcontrollers", "replicationcontrollers/status", "replicationcontrollers/scale",
    ),
    _rule(READ, (CORE, EVENTS), "events"),
    _rule(
        READ, APPS, "controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/status",
        "deployments/scale", "replicasets", "replicasets/status", "replicasets/scale", "statefulsets",
        "statefulsets/status", "statefulsets/scale",
    ),
    _rule(READ, BATCH, "jobs", "jobs/status", "cronjobs", "cronjobs/status"),
    _rule(READ, POLICY, "poddisruptionbudgets", "poddisruptionbudgets/status"),
    _rule(READ, DEVICES, "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
)  # fmt: skip

EDIT_RULES = (
    _rule(READ, CORE, "pods/attach", "pods/proxy", "pods/exec", "pods/portforward", "secrets"),
    _rule(("impersonate",), CORE, "serviceaccounts"),
    _rule(WRITE, CORE, "pods", "pods/attach", "pods/proxy", "pods/exec", "pods/portforward"),
    _rule(("create",), CORE, "pods/eviction", "serviceaccounts/token"),
    _rule(WRITE, CORE, "serviceaccounts", "services", "persistentvolumeclaims", "configmaps", "secrets"),
    _rule(WRITE, CORE, "replicationcontrollers", "replicationcontrollers/scale"),
    _rule(WRITE, (CORE, EVENTS), "events"),
    _rule(
        WRITE, APPS, "daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale",
        "statefulsets", "statefulsets/scale",
    ),
    _rule(WRITE, BATCH, "jobs", "cronjobs"),
    _rule(WRITE, POLICY, "poddisruptionbudgets"),
    _rule(READ_WRITE, COORDINATION, "leases"),
    _rule(WRITE, DEVICES, "resourceclaims", "resourceclaimtemplates"),
)  # fmt: skip

ADMIN_RULES = (
    _rule(("create",), AUTHORIZATION, "localsubjectaccessreviews"),
    _rule(READ_WRITE, RBAC_GROUP, "roles", "rolebindings"),
)

NODE_RULES = (
    *_REVIEW_RULES,
    _rule(("create",), AUTHORIZATION, "localsubjectaccessreviews"),
    _rule(READ, CORE, "services", "pods"),
    _rule(("create", *READ, *CHANGE), CORE, "nodes"),
    _rule(CHANGE, CORE, "nodes/status", "pods/status"),
    _rule(("create", "delete"), CORE, "pods"),
    _rule(("create",), CORE, "pods/eviction"),
    _rule(("get",), CORE, "persistentvolumeclaims", "persistentvolumes"),
    _rule(("get", *CHANGE), CORE, "persistentvolumeclaims/status"),
    _rule(("get", "create", *CHANGE, "delete"), COORDINATION, "leases"),
    _rule(("get",), STORAGE, "volumeattachments"),
    _rule(READ, STORAGE, "csidrivers"),
    _rule(("get", "create", *CHANGE, "delete"), STORAGE, "csinodes"),
    _rule(READ, RUNTIME, "runtimeclasses"),
    _rule(("get",), DEVICES, "resourceclaims"),
    _rule(("deletecollection",), DEVICES, "resourceslices"),
    EVENT_RULE,
)
"""Kubernetes' nodes read secrets and config maps as well, and a second authorizer narrows that down to those of their
own pods. There is no second one here, so nodes read none."""

SCHEDULER_RULES = (
    EVENT_RULE,
    *_REVIEW_RULES,
    _rule(("create",), COORDINATION, "leases"),
    _rule((*READ, "update"), COORDINATION, "leases", names=("kube-scheduler",)),
    _rule(READ, CORE, "nodes", "namespaces", "services", "persistentvolumes", "persistentvolumeclaims"),
    _rule(READ, CORE, "replicationcontrollers"),
    _rule((*READ, "delete"), CORE, "pods"),
    _rule(("create",), CORE, "pods/binding", "bindings"),
    _rule(CHANGE, CORE, "pods/status"),
    _rule(("update",), CORE, "pods/finalizers"),
    _rule(READ, APPS, "replicasets", "statefulsets"),
    _rule(READ, POLICY, "poddisruptionbudgets"),
    _rule(READ, SCHEDULING, "priorityclasses"),
    _rule(READ, STORAGE, "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
    _rule(READ, DEVICES, "deviceclasses", "resourceslices", "devicetaintrules"),
    _rule((*READ_UPDATE, "create", "delete"), DEVICES, "resourceclaims"),
    _rule(READ_UPDATE, DEVICES, "resourceclaims/status"),
)

VOLUME_SCHEDULER_RULES = (
    _rule(READ_UPDATE, CORE, "persistentvolumes", "persistentvolumeclaims"),
    _rule(READ, STORAGE, "storageclasses"),
)

MANAGER_RULES = (
    EVENT_RULE,
    *_REVIEW_RULES,
    _rule(("create",), COORDINATION, "leases"),
    _rule(("get", "update"), COORDINATION, "leases", names=("kube-controller-manager",)),
    _rule(("create", "get", "update"), CORE, "secrets", "serviceaccounts"),
    _rule(("delete",), CORE, "secrets"),
    _rule(("get",), CORE, "namespaces", "configmaps"),
    _rule(("create",), CORE, "serviceaccounts/token"),
    _rule(("list", "watch"), "*", "*"),
)

CONTROLLER_RULES: Mapping[str, Sequence[Data]] = {
    "clusterrole-aggregation-controller": (_rule(("escalate", *READ_UPDATE), RBAC_GROUP, "clusterroles"),),
    "cronjob-controller": (
        _rule((*READ, "update"), BATCH, "cronjobs"),
        _rule((*READ, "create", *CHANGE, "delete"), BATCH, "jobs"),
        _rule(("update",), BATCH, "cronjobs/status", "cronjobs/finalizers"),
        _rule(("list", "watch", "delete"), CORE, "pods"),
        EVENT_RULE,
    ),
    "daemon-set-controller": (
        _rule(READ, APPS, "daemonsets"),
        _rule(("update",), APPS, "daemonsets/status", "daemonsets/finalizers"),
        _rule(("list", "watch"), CORE, "nodes"),
        _rule(("list", "watch", "create", "delete", "patch"), CORE, "pods"),
        _rule(("create",), CORE, "pods/binding"),
        _rule((*READ, "create", "delete", *CHANGE), APPS, "controllerrevisions"),
        EVENT_RULE,
    ),
    "deployment-controller": (
        _rule((*READ, "update"), APPS, "deployments"),
        _rule(("update",), APPS, "deployments/status", "deployments/finalizers"),
        _rule((*READ, "create", *CHANGE, "delete"), APPS, "replicasets"),
        _rule((*READ, "update"), CORE, "pods"),
        EVENT_RULE,
    ),
    "device-taint-eviction-controller": (
        _rule((*READ, "delete"), CORE, "pods"),
        _rule(CHANGE, CORE, "pods/status"),
        _rule(READ, DEVICES, "resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules"),
        _rule(CHANGE, DEVICES, "devicetaintrules/status"),
        EVENT_RULE,
    ),
    "disruption-controller": (
        _rule(READ, APPS, "deployments", "replicasets", "statefulsets"),
        _rule(READ, CORE, "replicationcontrollers"),
        _rule(READ, POLICY, "poddisruptionbudgets"),
        _rule(("update",), POLICY, "poddisruptionbudgets/status"),
        _rule(CHANGE, CORE, "pods/status"),
        _rule(("get",), "*", "*/scale"),
        EVENT_RULE,
    ),
    "generic-garbage-collector": (_rule((*READ_UPDATE, "delete"), "*", "*"), EVENT_RULE),
    "job-controller": (
        _rule(READ_UPDATE, BATCH, "jobs"),
        _rule(("update",), BATCH, "jobs/status", "jobs/finalizers"),
        _rule(("list", "watch", "create", "delete", "patch"), CORE, "pods"),
        EVENT_RULE,
    ),
    "namespace-controller": (
        _rule((*READ, "delete"), CORE, "namespaces"),
        _rule(("update",), CORE, "namespaces/finalize", "namespaces/status"),
        _rule((*READ, "delete", "deletecollection"), "*", "*"),
    ),
    "node-controller": (
        _rule((*READ_UPDATE, "delete"), CORE, "nodes"),
        _rule(CHANGE, CORE, "nodes/status", "pods/status"),
        _rule((*READ, "delete"), CORE, "pods"),
        _rule(READ, COORDINATION, "leases"),
        EVENT_RULE,
    ),
    "persistent-volume-binder": (
        _rule((*READ, "update", "create", "delete"), CORE, "persistentvolumes"),
        _rule((*READ, "update"), CORE, "persistentvolumeclaims"),
        _rule(("update",), CORE, "persistentvolumes/status", "persistentvolumeclaims/status"),
        _rule((*READ, "create", "delete"), CORE, "pods"),
        _rule(READ, STORAGE, "storageclasses"),
        _rule(("list", "watch"), CORE, "nodes"),
        EVENT_RULE,
    ),
    "pod-garbage-collector": (
        _rule(("list", "watch", "delete"), CORE, "pods"),
        _rule(READ, CORE, "nodes"),
        _rule(("patch",), CORE, "pods/status"),
    ),
    "replicaset-controller": (
        _rule((*READ, "update"), APPS, "replicasets"),
        _rule(("update",), APPS, "replicasets/status", "replicasets/finalizers"),
        _rule(("list", "watch", "patch", "create", "delete"), CORE, "pods"),
        EVENT_RULE,
    ),
    "replication-controller": (
        _rule((*READ, "update"), CORE, "replicationcontrollers"),
        _rule(("update",), CORE, "replicationcontrollers/status", "replicationcontrollers/finalizers"),
        _rule(("list", "watch", "patch", "create", "delete"), CORE, "pods"),
        EVENT_RULE,
    ),
    "root-ca-cert-publisher": (_rule(("create", "update"), CORE, "configmaps"), EVENT_RULE),
    "resource-claim-controller": (
        _rule(READ, CORE, "pods"),
        _rule(("update",), CORE, "pods/finalizers"),
        _rule(CHANGE, CORE, "pods/status"),
        _rule((*READ, "create", "delete", *CHANGE), DEVICES, "resourceclaims"),
        _rule(CHANGE, DEVICES, "resourceclaims/status"),
        EVENT_RULE,
    ),
    "service-account-controller": (_rule(("create",), CORE, "serviceaccounts"), EVENT_RULE),
    "statefulset-controller": (
        _rule((*READ, "create", "delete", *CHANGE), CORE, "pods"),
        _rule(("update",), CORE, "pods/finalizers"),
        _rule(READ, APPS, "statefulsets"),
        _rule(("update",), APPS, "statefulsets/status", "statefulsets/finalizers"),
        _rule((*READ, "create", "delete", *CHANGE), APPS, "controllerrevisions"),
        _rule((*READ, "create", "update", "delete"), CORE, "persistentvolumeclaims"),
        EVENT_RULE,
    ),
    "ttl-after-finished-controller": (_rule((*READ, "delete"), BATCH, "jobs"), EVENT_RULE),
}

CLUSTER_ROLE_RULES: Mapping[str, Sequence[Data]] = {
    "cluster-admin": (_rule(("*",), "*", "*"), _paths("*", verbs=("*",))),
    "system:discovery": (
        _paths(*HEALTH, "/version", "/version/", "/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*"),
    ),
    "system:public-info-viewer": (_paths(*HEALTH, "/version", "/version/"),),
    "system:monitoring": (_paths("/metrics", "/metrics/slis", *HEALTH, *(f"{path}/*" for path in HEALTH)),),
    "system:basic-user": (
        _rule(("create",), AUTHORIZATION, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        _rule(("create",), AUTHENTICATION, "selfsubjectreviews"),
    ),
    "system:auth-delegator": _REVIEW_RULES,
    "system:node": NODE_RULES,
    _SCHEDULER: SCHEDULER_RULES,
    "system:volume-scheduler": VOLUME_SCHEDULER_RULES,
    _MANAGER: MANAGER_RULES,
    **{f"{_CONTROLLER}{name}": rules for name, rules in CONTROLLER_RULES.items()},
}

AGGREGATED: Mapping[str, tuple[str, Sequence[Data]]] = {
    "admin": ("", ADMIN_RULES),
    "edit": ("admin", EDIT_RULES),
    "view": ("edit", VIEW_RULES),
}
"""Aggregated roles: the role that aggregates each, and its own rules."""


def _user(name: str) -> Data:
    return {"kind": "User", "apiGroup": RBAC_GROUP, "name": name}


def _group(name: str) -> Data:
    return {"kind": "Group", "apiGroup": RBAC_GROUP, "name": name}


def _account(name: str) -> Data:
    return {"kind": "ServiceAccount", "namespace": "kube-system", "name": name}


CLUSTER_BINDINGS: Mapping[str, Sequence[Data]] = {
    "cluster-admin": (_group(MASTERS),),
    "system:monitoring": (_group("system:monitoring"),),
    "system:discovery": (_group(AUTHENTICATED),),
    "system:basic-user": (_group(AUTHENTICATED),),
    "system:public-info-viewer": (_group(AUTHENTICATED), _group(UNAUTHENTICATED)),
    "system:node": (_group(NODES),),
    _SCHEDULER: (_user(_SCHEDULER),),
    "system:volume-scheduler": (_user(_SCHEDULER),),
    _MANAGER: (_user(_MANAGER),),
    # All controllers run as one user unless each uses its own service account.
    **{f"{_CONTROLLER}{name}": (_account(name), _user(_MANAGER)) for name in CONTROLLER_RULES},
}
"""The subjects of the ClusterRoleBinding for the ClusterRole of the same name."""

_LOCK = _rule((*READ, "create", "update"), COORDINATION, "leases")
LOCKS: Mapping[str, tuple[Sequence[Data], Sequence[Data]]] = {
    "system::leader-locking-kube-controller-manager": (
        (_LOCK,), (_user(_MANAGER), _account("kube-controller-manager")),
    ),
    "system::leader-locking-kube-scheduler": ((_LOCK,), (_user(_SCHEDULER), _account("kube-scheduler"))),
}  # fmt: skip
"""Roles in the namespace kube-system: their rules and their subjects."""


def _defaults() -> Iterator[Data]:
    for name, rules in CLUSTER_ROLE_RULES.items():
        yield {**_object("ClusterRole", name), "rules": [*rules]}
    for name, (gathered_by, rules) in AGGREGATED.items():
        yield {
            **_object("ClusterRole", name, {f"{_AGGREGATE}{gathered_by}": "true"} if gathered_by else {}),
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]},
            "rules": [],
        }
        own = _object("ClusterRole", f"system:aggregate-to-{name}", {f"{_AGGREGATE}{name}": "true"})
        yield {**own, "rules": [*rules]}
    for name, subjects in CLUSTER_BINDINGS.items():
        yield _bound(_object("ClusterRoleBinding", name), "ClusterRole", subjects)
    for name, (rules, subjects) in LOCKS.items():
        yield {**_object("Role", name, namespace="kube-system"), "rules": [*rules]}
        yield _bound(_object("RoleBinding", name, namespace="kube-system"), "Role", subjects)


def _object(kind: str, name: str, labels: Mapping[str, str] | None = None, namespace: str = "") -> Data:
    metadata: Data = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
        "annotations": {f"{RBAC_GROUP}/autoupdate": "true"},
    }
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": metadata}


def _bound(binding: Data, role_kind: str, subjects: Sequence[Data]) -> Data:
    role = {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": binding["metadata"]["name"]}
    return {**binding, "roleRef": role, "subjects": [*subjects]}


DEFAULTS = tuple(_defaults())
"""All default roles and bindings as objects."""
