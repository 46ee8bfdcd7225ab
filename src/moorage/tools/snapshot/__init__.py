"""A snapshot of a cluster: what placement depends on, and nothing else, in a file."""

from moorage.tools.snapshot.fields import KINDS, ReducedPage, reduce_page
from moorage.tools.snapshot.file import SnapshotError, SnapshotWriter, load_snapshot

__all__ = ["KINDS", "ReducedPage", "SnapshotError", "SnapshotWriter", "load_snapshot", "reduce_page"]
