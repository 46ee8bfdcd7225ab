"""Rules by which a Job succeeds."""

from __future__ import annotations

from functools import lru_cache

import pytest

from moorage.api.workload import Job, JobSpec, SuccessPolicy, SuccessRule
from moorage.controllers.workloads import jobpolicy
from moorage.controllers.workloads.jobindexes import Indexes


def test_success_rules_are_read_only_when_something_has_succeeded_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def parse(text: str, completions: int) -> Indexes:
        read.append(text)
        return Indexes.parse(text, completions)

    monkeypatch.setattr(jobpolicy, "_parsed", lru_cache(parse))
    rules = tuple(SuccessRule(f"{number}-9", None) for number in range(1, 9))
    job = Job(spec=JobSpec(completions=10, success_policy=SuccessPolicy(rules)))
    assert jobpolicy.success_rule(job, Indexes()) is None
    assert read == []
    for _ in range(3):
        assert jobpolicy.success_rule(job, Indexes([(8, 9)])) == 7
    assert len(read) == 8
