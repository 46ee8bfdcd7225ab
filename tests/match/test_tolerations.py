from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.features import ALL_ON, NONE_ON, Gate, Gates
from moorage.match.tolerations import Tolerations
from moorage.match.verdict import MATCH, NO_MATCH, Verdict
from tests import known_expressions as known
from tests.match import naive, operands
from tests.match.operands import EFFECTS, GATE_SETS, KEYS, OPERATORS, PATTERNS, VALUES, gate_names

COMPARISON, SEMVER = Gates(frozenset([Gate.COMPARISON])), Gates(frozenset([Gate.SEMVER]))
CEL, WILDCARD = Gates(frozenset([Gate.CEL])), Gates(frozenset([Gate.WILDCARD]))

all_gates = pytest.mark.parametrize("gates", GATE_SETS, ids=gate_names)


def compiled(*tolerations: Toleration, gates: Gates = ALL_ON) -> Tolerations:
    return Tolerations(tolerations, gates)


def ask(toleration: Toleration, taint: Taint, gates: Gates = ALL_ON) -> Verdict:
    return compiled(toleration, gates=gates).verdict(taint)


def sla(value: str, effect: str = "NoSchedule") -> Taint:
    return Taint("sla", value, effect)


@all_gates
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator or "empty")
def test_the_operand_grid(operator: str, gates: Gates) -> None:
    taints = [sla(value) for value in VALUES]
    wrong = []
    for value in VALUES:
        toleration = Toleration("sla", operator, value)
        asked = compiled(toleration, gates=gates)
        for taint in taints:
            want, got = naive.tolerates(toleration, taint, gates), naive.answer(asked.verdict(taint))
            if want != got:
                wrong.append(f"{operator} {value!r} against {taint.value!r}: want {want}, got {got}")
    assert not wrong, "\n".join(wrong)


@all_gates
def test_the_grid_of_keys_and_effects(gates: Gates) -> None:
    wrong = []
    for key in ("", *KEYS, *PATTERNS):
        for effect in ("", *EFFECTS):
            for operator in OPERATORS:
                toleration = Toleration(key, operator, "5", effect)
                asked = compiled(toleration, gates=gates)
                for taint in (Taint(key, "5", effect) for key in KEYS for effect in EFFECTS):
                    want, got = naive.tolerates(toleration, taint, gates), naive.answer(asked.verdict(taint))
                    if want != got:
                        wrong.append(f"{toleration} against {taint}: want {want}, got {got}")
    assert not wrong, "\n".join(wrong)


@settings(max_examples=400)
@given(st.lists(operands.tolerations, max_size=4), st.lists(operands.taints, max_size=4), operands.gate_sets)
def test_compiled_tolerations_say_what_the_rules_say(
    tolerations: list[Toleration], taints: list[Taint], gates: Gates
) -> None:
    asked = compiled(*tolerations, gates=gates)
    for taint in taints:
        answers = [naive.tolerates(toleration, taint, gates) for toleration in tolerations]
        assert [naive.answer(verdict) for verdict in asked.verdicts(taint)] == answers
        matching = [toleration for toleration, answer in zip(tolerations, answers, strict=True) if answer.matched]
        assert asked.first_match(taint) is (matching[0] if matching else None)
        errors = [answer for answer in answers if answer.log]
        want = naive.MATCH if matching else (errors or [naive.NO_MATCH])[0]
        assert naive.answer(asked.verdict(taint)) == want

    def repels(taint: Taint) -> bool:
        return taint.effect in ("NoSchedule", "NoExecute") and asked.first_match(taint) is None

    assert asked.first_untolerated(taints) is next(filter(repels, taints), None)


@given(st.lists(operands.tolerations, max_size=4), st.lists(operands.taints, max_size=4), operands.gate_sets)
@example([Toleration(effect="NoSchedule", expression=known.ALWAYS)], [sla("5", "PreferNoSchedule")], CEL)
def test_preferences_that_nobody_tolerates_are_counted(
    tolerations: list[Toleration], taints: list[Taint], gates: Gates
) -> None:
    kept = [
        toleration
        for toleration in tolerations
        if toleration.expression or toleration.effect in ("", "PreferNoSchedule")
    ]
    preferred = [taint for taint in taints if taint.effect == "PreferNoSchedule"]
    unmatched = [
        taint
        for taint in preferred
        if not any(naive.tolerates(toleration, taint, gates).matched for toleration in kept)
    ]
    assert compiled(*tolerations, gates=gates).untolerated_preferred(taints) == len(unmatched)


ABOVE, BELOW = Toleration("sla", "Gt", "950"), Toleration("sla", "Lt", "950")


def test_gt_toleration_admits_nodes_above_the_threshold() -> None:
    assert [ask(ABOVE, sla(value)).matched for value in ("949", "950", "951")] == [False, False, True]


