from __future__ import annotations

import copy
from typing import Any

import pytest

from moorage.api import kinds
from moorage.apiserver.defaults import apply_defaults
from moorage.apiserver.podrules import pod_errors, pod_status_errors, pod_update_errors, pod_warnings

POD = kinds.row("v1", "Pod")
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
REQUIRED = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def a_pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    listed = [{"name": f"c{index}", "image": "a:1", **each} for index, each in enumerate(containers)]
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": listed or [{"name": "c", "image": "a:1"}], **spec},
    }
    apply_defaults(POD, pod)
    return pod


def said(pod: dict[str, Any]) -> list[str]:
    return [str(error) for error in pod_errors(pod)]


def test_a_plain_pod_is_fine() -> None:
    assert said(a_pod()) == []


def test_a_pod_without_a_specification_is_told_what_it_needs() -> None:
    pod: dict[str, Any] = {"metadata": {"name": "p"}}
    apply_defaults(POD, pod)
    assert said(pod) == ["spec.containers: Required value"]


CONTAINERS = [
    ({"name": ""}, ["spec.containers[0].name: Required value"]),
    ({"name": "A"}, [f'spec.containers[0].name: Invalid value: "A": {LABEL}']),
    ({"image": ""}, ["spec.containers[0].image: Required value"]),
    ({"image": " a"}, [
        'spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace']),
    ({"imagePullPolicy": "Often"}, [
        'spec.containers[0].imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", '
        '"Never"']),
    ({"terminationMessagePolicy": "Log"}, [
        'spec.containers[0].terminationMessagePolicy: Unsupported value: "Log": supported values: "File", '
        '"FallbackToLogsOnError"']),
    ({"ports": [{"containerPort": 0}]}, ["spec.containers[0].ports[0].containerPort: Required value"]),
    ({"ports": [{"containerPort": 65536, "hostPort": -1, "protocol": "ICMP", "name": "a-very-long-name"}]}, [
        'spec.containers[0].ports[0].name: Invalid value: "a-very-long-name": must be no more than 15 characters',
        "spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
        "spec.containers[0].ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
        'spec.containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"']),
    ({"ports": [{"containerPort": 1, "name": "-1-"}]}, [
        'spec.containers[0].ports[0].name: Invalid value: "-1-": must contain at least one letter (a-z)',
        'spec.containers[0].ports[0].name: Invalid value: "-1-": must not begin or end with a hyphen']),
    ({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}, [
        'spec.containers[0].ports[1].name: Duplicate value: "a"']),
    ({"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]}, [
        'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"']),
    ({"env": [{"name": ""}, {"name": "a=b"}]}, [
        "spec.containers[0].env[0].name: Required value",
        'spec.containers[0].env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of '
        "printable ASCII characters other than '='"]),
    ({"env": [{"name": "A", "valueFrom": {}}]}, [
        'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
        "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"]),
    ({"env": [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, [
        'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty']),
    ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s"}}}]}, [
        "spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Required value"]),
    ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]}, []),
    ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nope"}}}]}, [
        'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.nope": error converting '
        "fieldPath: field label not supported: metadata.nope"]),
    ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.disk"}}}]}, [
        'spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.disk": supported '
        'values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", '
        '"requests.ephemeral-storage", "requests.memory"']),
    ({"envFrom": [{}]}, [
        'spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`']),
    ({"volumeMounts": [{"name": "v", "mountPath": "/x"}]}, [
        'spec.containers[0].volumeMounts[0].name: Not found: "v"']),
    ({"volumeDevices": [{"name": "v"}]}, [
        'spec.containers[0].volumeDevices[0].name: Not found: "v"',
        "spec.containers[0].volumeDevices[0].devicePath: Required value"]),
    ({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}, [
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1']),
    ({"resources": {"requests": {"cpu": "-1"}}}, [
        'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    ({"resources": {"requests": {"example.com/gpu": "1"}}}, [
        "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"]),
    ({"resources": {"limits": {"example.com/gpu": "1500m"}}}, [
        'spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "1500m": must be an integer',
        'spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "1500m": must be an integer']),
    ({"resources": {"requests": {"disk": "1"}}}, [
        'spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource type or fully '
        "qualified",
        'spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource for '
        "containers"]),
    ({"resources": {"limits": {"hugepages-2Mi": "3Mi"}}}, [
        'spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer '
        "multiple of hugepages-2Mi",
        'spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer '
        "multiple of hugepages-2Mi",
        "spec.containers[0].resources: Forbidden: HugePages require cpu or memory"]),
    ({"resources": {"claims": [{"name": "gpu"}]}}, [
        'spec.containers[0].resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims '
        "which is empty"]),
    ({"livenessProbe": {}}, ["spec.containers[0].livenessProbe: Required value: must specify a handler type"]),
    ({"livenessProbe": {"exec": {}, "httpGet": {"port": 1}, "successThreshold": 2}}, [
        "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
        "spec.containers[0].livenessProbe.exec.command: Required value",
        "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"]),
    ({"readinessProbe": {"httpGet": {"port": "UP", "scheme": "FTP"}, "terminationGracePeriodSeconds": 1}}, [
        'spec.containers[0].readinessProbe.httpGet.port: Invalid value: "UP": must contain only alpha-numeric '
        "characters (a-z, 0-9), and hyphens (-)",
        'spec.containers[0].readinessProbe.httpGet.port: Invalid value: "UP": must contain at least one letter (a-z)',
        'spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
        "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for "
        "readinessProbes"]),
    ({"lifecycle": {"preStop": {"sleep": {"seconds": 60}}}}, [
        "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than "
        "terminationGracePeriodSeconds (30)"]),
    ({"securityContext": {"runAsUser": -1, "privileged": True, "allowPrivilegeEscalation": False}}, [
        "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        'spec.containers[0].securityContext: Invalid value: {"runAsUser":-1,"privileged":true,'
        '"allowPrivilegeEscalation":false}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true']),
    ({"env": [{"name": "A", "valueFrom": {"fieldRef": {}}}, {"name": "B", "valueFrom": {"fieldRef": {
        "fieldPath": "spec.nodeName['x']"}}},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]}, [
        "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Required value",
        'spec.containers[0].env[1].valueFrom.fieldRef: Invalid value: "spec.nodeName": does not support subscript',
        'spec.containers[0].env[2].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported '
        'values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
        '"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"']),
    ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {}, "fileKeyRef": {"key": "=", "path": "a/../b"}}}]}, [
        "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Required value",
        'spec.containers[0].env[0].valueFrom.fileKeyRef.key: Invalid value: "=": a valid environment variable name '
        "must consist only of printable ASCII characters other than '='",
        "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Required value",
        'spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: "a/../b": must not contain \'..\'',
        'spec.containers[0].env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time',
    ]),
    ({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "k", "volumeName": "v"}}}]}, [
        "spec.containers[0].env[0].valueFrom.fileKeyRef.path: Required value"]),
    ({"envFrom": [{"prefix": "=", "configMapRef": {}, "secretRef": {"name": "s-"}}]}, [
        'spec.containers[0].envFrom[0].prefix: Invalid value: "=": a valid environment variable name must consist only '
        "of printable ASCII characters other than '='",
        "spec.containers[0].envFrom[0].configMapRef.name: Required value",
        'spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time']),
    ({"resources": {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}}}, [
        'spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2']),
    ({"resources": {"limits": {"cpu": "1", "requests.example.com/gpu": "1", "hugepages-x": "1"}}}, [
        'spec.containers[0].resources.limits[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": '
        "doesn't follow extended resource name standard",
        'spec.containers[0].resources.limits[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of '
        "hugepages-x",
        'spec.containers[0].resources.requests[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": '
        "doesn't follow extended resource name standard",
        'spec.containers[0].resources.requests[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of '
        "hugepages-x"]),
    ({"livenessProbe": {"tcpSocket": {"port": 0}, "initialDelaySeconds": -1, "terminationGracePeriodSeconds": 0}}, [
        "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        "spec.containers[0].livenessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0",
        "spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"]),
    ({"startupProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b"}]}}}, [
        'spec.containers[0].startupProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist '
        "of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"]),
    ({"lifecycle": {"stopSignal": "SIGTERM"}}, [
        "spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"]),
    ({"restartPolicyRules": [{"action": "Wait", "exitCodes": {"operator": "Eq"}}, {"action": "Restart"}]}, [
        "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
        'spec.containers[0].restartPolicyRules[0].action: Unsupported value: "Wait": supported values: "Restart", '
        '"RestartAllContainers"',
        'spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: "Eq": supported values: "In", '
        '"NotIn"',
        "spec.containers[0].restartPolicyRules[1].exitCodes: Required value: must be specified"]),
    ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}] * 21}, [
        "spec.containers[0].restartPolicyRules: Too many: 21: must have at most 20 items"]),
    ({"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]},
                          "procMount": "Odd"}}, [
        'spec.containers[0].securityContext.procMount: Unsupported value: "Odd": supported values: "Default", '
        '"Unmasked"',
        'spec.containers[0].securityContext: Invalid value: {"allowPrivilegeEscalation":false,"capabilities":{"add":'
        '["CAP_SYS_ADMIN"]},"procMount":"Odd"}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` '
        "CAP_SYS_ADMIN"]),
    ({"ports": [{"containerPort": 1, "name": "a--B"}]}, [
        'spec.containers[0].ports[0].name: Invalid value: "a--B": must contain only alpha-numeric characters (a-z, '
        "0-9), and hyphens (-)",
        'spec.containers[0].ports[0].name: Invalid value: "a--B": must not contain consecutive hyphens']),
    ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2}, [
        'spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"']),
    ({"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]}, [
        'spec.containers[0].resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"']),
]  # fmt: skip


