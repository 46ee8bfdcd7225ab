"""A pod with thousands of entries in a list is checked in time that grows with their number, not with its square."""

from __future__ import annotations

from typing import Any

import pytest

from tests.registry.pods import a_pod, said

NAMES = [f"n{number}" for number in range(3000)]


class Name(str):
    """A name that counts how often it is compared or looked into."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__

    def startswith(self, *args: Any) -> bool:
        Name.compared += 1
        return str.startswith(self, *args)


@pytest.fixture(autouse=True)
def _none_compared() -> None:
    Name.compared = 0


def _near_by(**more: Any) -> list[str]:
    selector = {"matchExpressions": [{"key": Name(each), "operator": "Exists"} for each in NAMES]}
    term = {
        "topologyKey": "z",
        "labelSelector": selector,
        "matchLabelKeys": [Name(f"x{each}") for each in NAMES],
        **more,
    }
    return said(a_pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}))


def test_label_keys_of_a_term_are_compared_once_each() -> None:
    assert _near_by() == []
    assert Name.compared < 10 * len(NAMES)
    errors = _near_by(mismatchLabelKeys=[Name(f"x{name}") for name in NAMES])
    assert len(errors) == len(NAMES)
    assert Name.compared < 20 * len(NAMES)


def test_errors_about_claims_do_not_repeat_thousands_of_names() -> None:
    container = {"name": "c", "image": "a", "resources": {"claims": [{"name": f"x{name}"} for name in NAMES[:200]]}}
    claims = [{"name": name, "resourceClaimName": name} for name in NAMES]
    errors = said(a_pod(containers=[container], resourceClaims=claims))
    assert len(errors) == 200
    assert max(map(len, errors)) < 2000


def test_claims_that_are_used_whole_and_in_part_are_found_among_thousands() -> None:
    uses = [{"name": name, "request": "r"} for name in NAMES[:3]] + [{"name": NAMES[1]}]
    container = {"name": "c", "image": "a", "resources": {"claims": uses}}
    claims = [{"name": name, "resourceClaimName": name} for name in NAMES]
    (error,) = said(a_pod(containers=[container], resourceClaims=claims))
    assert error == 'spec.containers[0].resources.claims[3]: Duplicate value: "n1"'
