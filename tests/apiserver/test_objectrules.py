from __future__ import annotations

import copy
from typing import Any

import pytest

from moorage.api import kinds
from moorage.apiserver.defaults import apply_defaults, give_cluster_ip
from moorage.apiserver.metadata import prepare_create
from moorage.apiserver.objectrules import object_errors, object_status_errors
from moorage.apiserver.schema import read

NOW, UID = "2026-01-01T00:00:00Z", "u"
RBAC = "rbac.authorization.k8s.io/v1"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "a:1"}]},
}
SELECTOR = {"matchLabels": {"app": "a"}}
WORKLOAD = {"selector": SELECTOR, "template": TEMPLATE}
ONCE: dict[str, Any] = {"metadata": {"labels": {"app": "a"}}, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME_SPEC = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}
CSI_SPEC: dict[str, Any] = {
    "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "1Gi"},
    "csi": {"driver": "d", "volumeHandle": "h"},
}
ATTACHED = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
SLICE = {"driver": "d", "pool": {"name": "p"}, "nodeName": "n"}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
CLASS = {"provisioner": "example.com/disks"}
IMMUTABLE = "field is immutable"


def made(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    row = kinds.row(api_version, kind)
    obj = copy.deepcopy({"metadata": {"name": "a"}, **fields})
    assert read(row, obj) == []
    apply_defaults(row, obj)
    prepare_create(row, obj, "default" if row.namespaced else "", NOW, UID)
    if kind == "Service":
        give_cluster_ip(obj, lambda: "10.96.0.1")
    return obj


def said(api_version: str, kind: str, **fields: Any) -> list[str]:
    return [str(error) for error in object_errors(kinds.row(api_version, kind), made(api_version, kind, **fields))]


NEW: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("apps/v1", "Deployment", {"spec": WORKLOAD}, []),
    ("apps/v1", "Deployment", {}, [
        "spec.selector: Required value",
        "spec.template.spec.containers: Required value"]),
    ("apps/v1", "Deployment", {"spec": {**WORKLOAD, "replicas": -1}}, [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
    ("apps/v1", "Deployment", {"spec": {"selector": {}, "template": TEMPLATE}}, [
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
    ("apps/v1", "Deployment", {"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": TEMPLATE}}, [
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`']),
    ("apps/v1", "Deployment", {"spec": {**WORKLOAD, "strategy": {"type": "Recreate", "rollingUpdate": {}}}}, [
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
    ("apps/v1", "Deployment", {"spec": {**WORKLOAD, "strategy": {"type": "Now"}}}, [
        'spec.strategy: Unsupported value: {"type":"Now"}: supported values: "Recreate", "RollingUpdate"']),
    ("apps/v1", "Deployment", {"spec": {**WORKLOAD, "strategy": {"rollingUpdate": {
        "maxSurge": 0, "maxUnavailable": "0%"}}}}, [
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0']),
    ("apps/v1", "Deployment", {"spec": {**WORKLOAD, "strategy": {"rollingUpdate": {
        "maxSurge": "lots", "maxUnavailable": "101%"}}}}, [
        'spec.strategy.rollingUpdate.maxSurge: Invalid value: "lots": a valid percent string must be a numeric string '
        "followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
    ("apps/v1", "Deployment", {"spec": {**WORKLOAD, "minReadySeconds": 5, "progressDeadlineSeconds": 5}}, [
        "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"]),
    ("apps/v1", "Deployment", {"spec": {"selector": SELECTOR, "template": ONCE}}, [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
    ("apps/v1", "ReplicaSet", {"spec": {"selector": SELECTOR, "template": {**TEMPLATE, "spec": {
        **TEMPLATE["spec"], "activeDeadlineSeconds": 5}}}}, [
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"]),
    ("apps/v1", "DaemonSet", {"spec": {**WORKLOAD, "updateStrategy": {"rollingUpdate": {
        "maxSurge": 1, "maxUnavailable": 1}}}}, [
        "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is "
        "non-zero"]),
    ("apps/v1", "StatefulSet", {"spec": {**WORKLOAD, "podManagementPolicy": "Any", "serviceName": "A"}}, [
        "spec.podManagementPolicy: Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'",
        'spec.serviceName: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric '
        "characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
        "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]),
    ("apps/v1", "StatefulSet", {"spec": {"selector": SELECTOR, "volumeClaimTemplates": [
        {"metadata": {"name": "data"}, "spec": CLAIM_SPEC}], "template": {"metadata": TEMPLATE["metadata"], "spec": {
            "containers": [{"name": "c", "image": "a", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}}}}, []),
    ("batch/v1", "Job", {"spec": {"template": ONCE}}, []),
    ("batch/v1", "Job", {"spec": {"template": TEMPLATE}}, [
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
    ("batch/v1", "Job", {"spec": {"template": ONCE, "completionMode": "Indexed", "parallelism": 1}}, [
        "spec.completions: Required value: when completion mode is Indexed"]),
    ("batch/v1", "Job", {"spec": {"template": ONCE, "backoffLimitPerIndex": 1, "maxFailedIndexes": 1}}, [
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode"]),
    ("batch/v1", "Job", {"spec": {"template": {**ONCE, "metadata": {"labels": {"controller-uid": "x"}}}}}, [
        'spec.template.metadata.labels[controller-uid]: Invalid value: {"controller-uid":"x","job-name":"a",'
        '"batch.kubernetes.io/job-name":"a","batch.kubernetes.io/controller-uid":"u"}: must be \'u\'']),
    ("batch/v1", "CronJob", {"spec": {"schedule": "* * * *", "jobTemplate": {"spec": {"template": ONCE}}}}, [
        'spec.schedule: Invalid value: "* * * *": expected exactly 5 fields, found 4: [* * * *]']),
    ("batch/v1", "CronJob", {"spec": {"schedule": "TZ=UTC @daily", "concurrencyPolicy": "Race", "timeZone": "Mars/Base",
                                      "jobTemplate": {"spec": {"template": ONCE, "manualSelector": True}}}}, [
        'spec.schedule: Invalid value: "TZ=UTC @daily": cannot use TZ or CRON_TZ in schedule, use timeZone field '
        "instead",
        'spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base',
        'spec.concurrencyPolicy: Unsupported value: "Race": supported values: "Allow", "Forbid", "Replace"',
        'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"']),
    ("batch/v1", "CronJob", {"metadata": {"name": "a" * 53}, "spec": {
        "schedule": "@daily", "timeZone": "Europe/Berlin", "jobTemplate": {"spec": {"template": ONCE}}}}, [
        f'metadata.name: Invalid value: "{"a" * 53}": must be no more than 52 characters']),
    ("v1", "PersistentVolumeClaim", {"spec": CLAIM_SPEC}, []),
    ("v1", "PersistentVolumeClaim", {}, [
        "spec.accessModes: Required value: at least 1 access mode is required",
        "spec.resources[storage]: Required value"]),
    ("v1", "PersistentVolumeClaim", {"spec": {**CLAIM_SPEC, "accessModes": ["ReadWriteOncePod", "Sometimes",
                                                                            "ReadOnlyMany"]}}, [
        'spec.accessModes: Unsupported value: "Sometimes": supported values: "ReadOnlyMany", "ReadWriteMany", '
        '"ReadWriteOnce", "ReadWriteOncePod"',
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"]),
    ("v1", "PersistentVolumeClaim", {"spec": {**CLAIM_SPEC, "resources": {"requests": {"storage": "0"}}}}, [
        'spec.resources[storage]: Invalid value: "0": must be greater than zero']),
    ("v1", "PersistentVolume", {"spec": VOLUME_SPEC}, []),
    ("v1", "PersistentVolume", {}, [
        "spec.accessModes: Required value",
        "spec.capacity: Required value",
        'spec.capacity: Unsupported value: {}: supported values: "storage"',
        "spec: Required value: must specify a volume type"]),
    ("v1", "PersistentVolume", {"spec": {**VOLUME_SPEC, "nfs": {}, "persistentVolumeReclaimPolicy": "Burn"}}, [
        'spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Recycle", '
        '"Retain"',
        "spec.nfs: Forbidden: may not specify more than 1 volume type"]),
    ("v1", "PersistentVolume", {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"},
                                         "local": {"path": "/d"}}}, [
        "spec.nodeAffinity: Required value: Local volume requires node affinity"]),
    ("storage.k8s.io/v1", "StorageClass", CLASS, []),
    ("storage.k8s.io/v1", "StorageClass", {"reclaimPolicy": "Recycle", "volumeBindingMode": "Late"}, [
        "provisioner: Required value",
        'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        'volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer"']),
    ("v1", "ConfigMap", {"data": {"a b": "", "..x": "", "k": ""}, "binaryData": {"k": "YQ=="}}, [
        'data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, \'-\', \'_\' or '
        "'.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        "data[..x]: Invalid value: \"..x\": must not start with '..'",
        'data[k]: Invalid value: "k": duplicate of key present in binaryData']),
    ("v1", "ConfigMap", {"data": {"k": "x" * (1024 * 1024 + 1)}}, [
        ": Too long: may not be more than 1048576 bytes"]),
    ("v1", "Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, ["data[tls.key]: Required value"]),
    ("v1", "Secret", {"type": "kubernetes.io/basic-auth"}, [
        "data[username]: Required value", "data[password]: Required value"]),
    ("v1", "Secret", {"type": "kubernetes.io/service-account-token"}, [
        "metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
    ("v1", "Service", {"spec": {"ports": [{"port": 80}]}}, []),
    ("v1", "Service", {"spec": {"clusterIP": "None"}}, []),
    ("v1", "Service", {}, ["spec.ports: Required value"]),
    ("v1", "Service", {"spec": {"ports": [{"port": 80}, {"port": 80, "name": "a"}]}}, [
        "spec.ports[0].name: Required value",
        'spec.ports[1]: Duplicate value: {"protocol":"TCP","port":80}']),
    ("v1", "Service", {"spec": {"ports": [{"port": 0, "targetPort": "A", "nodePort": 30000}], "type": "ClusterIP"}}, [
        "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        'spec.ports[0].targetPort: Invalid value: "A": must contain only alpha-numeric characters (a-z, 0-9), and '
        "hyphens (-)",
        'spec.ports[0].targetPort: Invalid value: "A": must contain at least one letter (a-z)',
        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]),
    ("v1", "Service", {"spec": {"ports": [{"port": 1}], "type": "Magic", "sessionAffinity": "Friends"}}, [
        'spec.sessionAffinity: Unsupported value: "Friends": supported values: "ClientIP", "None"',
        'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
        '"NodePort"']),
    ("v1", "Service", {"spec": {"type": "ExternalName"}}, ["spec.externalName: Required value"]),
    ("v1", "Service", {"spec": {"ports": [{"port": 1}], "externalTrafficPolicy": "Local"}}, [
        'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services']),
    ("v1", "Namespace", {"spec": {"finalizers": ["mine"]}}, [
        'spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified']),
    ("v1", "Node", {"status": {"capacity": {"cpu": "-1", "pods": "1500m"}}}, [
        'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.capacity.pods: Invalid value: "1500m": must be an integer',
        'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.allocatable.pods: Invalid value: "1500m": must be an integer']),
    ("v1", "Event", {"involvedObject": {"namespace": "other"}}, [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace']),
    ("v1", "Event", {"involvedObject": {}}, []),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "maxUnavailable": "200%"}}, [
        'spec: Invalid value: {"minAvailable":1,"maxUnavailable":"200%"}: minAvailable and maxUnavailable cannot be '
        "both set",
        'spec.maxUnavailable: Invalid value: "200%": must not be greater than 100%']),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1000000001}, [
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]),
    ("scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "system-mine"}}, [
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
        "system-mine is not a known system priority class"]),
    ("scheduling.k8s.io/v1", "PriorityClass",
     {"metadata": {"name": "system-node-critical"}, "value": 2000001000}, []),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}, [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]),
    (RBAC, "Role", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, {}]}, [
        "rules[1].verbs: Required value: verbs must contain at least one value",
        "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[1].resources: Required value: resource rules must supply at least one resource"]),
    (RBAC, "Role", {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}, [
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs']),
    (RBAC, "ClusterRole", {"aggregationRule": {}}, [
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
        "aggregationRule is non-nil"]),
    (RBAC, "RoleBinding", {"roleRef": {"kind": "Rule"}, "subjects": [{"kind": "Robot"}]}, [
        'roleRef.kind: Unsupported value: "Rule": supported values: "Role", "ClusterRole"',
        "roleRef.name: Required value",
        "subjects[0].name: Required value",
        'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"']),
    (RBAC, "ClusterRoleBinding", {"roleRef": {"kind": "Role", "name": "a"},
                                  "subjects": [{"kind": "ServiceAccount", "name": "s"}]}, [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
        "subjects[0].namespace: Required value"]),
    ("resource.k8s.io/v1", "ResourceClaim", {"spec": {"devices": {"requests": [{"name": "a"}, {"name": "a", "exactly": {
        "allocationMode": "All", "count": 2, "selectors": [{}]}}], "constraints": [{"requests": ["b"]}]}}}, [
        'spec.devices.requests[1]: Duplicate value: "a"',
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
        "spec.devices.requests[1].exactly.deviceClassName: Required value",
        "spec.devices.requests[1].exactly.selectors[0].cel: Required value",
        "spec.devices.requests[1].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
        'spec.devices.constraints[0].requests[0]: Invalid value: "b": must be the name of a request in the claim or '
        "the name of a request and a subrequest separated by '/'"]),
    ("resource.k8s.io/v1", "ResourceSlice", {"spec": {"devices": [{"name": "a"}, {"name": "a"}]}}, [
        "spec.driver: Required value",
        "spec.pool.name: Required value",
        "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is "
        "required",
        'spec.devices[1]: Duplicate value: "a"']),
    ("apps/v1", "ControllerRevision", {"revision": -1}, [
        "revision: Invalid value: -1: must be greater than or equal to 0",
        "data: Required value: data is mandatory"]),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n", "source": {}}}, [
        "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
    ("storage.k8s.io/v1", "CSIDriver", {"spec": {"fsGroupPolicy": "Maybe", "volumeLifecycleModes": ["Eternal"]}}, [
        'spec.fsGroupPolicy: Unsupported value: "Maybe": supported values: "File", "None", "ReadWriteOnceWithFSType"',
        'spec.volumeLifecycleModes: Unsupported value: "Eternal": supported values: "Persistent", "Ephemeral"']),
    ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": [{"name": "d", "nodeID": "n"}, {"name": "d"}]}}, [
        'spec.drivers[1].name: Invalid value: "d": must be unique',
        "spec.drivers[1].nodeID: Required value"]),
    ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "a", "capacity": "-1"}, [
        'capacity: Invalid value: "-1": must be greater than or equal to 0']),
    ("v1", "ServiceAccount", {}, []),
    ("apps/v1", "DaemonSet", {"spec": {**WORKLOAD, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}}, [
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
    ("apps/v1", "DaemonSet", {"spec": {"template": TEMPLATE, "updateStrategy": {"type": "Never"}}}, [
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
        'spec.updateStrategy: Unsupported value: {"type":"Never"}: supported values: "RollingUpdate", "OnDelete"']),
    ("apps/v1", "StatefulSet", {"spec": {
        **WORKLOAD, "updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}, "ordinals": {"start": -1},
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Burn"}}}, [
        "spec.updateStrategy.rollingUpdate: Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'",
        'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Burn": supported values: "Retain", '
        '"Delete"',
        "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"]),
    ("apps/v1", "StatefulSet", {"spec": {
        **WORKLOAD, "updateStrategy": {"rollingUpdate": {"partition": -1, "maxUnavailable": 0}}}}, [
        "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"]),
    ("apps/v1", "StatefulSet", {"spec": {**WORKLOAD, "updateStrategy": {"type": "Never"}}}, [
        "spec.updateStrategy: Invalid value: {\"type\":\"Never\"}: must be 'RollingUpdate' or 'OnDelete'"]),
    ("apps/v1", "ReplicaSet", {"spec": {"template": TEMPLATE, "selector": {"matchExpressions": [
        {"key": "app", "operator": "In", "values": ["a"]}, {"key": "tier", "operator": "NotIn", "values": ["b"]},
        {"key": "app", "operator": "Exists"}, {"key": "tier", "operator": "DoesNotExist"}]}}}, []),
    ("apps/v1", "ReplicaSet", {"spec": {"template": TEMPLATE, "selector": {
        "matchExpressions": [{"key": "app", "operator": "Like", "values": ["x y"]}], "matchLabels": {"app": "a"}}}}, [
        'spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
        'spec.selector.matchExpressions[0].values[0]: Invalid value: "x y": a valid label must be an empty string or '
        "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
        "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`']),
    ("batch/v1", "Job", {"spec": {"template": ONCE, "manualSelector": True}}, ["spec.selector: Required value"]),
    ("batch/v1", "Job", {"spec": {"template": ONCE, "selector": {"matchLabels": {"a": "b"}}}}, [
        'spec.selector: Invalid value: {"matchLabels":{"a":"b","batch.kubernetes.io/controller-uid":"u"}}: `selector` '
        "not auto-generated",
        'spec.template.metadata.labels: Invalid value: {"app":"a","job-name":"a","batch.kubernetes.io/job-name":"a",'
        '"controller-uid":"u","batch.kubernetes.io/controller-uid":"u"}: `selector` does not match template `labels`']),
    ("batch/v1", "Job", {"metadata": {"name": "a" * 62}, "spec": {
        "template": ONCE, "completionMode": "Indexed", "completions": 10, "parallelism": 100001,
        "backoffLimitPerIndex": 1, "maxFailedIndexes": 100001}}, [
        "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
        "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to completions",
        "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
        f'metadata.name: Invalid value: "{"a" * 62}": will not able to create pod with invalid DNS label: {"a" * 62}-9',
    ]),
    ("batch/v1", "Job", {"spec": {"completionMode": "Odd", "podReplacementPolicy": "Odd", "maxFailedIndexes": 1,
                                  "template": {**ONCE, "spec": {**ONCE["spec"], "restartPolicy": "Odd"}}}}, [
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
        'spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"',
        'spec.podReplacementPolicy: Unsupported value: "Odd": supported values: "Failed", "TerminatingOrFailed"',
        'spec.template.spec.restartPolicy: Unsupported value: "Odd": supported values: "Always", "OnFailure", "Never"',
        'spec.template.spec.restartPolicy: Unsupported value: "Odd": supported values: "OnFailure", "Never"']),
    ("batch/v1", "Job", {"spec": {"podFailurePolicy": {"rules": [{}, {"action": "Cry"}]}, "template": {
        **ONCE, "spec": {**ONCE["spec"], "restartPolicy": "OnFailure"}}}}, [
        "spec.podFailurePolicy.rules[0].action: Required value",
        'spec.podFailurePolicy.rules[1].action: Unsupported value: "Cry": supported values: "Count", "FailIndex", '
        '"FailJob", "Ignore"',
        'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy '
        "is specified"]),
    ("batch/v1", "Job", {"spec": {"podFailurePolicy": {"rules": [{"action": "Ignore"}] * 21}, "template": ONCE}}, [
        "spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"]),
    ("batch/v1", "CronJob", {"spec": {"timeZone": "", "jobTemplate": {"spec": {"template": ONCE, "selector": {}}}}}, [
        "spec.schedule: Required value",
        'spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string',
        "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated"]),
    ("batch/v1", "CronJob", {"spec": {"schedule": "@daily", "timeZone": "Local",
                                      "jobTemplate": {"spec": {"template": ONCE}}}}, [
        'spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in '
        "https://www.iana.org/time-zones"]),
    ("v1", "PersistentVolume", {"spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "csi": {}, "volumeMode": "Tape",
        "storageClassName": "A"}}, [
        "spec.csi.driver: Required value",
        "spec.csi.volumeHandle: Required value",
        f'spec.storageClassName: Invalid value: "A": {SUBDOMAIN}',
        'spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"']),
    ("v1", "PersistentVolume", {"spec": {**VOLUME_SPEC, "hostPath": {"path": "/"},
                                         "persistentVolumeReclaimPolicy": "Recycle"}}, [
        "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"]),
    ("storage.k8s.io/v1", "StorageClass", {**CLASS, "parameters": {"": "x"}}, [
        'parameters: Invalid value: "": field can not be empty.']),
    ("storage.k8s.io/v1", "StorageClass", {**CLASS, "parameters": {str(number): "" for number in range(513)}}, [
        "parameters: Too long: may not be more than 512 bytes"]),
    ("storage.k8s.io/v1", "StorageClass", {**CLASS, "parameters": {"a": "x" * 2**18}}, [
        "parameters: Too long: may not be more than 262144 bytes"]),
    ("v1", "Secret", {"data": {"a": "YWFh" * 400000}}, ["data: Too long: may not be more than 1048576 bytes"]),
    ("v1", "Secret", {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}}, []),
    ("v1", "Secret", {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}, [
        "data[ssh-privatekey]: Required value"]),
    ("v1", "Service", {"spec": {"ports": [{"port": 1}], "type": "NodePort", "clusterIP": "None",
                                "allocateLoadBalancerNodePorts": True, "loadBalancerSourceRanges": ["10.0.0.0/8"]}}, [
        "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
        "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"]),
    ("v1", "Service", {"spec": {"type": "ExternalName", "externalName": "A", "ipFamilies": ["IPv4"]}}, [
        "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
        f'spec.externalName: Invalid value: "A": {SUBDOMAIN}']),
    ("v1", "Service", {"spec": {"type": "NodePort", "ports": [
        {"port": 1, "name": "a", "nodePort": 30000, "appProtocol": "a b"},
        {"port": 2, "name": "a", "nodePort": 30000}]}}, [
        'spec.ports[0].appProtocol: Invalid value: "a b": name part must consist of alphanumeric characters, \'-\', '
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        'spec.ports[1].name: Duplicate value: "a"',
        "spec.ports[1].nodePort: Duplicate value: 30000"]),
    ("v1", "Service", {"spec": {"ports": [{"port": 1}], "sessionAffinity": "ClientIP", "sessionAffinityConfig": {
        "clientIP": {"timeoutSeconds": 0}}, "internalTrafficPolicy": "Odd", "trafficDistribution": "Odd",
        "externalIPs": ["x"], "externalTrafficPolicy": "Odd"}}, [
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than "
        "86400",
        'spec.externalTrafficPolicy: Unsupported value: "Odd": supported values: "Cluster", "Local"',
        'spec.internalTrafficPolicy: Unsupported value: "Odd": supported values: "Cluster", "Local"',
        'spec.externalIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'spec.trafficDistribution: Unsupported value: "Odd": supported values: "PreferClose", "PreferSameZone", '
        '"PreferSameNode"']),
    ("v1", "Service", {"spec": {"ports": [{"port": 1}], "clusterIP": "10.0.0.1", "clusterIPs": [
        "10.0.0.2", "None", "x"], "ipFamilies": ["IPv4", "IPv4", "IPv5"], "ipFamilyPolicy": "Odd"}}, [
        'spec.clusterIPs: Invalid value: ["10.0.0.2","None","x"]: first value must match `clusterIP`',
        'spec.ipFamilies[1]: Duplicate value: "IPv4"',
        'spec.ipFamilies[2]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"',
        'spec.ipFamilyPolicy: Unsupported value: "Odd": supported values: "PreferDualStack", "RequireDualStack", '
        '"SingleStack"',
        "spec.clusterIPs: Invalid value: [\"10.0.0.2\",\"None\",\"x\"]: 'None' must be the first and only value",
        'spec.clusterIPs[2]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'spec.clusterIPs: Invalid value: ["10.0.0.2","None","x"]: may only hold up to 2 values']),
    ("v1", "Event", {"eventTime": NOW, "message": "m" * 1025, "action": "a" * 129}, [
        "reportingComponent: Required value",
        "reportingInstance: Required value",
        'action: Invalid value: "": can have at most 128 characters',
        "reason: Required value",
        'message: Invalid value: "": can have at most 1024 characters']),
    ("apps/v1", "ControllerRevision", {"data": [1]}, ["data: Required value: data must be a valid JSON object"]),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"unhealthyPodEvictionPolicy": "Odd"}}, [
        'spec.unhealthyPodEvictionPolicy: Unsupported value: "Odd": supported values: "AlwaysAllow", '
        '"IfHealthyBudget"']),
    ("scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "system-node-critical"}, "value": 1}, [
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
        "value of system-node-critical PriorityClass must be 2000001000"]),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"preferredHolder": "a"}}, [
        "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]),
    (RBAC, "ClusterRole", {"rules": [{"nonResourceURLs": ["/x"], "resources": ["pods"], "verbs": ["get"]}],
                           "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}, [
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and '
        "non-resource URLs"]),
    (RBAC, "RoleBinding", {"roleRef": {"kind": "Role", "name": "a", "apiGroup": "x"}, "subjects": [
        {"kind": "ServiceAccount", "name": "A", "apiGroup": "x"}, {"kind": "User", "name": "u", "apiGroup": "x"}]}, [
        'roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"',
        f'subjects[0].name: Invalid value: "A": {SUBDOMAIN}',
        'subjects[0].apiGroup: Unsupported value: "x": supported values: ""',
        'subjects[1].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"']),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", {"spec": {"spec": {"devices": {"requests": [
        {"firstAvailable": [{"name": "A", "deviceClassName": "c", "allocationMode": "Some"}, {
            "name": "b", "deviceClassName": "C", "count": -1, "selectors": [
                {"cel": {}}, {"cel": {"expression": "x" * 10241}}]}]},
        {"name": "both", "exactly": {}, "firstAvailable": [{}]}]}}}}, [
        "spec.spec.devices.requests[0].name: Required value",
        f'spec.spec.devices.requests[0].firstAvailable[0].name: Invalid value: "A": {LABEL}',
        'spec.spec.devices.requests[0].firstAvailable[0].allocationMode: Unsupported value: "Some": supported values: '
        '"All", "ExactCount"',
        f'spec.spec.devices.requests[0].firstAvailable[1].deviceClassName: Invalid value: "C": {SUBDOMAIN}',
        "spec.spec.devices.requests[0].firstAvailable[1].selectors[0].cel.expression: Required value",
        "spec.spec.devices.requests[0].firstAvailable[1].selectors[1].cel.expression: Too long: may not be more than "
        "10240 bytes",
        "spec.spec.devices.requests[0].firstAvailable[1].count: Invalid value: -1: must be greater than zero",
        "spec.spec.devices.requests[1]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, "
        "but multiple fields are set"]),
    ("resource.k8s.io/v1", "ResourceClaim", {"spec": {"devices": {"requests": [
        {"name": f"r{number}", "exactly": {"deviceClassName": "c"}} for number in range(33)]}}}, [
        "spec.devices.requests: Too many: 33: must have at most 32 items"]),
    ("resource.k8s.io/v1", "ResourceClaim", {"spec": {"devices": {"requests": [{"name": "a", "firstAvailable": [
        {"name": f"w{number}", "deviceClassName": "c"} for number in range(9)]}]}}}, [
        "spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items"]),
    ("resource.k8s.io/v1", "DeviceClass", {"spec": {"selectors": [{"cel": {"expression": "true"}}] * 33}}, [
        "spec.selectors: Too many: 33: must have at most 32 items"]),
    ("resource.k8s.io/v1", "ResourceSlice", {"spec": {
        "driver": "d", "pool": {"name": "p"}, "nodeName": "n", "allNodes": True,
        "devices": [{"name": f"d{number}"} for number in range(129)]}}, [
        'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, '
        "`perDeviceNodeSelection` is required, but multiple fields are set",
        "spec.devices: Too many: 129: must have at most 128 items"]),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n", "source": {
        "persistentVolumeName": "p", "inlineVolumeSpec": {}}}}, [
        "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n", "source": {
        "persistentVolumeName": ""}}}, [
        "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName"]),
]  # fmt: skip


