"""The seeds of tests that do things at random: one that is fixed, or in `make fuzz` the one of the round."""

from __future__ import annotations

import os

_GIVEN = os.environ.get("MOORAGE_TEST_SEED", "")
FUZZING = bool(_GIVEN)


def seed(usual: int) -> int:
    """The seed of a test whose usual seed is this one."""
    return int(_GIVEN or usual)
