from __future__ import annotations

from typing import Any

import pytest

from moorage.api import kinds
from moorage.match.devices import DeviceExpression
from moorage.registry.device import classes
from moorage.registry.table import strategy_of
from tests.registry.ruled import NOW, Changed, New, said, said_of, said_of_change
from tests.registry.wordings import IMMUTABLE, LABEL, SUBDOMAIN

RBAC = "rbac.authorization.k8s.io/v1"
SLICE = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}
NEW: list[New] = [
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
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "runc"}, []),
    ("node.k8s.io/v1", "RuntimeClass", {
        "overhead": {"podFixed": {"cpu": "-1"}},
        "scheduling": {"nodeSelector": {"a b": "c"}, "tolerations": [{"key": "a", "operator": "Exists"}] * 2}}, [
        "handler: Required value",
        'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        'scheduling.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters, \'-\', '
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        'scheduling.tolerations[1]: Duplicate value: {"key":"a","operator":"Exists"}']),
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
        "the name of a request and a subrequest separated by '/'",
        'spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is '
        "required, but multiple fields are set"]),
    ("resource.k8s.io/v1", "ResourceSlice", {"spec": {"devices": [{"name": "a"}, {"name": "a"}]}}, [
        "spec.driver: Required value",
        "spec.pool.name: Required value",
        "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
        "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is "
        "required",
        'spec.devices[1]: Duplicate value: "a"']),
    ("v1", "ServiceAccount", {}, []),
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
        'spec.clusterIPs[1]: Invalid value: "None": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'spec.clusterIPs[2]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'spec.clusterIPs: Invalid value: ["10.0.0.2","None","x"]: may only hold up to 2 values']),
    ("v1", "Event", {"eventTime": "2026-01-01T00:00:00.000000Z", "message": "m" * 1025, "action": "a" * 129}, [
        "reportingComponent: Required value",
        'reportingComponent: Invalid value: "": name part must be non-empty',
        'reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, \'-\', \'_\' or '
        "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
        "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        "reportingInstance: Required value",
        'action: Invalid value: "": can have at most 128 characters',
        "reason: Required value",
        'message: Invalid value: "": can have at most 1024 characters']),
    ("scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "system-node-critical"}, "value": 1}, [
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
        "value of system-node-critical PriorityClass must be 2000001000"]),
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
        f'spec.spec.devices.requests[0].name: Invalid value: "": {LABEL}',
        f'spec.spec.devices.requests[0].firstAvailable[0].name: Invalid value: "A": {LABEL}',
        'spec.spec.devices.requests[0].firstAvailable[0].allocationMode: Unsupported value: "Some": supported values: '
        '"All", "ExactCount"',
        f'spec.spec.devices.requests[0].firstAvailable[1].deviceClassName: Invalid value: "C": {SUBDOMAIN}',
        'spec.spec.devices.requests[0].firstAvailable[1].selectors[0].cel.expression: Invalid value: "": compilation '
        "failed: ERROR: <input>:1:1: Syntax error: mismatched input '<EOF>' expecting an expression",
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
        "driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n", "allNodes": True,
        "devices": [{"name": f"d{number}"} for number in range(129)]}}, [
        'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, '
        "`perDeviceNodeSelection` is required, but multiple fields are set",
        "spec.devices: Too many: 129: must have at most 128 items"]),
    ("resource.k8s.io/v1", "ResourceSlice", {"spec": {**SLICE, "devices": [
        {"name": "a", "attributes": {"b": {}, "c/": {"version": "1"}}, "allNodes": True}]}}, [
        'spec.devices[0].attributes[b]: Invalid value: "": exactly one value must be specified',
        'spec.devices[0].attributes: Invalid value: "": the name must not be empty',
        'spec.devices[0].attributes[c/].version: Invalid value: "1": must be a string compatible with semver.org spec '
        "2.0.0",
        "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
        "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"]),
    ("resource.k8s.io/v1", "DeviceClass", {"spec": {
        "selectors": [{"cel": {"expression": "device.nothing"}}], "extendedResourceName": "cpu",
        "config": [{}, {"opaque": {"driver": "d", "parameters": "x"}}]}}, [
        'spec.selectors[0].cel.expression: Invalid value: "device.nothing": compilation failed: ERROR: <input>:1:7: '
        "undefined field 'nothing'\n | device.nothing\n | ......^",
        "spec.config[0].opaque: Required value",
        'spec.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
        'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name']),
    ("resource.k8s.io/v1", "DeviceTaintRule", {"spec": {
        "deviceSelector": {"driver": "", "pool": "a/B", "device": "D"}}}, [
        "spec.deviceSelector.driver: Required value",
        f'spec.deviceSelector.pool: Invalid value: "B": {SUBDOMAIN}',
        f'spec.deviceSelector.device: Invalid value: "D": {LABEL}']),
    ("v1", "Node", {"spec": {"podCIDRs": ["10.0.0.1/24", "x"]}}, [
        'spec.podCIDRs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length',
        'spec.podCIDRs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
        "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR "
        "address: 10.0.0.1/24",
        'spec.podCIDRs: Invalid value: ["10.0.0.1/24","x"]: may specify no more than one CIDR for each IP family']),
    ("v1", "Node", {"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}, []),
    ("v1", "Node", {"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}}, [
        'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP '
        "family"]),
    ("events.k8s.io/v1", "Event", {"type": "Odd", "series": {"count": 1}}, [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: Odd']),
    (RBAC, "ClusterRole", {"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [
        {"key": "a", "operator": "Like"}]}]}}, [
        'aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "Like": not a valid '
        "selector operator",
        "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector."]),
]  # fmt: skip