@pytest.mark.parametrize(("api_version", "kind", "fields", "errors"), NEW)
def test_a_wrong_object_is_refused_with_the_right_message(
    api_version: str, kind: str, fields: dict[str, Any], errors: list[str]
) -> None:
    assert said(api_version, kind, **fields) == errors


def changes(api_version: str, kind: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before = made(api_version, kind, **old)
    after = made(api_version, kind, **new)
    after["metadata"] |= {"creationTimestamp": NOW}
    after["status"] = before.get("status", {})
    return [str(error) for error in object_errors(kinds.row(api_version, kind), after, before)]


OTHER_LABELS = {"metadata": {"labels": {"app": "a", "tier": "b"}}, "spec": TEMPLATE["spec"]}
OTHER_SELECTOR = {"matchLabels": {"tier": "b"}}
CHANGED: list[tuple[str, str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("apps/v1", "Deployment", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "replicas": 5}}, []),
    ("apps/v1", "Deployment", {"spec": WORKLOAD}, {"spec": {
        "selector": {**SELECTOR, "matchExpressions": []}, "template": TEMPLATE}}, []),
    ("apps/v1", "Deployment", {"spec": {"selector": SELECTOR, "template": OTHER_LABELS}},
     {"spec": {"selector": OTHER_SELECTOR, "template": OTHER_LABELS}}, [
         f'spec.selector: Invalid value: {{"matchLabels":{{"tier":"b"}}}}: {IMMUTABLE}']),
    ("apps/v1", "StatefulSet", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "replicas": 5}}, []),
    ("apps/v1", "StatefulSet", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "serviceName": "s"}}, [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
        "forbidden"]),
    ("batch/v1", "Job", {"spec": {"template": ONCE}}, {"spec": {"template": ONCE, "parallelism": 2, "completions": 1}},
     []),
    ("batch/v1", "Job", {"spec": {"template": ONCE}}, {"spec": {"template": ONCE, "completions": 5}}, [
        f"spec.completions: Invalid value: 5: {IMMUTABLE}"]),
    ("batch/v1", "Job", {"spec": {"template": ONCE, "suspend": True}}, {"spec": {"suspend": True, "template": {
        **ONCE, "spec": {**ONCE["spec"], "nodeSelector": {"a": "b"}}}}}, []),
    ("v1", "PersistentVolumeClaim", {"spec": CLAIM_SPEC}, {"spec": {**CLAIM_SPEC, "volumeName": "v"}}, []),
    ("v1", "PersistentVolumeClaim", {"spec": CLAIM_SPEC}, {"spec": {**CLAIM_SPEC, "storageClassName": "fast"}}, []),
    ("v1", "PersistentVolumeClaim", {"spec": {**CLAIM_SPEC, "storageClassName": "slow"}},
     {"spec": {**CLAIM_SPEC, "storageClassName": "fast"}}, [
         "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
         'for bound claims\n- spec.storageClassName: "slow"\n+ spec.storageClassName: "fast"']),
    ("v1", "PersistentVolume", {"spec": VOLUME_SPEC}, {"spec": {**VOLUME_SPEC, "hostPath": {"path": "/b"}}}, [
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"
        '- spec.hostPath.path: "/a"\n+ spec.hostPath.path: "/b"']),
    ("v1", "PersistentVolume", {"spec": VOLUME_SPEC}, {"spec": {**VOLUME_SPEC, "capacity": {"storage": "2Gi"}}}, []),
    ("storage.k8s.io/v1", "StorageClass", CLASS, {"provisioner": "other", "parameters": {"a": "b"}}, [
        f'parameters: Invalid value: {{"a":"b"}}: {IMMUTABLE}',
        f'provisioner: Invalid value: "other": {IMMUTABLE}']),
    ("v1", "ConfigMap", {"immutable": True, "data": {"a": "b"}}, {"data": {"a": "c"}}, [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set"]),
    ("v1", "Secret", {}, {"type": "example.com/other"}, [f'type: Invalid value: "example.com/other": {IMMUTABLE}']),
    ("v1", "Service", {"spec": {"ports": [{"port": 1}]}},
     {"spec": {"ports": [{"port": 1}], "clusterIP": "10.96.0.2", "clusterIPs": ["10.96.0.2"]}}, [
         'spec.clusterIPs[0]: Invalid value: ["10.96.0.2"]: may not change once set']),
    ("v1", "Node", {"spec": {"providerID": "a", "podCIDR": "10.0.0.0/24"}}, {"spec": {"providerID": "b"}}, [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid']),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1}, {"value": 2, "preemptionPolicy": "Never"}, [
        "value: Forbidden: may not be changed in an update.",
        f'preemptionPolicy: Invalid value: "Never": {IMMUTABLE}']),
    (RBAC, "RoleBinding", {"roleRef": {"kind": "Role", "name": "a"}}, {"roleRef": {"kind": "Role", "name": "b"}}, [
        'roleRef: Invalid value: {"kind":"Role","name":"b","apiGroup":"rbac.authorization.k8s.io"}: cannot change '
        "roleRef"]),
    ("resource.k8s.io/v1", "ResourceClaim", {"spec": {}}, {"spec": {"devices": {"requests": [{"name": "a"}]}}}, [
        f'spec: Invalid value: {{"devices":{{"requests":[{{"name":"a"}}]}}}}: {IMMUTABLE}']),
    ("resource.k8s.io/v1", "ResourceClaim", {"spec": {}}, {"spec": {"devices": {"requests": []}}}, []),
    ("batch/v1", "Job", {"spec": {"template": ONCE, "completionMode": "Indexed", "completions": 2}},
     {"spec": {"template": ONCE, "completionMode": "Indexed", "completions": 3}}, [
         "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"]),
    ("batch/v1", "Job", {"spec": {"template": ONCE}}, {"spec": {"template": ONCE, "managedBy": "example.com/x"}}, [
        f'spec.managedBy: Invalid value: "example.com/x": {IMMUTABLE}']),
    ("batch/v1", "CronJob", {"spec": {"schedule": "TZ=UTC @daily", "jobTemplate": {"spec": {"template": ONCE}}}},
     {"spec": {"schedule": "TZ=UTC @weekly", "timeZone": "UTC", "jobTemplate": {"spec": {"template": ONCE}}}}, [
         'spec.schedule: Invalid value: "TZ=UTC @weekly": cannot use both timeZone field and TZ or CRON_TZ in '
         "schedule"]),
    ("v1", "PersistentVolume", {"spec": {**CSI_SPEC, "volumeAttributesClassName": "a"}},
     {"spec": {**CSI_SPEC, "csi": {**CSI_SPEC["csi"], "controllerExpandSecretRef": {"name": "s"}}}}, [
         "spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"]),
    ("storage.k8s.io/v1", "CSIDriver", {"spec": {}}, {"spec": {"attachRequired": False, "volumeLifecycleModes": [
        "Ephemeral"]}}, [
        f"spec.attachedRequired: Invalid value: false: {IMMUTABLE}",
        f'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: {IMMUTABLE}']),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": ATTACHED}, {"spec": {**ATTACHED, "nodeName": "m"}}, [
        'spec: Invalid value: {"attacher":"a","nodeName":"m","source":{"persistentVolumeName":"p"}}: '
        f"{IMMUTABLE}"]),
    ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "a"}, {"storageClassName": "b"}, [
        f'storageClassName: Invalid value: "b": {IMMUTABLE}']),
    ("v1", "Service", {"spec": {"ports": [{"port": 1}]}}, {"spec": {"type": "ExternalName", "externalName": "a"}}, []),
    ("resource.k8s.io/v1", "ResourceSlice", {"spec": SLICE}, {"spec": {**SLICE, "driver": "e", "nodeName": "m"}}, [
        f'spec.driver: Invalid value: "e": {IMMUTABLE}', f'spec.nodeName: Invalid value: "m": {IMMUTABLE}']),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", {"spec": {}}, {"spec": {"metadata": {"labels": {"a": "b"}}}}, [
        f'spec: Invalid value: {{"metadata":{{"labels":{{"a":"b"}}}}}}: {IMMUTABLE}']),
    ("apps/v1", "ControllerRevision", {"data": {"a": 1}}, {"data": {"a": 2}}, [
        f'data: Invalid value: {{"a":2}}: {IMMUTABLE}']),
]  # fmt: skip


