"""Feature gates: which of the four enhancements are on, one set for each component."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Stage(Enum):
    """The maturity of an enhancement. An alpha feature is off by default."""

    ALPHA = "ALPHA"
    BETA = "BETA"


class Gate(Enum):
    """A switch for one enhancement."""

    COMPARISON = "TaintTolerationComparisonOperators"
    SEMVER = "TolerationAffinitySemverOperators"
    CEL = "TaintTolerationNodeAffinityCEL"
    WILDCARD = "WildcardTolerationKeys"

    @property
    def stage(self) -> Stage:
        """The maturity of this enhancement."""
        return Stage.ALPHA

    @property
    def default(self) -> bool:
        """Whether the gate is on by default."""
        return False


GROUPS = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
"""Names for all gates of a stage; at present all are alpha."""
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "t": True, "f": False}


class GateError(ValueError):
    """A feature gate that does not exist, or a value that is neither true nor false."""


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates that are on in one component."""

    on: frozenset[Gate] = frozenset(gate for gate in Gate if gate.default)

    def enabled(self, gate: Gate) -> bool:
        """Whether this gate is on."""
        return gate in self.on

    def including(self, gates: Iterable[Gate]) -> Gates:
        """These gates, with some more turned on."""
        return Gates(self.on.union(gates))

    def for_eviction(self) -> Gates:
        """What eviction evaluates: turning off a comparison gate must not evict pods that already run."""
        return self.including((Gate.COMPARISON, Gate.SEMVER))

    def __str__(self) -> str:
        return ",".join(f"{gate.value}={str(gate in self.on).lower()}" for gate in Gate)


ALL_ON = Gates(frozenset(Gate))
NONE_ON = Gates(frozenset())


def parse(text: str) -> Gates:
    """Read `A=true,B=false,AllAlpha=true`. A gate that is named wins over AllAlpha and AllBeta, whatever the order."""
    settings: dict[Gate, bool] = {}
    stages: dict[Stage, bool] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise GateError(f"feature gate {name!r} has no value: write {name}=true or {name}=false")
        on = _BOOLEANS.get(value.lower())
        if on is None:
            raise GateError(f"invalid value {value!r} for feature gate {name}: must be true or false")
        if name in GROUPS:
            stages[GROUPS[name]] = on
        else:
            settings[_gate(name)] = on
    defaults = {gate: stages.get(gate.stage, gate.default) for gate in Gate}
    return Gates(frozenset(gate for gate, on in (defaults | settings).items() if on))


def _gate(name: str) -> Gate:
    try:
        return Gate(name)
    except ValueError:
        known = ", ".join([*GROUPS, *sorted(gate.value for gate in Gate)])
        raise GateError(f"unknown feature gate {name!r}: the known ones are {known}") from None
