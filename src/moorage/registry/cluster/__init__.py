"""Kinds of the whole cluster and of its namespaces: nodes, accounts, settings, services, limits."""
