"""How fast pods are placed: workloads in the format of Kubernetes' scheduler_perf, run from end to end."""
