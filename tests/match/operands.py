"""The operands of the matcher, named once: the grids and the property tests cross them."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import strategies as st

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.features import Gate, Gates
from tests import known_expressions as known

OPERATORS = ("", "Equal", "Exists", "Gt", "Lt", "SemverEq", "SemverGt", "SemverLt", "Ge", "gt", "NotEqual")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

INT64_MIN, INT64_MAX, UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1
INTEGERS = ("0", "-5", "5", "949", "950", "951", str(INT64_MIN), str(INT64_MAX))
OVERFLOWS = (str(INT64_MIN - 1), str(INT64_MAX + 1), "9" * 40)
NOT_CANONICAL = ("+5", "-0", "0950", " 5", "5 ", "5\n", "1_000", "1e3", "95.5", "--5", "0x10", "٣", "５")
VERSIONS = ("v1.31", "1.31.0", "1.31.0+build.7", "01.031", "1.31.1", "2.0.0", f"{UINT64_MAX}.0.0")
PRERELEASES = ("1.31.0-alpha", "1.31.0-alpha.1", "1.31.0-rc.2", "1.31.0-rc.10", "5.15.0-1034-aws", "5.15.0")
NOT_VERSIONS = ("1.31-rc", "vv1.31", "1.2.3.4", "1.31.0-01", "1.31.0-", "containerd://2.1.4", f"{UINT64_MAX + 1}.0.0")
WORDS = ("", "high", "true")
VALUES = (*INTEGERS, *OVERFLOWS, *NOT_CANONICAL, *VERSIONS, *PRERELEASES, *NOT_VERSIONS, *WORDS)

KEYS = ("sla", "gpu.example.com/model", "gpu.example.com/", "readiness.k8s.io/cni", "a/b/c")
PATTERNS = ("*", "*/*", "readiness.k8s.io/*", "gpu*", "s*a", "*middle*", "**", "sla*")
EXPRESSIONS = (known.ALWAYS, known.NEVER, known.EVICTING, known.ON_GPU, known.AGED)

GATE_SETS = tuple(
    Gates(frozenset(each)) for each in chain.from_iterable(combinations(Gate, size) for size in range(len(Gate) + 1))
)


def gate_names(gates: Gates) -> str:
    """A short name for a set of gates."""
    return "+".join(gate.name for gate in Gate if gate in gates.on) or "none"


gate_sets = st.sampled_from(GATE_SETS)
values = st.sampled_from(VALUES) | st.integers(-20, 20).map(str) | st.text(st.sampled_from("0159.-+v a"), max_size=6)
effects = st.sampled_from(("", *EFFECTS))
seconds = st.none() | st.integers(-2, 400)
plain_tolerations = st.builds(
    Toleration,
    key=st.sampled_from(("", *KEYS, *PATTERNS)),
    operator=st.sampled_from(OPERATORS),
    value=values,
    effect=effects,
    toleration_seconds=seconds,
)
expression_tolerations = st.builds(
    Toleration, expression=st.sampled_from(EXPRESSIONS), toleration_seconds=seconds, effect=effects, key=st.just("")
)
tolerations = plain_tolerations | plain_tolerations | expression_tolerations
taints = st.builds(Taint, key=st.sampled_from(KEYS), value=values, effect=st.sampled_from(EFFECTS))