@pytest.mark.parametrize(("container", "errors"), CONTAINERS)
def test_what_is_wrong_with_a_container(container: dict[str, Any], errors: list[str]) -> None:
    assert said(a_pod(container)) == errors


def test_containers_share_names_and_ports() -> None:
    port = {"containerPort": 80, "hostPort": 80}
    pod = a_pod({"name": "a", "ports": [port]}, {"name": "a", "ports": [dict(port)]}, initContainers=[{"name": "a"}])
    assert said(pod) == [
        'spec.containers[1].name: Duplicate value: "a"',
        'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"',
        "spec.initContainers[0].image: Required value",
        'spec.initContainers[0].name: Duplicate value: "a"',
    ]


def test_init_containers_have_probes_only_when_they_stay() -> None:
    probe = {"livenessProbe": {"exec": {"command": ["x"]}}}
    init = {"name": "i", "image": "a", **probe}
    assert said(a_pod(initContainers=[copy.deepcopy(init)])) == [
        "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
        "restartPolicy=Always"
    ]
    assert said(a_pod(initContainers=[{**copy.deepcopy(init), "restartPolicy": "Always"}])) == []
    assert said(a_pod(initContainers=[{"name": "i", "image": "a", "restartPolicy": "Maybe"}])) == [
        'spec.initContainers[0].restartPolicy: Unsupported value: "Maybe": supported values: "Always", "Never", '
        '"OnFailure"'
    ]


