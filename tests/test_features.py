from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.features import ALL_ON, NONE_ON, Gate, GateError, Gates, Stage, parse

COMPARISON, SEMVER = "TaintTolerationComparisonOperators", "TolerationAffinitySemverOperators"
CEL, WILDCARD = "TaintTolerationNodeAffinityCEL", "WildcardTolerationKeys"
EVERY_NAME = (COMPARISON, SEMVER, CEL, WILDCARD)


def on(*gates: Gate) -> Gates:
    return Gates(frozenset(gates))


def test_the_four_gates_are_alpha_and_off_until_asked_for() -> None:
    assert {gate.value for gate in Gate} == set(EVERY_NAME)
    assert all(gate.stage is Stage.ALPHA and not gate.default for gate in Gate)
    assert Gates() == NONE_ON == parse("")
    assert not any(Gates().enabled(gate) for gate in Gate)
    assert all(ALL_ON.enabled(gate) for gate in Gate)


PARSED = [
    (f"{COMPARISON}=true", on(Gate.COMPARISON)),
    (f"{COMPARISON}=true,{CEL}=true", on(Gate.COMPARISON, Gate.CEL)),
    (f"{COMPARISON}=true,{CEL}=false", on(Gate.COMPARISON)),
    (f" {SEMVER} = true , {WILDCARD}= true ,", on(Gate.SEMVER, Gate.WILDCARD)),
    (f"{CEL}=false", NONE_ON),
    (f"{CEL}=false,{CEL}=true", on(Gate.CEL)),
    ("AllAlpha=true", ALL_ON),
    ("AllAlpha=false", NONE_ON),
    (",,", NONE_ON),
    ("AllBeta=true", NONE_ON),
    ("AllBeta=false,AllAlpha=true", ALL_ON),
]


@pytest.mark.parametrize(("text", "gates"), PARSED)
def test_gates_are_read_as_kubernetes_components_read_them(text: str, gates: Gates) -> None:
    assert parse(text) == gates


@pytest.mark.parametrize("settings", list(itertools.permutations((f"{CEL}=false", "AllAlpha=true", f"{SEMVER}=true"))))
def test_a_named_gate_wins_over_all_alpha_whatever_the_order(settings: tuple[str, ...]) -> None:
    assert parse(",".join(settings)) == on(Gate.COMPARISON, Gate.SEMVER, Gate.WILDCARD)


@pytest.mark.parametrize("settings", list(itertools.permutations((f"{CEL}=true", "AllAlpha=false"))))
def test_a_named_gate_stays_on_beside_all_alpha_false(settings: tuple[str, ...]) -> None:
    assert parse(",".join(settings)) == on(Gate.CEL)


@pytest.mark.parametrize("value", ["true", "True", "TRUE", "t", "T", "1"])
def test_go_spellings_of_true_turn_a_gate_on(value: str) -> None:
    assert parse(f"{WILDCARD}={value}") == on(Gate.WILDCARD)


@pytest.mark.parametrize("value", ["false", "False", "FALSE", "f", "F", "0"])
def test_go_spellings_of_false_turn_a_gate_off(value: str) -> None:
    assert parse(f"AllAlpha=true,{WILDCARD}={value}") == on(Gate.COMPARISON, Gate.SEMVER, Gate.CEL)


@pytest.mark.parametrize("name", ["NoSuchGate", "AllGamma", COMPARISON.lower(), "COMPARISON", ""])
def test_an_unknown_gate_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(GateError) as caught:
        parse(f"{COMPARISON}=true,{name}=true")
    message = str(caught.value)
    assert message.startswith(f"unknown feature gate {name!r}")
    assert all(known in message for known in ("AllAlpha", "AllBeta", *EVERY_NAME))


@pytest.mark.parametrize("value", ["", "yes", "on", "2", "truefalse", "true=true", "'true'"])
@pytest.mark.parametrize("name", [CEL, "AllAlpha"])
def test_a_value_that_is_neither_true_nor_false_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(GateError) as caught:
        parse(f"{name}={value}")
    assert str(caught.value) == f"invalid value {value!r} for feature gate {name}: must be true or false"


def test_a_gate_without_a_value_is_refused_with_the_way_to_write_it() -> None:
    with pytest.raises(GateError, match=f"write {CEL}=true or {CEL}=false"):
        parse(CEL)


SETS = st.frozensets(st.sampled_from(Gate)).map(Gates)


@given(SETS)
def test_gates_print_as_the_flag_that_reads_back(gates: Gates) -> None:
    assert parse(str(gates)) == gates
    assert all(name in str(gates) for name in EVERY_NAME)


@given(SETS, st.frozensets(st.sampled_from(Gate)))
def test_including_turns_on_what_is_named_and_turns_nothing_off(gates: Gates, more: frozenset[Gate]) -> None:
    wider = gates.including(more)
    assert wider.on == gates.on | more


@given(SETS)
def test_eviction_evaluates_thresholds_and_versions_whatever_their_gates(gates: Gates) -> None:
    eviction = gates.for_eviction()
    assert eviction.enabled(Gate.COMPARISON)
    assert eviction.enabled(Gate.SEMVER)
    assert eviction.enabled(Gate.CEL) == gates.enabled(Gate.CEL)
    assert eviction.enabled(Gate.WILDCARD) == gates.enabled(Gate.WILDCARD)


@given(st.text(st.sampled_from("=,AllpthrueBfs 01\n")) | st.text())
def test_any_text_is_gates_or_a_gate_error(text: str) -> None:
    try:
        gates = parse(text)
    except GateError as error:
        assert str(error)  # noqa: PT017
    else:
        assert gates.on <= set(Gate)
