from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.features import ALL_ON
from moorage.match.cover import covers, overlap, threshold
from moorage.match.tolerations import Tolerations
from moorage.semver import parse
from tests import known_expressions as known
from tests.match import operands

VALUES = ("0", "5", "05", "9", "9.0.0", "9.0.0-rc", "high", "")
KEYS = ("", "gpu.io/a", "gpu.io/*", "*/*", "sla")
POOL = [
    *(
        Toleration(key, operator, value, effect)
        for key, operator, value, effect in product(
            KEYS, ("", "Equal", "Gt", "Lt", "SemverEq", "SemverGt", "SemverLt", "Ge"), VALUES, ("", "NoExecute")
        )
    ),
    *(Toleration(key, "Exists", "", effect) for key in KEYS for effect in ("", "NoExecute")),
    *(Toleration(expression=source) for source in operands.EXPRESSIONS),
]
TAINTS = [
    Taint(key, value, effect)
    for key, value, effect in product(
        ("gpu.io/a", "gpu.io/b", "sla"), (*VALUES, "-1", "4", "6", "10", "8.9", "10.0.1"), ("NoExecute", "NoSchedule")
    )
]


def tolerated(toleration: Toleration, taints: list[Taint]) -> set[Taint]:
    asked = Tolerations([toleration], ALL_ON)
    return {taint for taint in taints if asked.verdict(taint).matched}


def test_what_covers_another_tolerates_all_that_the_other_does() -> None:
    reach = {toleration: tolerated(toleration, TAINTS) for toleration in POOL}
    covering = [(wide, narrow) for wide, narrow in product(POOL, repeat=2) if wide != narrow and covers(wide, narrow)]
    assert [(wide, narrow) for wide, narrow in covering if not reach[narrow] <= reach[wide]] == []
    assert sum(bool(reach[narrow]) for _, narrow in covering) > 1000


@settings(max_examples=200)
@given(operands.tolerations, st.lists(operands.taints, min_size=1, max_size=5), st.data())
def test_a_toleration_that_covers_another_matches_whenever_the_other_does(
    narrow: Toleration, taints: list[Taint], data: st.DataObject
) -> None:
    like = st.builds(
        Toleration,
        key=st.sampled_from(("", narrow.key, "*", "*/*")),
        operator=st.sampled_from((narrow.operator, "Exists", "Gt", "SemverGt", "SemverLt")),
        value=st.just(narrow.value) | operands.values,
        effect=st.sampled_from(("", narrow.effect)),
        expression=st.just(narrow.expression),
    )
    wide = data.draw(like)
    if covers(wide, narrow):
        assert tolerated(narrow, taints) <= tolerated(wide, taints)


@pytest.mark.parametrize("toleration", [toleration for toleration in POOL if tolerated(toleration, TAINTS)], ids=str)
def test_every_toleration_that_can_match_covers_itself(toleration: Toleration) -> None:
    assert covers(toleration, toleration)


