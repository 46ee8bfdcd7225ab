"""Several servers on one etcd: what is written through one is seen through the other, also when a member dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.conftest import Live
from tests.live.test_server import PODS, pod
from tests.store.cluster import WHY_SKIPPED, Cluster, binary


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if binary() is None:
        pytest.skip(WHY_SKIPPED)
    with Cluster(tmp_path / "etcd", 3) as three:
        yield three


def test_two_servers_share_what_is_written_and_outlive_a_member(cluster: Cluster, tmp_path: Path) -> None:
    store = "etcd://" + ",".join(cluster.endpoints)
    first, second = (Live(tmp_path / name, command="apiserver", store=store) for name in ("first", "second"))
    first.start()
    second.start()
    try:
        assert first.http("POST", PODS, pod("shared"))[0] == 201
        code, seen = second.http("GET", f"{PODS}/shared")
        assert code == 200
        assert second.http("POST", PODS, pod("shared"))[0] == 409
        cluster.members[0].kill()
        assert first.http("POST", PODS, pod("after"))[0] == 201
        labels = {"metadata": {"labels": {"seen": "yes"}, "resourceVersion": seen["metadata"]["resourceVersion"]}}
        merge = "application/merge-patch+json"
        assert second.http("PATCH", f"{PODS}/shared", labels, media_type=merge)[0] == 200
        assert first.http("PATCH", f"{PODS}/shared", labels, media_type=merge)[0] == 409
        assert len(second.http("GET", PODS)[1]["items"]) == 2
    finally:
        first.stop()
        second.stop()


def test_an_etcd_that_does_not_answer_is_said(tmp_path: Path) -> None:
    from tests.live.test_server import refusal

    sentence = refusal("--data-dir", str(tmp_path / "d"), "--port", "0", "--store", "etcd://127.0.0.1:1")
    assert "no etcd member answers at 127.0.0.1:1" in sentence
