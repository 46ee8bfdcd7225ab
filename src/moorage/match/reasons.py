"""Why a toleration does not tolerate a taint and why a node does not satisfy a condition, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from moorage.api.labels import Labels
from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.features import Gate, Gates
from moorage.match.expressions import TaintExpression
from moorage.match.glob import compile_glob
from moorage.match.operators import COMPARISONS
from moorage.match.selector import Selector, SelectorCondition, Term
from moorage.match.tolerations import EQUAL, Tolerations
from moorage.match.verdict import Verdict

EXPLAINED_COST = 10_000
"""What an expression may cost that a component takes apart for an event: a few milliseconds."""


def toleration_text(toleration: Toleration) -> str:
    """A toleration in as few words as say what it does: `Gt 950`, `Exists`, its expression."""
    if toleration.expression:
        return toleration.expression
    operator = toleration.operator or EQUAL
    return f"{operator} {toleration.value}".rstrip()


class Lack(NamedTuple):
    """What a toleration lacks to match a taint, or a node to meet a condition."""

    kind: str
    """Groups reasons that differ only in the value."""
    text: str
    shorter: str = ""

    @property
    def brief(self) -> str:
        """The text without what a person who has the manifest at hand can see there."""
        return self.shorter or self.text


NO_TOLERATION = (Lack("none", "no toleration for this key"),)


class Complaint:
    """Says why some tolerations do not match a taint; what does not depend on the taint is worked out once."""

    def __init__(self, tolerations: Tolerations, gates: Gates, *, most: int | None = None) -> None:
        """An expression that can cost more than `most` is not taken apart."""
        self._tolerations = tolerations
        self._each = [_Complainant(toleration, gates, most) for toleration in tolerations.tolerations]

    def __call__(self, taint: Taint) -> tuple[Lack, ...]:
        """What each toleration of this taint's key lacks to match it."""
        return self._lacks(taint) or NO_TOLERATION

    def _lacks(self, taint: Taint) -> tuple[Lack, ...]:
        lacks = []
        for complainant, verdict in zip(self._each, self._tolerations.verdicts(taint), strict=True):
            lack = None if verdict.matched else complainant.lack(taint, verdict)
            if lack is not None and lack not in lacks:
                lacks.append(lack)
        return tuple(lacks)

    def departure(self, taint: Taint, seconds: int) -> str:
        """What no longer matches a taint that a running pod may stay beside for so many seconds."""
        texts = [lack.text for lack in self._lacks(taint)]
        if self._tolerations.verdict(taint).matched:
            texts.append(f"tolerated for {seconds} seconds only")
        return f"taint {taint}: {'; '.join(texts) or NO_TOLERATION[0].text}"


def departures(
    tolerations: Tolerations, gates: Gates, taints: Iterable[Taint], *, most: int | None = None
) -> list[str]:
    """Why a pod has to leave a node with these taints, those first that leave it the least time."""
    complaint = Complaint(tolerations, gates, most=most)
    graces = ((tolerations.grace_seconds((taint,)), taint) for taint in taints)
    limited = sorted(((grace, taint) for grace, taint in graces if grace is not None), key=itemgetter(0))
    return [complaint.departure(taint, grace) for grace, taint in limited]