SLA = "sla"
COVERED = [
    (Toleration("", "Exists"), Toleration(SLA, "Gt", "950", "NoExecute")),
    (Toleration(SLA, "Exists"), Toleration(SLA, "Equal", "5")),
    (Toleration(SLA, "Exists"), Toleration(SLA, "Exists", effect="NoSchedule")),
    (Toleration("gpu.io/*", "Exists"), Toleration("gpu.io/a", "Gt", "5")),
    (Toleration("gpu.io/*", "Gt", "5"), Toleration("gpu.io/a", "Gt", "9")),
    (Toleration(SLA, "Gt", "900"), Toleration(SLA, "Gt", "950")),
    (Toleration(SLA, "Lt", "950"), Toleration(SLA, "Lt", "900")),
    (Toleration(SLA, "Gt", "900"), Toleration(SLA, "", "950")),
    (Toleration(SLA, "SemverGt", "1.30"), Toleration(SLA, "SemverGt", "1.31")),
    (Toleration(SLA, "SemverGt", "1.30"), Toleration(SLA, "SemverEq", "v1.31")),
    (Toleration(SLA, "SemverEq", "1.31"), Toleration(SLA, "Equal", "v1.31.0")),
    (Toleration(SLA, "", "5"), Toleration(SLA, "Equal", "5", "NoExecute")),
    (Toleration("", "Exists"), Toleration(expression=known.ON_GPU)),
    (Toleration(expression=known.ON_GPU), Toleration(expression=known.ON_GPU, toleration_seconds=5)),
]
NOT_COVERED = [
    (Toleration(SLA, "Exists", effect="NoExecute"), Toleration(SLA, "Exists")),
    (Toleration(SLA, "Exists"), Toleration("", "Exists")),
    (Toleration("gpu.io/*", "Exists"), Toleration("*/*", "Exists")),
    (Toleration("gpu.io/*", "Exists"), Toleration("", "Exists")),
    (Toleration("gpu.io/*", "Exists"), Toleration("gpu.io/a/b", "Exists")),
    (Toleration(SLA, "Gt", "950"), Toleration(SLA, "Gt", "900")),
    (Toleration(SLA, "Gt", "950"), Toleration(SLA, "Equal", "950")),
    (Toleration(SLA, "Gt", "900"), Toleration(SLA, "Equal", "0950")),
    (Toleration(SLA, "Gt", "900"), Toleration(SLA, "SemverGt", "950")),
    (Toleration(SLA, "Gt", "900"), Toleration(SLA, "Exists")),
    (Toleration(SLA, "SemverGt", "1.31"), Toleration(SLA, "SemverEq", "1.31.0-rc.1")),
    (Toleration(expression=known.ALWAYS), Toleration(SLA, "Exists")),
    (Toleration("", "Exists", effect="NoExecute"), Toleration(expression=known.ON_GPU)),
    (Toleration(SLA, "Exists"), Toleration(expression=known.ON_GPU)),
    (Toleration("", "Equal", "5"), Toleration(SLA, "Equal", "5")),
    (Toleration(expression=known.EVICTING), Toleration(expression=known.ON_GPU)),
]


@pytest.mark.parametrize(("wide", "narrow"), COVERED, ids=str)
def test_a_wider_toleration_makes_a_narrower_one_superfluous(wide: Toleration, narrow: Toleration) -> None:
    assert covers(wide, narrow)


@pytest.mark.parametrize(("wide", "narrow"), NOT_COVERED, ids=str)
def test_a_toleration_that_lets_more_through_is_not_covered(wide: Toleration, narrow: Toleration) -> None:
    assert not covers(wide, narrow)


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        (Toleration("a", effect="NoExecute"), Toleration("a", effect="NoExecute"), True),
        (Toleration("a", effect="NoExecute"), Toleration("a"), True),
        (Toleration("a"), Toleration("a"), True),
        (Toleration("a", effect="NoExecute"), Toleration("a", effect="NoSchedule"), False),
        (Toleration("a"), Toleration("b"), False),
    ],
)
def test_two_tolerations_of_one_key_overlap_unless_their_effects_differ(
    one: Toleration, other: Toleration, meets: bool
) -> None:
    assert overlap(one, other) == overlap(other, one) == meets


@pytest.mark.parametrize(
    ("operator", "value", "bound"),
    [
        ("Gt", "950", 950),
        ("Lt", "-5", -5),
        ("Gt", "0950", None),
        ("SemverGt", "v1.31", parse("1.31.0")),
        ("SemverEq", "latest", None),
        ("Equal", "950", None),
        ("", "950", None),
        ("Exists", "", None),
    ],
)
def test_the_threshold_is_the_number_or_version_that_is_compared_with(operator: str, value: str, bound: object) -> None:
    assert threshold(Toleration("sla", operator, value)) == bound
