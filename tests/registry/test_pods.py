from __future__ import annotations

from typing import Any

import pytest

from moorage.registry.pod.defaults import default_pod
from moorage.registry.pod.pods import pod_status_errors, pod_warnings
from tests.registry.pods import a_pod, said
from tests.registry.wordings import LABEL

REQUIRED = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def test_a_plain_pod_is_fine() -> None:
    assert said(a_pod()) == []


def test_a_pod_without_a_specification_is_told_what_it_needs() -> None:
    pod: dict[str, Any] = {"metadata": {"name": "p"}}
    default_pod(pod)
    assert said(pod) == ["spec.containers: Required value"]


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
    ({"topologySpreadConstraints": [{}] * 101, "affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}] * 40},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}] * 61}}}, [
        "spec.affinity: Too many: 101: must have at most 100 items",
        "spec.topologySpreadConstraints: Too many: 101: must have at most 100 items"]),
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
        'spec.os: Unsupported value: "plan9": supported values: "linux", "windows"']),
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
    assert list(pod_warnings(pod)) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
        "recommended: [must not contain dots]",
        'spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead',
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        'spec.imagePullSecrets[0].name: invalid empty name ""',
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer',
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
    ]
    assert list(pod_warnings(a_pod())) == []