@pytest.mark.parametrize("new", NEW)
def test_a_wrong_object_is_refused_with_the_right_message(new: New) -> None:
    assert said_of(new) == new[-1]


CHANGED: list[Changed] = [
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
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "a"}, {"handler": "b"}, [
        f'handler: Invalid value: "b": {IMMUTABLE}']),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1}, {"value": 2, "preemptionPolicy": "Never"}, [
        "value: Forbidden: may not be changed in an update.",
        f'preemptionPolicy: Invalid value: "Never": {IMMUTABLE}']),
    (RBAC, "RoleBinding", {"roleRef": {"kind": "Role", "name": "a"}}, {"roleRef": {"kind": "Role", "name": "b"}}, [
        'roleRef: Invalid value: {"kind":"Role","name":"b","apiGroup":"rbac.authorization.k8s.io"}: cannot change '
        "roleRef"]),
    ("resource.k8s.io/v1", "ResourceClaim", {"spec": {}}, {"spec": {"devices": {"requests": [{"name": "a"}]}}}, [
        f'spec: Invalid value: {{"devices":{{"requests":[{{"name":"a"}}]}}}}: {IMMUTABLE}']),
    ("resource.k8s.io/v1", "ResourceClaim", {"spec": {}}, {"spec": {"devices": {"requests": []}}}, []),
    ("v1", "Service", {"spec": {"ports": [{"port": 1}]}}, {"spec": {"type": "ExternalName", "externalName": "a"}}, []),
    ("resource.k8s.io/v1", "ResourceSlice", {"spec": SLICE}, {"spec": {**SLICE, "driver": "e", "nodeName": "m"}}, [
        f'spec.driver: Invalid value: "e": {IMMUTABLE}', f'spec.nodeName: Invalid value: "m": {IMMUTABLE}']),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", {"spec": {}}, {"spec": {"metadata": {"labels": {"a": "b"}}}}, [
        f'spec: Invalid value: {{"metadata":{{"labels":{{"a":"b"}}}}}}: {IMMUTABLE}']),
]  # fmt: skip


@pytest.mark.parametrize("changed", CHANGED)
def test_what_may_not_change_is_refused(changed: Changed) -> None:
    assert said_of_change(changed) == changed[-1]


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
    assert [str(error) for error in strategy_of(kinds.row(api_version, kind)).status_errors(new, {})] == errors


def _claim_of(sources: list[str]) -> dict[str, Any]:
    """A claim whose requests have these selectors, thirty each."""
    batches = [sources[at : at + 30] for at in range(0, len(sources), 30)]
    requests = [
        {"name": f"r{at}", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1,
                                       "selectors": [{"cel": {"expression": source}} for source in batch]}}
        for at, batch in enumerate(batches)
    ]  # fmt: skip
    return {"devices": {"requests": requests}}


def test_the_selectors_of_a_claim_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = [f"device.driver != 'd{number}'" for number in range(101)]
    assert said("resource.k8s.io/v1", "ResourceClaim", spec=_claim_of(cheap[:100])) == []
    assert said("resource.k8s.io/v1", "ResourceClaim", spec=_claim_of([cheap[0]] * 300)) == [], "each counts once"
    numbers = f"[{','.join(map(str, range(370)))}]"
    costly = [f"{numbers}.all(a, {numbers}.all(b, a + b > {-number}))" for number in range(1, 12)]
    total = sum(DeviceExpression(source).cost for source in costly)
    text = f"the costs of all expressions add up to {total}, which is more than the limit of 10000000"
    assert said("resource.k8s.io/v1", "ResourceClaim", spec=_claim_of(costly)) == [f"spec: Forbidden: {text}"]
    spec = {"selectors": [{"cel": {"expression": source}} for source in costly]}
    assert said("resource.k8s.io/v1", "DeviceClass", spec=spec) == [f"spec: Forbidden: {text}"]
    monkeypatch.setattr(classes, "DeviceExpression", None)  # when there are too many, none is even compiled
    text = "101 expressions, which is more than the limit of 100"
    assert said("resource.k8s.io/v1", "ResourceClaim", spec=_claim_of(cheap)) == [f"spec: Forbidden: {text}"], (
        "not even compiled"
    )
