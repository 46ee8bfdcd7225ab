"""Keys, names and values that Kubernetes itself gives a meaning: node taints and labels, system priorities."""

from __future__ import annotations

TAINT_NOT_READY = "node.kubernetes.io/not-ready"
TAINT_UNREACHABLE = "node.kubernetes.io/unreachable"
TAINT_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
TAINT_MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"
TAINT_DISK_PRESSURE = "node.kubernetes.io/disk-pressure"
TAINT_PID_PRESSURE = "node.kubernetes.io/pid-pressure"
TAINT_NETWORK_UNAVAILABLE = "node.kubernetes.io/network-unavailable"
TAINT_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

LABEL_HOSTNAME = "kubernetes.io/hostname"
LABEL_OS = "kubernetes.io/os"
LABEL_ARCH = "kubernetes.io/arch"
LABEL_ZONE = "topology.kubernetes.io/zone"
LABEL_REGION = "topology.kubernetes.io/region"
LABEL_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
LABEL_EXCLUDE_DISRUPTION = "node.kubernetes.io/exclude-disruption"
LABEL_NODE_ROLE_PREFIX = "node-role.kubernetes.io/"
"""What stands before a role's name in the label of a node that has the role."""
LABEL_NODE_ROLE = "kubernetes.io/role"

DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": LABEL_ARCH,
    "beta.kubernetes.io/os": LABEL_OS,
    "beta.kubernetes.io/instance-type": LABEL_INSTANCE_TYPE,
    "failure-domain.beta.kubernetes.io/region": LABEL_REGION,
    "failure-domain.beta.kubernetes.io/zone": LABEL_ZONE,
}
"""Old label keys of nodes, and the keys that replace them."""

SYSTEM_CLUSTER_CRITICAL, SYSTEM_NODE_CRITICAL = "system-cluster-critical", "system-node-critical"
SYSTEM_PRIORITIES = {SYSTEM_CLUSTER_CRITICAL: 2_000_000_000, SYSTEM_NODE_CRITICAL: 2_000_001_000}
"""The priority classes that every cluster has, with their values."""
CRITICAL_PRIORITY = SYSTEM_PRIORITIES[SYSTEM_CLUSTER_CRITICAL]
"""From this priority on a pod is critical to the system."""
HIGHEST_USER_PRIORITY = 1_000_000_000
"""The highest value of a priority class that is not the system's."""
