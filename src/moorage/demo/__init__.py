"""The user stories of the design documents, played on a control plane."""
