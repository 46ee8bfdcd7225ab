from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api.meaning import meant
from moorage.api.node import Taint
from moorage.api.pod import PodSpec, Toleration
from moorage.api.rules import COVER, TOLERATIONS, text_of
from moorage.api.wellknown import TAINT_NOT_READY, TAINT_UNREACHABLE
from moorage.features import ALL_ON, NONE_ON
from moorage.match.nativecover import NO_COVER, native_cover, native_daemon_cover, native_device_tolerations
from moorage.match.tolerations import Tolerations
from tests.match import operands

SLA = "sla"
EVERYTHING = Toleration(operator="Exists", effect="NoExecute")
NATIVE = ("", "Equal", "Exists")
DEAD = (TAINT_NOT_READY, TAINT_UNREACHABLE)
DEFAULTS = tuple(Toleration(key, "Exists", "", "NoExecute", 300) for key in DEAD)


def on(key: str) -> Toleration:
    return Toleration(key, "Exists", "", "NoExecute")


EXACT = [
    (Toleration(SLA, "Gt", "950"), [SLA]),
    (Toleration(SLA, "Gt", "950", "NoExecute", 30), [SLA]),
    (Toleration(SLA, "Gt", "950", "NoExecute", 0), []),
    (Toleration(SLA, "Gt", "950", "NoSchedule"), []),
    (Toleration(SLA, "Equal", "5", "PreferNoSchedule"), []),
    (Toleration("gpu/*", "Exists", "", "NoSchedule"), []),
    (Toleration(expression="taint.key == 'sla' && int(taint.value) > 950"), [SLA]),
    (Toleration(expression="'sla' == taint.key || taint.key in ['b', 'a']"), ["a", "b", SLA]),
    (Toleration(expression="taint.key.startsWith('x') && taint.effect == 'NoSchedule'"), []),
    (Toleration(expression="taint.key == 'a' && taint.key == 'b'"), []),
    (Toleration(expression="this does not compile"), []),
]


@pytest.mark.parametrize(("rule", "keys"), EXACT, ids=str)
def test_the_cover_names_the_keys_that_rules_name_and_no_others(rule: Toleration, keys: list[str]) -> None:
    assert native_cover((rule,), DEFAULTS).tolerations == tuple(map(on, keys))


@pytest.mark.parametrize(
    "rule",
    [
        Toleration("readiness.k8s.io/*", "Exists"),
        Toleration(operator="Exists"),
        Toleration(expression="taint.key.startsWith('readiness.k8s.io/')"),
        Toleration(expression="taint.key == 'a' || taint.value == 'b'"),
        Toleration(expression="taint.key != 'a'"),
    ],
    ids=str,
)
def test_a_rule_whose_keys_nobody_can_know_is_covered_for_all_keys(rule: Toleration) -> None:
    cover = native_cover((rule, Toleration(SLA, "Gt", "5")), DEFAULTS)
    assert cover.tolerations == (*DEFAULTS, EVERYTHING), "the seconds on dead nodes stand before it"
    assert cover.record == (EVERYTHING,), "the seconds are the pod's own"


def test_a_pod_without_seconds_for_dead_nodes_gets_them_before_a_cover_of_all_keys() -> None:
    cover = native_cover((Toleration("a/*", "Exists"),), ())
    assert cover.tolerations == cover.record == (*DEFAULTS, EVERYTHING)


def test_native_comparisons_are_covered_unless_all_components_have_their_gate() -> None:
    native = (Toleration(SLA, "Gt", "950", "NoExecute"),)
    assert native_cover((), native).tolerations == (on(SLA),)
    assert native_cover((), native, covers_native=False) == NO_COVER


def test_a_cover_stands_before_native_tolerations_that_would_end_the_stay_earlier() -> None:
    native = (Toleration(SLA, "Exists", "", "NoExecute", 60),)
    assert native_cover((Toleration(SLA, "Gt", "5"),), native).tolerations == (on(SLA),)
    assert native_cover((Toleration(SLA, "Gt", "5"),), (on(SLA), *native)) == NO_COVER
    assert native_cover((Toleration(SLA, "Gt", "5"),), (*native, on(SLA))).tolerations == (on(SLA),)
    anything = (Toleration("*", "Exists"),)
    assert native_cover(anything, (*DEFAULTS, EVERYTHING, *native)) == NO_COVER
    assert native_cover(anything, (*DEFAULTS, *native, EVERYTHING)).tolerations == (*DEFAULTS, EVERYTHING)