SPECS = [
    ({"restartPolicy": "Maybe"}, [
        'spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"']),
    ({"dnsPolicy": "None"}, ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
    ({"dnsConfig": {"nameservers": ["x"], "searches": ["A"], "options": [{}]}}, [
        'spec.dnsConfig.nameservers[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
        "2001:db8::ffff)",
        'spec.dnsConfig.searches[0]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case '
        "alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. "
        "'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\."
        "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
        "spec.dnsConfig.options[0]: Required value: must not be empty"]),
    ({"activeDeadlineSeconds": 0}, [
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"]),
    ({"hostname": "a.b"}, ['spec.hostname: Invalid value: "a.b": must not contain dots']),
    ({"preemptionPolicy": "Later"}, [
        'spec.preemptionPolicy: Unsupported value: "Later": supported values: "PreemptLowerPriority", "Never"']),
    ({"nodeSelector": {"a": "x y"}}, [
        'spec.nodeSelector: Invalid value: "x y": a valid label must be an empty string or consist of alphanumeric '
        "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]),
    ({"nodeName": "n", "schedulingGates": [{"name": "a"}, {"name": "a"}]}, [
        'spec.schedulingGates[1]: Duplicate value: "a"',
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]),
    ({"hostNetwork": True, "containers": [{"name": "c", "image": "a", "ports": [{"containerPort": 1, "hostPort": 2}]}]},
     ["spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"]),
    ({"ephemeralContainers": [{"name": "d", "image": "a"}]}, [
        "spec.ephemeralContainers: Forbidden: cannot be set on create"]),
    ({"topologySpreadConstraints": [{}]}, [
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
        'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "": supported values: '
        '"DoNotSchedule", "ScheduleAnyway"']),
    ({"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 0,
         "nodeTaintsPolicy": "Maybe", "matchLabelKeys": ["app"]},
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}, [
        'spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, ScheduleAnyway}"',
        "spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero",
        "spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: can only use minDomains if "
        "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
        'spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "Maybe": supported values: "Honor", '
        '"Ignore"',
        "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not "
        "set"]),
    ({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 0, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchExpressions": [
            {"key": "a", "operator": "In"}]}}}]}}}, [
        "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: "
        "must be in the range 1-100",
        "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"
        ".labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
        "'NotIn'"]),
    ({"resourceClaims": [{"name": "a"}, {"name": "a", "resourceClaimName": "b"}]}, [
        'spec.resourceClaims[0]: Invalid value: {"name":"a"}: must specify one of: `resourceClaimName`, '
        "`resourceClaimTemplateName`",
        'spec.resourceClaims[1].name: Duplicate value: "a"']),
    ({"resourceClaims": [{"resourceClaimName": "a", "resourceClaimTemplateName": "b"}]}, [
        "spec.resourceClaims[0].name: Required value",
        'spec.resourceClaims[0]: Invalid value: {"resourceClaimName":"a","resourceClaimTemplateName":"b"}: at most one '
        "of `resourceClaimName` or `resourceClaimTemplateName` may be specified"]),
    ({"readinessGates": [{}]}, [
        'spec.readinessGates[0].conditionType: Invalid value: "": name part must be non-empty',
        'spec.readinessGates[0].conditionType: Invalid value: "": name part must consist of alphanumeric characters, '
        "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]),
    ({"securityContext": {"fsGroup": -1, "supplementalGroups": [2**31], "fsGroupChangePolicy": "Odd"}}, [
        "spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        "spec.securityContext.supplementalGroups[0]: Invalid value: 2147483648: must be between 0 and 2147483647, "
        "inclusive",
        'spec.securityContext.fsGroupChangePolicy: Unsupported value: "Odd": supported values: "Always", '
        '"OnRootMismatch"']),
    ({"os": {}}, ["spec.os.name: Required value"]),
    ({"dnsPolicy": "None", "dnsConfig": {"searches": ["."] * 33}}, [
        "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
        "spec.dnsConfig.searches: Invalid value: [" + ",".join(['"."'] * 33) + "]: must not have more than 32 search "
        "paths",
    ]),
    ({"dnsConfig": {"nameservers": ["1.1.1.1"] * 4}}, [
        'spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"]: must not have more than '
        "3 nameservers"]),
    ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "namespaces": ["a.b"], "matchLabelKeys": ["k"], "mismatchLabelKeys": ["k"],
         "labelSelector": {"matchLabels": {"k": "v"}, "matchExpressions": [
             {"key": "k", "operator": "Exists", "values": ["x"]}, {"key": "z", "operator": "Eq"}]}}, {}]}}}, [
        f"{REQUIRED}[0].labelSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is "
        "'Exists' or 'DoesNotExist'",
        f'{REQUIRED}[0].labelSelector.matchExpressions[1].operator: Invalid value: "Eq": not a valid selector operator',
        f'{REQUIRED}[0].namespace: Invalid value: "a.b": must not contain dots',
        f'{REQUIRED}[0][0]: Invalid value: "k": exists in both matchLabelKeys and labelSelector',
        f'{REQUIRED}[0].matchLabelKeys[0]: Invalid value: "k": exists in both matchLabelKeys and mismatchLabelKeys',
        f"{REQUIRED}[1].topologyKey: Required value: can not be empty",
        f'{REQUIRED}[1].topologyKey: Invalid value: "": name part must be non-empty',
        f'{REQUIRED}[1].topologyKey: Invalid value: "": name part must consist of alphanumeric characters, \'-\', '
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]),
    ({"resources": {"claims": [{"name": "a"}]}}, [
        "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"]),
    ({"os": {"name": "plan9"}}, [
        'spec.os.name: Unsupported value: "plan9": supported values: "linux", "windows"']),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}, {"name": "v", "emptyDir": {}}, {"name": "V"}]}, [
        'spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain \'..\'',
        f'spec.volumes[2].name: Invalid value: "V": {LABEL}']),
    ({"volumes": [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]}, [
        "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"]),
    ({"volumes": [{"name": "v", "configMap": {"items": [{"key": "k", "path": "../x", "mode": 512}]}}]}, [
        "spec.volumes[0].configMap.name: Required value",
        'spec.volumes[0].configMap.items[0].path: Invalid value: "../x": must not contain \'..\'',
        "spec.volumes[0].configMap.items[0].mode: Invalid value: 512: must be a number between 0 and 0777 (octal), "
        "both inclusive"]),
    ({"volumes": [{"name": "v", "ephemeral": {}}]}, [
        "spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"]),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]}, [
        "spec.volumes[0].persistentVolumeClaim.claimName: Required value"]),
    ({"resources": {"limits": {"cpu": "1", "disk": "1"}, "requests": {"cpu": "2"}}}, [
        'spec.resources.limits[disk]: Unsupported value: "disk": supported values: "cpu", "hugepages-", "memory"',
        'spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1']),
    ({"overhead": {"cpu": "-1"}}, [
        'spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    ({"hostAliases": [{"ip": "::ffff:1.2.3.4", "hostnames": ["a"]}]}, [
        'spec.hostAliases[0].ip: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "errors"), SPECS)
def test_what_is_wrong_with_a_specification(spec: dict[str, Any], errors: list[str]) -> None:
    assert said(a_pod(**spec)) == errors


def test_a_mount_needs_a_volume_that_is_there_and_right() -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}]}
    assert said(a_pod(copy.deepcopy(mount), volumes=[{"name": "v"}])) == [
        'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique'
    ]
    assert said(a_pod({"volumeMounts": mount["volumeMounts"][:1]}, volumes=[{"name": "v", "hostPath": {}}])) == [
        "spec.volumes[0].hostPath.path: Required value",
        'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ]


VOLUME_ERRORS = [
    ({"nfs": {"path": "x"}}, [
        "spec.volumes[0].nfs.server: Required value",
        'spec.volumes[0].nfs.path: Invalid value: "x": must be an absolute path']),
    ({"csi": {}}, ["spec.volumes[0].csi.driver: Required value"]),
    ({"csi": {"driver": "d" * 64}}, ["spec.volumes[0].csi.driver: Too long: may not be more than 63 bytes"]),
    ({"emptyDir": {"sizeLimit": "-1"}}, [
        "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"]),
    ({"hostPath": {"path": "/a", "type": "Hole"}}, [
        'spec.volumes[0].hostPath.type: Unsupported value: "Hole": supported values: "", "BlockDevice", "CharDevice", '
        '"Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"']),
    ({"secret": {"defaultMode": 512, "items": [{"key": "k", "path": "/a"}, {"key": "k", "path": "..a"}]}}, [
        "spec.volumes[0].secret.secretName: Required value",
        "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both "
        "inclusive",
        'spec.volumes[0].secret.items[0].path: Invalid value: "/a": must be a relative path',
        "spec.volumes[0].secret.items[1].path: Invalid value: \"..a\": must not start with '..'"]),
    ({"downwardAPI": {"items": [
        {"path": "a"}, {"path": "b", "fieldRef": {"fieldPath": "spec.x"}, "resourceFieldRef": {}},
        {"fieldRef": {}}]}}, [
        "spec.volumes[0].downwardAPI.items[0]: Required value: one of fieldRef and resourceFieldRef is required",
        'spec.volumes[0].downwardAPI.items[1].fieldRef.fieldPath: Unsupported value: "spec.x": supported values: '
        '"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"',
        'spec.volumes[0].downwardAPI.items[1]: Invalid value: "resource": fieldRef and resourceFieldRef can not be '
        "specified simultaneously",
        "spec.volumes[0].downwardAPI.items[2].path: Required value",
        "spec.volumes[0].downwardAPI.items[2].fieldRef.fieldPath: Required value"]),
    ({"projected": {"sources": [
        {"secret": {}, "configMap": {"name": "c"}}, {"serviceAccountToken": {"path": "t", "expirationSeconds": 5}},
        {"serviceAccountToken": {"expirationSeconds": 2**33}}]}}, [
        "spec.volumes[0].projected.sources[0].secret: Forbidden: may not specify more than 1 volume type",
        "spec.volumes[0].projected.sources[0].secret.name: Required value",
        "spec.volumes[0].projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify "
        "a duration less than 10 minutes",
        "spec.volumes[0].projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 8589934592: may "
        "not specify a duration larger than 2^32 seconds",
        "spec.volumes[0].projected.sources[2].serviceAccountToken.path: Required value"]),
    ({"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Tape", "storageClassName": "A",
                                                     "dataSource": {"kind": "Tape"}}}}}, [
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is "
        "required",
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
        'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.storageClassName: Invalid value: "A": a lowercase RFC 1123 '
        "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeMode: Unsupported value: "Tape": supported values: '
        '"Block", "Filesystem"',
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSource.name: Required value",
        'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSource: Invalid value: "Tape": must be '
        "'PersistentVolumeClaim' when referencing the default apiGroup"]),
]  # fmt: skip


