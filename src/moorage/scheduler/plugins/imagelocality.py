"""ImageLocality: prefers nodes that have the images of the pod already."""

from __future__ import annotations

import numpy as np

from moorage.scheduler.framework import MAX_SCORE, SKIP, Cycle, Plugin, Scope, Skip
from moorage.scheduler.table.nodes import Rows, Scores

_LEAST, _MOST = 23 * 1024 * 1024, 1000 * 1024 * 1024
"""Below the first, sizes make no difference; above the second, for each container, no more difference."""


class ImageLocality(Plugin):
    """Adds up the sizes of the images, large and widespread ones first of all."""

    name = "ImageLocality"
    scope = Scope.CLUSTER

    def pre_score(self, cycle: Cycle) -> Skip | None:
        """Where no node has any of the images, all are the same."""
        images = self.handle.table.images
        return None if images and any(image in images for image in cycle.shape.images) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """Sizes, scaled by the share of nodes that have the image."""
        table, images = self.handle.table, cycle.shape.images
        sizes = np.zeros(table.size, np.int64)
        for image in images:
            there = table.images.get(image, {})
            spread = len(there) / max(table.count, 1)
            for row, size in there.items():
                sizes[row] += int(size * spread)
        most = _MOST * len(images)
        score: Scores = MAX_SCORE * (np.clip(sizes[rows], _LEAST, most) - _LEAST) // (most - _LEAST)
        return score