natives = st.builds(
    Toleration,
    key=st.sampled_from(("", *operands.KEYS, *DEAD)),
    operator=st.sampled_from(NATIVE),
    value=st.sampled_from(("", "5", "high")),
    effect=operands.effects,
    toleration_seconds=operands.seconds,
)
taints = operands.taints | st.builds(
    Taint, key=st.sampled_from((*operands.KEYS, *DEAD)), value=operands.values, effect=st.just("NoExecute")
)


@settings(max_examples=400)
@given(
    st.lists(operands.tolerations, max_size=4), st.lists(natives, max_size=4), st.lists(taints, min_size=1, max_size=4)
)
def test_nobody_evicts_natively_whom_rules_let_stay_and_the_cover_adds_no_meaning(
    rules: list[Toleration], own: list[Toleration], found: list[Taint]
) -> None:
    ruled, native = tuple(rules), tuple(own)
    cover = native_cover(ruled, native)
    covered = (*cover.tolerations, *native)
    assert native_cover(ruled, covered) == NO_COVER, "a cover that stands is not added again"
    stock = Tolerations(covered, NONE_ON)
    meaning = Tolerations((*ruled, *native), ALL_ON)
    for taint in found:
        stays = meaning.grace_seconds((taint,))
        if taint.key in DEAD and any(rule.key != taint.key for rule in ruled):
            continue  # a dead node is left while nobody applies rules
        if stays is None or stays > 0:
            first = meaning.first_match(taint)
            if first in ruled:
                assert stock.grace_seconds((taint,)) is None
    annotations = {COVER: text_of(cover.record), TOLERATIONS: text_of(ruled)}
    said = Tolerations(meant(PodSpec(tolerations=covered), annotations).tolerations, ALL_ON)
    assert [said.grace_seconds((taint,)) for taint in found] == [meaning.grace_seconds((taint,)) for taint in found]


@settings(max_examples=200)
@given(st.lists(operands.plain_tolerations, max_size=4), st.lists(operands.taints, min_size=1, max_size=4))
def test_what_no_rule_can_match_is_not_covered_unless_nobody_can_know(
    rules: list[Toleration], found: list[Taint]
) -> None:
    cover = Tolerations(native_cover(tuple(rules), ()).tolerations, NONE_ON)
    unknowable = any(not rule.key or "*" in rule.key for rule in rules)
    for taint in found:
        if cover.verdict(taint).matched and not unknowable:
            assert taint.effect == "NoExecute"
            assert any(rule.key == taint.key and rule.effect in ("", "NoExecute") for rule in rules)


def test_the_template_of_a_daemon_set_is_covered_for_all_effects() -> None:
    scheduling = Toleration(expression="taint.key == 'a' && taint.effect == 'NoSchedule'")
    named = (scheduling, Toleration(SLA, "Gt", "5", "NoSchedule"))
    assert native_daemon_cover(named) == (Toleration("a", "Exists"), Toleration(SLA, "Exists"))
    assert native_daemon_cover((*named, Toleration("x/*", "Exists"))) == (Toleration(operator="Exists"),)


def test_devices_are_written_with_native_tolerations_and_the_cover_of_the_others() -> None:
    own = Toleration("a", "Exists", "", "NoExecute", 30)
    assert native_device_tolerations((own, Toleration(SLA, "Gt", "5"))) == (own, on(SLA))
    assert native_device_tolerations((own, Toleration("x/*", "Exists"))) == (own, EVERYTHING)
    many = tuple(msgspec.structs.replace(own, key=f"k{number}") for number in range(16))
    assert native_device_tolerations((*many, Toleration(SLA, "Gt", "5"))) == (EVERYTHING,)


class CountingTolerations(tuple[Toleration, ...]):
    """Counts how often it is gone through."""

    rounds = 0

    def __iter__(self) -> Iterator[Toleration]:
        self.rounds += 1
        return super().__iter__()


def test_a_pod_with_very_many_tolerations_is_gone_through_a_few_times() -> None:
    native = CountingTolerations(Toleration(f"k{number}", "Gt", "5") for number in range(2_000))
    rules = tuple(Toleration(f"r{number}", "Exists") for number in range(1_000))
    cover = native_cover(rules, native)
    assert len(cover.tolerations) == 3_000
    assert native.rounds < 6