@pytest.mark.parametrize(("api_version", "kind", "old", "new", "errors"), CHANGED)
def test_what_may_not_change_is_refused(
    api_version: str, kind: str, old: dict[str, Any], new: dict[str, Any], errors: list[str]
) -> None:
    assert changes(api_version, kind, old, new) == errors


def test_a_template_of_a_job_that_runs_stays() -> None:
    moved = {**ONCE, "spec": {**ONCE["spec"], "nodeSelector": {"a": "b"}}}
    [error] = changes("batch/v1", "Job", {"spec": {"template": ONCE}}, {"spec": {"template": moved}})
    assert error.startswith("spec.template: Invalid value: {")
    assert error.endswith(IMMUTABLE)


def test_a_bound_claim_may_grow_but_not_shrink_below_what_it_has() -> None:
    kind = kinds.row("v1", "PersistentVolumeClaim")
    old = made("v1", "PersistentVolumeClaim", spec={**CLAIM_SPEC, "resources": {"requests": {"storage": "5Gi"}}})
    old["status"] = {"phase": "Bound", "capacity": {"storage": "3Gi"}}

    def resized(size: str) -> list[str]:
        new = copy.deepcopy(old)
        new["spec"]["resources"]["requests"]["storage"] = size
        return [str(error) for error in object_errors(kind, new, old)]

    assert resized("9Gi") == []
    assert resized("4Gi") == []
    assert resized("2Gi") == ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]


