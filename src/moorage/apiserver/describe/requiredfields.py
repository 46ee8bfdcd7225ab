"""The required fields of each type, for its OpenAPI schema."""

from __future__ import annotations

from collections.abc import Mapping

_REQUIRED = """
Binding target
CELDeviceSelector expression
ClusterRoleBinding roleRef
Condition lastTransitionTime message reason status type
ConfigMapKeySelector key
Container name
ContainerPort containerPort
CronJob spec
CronJobSpec jobTemplate schedule
CSIDriver spec
CSINode spec
CSINodeSpec drivers
CSIStorageCapacity storageClassName
DaemonSetSpec selector template
DeploymentSpec selector template
Device name
DeviceClass spec
DeviceRequest name
DeviceSubRequest deviceClassName name
DeviceTaint effect key
DeviceTaintRule spec
DeviceTaintRuleSpec taint
EnvVar name
EphemeralContainer name
ExactDeviceRequest deviceClassName
HostPathVolumeSource path
HTTPGetAction port
JobSpec template
KeyToPath key path
LabelSelectorRequirement key operator
LimitRangeItem type
LimitRangeSpec limits
LocalSubjectAccessReview spec
NodeAddress address type
NodeCondition status type
NodeSelector nodeSelectorTerms
NodeSelectorRequirement key operator
ObjectFieldSelector fieldPath
OwnerReference apiVersion kind name uid
PersistentVolumeClaimTemplate spec
PersistentVolumeClaimVolumeSource claimName
PodAffinityTerm topologyKey
PodCondition status type
PodReadinessGate conditionType
PodResourceClaim name
PodSchedulingGate name
PodSpec containers
PolicyRule verbs
PreferredSchedulingTerm preference weight
ReplicaSetSpec selector
ResourceClaimTemplate spec
ResourceClaimTemplateSpec spec
ResourcePool generation name resourceSliceCount
ResourceSlice spec
ResourceSliceSpec driver pool
RoleBinding roleRef
RoleRef kind name
RuntimeClass handler
ScopedResourceSelectorRequirement operator scopeName
SecretKeySelector key
SelfSubjectAccessReview spec
SelfSubjectRulesReview spec
ServicePort port
StatefulSetSpec selector template
StorageClass provisioner
Subject kind name
SubjectAccessReview spec
Taint effect key
TCPSocketAction port
TokenReview spec
TopologySpreadConstraint maxSkew topologyKey whenUnsatisfiable
Volume name
VolumeAttachment spec
VolumeAttachmentSpec attacher nodeName source
VolumeDevice devicePath name
VolumeMount mountPath name
WeightedPodAffinityTerm podAffinityTerm weight
"""

REQUIRED: Mapping[str, tuple[str, ...]] = {
    owner: tuple(fields) for owner, *fields in map(str.split, _REQUIRED.strip().splitlines())
}
"""Required fields by type."""