class _Complainant:
    """One toleration, with everything worked out that does not depend on the taint."""

    __slots__ = ("_is_about", "_most", "_relation", "_settled", "_text", "_toleration")

    def __init__(self, toleration: Toleration, gates: Gates, most: int | None) -> None:
        self._toleration = toleration
        self._most = most
        self._text = f"`{toleration_text(toleration)}`"
        self._is_about = _subject(toleration)
        compared = COMPARISONS.get(toleration.operator)
        self._relation = compared and compared.fails
        self._settled = _gate_that_is_off(toleration, gates)

    def lack(self, taint: Taint, verdict: Verdict) -> Lack | None:
        """What the toleration lacks; None when it is for other keys."""
        if not self._is_about(taint.key):
            return None
        text, toleration = self._text, self._toleration
        if self._settled:
            return self._settled
        if toleration.expression:
            expression = TaintExpression(toleration.expression)
            is_costly = self._most is not None and expression.cost > self._most
            return Lack(text, _untold(text, verdict) if is_costly else expression.why(taint))
        if verdict.error:
            return Lack(f"error {text}", f"{verdict.error}, so {text} cannot match", verdict.error)
        if toleration.effect and toleration.effect != taint.effect:
            return Lack(f"effect {text}", f"the toleration {text} is for {toleration.effect} only")
        if self._relation:
            brief = f"{taint.value} is {self._relation} {toleration.value}"
            return Lack(text, f"{brief} ({text})", brief)
        if toleration.operator in ("", EQUAL):
            return Lack(text, f'the toleration is for the value "{toleration.value}"')
        return Lack(text, f'"{toleration.operator}" is not an operator')


def _subject(toleration: Toleration) -> Callable[[str], Any]:
    key = toleration.key
    if toleration.expression or not key:
        return lambda _: True
    return compile_glob(key) if "*" in key else key.__eq__


def _gate_that_is_off(toleration: Toleration, gates: Gates) -> Lack | None:
    if toleration.expression:
        what, gate = toleration.expression, Gate.CEL
    elif "*" in toleration.key and not gates.enabled(Gate.WILDCARD):
        what, gate = toleration.key, Gate.WILDCARD
    elif compared := COMPARISONS.get(toleration.operator):
        what, gate = compared.name, compared.gate
    else:
        return None
    sentence = gate_off(f"`{what}`", gate)
    return None if gates.enabled(gate) else Lack(sentence, sentence)


def gate_off(what: str, gate: Gate) -> str:
    """The sentence that something is not evaluated because its gate is off."""
    return f"{what} needs the feature gate {gate.value}, which is off"


def _untold(text: str, verdict: Verdict) -> str:
    return f"{text} failed: {verdict.error}" if verdict.error else f"{text} is false"


def selector_lacks(selector: Selector, labels: Labels, name: str, *, most: int | None = None) -> list[Lack]:
    """What a node lacks to satisfy a selector that it does not satisfy: one thing in each term.

    An expression that can cost more than `most` is not taken apart.
    """
    for condition in selector.always:
        verdict = condition.verdict(labels, name)
        if not verdict.matched:
            return [unsatisfied(condition, labels, verdict, most)]
    lacks = list(dict.fromkeys(_term_lacks(selector.terms or (), labels, name, most)))
    what = "its terms are empty, so they match" if selector.terms else "it has no terms, so it matches"
    return lacks or [Lack("empty", f"{what} no node")]


def _term_lacks(terms: Iterable[Term], labels: Labels, name: str, most: int | None) -> Iterator[Lack]:
    for term in terms:
        if term.errors:
            text = "; ".join(term.errors)
            yield Lack(text, text)
        elif unmet := term.unmet(labels, name):
            condition, verdict = unmet
            yield unsatisfied(condition, labels, verdict, most)


def unsatisfied(condition: SelectorCondition, labels: Labels, verdict: Verdict, most: int | None = None) -> Lack:
    """What a node lacks to meet a condition of a selector."""
    text = f"`{condition.text}`"
    if condition.gate:
        return Lack(text, gate_off(text, condition.gate))
    if condition.expression:
        is_costly = most is not None and condition.expression.cost > most
        return Lack(text, _untold(text, verdict) if is_costly else condition.expression.why(labels))
    if verdict.error:
        return Lack(f"error {text}", f"{text}: {verdict.error}")
    if condition.keys is None or len(condition.keys) != 1:
        return Lack(text, f"{text} does not hold")
    (key,) = condition.keys
    if labels.get(key):
        return Lack(text, f"{text}: the label is {labels[key]}")
    return Lack(f"no {text}", f"{text}: the node has {_nothing(labels, key)}")


def _nothing(labels: Labels, key: str) -> str:
    return f"an empty label {key}" if key in labels else f"no label {key}"
