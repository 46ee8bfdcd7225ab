"""Who may do what: authentication, RBAC, tokens and certificates."""
