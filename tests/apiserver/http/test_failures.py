"""Failures are told in the words of Kubernetes, and at no greater length than anybody reads."""

from __future__ import annotations

from moorage.api import kinds
from moorage.apiserver.http.failures import invalid
from moorage.validation import field
from tests.apiserver.edge import told

POD = kinds.row("v1", "Pod")


def test_of_many_errors_the_first_are_listed_and_the_others_counted() -> None:
    errors = [field.required(f"spec.a[{number}]") for number in range(700)]
    answer = told(invalid(POD, "x", errors).response)
    assert answer["message"].endswith("spec.a[499]: Required value, and 200 more]")
    assert len(answer["details"]["causes"]) == 500


def test_of_long_errors_few_are_listed_and_no_text_is_longer_than_64_kib() -> None:
    errors = [field.invalid("spec.a", f"{number}{'x' * 20_000}", "bad") for number in range(100)]
    answer = told(invalid(POD, "x", errors).response)
    assert len(answer["details"]["causes"]) == 4
    assert answer["message"].endswith(", and 96 more]")
    answer = told(invalid(POD, "x", [field.invalid("spec.a", "x" * 1_000_000, "bad")]).response)
    (cause,) = answer["details"]["causes"]
    assert len(cause["message"]) == (64 << 10) + 1
    assert cause["message"].endswith("x…")
