"""Quotas through real servers: many who create at once, through one server or two, get no more than there is."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.conftest import Live
from tests.live.test_server import PODS, pod
from tests.store.cluster import WHY_SKIPPED, Cluster, binary

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MERGE = "application/merge-patch+json"


@pytest.fixture(params=["sqlite", "etcd"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Live]]:
    """One server on SQLite, or two on one etcd."""
    with ExitStack() as stack:
        store, names = "sqlite", ["only"]
        if request.param == "etcd":
            if binary() is None:
                pytest.skip(WHY_SKIPPED)
            cluster = stack.enter_context(Cluster(tmp_path / "etcd", 1))
            store, names = "etcd://" + ",".join(cluster.endpoints), ["first", "second"]
        all_of_them = [Live(tmp_path / name, command="apiserver", store=store) for name in names]
        for each in all_of_them:
            each.start()
            stack.callback(each.stop)
        yield all_of_them


def test_twenty_creates_at_once_leave_as_many_pods_as_the_quota_allows(servers: list[Live]) -> None:
    first = servers[0]
    hard = {"pods": "2"}
    assert first.http("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})[0] == 201
    status = {"status": {"hard": hard, "used": {"pods": "0"}}}
    assert first.http("PATCH", f"{QUOTAS}/q/status", status, media_type=MERGE)[0] == 200

    def create(number: int) -> tuple[int, str]:
        code, told = servers[number % len(servers)].http("POST", PODS, pod(f"p{number}"))
        return code, told.get("message", "")

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(create, range(20)))
    assert sorted(code for code, _ in answers) == [201] * 2 + [403] * 18
    words = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    assert all(words in message for code, message in answers if code == 403)
    for each in servers:
        assert len(each.http("GET", PODS)[1]["items"]) == 2
        assert each.http("GET", f"{QUOTAS}/q")[1]["status"]["used"] == {"pods": "2"}