def test_lt_toleration_admits_nodes_below_the_threshold() -> None:
    assert [ask(BELOW, sla(value)).matched for value in ("949", "950", "951")] == [True, False, False]


def test_a_semver_toleration_compares_the_taints_version_with_its_own() -> None:
    newer, older = Toleration("cni", "SemverGt", "v3.28"), Toleration("cni", "SemverLt", "v3.28")
    same = Toleration("cni", "SemverEq", "v3.28")
    for value, order in (("3.27.9", "older"), ("3.28.0-rc.1", "older"), ("3.28.0+b", "same"), ("3.28.1", "newer")):
        taint = Taint("cni", value, "NoSchedule")
        assert [ask(each, taint).matched for each in (older, same, newer)] == [
            order == "older", order == "same", order == "newer",
        ]  # fmt: skip


def test_a_kernel_version_is_a_pre_release_and_so_below_its_release() -> None:
    assert not ask(Toleration("kernel", "SemverGt", "5.15"), Taint("kernel", "5.15.0-1034-aws", "NoSchedule"))
    assert ask(Toleration("kernel", "SemverLt", "5.15"), Taint("kernel", "5.15.0-1034-aws", "NoSchedule"))


INT_LOG, VERSION_LOG = "failed to parse {} value as int64", "failed to parse {} value as semantic version"


@pytest.mark.parametrize("value", ["high", "", "0950", "+5", "95.5", "٣", "9223372036854775808"])
def test_a_taint_that_is_no_number_is_an_error_with_a_reason(value: str) -> None:
    verdict = ask(ABOVE, sla(value))
    assert not verdict
    assert verdict.error == f'"{value}" is not a decimal integer'
    assert verdict.log == "failed to parse taint value as int64"


def test_a_taint_that_is_no_version_is_an_error_with_a_reason() -> None:
    verdict = ask(Toleration("runtime", "SemverGt", "2.0"), Taint("runtime", "containerd://2.1.4", "NoSchedule"))
    assert not verdict
    assert verdict.error.startswith(
        '"containerd://2.1.4" is not a semantic version: Invalid character(s) found in major'
    )
    assert verdict.log == "failed to parse taint value as semantic version"


@pytest.mark.parametrize(
    ("operator", "log"),
    [("Gt", INT_LOG), ("Lt", INT_LOG), ("SemverEq", VERSION_LOG), ("SemverGt", VERSION_LOG), ("SemverLt", VERSION_LOG)],
)
def test_the_log_says_whose_value_does_not_parse(operator: str, log: str) -> None:
    assert ask(Toleration("sla", operator, "5"), sla("high")).log == log.format("taint")
    assert ask(Toleration("sla", operator, "high"), sla("5")).log == log.format("toleration")
    assert ask(Toleration("sla", operator, "high"), sla("low")).log == log.format("toleration")


def test_a_taint_of_another_key_or_effect_is_no_error() -> None:
    assert ask(ABOVE, Taint("other", "high", "NoSchedule")) == NO_MATCH
    assert ask(Toleration("sla", "Gt", "950", "NoExecute"), sla("high")) == NO_MATCH


def test_an_error_does_not_stop_the_other_tolerations() -> None:
    for tolerations in ((ABOVE, Toleration("sla", "Exists")), (Toleration("sla", "Exists"), ABOVE)):
        asked = compiled(*tolerations)
        assert asked.verdict(sla("high")) == MATCH
        assert asked.first_match(sla("high")) == Toleration("sla", "Exists")
        assert asked.first_untolerated([sla("high")]) is None


def test_the_first_error_is_what_a_set_without_a_match_says() -> None:
    asked = compiled(Toleration("other", "Exists"), ABOVE, Toleration("sla", "SemverGt", "1.0"))
    assert asked.verdict(sla("high")).log == "failed to parse taint value as int64"


@pytest.mark.parametrize(("operator", "gate"), [("Gt", SEMVER), ("Lt", CEL), ("SemverEq", COMPARISON)])
def test_an_operator_whose_gate_is_off_does_not_match_and_is_no_error(operator: str, gate: Gates) -> None:
    for value in ("5", "high"):
        assert ask(Toleration("sla", operator, value), sla("5"), gate) == NO_MATCH


VALUELESS = [Taint(key, "", effect) for key in KEYS for effect in EFFECTS]


@all_gates
def test_an_expression_never_falls_through_to_the_rules_below_it(gates: Gates) -> None:
    # Without its expression the toleration would be empty, and match every taint without a value.
    for taint in VALUELESS:
        never, always = Toleration(expression=known.NEVER), Toleration(expression=known.ALWAYS)
        assert ask(never, taint, gates) == NO_MATCH
        assert ask(always, taint, gates).matched == gates.enabled(Gate.CEL)
        assert ask(Toleration(), taint, gates).matched