STATUSES: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("v1", "Namespace", {"metadata": {}, "status": {"phase": "Active"}}, []),
    ("v1", "Namespace", {"metadata": {}, "status": {"phase": "Terminating"}}, [
        'status.Phase: Invalid value: "Terminating": may only be \'Active\' if `deletionTimestamp` is empty']),
    ("v1", "Namespace", {"metadata": {"deletionTimestamp": NOW}, "status": {"phase": "Active"}}, [
        'status.Phase: Invalid value: "Active": may only be \'Terminating\' if `deletionTimestamp` is not empty']),
    ("v1", "Node", {"status": {"addresses": [{"type": "a", "address": "b"}] * 2}}, [
        'status.addresses[1]: Duplicate value: {"type":"a","address":"b"}']),
    ("policy/v1", "PodDisruptionBudget", {"status": {"disruptionsAllowed": -1}}, [
        "status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0"]),
    ("apps/v1", "Deployment", {"status": {}}, []),
]  # fmt: skip


@pytest.mark.parametrize(("api_version", "kind", "new", "errors"), STATUSES)
def test_a_wrong_status_is_refused(api_version: str, kind: str, new: dict[str, Any], errors: list[str]) -> None:
    assert [str(error) for error in object_status_errors(kinds.row(api_version, kind), new, {})] == errors
