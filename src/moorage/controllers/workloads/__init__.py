"""Controllers of workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs."""
