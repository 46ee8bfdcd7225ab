"""The texts of `kubectl explain`: our own types and fields in full, the most used of Kubernetes in a sentence each."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.features import Gate

TYPES: Mapping[str, str] = {
    "Binding": "Ties a pod to a node.",
    "DeleteOptions": "How an object is to be deleted.",
    "DeploymentStatus": "How far a Deployment has come.",
    "DeploymentStrategy": "Old pods go step by step as new ones become ready, or all of them first.",
    "DeviceTaint": "A mark on a device that repels every claim that does not tolerate it.",
    "DeviceToleration": "What lets a device be given to a request although a matching taint repels it.",
    "EnvVar": "A variable of a container's environment.",
    "EnvVarSource": "From where a variable has its value.",
    "Eviction": "Asks a pod to leave, as far as the disruption budgets allow it.",
    "EphemeralContainer": "A program that is added to a running pod to look into it.",
    "LocalObjectReference": "An object in the same namespace, by name.",
    "ListMeta": "How old and how complete a list is.",
    "LocalSubjectAccessReview": "Asks whether somebody may do something in a namespace.",
    "ManagedFieldsEntry": "The fields that one manager has set.",
    "PodAntiAffinity": "Which pods must or should be far.",
    "PodSecurityContext": "With which rights all containers of a pod run.",
    "PolicyRule": "Some verbs on some resources.",
    "Preconditions": "What an object must still be, or nothing is done.",
    "Probe": "A question that is put to a container again and again.",
    "RoleRef": "The role that is given.",
    "RollingUpdateDeployment": "How many pods may be missing or surplus while a template is replaced.",
    "Scale": "How many pods a workload is to have, and has.",
    "SecurityContext": "With which rights a container runs.",
    "SelfSubjectAccessReview": "Asks whether one may do something oneself.",
    "SelfSubjectReview": "Asks who one is.",
    "SelfSubjectRulesReview": "Asks what one may do in a namespace.",
    "Status": "How a request ended.",
    "Subject": "Somebody who is given a role.",
    "SubjectAccessReview": "Asks whether somebody may do something.",
    "TokenRequest": "Asks for a token.",
    "TokenReview": "Asks whose a token is.",
    "VolumeMount": "Where a container sees a volume.",
}
"""The descriptions of types that have neither a struct in moorage.api nor a strategy."""

_EVERYWHERE: Mapping[str, str] = {
    "apiVersion": "The group and version of the schema that the object follows, such as `apps/v1`.",
    "kind": "What sort of object it is, such as `Pod`.",
    "metadata": "Name, place, labels, owners and history of the object.",
    "spec": "What the object is told to be.",
    "status": "What is known of the object.",
    "conditions": "The observed aspects of its state, one for each type.",
    "observedGeneration": "Up to which generation the status has taken the specification into account.",
    "lastTransitionTime": "When the status last changed.",
    "selector": "Which pods belong to it, by their labels.",
    "template": "The pod that copies are made of.",
    "replicas": "How many pods there are to be.",
    "minReadySeconds": "How long a new pod must be ready before it counts as available.",
    "revisionHistoryLimit": "How many old templates are kept for going back.",
    "nodeSelector": "The nodes that come into question.",
    "storageClassName": "The class of the storage; an empty one means none.",
    "accessModes": "How it can be mounted: ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod.",
    "volumeMode": "Filesystem (the default) or Block.",
}
"""The descriptions of fields that mean the same in every type."""

_OPERATORS = (
    "How the taint's value is compared with `value`: Exists (any value), Equal (the default), Gt and Lt (as integers, "
    f"with the feature gate {Gate.COMPARISON.value}), SemverEq, SemverGt and SemverLt (as versions, with the feature "
    f"gate {Gate.SEMVER.value}). The taint stands on the left: Gt tolerates taints above the value."
)
_KEY = (
    "The key of the taints that are tolerated; empty, with the operator Exists, for every key. With the feature gate "
    f"{Gate.WILDCARD.value} a `*` stands for any run of characters except `/`: `readiness.k8s.io/*` tolerates a family."
)
_EXPRESSION = (
    f"With the feature gate {Gate.CEL.value}: a CEL expression over `taint.key`, `taint.value`, `taint.effect` and, if "
    "the taint has it, `taint.timeAdded`. Taints for which it is true are tolerated; one that fails tolerates nothing. "
    "It alone decides: no key, operator, value or effect stands beside it."
)
_NODE_EXPRESSIONS = (
    f"With the feature gate {Gate.CEL.value}: CEL expressions over `node.labels` that must all be true, together with "
    "the term's other requirements. One that fails matches no node."
)
_NODE_OPERATORS = (
    "How the label is compared with `values`: In, NotIn, Exists, DoesNotExist, Gt and Lt (as integers) and, with the "
    f"feature gate {Gate.SEMVER.value}, SemverEq, SemverGt and SemverLt (as versions). The label stands on the left."
)
_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": (
        "What must hold when the pod is scheduled; a pod that already runs stays when it no longer does."
    ),
    "preferredDuringSchedulingIgnoredDuringExecution": (
        "What the pod would rather have; the weights of what holds add to a node's score."
    ),
}
_BINDING = {"roleRef": "The role that is given; it cannot be changed.", "subjects": "Who is given it."}

FIELDS: Mapping[str, Mapping[str, str]] = {
    "ObjectMeta": {
        "name": "What tells the object from others of its kind and namespace; it never changes.",
        "generateName": "The beginning of a name that the server completes when there is no name.",
        "namespace": "The room of names that the object is in; empty for kinds that are in none.",
        "uid": "What tells the object from all others there ever were.",
        "resourceVersion": "The state of the object; an update that gives an older one is refused.",
        "generation": "How often the specification has changed.",
        "creationTimestamp": "When the object was created.",
        "deletionTimestamp": "By when the object is to be gone; somebody has asked for its deletion.",
        "deletionGracePeriodSeconds": "How long the object had to finish when its deletion was asked for.",
        "labels": "Keys and values that selectors find the object by.",
        "annotations": "Keys and values that programs leave for each other; nothing is found by them.",
        "ownerReferences": "The objects that this one belongs to; it goes when all of them have gone.",
        "finalizers": "Who must still clean up before the object can go.",
        "managedFields": "Who has set which fields.",
    },
    "OwnerReference": {
        "name": "The owner's name.",
        "uid": "The owner's uid.",
        "controller": "Whether this owner is the one that manages the object.",
        "blockOwnerDeletion": "Whether the owner waits for the object when it is deleted in the foreground.",
    },
    "LabelSelector": {
        "matchLabels": "Labels that must all be there with these values.",
        "matchExpressions": "Conditions on labels that must all hold.",
    },
    "LabelSelectorRequirement": {
        "key": "The label.",
        "operator": "In, NotIn, Exists or DoesNotExist.",
        "values": "The values for In and NotIn.",
    },
    "PodSpec": {
        "activeDeadlineSeconds": "How long the pod may run.",
        "affinity": "What draws the pod to nodes and to other pods, or keeps it away.",
        "containers": "The programs of the pod; there is at least one.",
        "ephemeralContainers": "Programs that were added to look into the running pod.",
        "hostNetwork": "Whether the pod uses the node's network.",
        "imagePullSecrets": "Secrets with which images are pulled.",
        "initContainers": "Programs that run before the others, one after the other.",
        "nodeName": "The node that the pod is bound to; empty until it is scheduled.",
        "nodeSelector": "Labels that the pod's node must have.",
        "overhead": "What the pod needs beside its containers.",
        "preemptionPolicy": "PreemptLowerPriority (the default) or Never.",
        "priority": "The number behind the priority class; the higher goes first.",
        "priorityClassName": "The priority class of the pod.",
        "readinessGates": "Further conditions that must hold before the pod is ready.",
        "resourceClaims": "Device claims that containers can use.",
        "restartPolicy": "Whether containers that end are started again: Always (the default), OnFailure, Never.",
        "runtimeClassName": "Which container runtime runs the pod.",
        "schedulerName": "Which scheduler places the pod.",
        "schedulingGates": "Reasons not to schedule the pod yet; it waits until the list is empty.",
        "securityContext": "With which rights all containers run.",
        "serviceAccountName": "The identity of the pod's programs.",
        "terminationGracePeriodSeconds": "How long containers have to end after they were asked to.",
        "tolerations": "Which taints do not keep the pod away.",
        "topologySpreadConstraints": "How evenly pods are spread over zones, nodes and the like.",
        "volumes": "Storage that containers can mount.",
    },
    "Toleration": {
        "key": _KEY,
        "operator": _OPERATORS,
        "value": "What the taint's value is compared with; empty for Exists.",
        "effect": "The effect that is tolerated: NoSchedule, PreferNoSchedule or NoExecute; empty for all.",
        "tolerationSeconds": "How long a running pod stays beside a NoExecute taint; for good when it is absent.",
        "expression": _EXPRESSION,
    },
    "DeviceToleration": {
        "key": _KEY,
        "operator": _OPERATORS,
        "value": "What the taint's value is compared with; empty for Exists.",
        "effect": "The effect that is tolerated: NoSchedule or NoExecute; empty for both.",
        "tolerationSeconds": "How long a pod that uses the device stays beside a NoExecute taint.",
        "expression": _EXPRESSION,
    },
    "Taint": {
        "key": "What the taint is about.",
        "value": "A word, a number or a version for tolerations to compare with.",
        "effect": "NoSchedule (no new pods), PreferNoSchedule (rather no new pods) or NoExecute (no pods at all).",
        "timeAdded": "Since when; the seconds of tolerations count from here.",
    },
    "DeviceTaint": {
        "key": "What the taint is about.",
        "value": "A word, a number or a version for tolerations to compare with.",
        "effect": "None, NoSchedule (not given out any more) or NoExecute (pods that use it are evicted).",
        "timeAdded": "Since when; the seconds of tolerations count from here.",
    },
    "Affinity": {
        "nodeAffinity": "Which nodes the pod demands or prefers.",
        "podAffinity": "Which pods it wants near.",
        "podAntiAffinity": "Which pods it wants far.",
    },
    "NodeAffinity": _AFFINITY,
    "PodAffinity": _AFFINITY,
    "PodAntiAffinity": _AFFINITY,
    "NodeSelector": {"nodeSelectorTerms": "Terms of which one must hold."},
    "NodeSelectorTerm": {
        "matchExpressions": "Conditions on labels that must all hold.",
        "matchFields": "Conditions on fields of the node; `metadata.name` is the one there is.",
        "matchCELExpressions": _NODE_EXPRESSIONS,
    },
    "NodeSelectorRequirement": {
        "key": "The label or field.",
        "operator": _NODE_OPERATORS,
        "values": "What the label is compared with; none for Exists and DoesNotExist, one for the comparisons.",
    },
    "PreferredSchedulingTerm": {
        "weight": "What it adds to the score of a node for which it holds, 1 to 100.",
        "preference": "The term.",
    },
    "PodAffinityTerm": {
        "labelSelector": "The pods that are meant.",
        "namespaces": "Where they are looked for; the pod's own namespace when nothing is said.",
        "namespaceSelector": "The namespaces where they are looked for, by label.",
        "topologyKey": "The node label that says what near is: nodes with the same value are near each other.",
        "matchLabelKeys": "Labels of the pod whose values the others must have too.",
        "mismatchLabelKeys": "Labels of the pod whose values the others must not have.",
    },
    "TopologySpreadConstraint": {
        "maxSkew": "By how many pods the values of the label may differ.",
        "topologyKey": "The node label over whose values pods are spread.",
        "whenUnsatisfiable": "DoNotSchedule, or ScheduleAnyway (only the score suffers).",
        "labelSelector": "The pods that count.",
        "minDomains": "How many values of the label must at least be in use.",
        "nodeAffinityPolicy": "Whether nodes that the pod's affinity refuses count: Honor or Ignore.",
        "nodeTaintsPolicy": "Whether nodes whose taints the pod does not tolerate count: Honor or Ignore.",
    },
    "Container": {
        "args": "The arguments, instead of the image's own.",
        "command": "The program, instead of the image's own.",
        "env": "Variables of the environment.",
        "envFrom": "Config maps and secrets whose entries become variables.",
        "image": "What is run.",
        "imagePullPolicy": "Always, IfNotPresent or Never.",
        "livenessProbe": "What tells that the container must be restarted.",
        "name": "What tells the container from others of the pod.",
        "ports": "The ports that the container opens.",
        "readinessProbe": "What tells that the container can serve.",
        "resources": "What the container asks for and what it may use at most.",
        "restartPolicy": "Always makes an init container a sidecar, which runs as long as the others.",
        "securityContext": "With which rights the container runs.",
        "startupProbe": "What tells that the container has started; the other probes wait for it.",
        "volumeMounts": "Where the container sees the pod's volumes.",
        "workingDir": "Where the program starts.",
    },
    "ContainerPort": {
        "containerPort": "The port of the container.",
        "hostPort": "The port of the node that leads to it; only one pod of a node can have it.",
        "protocol": "TCP (the default), UDP or SCTP.",
    },
    "ResourceRequirements": {
        "requests": "What is set aside on the node.",
        "limits": "What can be used at most.",
        "claims": "The pod's device claims that the container uses.",
    },
    "EnvVar": {"name": "The variable.", "value": "Its value.", "valueFrom": "From where it has its value."},
    "VolumeMount": {
        "name": "The volume.",
        "mountPath": "Where the container sees it.",
        "readOnly": "Whether it cannot be written to.",
        "subPath": "Which part of the volume is meant.",
    },
    "Volume": {
        "name": "What tells the volume from others of the pod.",
        "configMap": "The entries of a config map, as files.",
        "emptyDir": "An empty folder that lasts as long as the pod.",
        "ephemeral": "A claim that lasts as long as the pod.",
        "hostPath": "A folder or file of the node.",
        "persistentVolumeClaim": "The volume of a claim.",
        "projected": "Several sources in one folder.",
        "secret": "The entries of a secret, as files.",
    },
    "PodStatus": {
        "phase": "Pending, Running, Succeeded, Failed or Unknown.",
        "containerStatuses": "What is known of the containers.",
        "hostIP": "The address of the node.",
        "podIP": "The address of the pod.",
        "nominatedNodeName": "The node where room is being made for the pod.",
        "qosClass": "How dear the pod is when memory runs out: Guaranteed, Burstable or BestEffort.",
        "startTime": "When the node took the pod.",
    },
    "NodeSpec": {
        "taints": "What the node repels.",
        "unschedulable": "Whether new pods stay away (`kubectl cordon`).",
        "podCIDR": "The addresses of the node's pods.",
        "providerID": "What the machine's provider calls it.",
    },
    "NodeStatus": {
        "addresses": "How the node is reached.",
        "allocatable": "What pods can have of the node.",
        "capacity": "What the node has.",
        "images": "The images that are there already.",
        "nodeInfo": "What runs on the node, with versions.",
    },
    "ConfigMap": {
        "data": "The entries.",
        "binaryData": "Entries that are not text, in base64.",
        "immutable": "Whether the entries can never be changed again.",
    },
    "Secret": {
        "data": "The entries, in base64.",
        "stringData": "Entries as plain text; the server puts them into `data`.",
        "immutable": "Whether the entries can never be changed again.",
        "type": "What the secret is for.",
    },
    "ServiceSpec": {
        "type": "ClusterIP (the default), NodePort, LoadBalancer or ExternalName.",
        "selector": "The labels of the pods behind the service.",
        "ports": "The ports of the service.",
        "clusterIP": "The address inside of the cluster; None for a service without one.",
        "externalName": "The name that an ExternalName service stands for.",
    },
    "ServicePort": {
        "port": "The port of the service.",
        "targetPort": "The port of the pods, by number or name.",
        "nodePort": "The port of all nodes that leads to the service.",
    },
    "Event": {
        "involvedObject": "What the event is about.",
        "regarding": "What the event is about.",
        "reason": "Why, in one word.",
        "message": "What happened.",
        "note": "What happened.",
        "type": "Normal or Warning.",
        "count": "How often it was reported.",
        "source": "Who reports it.",
    },
    "DeploymentSpec": {
        "strategy": "How a new template replaces an old one.",
        "paused": "Whether changes of the template wait.",
        "progressDeadlineSeconds": "After how long a replacement that makes no progress counts as failed.",
    },
    "DeploymentStrategy": {
        "type": "RollingUpdate (the default) or Recreate.",
        "rollingUpdate": "How many pods may be missing or surplus meanwhile.",
    },
    "StatefulSetSpec": {
        "serviceName": "The service that gives the pods their names.",
        "podManagementPolicy": "OrderedReady (one after the other, the default) or Parallel.",
        "updateStrategy": "How a new template replaces an old one.",
        "volumeClaimTemplates": "The claims that each pod has of its own.",
    },
    "DaemonSetSpec": {"updateStrategy": "How a new template replaces an old one."},
    "JobSpec": {
        "activeDeadlineSeconds": "How long the job may take.",
        "backoffLimit": "How many pods may fail before the job does.",
        "completions": "How many pods must succeed.",
        "completionMode": "NonIndexed (the default), or Indexed: each pod has a number and one of each must succeed.",
        "parallelism": "How many pods run at a time.",
        "suspend": "Whether the job pauses.",
        "ttlSecondsAfterFinished": "How long a finished job is kept.",
    },
    "CronJobSpec": {
        "schedule": "When, as in cron: minute, hour, day of the month, month, day of the week.",
        "timeZone": "Whose clock the schedule means.",
        "concurrencyPolicy": "What happens when the last job still runs: Allow (the default), Forbid or Replace.",
        "jobTemplate": "The job that copies are made of.",
        "suspend": "Whether it pauses.",
    },
    "PodDisruptionBudgetSpec": {
        "minAvailable": "How many of the pods must be there, as a number or a share.",
        "maxUnavailable": "How many of the pods may be missing, as a number or a share.",
    },
    "LimitRangeSpec": {"limits": "The limits, one item for each type."},
    "LimitRangeItem": {
        "type": "What each of them is on: Container, Pod or PersistentVolumeClaim.",
        "max": "The most that may be asked for.",
        "min": "The least that must be asked for.",
        "default": "The limits of a container that names none.",
        "defaultRequest": "The requests of a container that names none.",
        "maxLimitRequestRatio": "How many times its request a limit may be.",
    },
    "ResourceQuotaSpec": {
        "hard": "How much may be used, by resource: `pods`, `requests.cpu`, `count/deployments.apps`.",
        "scopes": "What a pod must be to be counted, such as NotTerminating; it cannot be changed.",
        "scopeSelector": "The same with operators and values, such as the names of PriorityClasses.",
    },
    "ScopeSelector": {"matchExpressions": "What must all hold."},
    "ScopedResourceSelectorRequirement": {
        "scopeName": "The scope, such as PriorityClass.",
        "operator": "In, NotIn, Exists or DoesNotExist.",
        "values": "The names for In and NotIn.",
    },
    "ResourceQuotaStatus": {"hard": "How much may be used.", "used": "How much is used."},
    "PodDisruptionBudgetStatus": {"disruptionsAllowed": "How many pods may be evicted now."},
    "PriorityClass": {
        "value": "The priority of its pods; the higher goes first.",
        "globalDefault": "Whether pods without a class have this one.",
        "description": "When to use it.",
        "preemptionPolicy": "PreemptLowerPriority (the default) or Never.",
    },
    "RuntimeClass": {
        "handler": "What runs the containers, by the name that the nodes know it by.",
        "overhead": "What each pod needs beside its containers.",
        "scheduling": "The nodes that can run it; pods have the selector and the tolerations from here.",
    },
    "StorageClass": {
        "provisioner": "Who makes the volumes.",
        "parameters": "What the provisioner is told.",
        "reclaimPolicy": "What becomes of a volume after its claim: Delete (the default) or Retain.",
        "volumeBindingMode": "Immediate (the default), or WaitForFirstConsumer: the pod's node decides.",
        "allowedTopologies": "Where volumes can be made.",
    },
    "PersistentVolumeSpec": {
        "capacity": "How much the volume holds.",
        "claimRef": "The claim that has it.",
        "nodeAffinity": "The nodes from which the volume can be reached.",
        "persistentVolumeReclaimPolicy": "What becomes of it after its claim: Retain, Delete or Recycle.",
    },
    "PersistentVolumeClaimSpec": {
        "resources": "How much storage is asked for.",
        "selector": "Which volumes come into question, by their labels.",
        "volumeName": "The volume that the claim has.",
    },
    "LeaseSpec": {
        "holderIdentity": "Who has the lease.",
        "leaseDurationSeconds": "How long it lasts after it was renewed.",
        "renewTime": "When it was renewed last.",
    },
    "Role": {"rules": "The rights."},
    "ClusterRole": {"rules": "The rights.", "aggregationRule": "The cluster roles whose rights this one has too."},
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "PolicyRule": {
        "apiGroups": "The groups of the resources; an empty one is the core.",
        "resources": "The resources, such as `pods` or `pods/status`; `*` for all.",
        "resourceNames": "The names of the objects; all when there are none.",
        "verbs": "What is allowed: get, list, watch, create, update, patch, delete, deletecollection; `*` for all.",
        "nonResourceURLs": "Paths that are no resources, such as `/metrics`.",
    },
    "ExactDeviceRequest": {
        "deviceClassName": "The class of the devices.",
        "selectors": "Conditions that a device must meet.",
        "allocationMode": "ExactCount (the default) or All.",
        "count": "How many devices.",
        "tolerations": "Which taints of devices do not matter.",
    },
    "DeviceRequest": {
        "exactly": "What is asked for.",
        "firstAvailable": "Several ways to satisfy the request; the first that can be had is taken.",
    },
    "CELDeviceSelector": {"expression": "A CEL expression over `device` that must be true."},
    "ResourceSliceSpec": {
        "driver": "The driver that offers the devices.",
        "devices": "The devices.",
        "pool": "The inventory that the slice is a part of.",
        "nodeName": "The node that has the devices.",
        "allNodes": "Whether every node can reach the devices.",
    },
    "DeviceTaintRuleSpec": {"deviceSelector": "The devices that are tainted.", "taint": "The taint."},
}


def text(owner: str, field: str) -> str:
    """The description of a field; empty when there is none."""
    return FIELDS.get(owner, {}).get(field) or _EVERYWHERE.get(field, "")
