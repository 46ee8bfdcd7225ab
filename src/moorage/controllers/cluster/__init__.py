"""Controllers of the cluster: namespaces, garbage collection, service accounts, disruption budgets."""
