from __future__ import annotations

from typing import Any

import pytest

from tests.registry.ruled import Changed, New, changes, said_of, said_of_change
from tests.registry.wordings import IMMUTABLE

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "a:1"}]},
}
SELECTOR = {"matchLabels": {"app": "a"}}
WORKLOAD = {"selector": SELECTOR, "template": TEMPLATE}
ONCE: dict[str, Any] = {"metadata": {"labels": {"app": "a"}}, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
OTHER_LABELS = {"metadata": {"labels": {"app": "a", "tier": "b"}}, "spec": TEMPLATE["spec"]}
OTHER_SELECTOR = {"matchLabels": {"tier": "b"}}
NEW: list[New] = [
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
    ("apps/v1", "Deployment", {"spec": {**WORKLOAD, "strategy": {"rollingUpdate": {"maxSurge": "9999999999%"}}}}, [
        'spec.strategy.rollingUpdate.maxSurge: Invalid value: "9999999999%": must be no more than 999999999%']),
    ("apps/v1", "Deployment", {"spec": {**WORKLOAD, "minReadySeconds": 5, "progressDeadlineSeconds": 5}}, [
        "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"]),
    ("apps/v1", "Deployment", {"spec": {"selector": SELECTOR, "template": ONCE}}, [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
    ("apps/v1", "ReplicaSet", {"spec": {"selector": SELECTOR, "template": {**TEMPLATE, "spec": {
        **TEMPLATE["spec"], "activeDeadlineSeconds": 5}}}}, [
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"]),
    ("v1", "PodTemplate", {"template": TEMPLATE}, []),
    ("v1", "PodTemplate", {}, ["template.spec.containers: Required value"]),
    ("v1", "ReplicationController", {"spec": {"template": TEMPLATE}}, []),
    ("v1", "ReplicationController", {"spec": {"replicas": -1}}, [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        "spec.selector: Required value",
        "spec.template: Required value"]),
    ("v1", "ReplicationController", {"spec": {"selector": {"app": "b"}, "template": ONCE}}, [
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
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
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "maxUnavailable": "200%"}}, [
        'spec: Invalid value: {"minAvailable":1,"maxUnavailable":"200%"}: minAvailable and maxUnavailable cannot be '
        "both set",
        'spec.maxUnavailable: Invalid value: "200%": must not be greater than 100%']),
    ("apps/v1", "ControllerRevision", {"revision": -1}, [
        "revision: Invalid value: -1: must be greater than or equal to 0",
        "data: Required value: data is mandatory"]),
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
    ("apps/v1", "ControllerRevision", {"data": [1]}, ["data: Required value: data must be a valid JSON object"]),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"unhealthyPodEvictionPolicy": "Odd"}}, [
        'spec.unhealthyPodEvictionPolicy: Unsupported value: "Odd": supported values: "AlwaysAllow", '
        '"IfHealthyBudget"']),
]  # fmt: skip


@pytest.mark.parametrize("new", NEW)
def test_a_wrong_object_is_refused_with_the_right_message(new: New) -> None:
    assert said_of(new) == new[-1]


CHANGED: list[Changed] = [
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
    ("batch/v1", "Job", {"spec": {"template": ONCE, "completionMode": "Indexed", "completions": 2}},
     {"spec": {"template": ONCE, "completionMode": "Indexed", "completions": 3}}, [
         "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"]),
    ("batch/v1", "Job", {"spec": {"template": ONCE}}, {"spec": {"template": ONCE, "managedBy": "example.com/x"}}, [
        f'spec.managedBy: Invalid value: "example.com/x": {IMMUTABLE}']),
    ("batch/v1", "CronJob", {"spec": {"schedule": "TZ=UTC @daily", "jobTemplate": {"spec": {"template": ONCE}}}},
     {"spec": {"schedule": "TZ=UTC @weekly", "timeZone": "UTC", "jobTemplate": {"spec": {"template": ONCE}}}}, [
         'spec.schedule: Invalid value: "TZ=UTC @weekly": cannot use both timeZone field and TZ or CRON_TZ in '
         "schedule"]),
    ("apps/v1", "ControllerRevision", {"data": {"a": 1}}, {"data": {"a": 2}}, [
        f'data: Invalid value: {{"a":2}}: {IMMUTABLE}']),
]  # fmt: skip


@pytest.mark.parametrize("changed", CHANGED)
def test_what_may_not_change_is_refused(changed: Changed) -> None:
    assert said_of_change(changed) == changed[-1]


def test_a_template_of_a_job_that_runs_stays() -> None:
    moved = {**ONCE, "spec": {**ONCE["spec"], "nodeSelector": {"a": "b"}}}
    [error] = changes("batch/v1", "Job", {"spec": {"template": ONCE}}, {"spec": {"template": moved}})
    assert error.startswith("spec.template: Invalid value: {")
    assert error.endswith(IMMUTABLE)