@pytest.mark.parametrize(("volume", "errors"), VOLUME_ERRORS)
def test_what_is_wrong_with_a_volume(volume: dict[str, Any], errors: list[str]) -> None:
    assert said(a_pod(volumes=[{"name": "v", **volume}])) == errors


def test_volumes_have_names_of_their_own() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    volumes = [
        {"name": "a"},
        {"name": "a"},
        {"emptyDir": {}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "p-e"}},
    ]
    assert said(a_pod(volumes=volumes)) == [
        'spec.volumes[1].name: Duplicate value: "a"',
        "spec.volumes[2].name: Required value",
        'spec.volumes[4].persistentVolumeClaim.claimName: Invalid value: "p-e": must not reference a PVC that gets '
        "created for an ephemeral volume",
    ]


def test_a_volume_is_mounted_or_used_as_a_device() -> None:
    container = {
        "volumeMounts": [
            {"name": "disk", "mountPath": "/d", "subPath": "/x", "subPathExpr": "y", "mountPropagation": "Odd"},
            {"mountPath": "", "mountPropagation": "Bidirectional"},
        ],
        "volumeDevices": [
            {"name": "disk", "devicePath": "/d"},
            {"name": "disk", "devicePath": "/d/../e"},
            {"name": "", "devicePath": "/d"},
            {"name": "empty", "devicePath": "/f"},
        ],
    }
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "empty"}]
    here = "spec.containers[0]"
    assert said(a_pod(container, volumes=volumes)) == [
        f'{here}.volumeMounts[0].name: Invalid value: "disk": must not already exist in volumeDevices',
        f'{here}.volumeMounts[0].mountPath: Invalid value: "/d": must not already exist as a path in volumeDevices',
        f'{here}.volumeMounts.subPath: Invalid value: "/x": must be a relative path',
        f'{here}.volumeMounts[0].subPathExpr: Invalid value: "y": subPathExpr and subPath are mutually exclusive',
        f'{here}.volumeMounts.mountPropagation: Unsupported value: "Odd": supported values: "Bidirectional", '
        '"HostToContainer", "None"',
        f"{here}.volumeMounts[1].name: Required value",
        f'{here}.volumeMounts[1].name: Not found: ""',
        f"{here}.volumeMounts[1].mountPath: Required value",
        f'{here}.volumeMounts[1].name: Invalid value: "": must not already exist in volumeDevices',
        f"{here}.volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to "
        "privileged containers",
        f'{here}.volumeDevices[0].name: Invalid value: "disk": must not already exist in volumeMounts',
        f'{here}.volumeDevices[0].devicePath: Invalid value: "/d": must not already exist as a path in volumeMounts',
        f'{here}.volumeDevices[1].name: Invalid value: "disk": must be unique',
        f"{here}.volumeDevices[1].devicePath: Invalid value: \"/d/../e\": can not contain backsteps ('..')",
        f'{here}.volumeDevices[1].name: Invalid value: "disk": must not already exist in volumeMounts',
        f"{here}.volumeDevices[2].name: Required value",
        f'{here}.volumeDevices[2].name: Not found: ""',
        f'{here}.volumeDevices[2].devicePath: Invalid value: "/d": must be unique',
        f'{here}.volumeDevices[2].devicePath: Invalid value: "/d": must not already exist as a path in volumeMounts',
        f'{here}.volumeDevices[3].name: Invalid value: "empty": can only use volume source type of '
        "PersistentVolumeClaim or Ephemeral for block mode",
    ]


