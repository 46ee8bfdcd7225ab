"""Scales: the sub-resource of workloads that have replicas."""

from __future__ import annotations

from moorage.api.kinds import Kind
from moorage.registry.printing import cells
from moorage.registry.printing.columns import AGE, NAME_TEXT, column, integer
from moorage.registry.strategy import Strategy

SCALE = Strategy(
    kind=Kind("autoscaling", "v1", "Scale", "scales"),
    columns=(
        column("Name", cells.name, NAME_TEXT),
        integer("Desired", cells.number("spec.replicas"), "How many pods there should be."),
        integer("Available", cells.number("status.replicas"), "How many pods there are."),
        AGE,
    ),
)
