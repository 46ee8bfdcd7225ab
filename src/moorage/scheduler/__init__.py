"""The scheduler, and what a plugin of another package needs to import."""

from moorage.scheduler.framework import (
    MAX_SCORE,
    SKIP,
    Cycle,
    Handle,
    Nomination,
    Plugin,
    Reject,
    Rejection,
    Scope,
    Skip,
    Unbindable,
    normalized,
)
from moorage.scheduler.table.columns import Answers, Column
from moorage.scheduler.table.nodes import Index, Mask, NodeTable, Rows, Scores
from moorage.scheduler.table.shape import PodInfo, Shape

__all__ = [
    "MAX_SCORE",
    "SKIP",
    "Answers",
    "Column",
    "Cycle",
    "Handle",
    "Index",
    "Mask",
    "NodeTable",
    "Nomination",
    "Plugin",
    "PodInfo",
    "Reject",
    "Rejection",
    "Rows",
    "Scope",
    "Scores",
    "Shape",
    "Skip",
    "Unbindable",
    "normalized",
]