def test_claims_of_containers_are_claims_of_their_pod() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "g"}]
    uses = [{"name": "gpu", "request": "A"}, {"name": "gpu"}, {"name": "gpu"}, {}, {"name": "nic"}]
    assert said(a_pod({"resources": {"claims": uses}}, resourceClaims=claims)) == [
        f'spec.containers[0].resources.claims[0].request: Invalid value: "A": {LABEL}',
        'spec.containers[0].resources.claims[1]: Duplicate value: "gpu"',
        'spec.containers[0].resources.claims[2]: Duplicate value: "gpu"',
        "spec.containers[0].resources.claims[3]: Required value",
        'spec.containers[0].resources.claims[4]: Not found: "nic": must be one of the names in '
        "pod.spec.resourceClaims: gpu",
    ]


def test_containers_that_look_into_a_pod_are_judged_when_it_changes() -> None:
    old = a_pod()
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = [
        {"name": "c", "image": "a", "targetContainerName": "x", "ports": [{"containerPort": 1, "protocol": "TCP"}],
         "resources": {"limits": {"cpu": "1"}}, "imagePullPolicy": "Always", "terminationMessagePolicy": "File"},
    ]  # fmt: skip
    assert [str(error) for error in pod_update_errors(new, old)][:4] == [
        'spec.ephemeralContainers[0].name: Duplicate value: "c"',
        'spec.ephemeralContainers[0].targetContainerName: Not found: "x"',
        "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
    ]