def test_an_expression_decides_alone_whatever_stands_beside_it() -> None:
    beside = Toleration("other", "Equal", "no", "NoSchedule", expression=known.ALWAYS)
    assert ask(beside, sla("5", "NoExecute")) == MATCH
    assert ask(beside, sla("5", "NoExecute"), NONE_ON) == NO_MATCH
    against = Toleration("sla", "Exists", expression=known.NEVER)
    assert ask(against, sla("5")) == NO_MATCH
    assert ask(against, sla("5"), NONE_ON) == NO_MATCH


def test_an_expression_that_cannot_be_evaluated_is_an_error() -> None:
    aged = Toleration(expression=known.AGED)
    assert ask(aged, sla("5")) == known.NO_TIME
    assert ask(aged, Taint("sla", "5", "NoSchedule", datetime(2024, 5, 6, tzinfo=UTC))) == NO_MATCH


@pytest.mark.parametrize(("operator", "matches"), [("", True), ("Equal", True), ("Exists", True), ("Ge", False)])
def test_no_effect_means_every_effect_and_an_effect_means_that_one(operator: str, matches: bool) -> None:
    for mine in EFFECTS:
        for theirs in EFFECTS:
            assert ask(Toleration("sla", operator, "5", mine), sla("5", theirs)).matched == (matches and mine == theirs)
            assert ask(Toleration("sla", operator, "5"), sla("5", theirs)).matched == matches


CNI, NESTED = Taint("readiness.k8s.io/cni", "", "NoSchedule"), Taint("a/middle", "", "NoSchedule")


def test_a_wildcard_key_matches_its_family_only() -> None:
    family = Toleration("readiness.k8s.io/*", "Exists")
    assert ask(family, CNI, WILDCARD) == MATCH
    assert ask(family, Taint("readiness.k8s.io", "", "NoSchedule"), WILDCARD) == NO_MATCH
    assert ask(Toleration("*middle*", "Exists"), NESTED, WILDCARD) == NO_MATCH
    assert ask(Toleration("*/*", "Exists"), NESTED, WILDCARD) == MATCH


def test_a_wildcard_key_is_a_literal_key_while_its_gate_is_off() -> None:
    family = Toleration("readiness.k8s.io/*", "Exists")
    assert ask(family, CNI, NONE_ON) == NO_MATCH
    assert ask(family, Taint("readiness.k8s.io/*", "", "NoSchedule"), NONE_ON) == MATCH


def test_a_wildcard_key_works_with_every_operator() -> None:
    taint = Taint("gpu.example.com/hours", "8", "NoSchedule")
    for operator, value, matched in (
        ("Equal", "8", True), ("Equal", "9", False), ("Exists", "", True), ("Gt", "7", True), ("Lt", "7", False),
        ("SemverEq", "8.0.0", True), ("SemverGt", "8", False),
    ):  # fmt: skip
        assert ask(Toleration("gpu.example.com/*", operator, value), taint).matched == matched
    assert ask(Toleration("gpu.example.com/*", "Gt", "7"), Taint("gpu.example.com/a", "x", "NoSchedule")).error


def test_the_first_matching_toleration_is_the_one_that_counts() -> None:
    for_30, for_60 = Toleration("sla", "Exists", toleration_seconds=30), Toleration("", "Exists", toleration_seconds=60)
    assert compiled(for_30, for_60).first_match(sla("5")) is for_30
    assert compiled(for_60, for_30).first_match(sla("5")) is for_60
    assert compiled(for_30).first_match(CNI) is None
    assert compiled().first_match(CNI) is None


def test_the_first_taint_that_repels_is_named() -> None:
    mild, hard, harder = sla("1", "PreferNoSchedule"), Taint("a", "", "NoSchedule"), Taint("b", "", "NoExecute")
    assert compiled().first_untolerated([mild, hard, harder]) is hard
    assert compiled(Toleration("a", "Exists")).first_untolerated([mild, hard, harder]) is harder
    assert compiled(Toleration("", "Exists")).first_untolerated([mild, hard, harder]) is None
    assert compiled().first_untolerated([mild]) is None
    assert compiled().first_untolerated([]) is None


SOFT = [Taint(key, "5", "PreferNoSchedule") for key in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("toleration", "left"),
    [
        (Toleration("a", "Exists"), 2),
        (Toleration("a", "Exists", effect="PreferNoSchedule"), 2),
        (Toleration("a", "Exists", effect="NoSchedule"), 3),
        (Toleration("", "Exists"), 0),
        (Toleration("", "Exists", effect="NoExecute"), 3),
        (Toleration("*", "Gt", "4"), 0),
        (Toleration("b", "Gt", "high"), 3),
        (Toleration(expression=known.ALWAYS), 0),
        (Toleration(expression=known.EVICTING), 3),
        (Toleration(expression=known.ALWAYS, effect="NoSchedule"), 0),
    ],
    ids=str,
)
def test_only_tolerations_that_can_speak_of_preferences_count_for_the_score(toleration: Toleration, left: int) -> None:
    others = [Taint("x", "5", "NoSchedule"), Taint("y", "5", "NoExecute")]
    assert compiled(toleration).untolerated_preferred([*others, *SOFT]) == left


