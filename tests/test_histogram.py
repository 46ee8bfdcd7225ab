"""Our histograms say what prometheus_client's would."""

from __future__ import annotations

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st

from moorage.histogram import Histogram

BUCKETS = (0.005, 0.01, 1, 2.5)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 10) | st.sampled_from(BUCKETS)), max_size=20))
def test_they_are_written_alike(values: list[tuple[str, float]]) -> None:
    ours, theirs = prometheus_client.CollectorRegistry(), prometheus_client.CollectorRegistry()
    fast = Histogram(ours, "seconds", "How long it took.", BUCKETS, "kind", "result")
    plain = prometheus_client.Histogram(
        "seconds", "How long it took.", ("kind", "result"), buckets=BUCKETS, registry=theirs
    )
    for kind, value in values:
        fast.observe(value, kind, "done")
        plain.labels(kind, "done").observe(value)
    assert _lines(ours) == _lines(theirs)


def test_one_without_labels_is_there_from_the_start() -> None:
    registry = prometheus_client.CollectorRegistry()
    Histogram(registry, "seconds", "How long it took.", BUCKETS)
    assert b"seconds_count 0.0" in prometheus_client.generate_latest(registry)


def _lines(registry: prometheus_client.CollectorRegistry) -> list[bytes]:
    return [line for line in prometheus_client.generate_latest(registry).splitlines() if b"_created" not in line]