def test_annotations_of_a_pod_are_read() -> None:
    pod = a_pod()
    pod["metadata"]["annotations"] = {
        "controller.kubernetes.io/pod-deletion-cost": "much",
        "kubernetes.io/config.mirror": "x",
    }
    assert said(pod) == [
        'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod '
        "annotation is set",
        'metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "much": must be a 32bit '
        "integer",
    ]


def changed(old: dict[str, Any], **spec: Any) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"].update(spec)
    return [str(error) for error in pod_update_errors(new, old)]


def test_a_pod_may_change_its_images_and_shorten_its_time() -> None:
    old = a_pod({}, activeDeadlineSeconds=60)
    containers = copy.deepcopy(old["spec"]["containers"])
    containers[0]["image"] = "a:2"
    assert changed(old, containers=containers, activeDeadlineSeconds=30) == []
    assert changed(a_pod(), activeDeadlineSeconds=30) == []
    assert changed(old, tolerations=[{"key": "a", "operator": "Exists"}]) == []
    assert changed(old, hostNetwork=False, volumes=[]) == []


@pytest.mark.parametrize(
    ("deadline", "problem"),
    [
        (90, "Invalid value: 90: must be less than or equal to previous value"),
        (-1, "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    ],
)
def test_the_time_of_a_pod_only_gets_shorter(deadline: int, problem: str) -> None:
    errors = changed(a_pod(activeDeadlineSeconds=60), activeDeadlineSeconds=deadline)
    assert errors[-1] == f"spec.activeDeadlineSeconds: {problem}"


def test_the_time_of_a_pod_cannot_be_lifted() -> None:
    old = a_pod(activeDeadlineSeconds=60)
    new = copy.deepcopy(old)
    del new["spec"]["activeDeadlineSeconds"]
    assert [str(error) for error in pod_update_errors(new, old)] == [
        "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"
    ]


def test_other_fields_of_a_pod_stay_and_the_message_says_which_did_not() -> None:
    old = a_pod({"command": ["a"]}, nodeName="one")
    containers = copy.deepcopy(old["spec"]["containers"])
    containers[0]["command"] = ["b"]
    assert changed(old, containers=containers, nodeName="two", priority=5) == [
        f"spec: Forbidden: {UPDATABLE}\n"
        '- spec.containers[0].command[0]: "a"\n'
        '+ spec.containers[0].command[0]: "b"\n'
        '- spec.nodeName: "one"\n'
        '+ spec.nodeName: "two"\n'
        "+ spec.priority: 5"
    ]


def test_containers_cannot_be_added_to_a_pod() -> None:
    old = a_pod()
    more = [*old["spec"]["containers"], {**old["spec"]["containers"][0], "name": "more"}]
    assert changed(old, containers=more) == ["spec.containers: Forbidden: pod updates may not add or remove containers"]


def test_a_negative_grace_period_may_become_one_second() -> None:
    old = a_pod()
    old["spec"]["terminationGracePeriodSeconds"] = -5
    assert changed(old, terminationGracePeriodSeconds=1) == []
    assert changed(a_pod(), terminationGracePeriodSeconds=1)[0].startswith("spec: Forbidden: pod updates may not")


def test_node_affinity_is_judged_elsewhere_but_not_that_of_pods() -> None:
    node: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    }
    assert changed(a_pod(), affinity=node) == []
    both = {**node, "podAffinity": {}}
    assert changed(a_pod(), affinity=both)[0].endswith('\n+ spec.affinity: {"podAffinity":{}}')


def test_a_mirror_pod_stays_one() -> None:
    old = a_pod()
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    path = "metadata.annotations[kubernetes.io/config.mirror]"
    assert [str(error) for error in pod_update_errors(new, old)] == [
        f"{path}: Forbidden: may not add mirror pod annotation"
    ]
    assert [str(error) for error in pod_update_errors(old, new)] == [
        f"{path}: Forbidden: may not remove or update mirror pod annotation"
    ]


STATUSES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"phase": "Running", "qosClass": "BestEffort"}, {"qosClass": "BestEffort"}, []),
    ({"qosClass": "Guaranteed"}, {"qosClass": "BestEffort"}, [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable']),
    ({"conditions": [{"type": "Ready"}, {"type": "a b", "observedGeneration": -1}]}, {}, [
        'status.conditions[1].Type: Invalid value: "a b": name part must consist of alphanumeric characters, \'-\', '
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        "status.conditions[1].observedGeneration: Invalid value: -1: must be a non-negative integer"]),
    ({"nominatedNodeName": "n"}, {}, [
        "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"]),
    ({"podIPs": [{"ip": "x"}]}, {}, [
        'status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
    ({"podIPs": [{"ip": "x"}]}, {"podIPs": [{"ip": "x"}]}, []),
    ({"containerStatuses": [{"name": "c", "state": {"running": {}}}]},
     {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]}, [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"]),
    ({"resourceClaimStatuses": [{"name": "x"}]}, {}, [
        'status.resourceClaimStatuses[0].name: Invalid value: "x": must match the name of an entry in '
        "`spec.resourceClaims`"]),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old", "errors"), STATUSES)
def test_what_is_wrong_with_a_status(new: dict[str, Any], old: dict[str, Any], errors: list[str]) -> None:
    spec = {"nodeName": "m", "restartPolicy": "Never", "containers": [{"name": "c"}]}
    found = pod_status_errors({"spec": spec, "status": new}, {"spec": spec, "status": old})
    assert [str(error) for error in found] == errors


def test_what_is_legal_and_hardly_meant_is_warned_of() -> None:
    container = {
        "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)3"}],
        "ports": [{"containerPort": 80}, {"containerPort": 80}],
        "resources": {"requests": {"memory": "100m"}},
    }
    pod = a_pod(
        container,
        nodeSelector={"beta.kubernetes.io/arch": "arm64"},
        imagePullSecrets=[{}],
        topologySpreadConstraints=[{"maxSkew": 1}],
    )
    pod["metadata"]["name"] = "a.b"
    assert pod_warnings(pod) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
        "recommended: [must not contain dots]",
        'spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead',
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        'spec.imagePullSecrets[0].name: invalid empty name ""',
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer',
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
    ]
    assert pod_warnings(a_pod()) == []