def test_without_tolerations_every_preference_counts() -> None:
    assert compiled().untolerated_preferred(SOFT) == 3
    assert compiled().untolerated_preferred([]) == 0


A, B = Taint("a", "", "NoExecute"), Taint("b", "", "NoExecute")


def stay(key: str, seconds: int | None = None, effect: str = "NoExecute") -> Toleration:
    return Toleration(key, "Exists", "", effect, seconds)


@pytest.mark.parametrize(
    ("tolerations", "taints", "grace"),
    [
        ([], [], None),
        ([], [A], 0),
        ([stay("a")], [A], None),
        ([stay("a", 30)], [A], 30),
        ([stay("a", 0)], [A], 0),
        ([stay("a", -5)], [A], 0),
        ([stay("a", 30)], [A, B], 0),
        ([stay("a", 30)], [B, A], 0),
        ([stay("a", 30), stay("b")], [A, B], 30),
        ([stay("a", 30), stay("b", 20)], [A, B], 20),
        ([stay("a", 30), stay("b", 20)], [B, A], 20),
        ([stay("a", 30), stay("b", -1)], [A, B], 0),
        ([stay("a", -1), stay("b", 30)], [A, B], 0),
        ([stay("a", 60), stay("a", 30)], [A], 60),
        ([stay("a"), stay("a", 30)], [A], None),
        ([stay("a", 30), stay("a")], [A], 30),
        ([stay("b", 5), stay("a", 30)], [A], 30),
        ([stay("a", 30, "NoSchedule")], [A], 0),
        ([stay("a", 30, "")], [A], 30),
        ([], [Taint("a", "", "NoSchedule"), Taint("b", "", "PreferNoSchedule")], None),
        ([stay("a", 2**62)], [A], 2**62),
        ([Toleration(expression=known.EVICTING, toleration_seconds=7)], [A, B], 7),
        ([Toleration(expression=known.NEVER, toleration_seconds=7), stay("", 9)], [A, B], 9),
    ],
)  # fmt: skip
def test_a_running_pod_stays_as_long_as_its_shortest_first_match(
    tolerations: list[Toleration], taints: list[Taint], grace: int | None
) -> None:
    assert compiled(*tolerations).grace_seconds(taints) == grace


def test_story_2_of_the_numeric_proposal_evicts_from_good_nodes_and_gives_bad_ones_no_grace() -> None:
    asked = compiled(Toleration("sla", "Gt", "950", "NoExecute", 30))
    assert asked.grace_seconds([sla("990", "NoExecute")]) == 30
    assert asked.grace_seconds([sla("900", "NoExecute")]) == 0


def test_with_all_gates_off_eviction_spares_thresholds_and_versions_and_not_the_others() -> None:
    taint = Taint("example.com/sla", "990", "NoExecute")
    key = taint.key
    for toleration, grace in (
        (Toleration(key, "Gt", "950"), None),
        (Toleration(key, "SemverGt", "950"), None),
        (Toleration("example.com/*", "Exists"), 0),
        (Toleration(expression=known.ALWAYS), 0),
    ):
        assert compiled(toleration, gates=NONE_ON.for_eviction()).grace_seconds([taint]) == grace
        assert compiled(toleration, gates=NONE_ON).grace_seconds([taint]) == 0


@given(st.lists(operands.tolerations, max_size=4), st.lists(operands.taints, max_size=4), operands.gate_sets)
def test_grace_is_the_smallest_over_the_first_matches(
    tolerations: list[Toleration], taints: list[Taint], gates: Gates
) -> None:
    evicting = [taint for taint in taints if taint.effect == "NoExecute"]
    firsts = [
        next((toleration for toleration in tolerations if naive.tolerates(toleration, taint, gates).matched), None)
        for taint in evicting
    ]
    limits = [0 if first is None else first.toleration_seconds for first in firsts]
    bounded = [max(0, limit) for limit in limits if limit is not None]
    assert compiled(*tolerations, gates=gates).grace_seconds(taints) == min(bounded, default=None)


def test_two_tolerations_that_differ_only_in_their_expression_are_two() -> None:
    one, other = Toleration(expression=known.ON_GPU), Toleration(expression=known.EVICTING)
    assert one != other
    asked = compiled(one, other)
    assert asked.first_match(Taint("gpu", "", "NoSchedule")) is one
    assert asked.first_match(Taint("a", "", "NoExecute")) is other
