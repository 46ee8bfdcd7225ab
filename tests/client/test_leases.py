"""Of several candidates never more than one leads, and when it stops or vanishes another does."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from itertools import count
from pathlib import Path

import msgspec
import pytest

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.client import Client, Forbidden
from moorage.client.leases import LeadershipLost, LeaseTerms, identity
from moorage.client.transport import Answer
from tests.client.candidates import NAME, Election, held
from tests.client.conftest import Connect
from tests.plane import api_server

_LEASE = kinds.row("coordination.k8s.io/v1", "Lease")


async def test_one_leads_and_says_so_as_kubernetes_does(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server, held(connect(server)) as election:
        election.stand("a")
        await election.passes(1)
        election.stand("b")
        await election.passes(60)
        assert election.leading == ["a"]
        lease = await election.lease()
        assert lease["holderIdentity"] == "a"
        assert (lease["leaseDurationSeconds"], lease["leaseTransitions"]) == (15, 0)
        assert lease["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert re.fullmatch(r"2026-01-01T00:0[01]:\d\d\.\d{6}Z", lease["renewTime"])
        assert lease["renewTime"] > "2026-01-01T00:00:58"


async def test_who_stops_cleanly_is_followed_at_once(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server, held(connect(server)) as election:
        first = election.stand("a")
        await election.passes(1)
        second = election.stand("b")
        await election.passes(10)
        first.task.cancel()
        await first.ended()
        assert (await election.lease())["holderIdentity"] == ""
        await election.passes(4.5)
        assert election.leading == [second.name]
        assert (await election.lease())["leaseTransitions"] == 1


async def test_who_vanishes_is_followed_when_the_lease_has_expired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "moorage.client.leases")
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(1)
        second = election.stand("b")
        await election.passes(10)
        first.way.cut = True
        await election.passes(9)
        assert second.name not in election.leading
        await election.passes(3)
        assert election.leading == []
        with pytest.raises(LeadershipLost, match="a leads no longer as moorage-scheduler"):
            await first.task
        await election.passes(13)
        assert second.leads
        assert (await election.lease())["leaseTransitions"] == 1
    lease = 'lease="kube-system/moorage-scheduler"'
    said = [each.getMessage() for each in caplog.records if "leader" in each.getMessage()]
    assert said == [
        f'"Became leader" {lease} identity="a"',
        f'"Lost leadership" {lease} identity="a"',
        f'"Became leader" {lease} identity="b"',
    ]


async def test_a_server_that_is_away_too_long_ends_leadership(tmp_path: Path, connect: Connect) -> None:
    async with api_server(tmp_path) as server:
        client = connect(server)
        election = Election(client)
        leader = election.stand("a")
        await election.passes(5)
        assert leader.leads
    await election.passes(12)
    assert election.leading == []
    with pytest.raises(LeadershipLost):
        await leader.task


async def test_a_server_that_is_away_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        leader, other = election.stand("a"), election.stand("b")
        await election.passes(1)
        leader, other = (leader, other) if leader.leads else (other, leader)
        for _ in range(3):
            leader.way.cut = other.way.cut = True
            await election.passes(6)
            leader.way.cut = other.way.cut = False
            await election.passes(3)
        assert election.leading == [leader.name]
        assert (await election.lease())["leaseTransitions"] == 0


@pytest.mark.parametrize("skew", [timedelta(days=1), timedelta(days=-1)])
async def test_clocks_that_differ_do_not_matter(tmp_path: Path, skew: timedelta) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(1)
        second = election.stand("b", skew)
        await election.passes(40)
        assert election.leading == ["a"]
        first.way.cut = True
        await election.passes(25)
        assert second.leads


async def test_a_renewal_without_an_answer_ends_leadership_in_time(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(5)
        first.way.answers.clear()
        await election.passes(10.5)
        assert election.leading == []
        with pytest.raises(LeadershipLost):
            await first.task


async def test_a_renewal_whose_answer_is_lost_is_made_again(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(5)
        for _ in range(3):
            first.way.lose_answers()
            await election.passes(4)
            first.way.lose_answers(but_later=True)
            await election.passes(8)
        assert first.leads
        assert (await election.lease())["leaseTransitions"] == 0


async def test_an_attempt_to_get_a_lease_whose_answer_is_lost_is_made_again(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        late = election.stand("a")
        late.way.lose_answers()
        await election.passes(11)
        assert not late.leads
        late.way.lose_answers(but_later=True)
        await election.passes(10)
        assert late.leads


async def test_a_lease_is_as_old_as_when_it_was_seen_not_as_when_it_was_asked_for(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(1)
        late = election.stand("b")
        late.way.requests.clear()
        await election.passes(20)
        late.way.requests.set()
        await election.passes(5)
        assert first.leads


async def test_a_lease_that_somebody_else_has_taken_is_lost(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(1)
        await server.client("admin").patch(_LEASE, "kube-system", NAME, {"spec": {"holderIdentity": "usurper"}})
        await election.passes(2.5)
        assert election.leading == []
        with pytest.raises(LeadershipLost):
            await first.task
        assert (await election.lease())["holderIdentity"] == "usurper"


@pytest.mark.parametrize("change", ["delete", "annotate"])
async def test_a_lease_that_is_touched_but_not_taken_is_kept(tmp_path: Path, change: str) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        election.stand("a")
        await election.passes(1)
        admin = server.client("admin")
        if change == "delete":
            await admin.delete(_LEASE, "kube-system", NAME)
        else:
            await admin.patch(_LEASE, "kube-system", NAME, {"metadata": {"annotations": {"seen": "yes"}}})
        await election.passes(20)
        assert election.leading == ["a"]
        assert (await election.lease())["holderIdentity"] == "a"


async def test_the_lease_is_kept_until_the_work_has_ended(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a", slow=30)
        await election.passes(1)
        second = election.stand("b")
        await election.passes(5)
        first.task.cancel()
        await election.passes(29)
        assert election.leading == ["a"]
        await election.passes(6)
        assert election.leading == [second.name]


async def test_work_that_ends_by_itself_gives_the_lease_back(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(1)
        first.finish.set()
        await election.passes(1)
        await first.task
        assert (await election.lease())["holderIdentity"] == ""


async def test_work_that_fails_gives_the_lease_back_and_its_error(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        first.error = ValueError("broken")
        await election.passes(1)
        first.finish.set()
        await election.passes(1)
        with pytest.raises(ValueError, match="broken"):
            await first.task
        assert (await election.lease())["holderIdentity"] == ""


async def test_a_renewal_that_was_under_way_does_not_keep_the_lease_from_being_released(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(1)
        first.way.answers.clear()
        await election.passes(2.5)
        first.task.cancel()
        first.way.answers.set()
        await first.ended()
        assert (await election.lease())["holderIdentity"] == ""


async def test_a_candidate_that_is_stopped_while_it_waits_leaves_the_lease_alone(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        election.stand("a")
        await election.passes(1)
        second = election.stand("b")
        await election.passes(3)
        second.task.cancel()
        await second.ended()
        await election.passes(10)
        assert election.leading == ["a"]


class Remembering:
    """The least of an API server: one lease, with optimistic concurrency."""

    def __init__(self) -> None:
        self.lease: Data = {}
        self.revision = 0

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Answer:
        if method == "GET":
            return Answer(200, msgspec.json.encode(self.lease)) if self.lease else Answer(404, b"{}")
        lease = msgspec.json.decode(body)
        if method == "POST" and self.lease:
            return Answer(409, b'{"reason":"AlreadyExists"}')
        if method == "PUT" and lease["metadata"]["resourceVersion"] != str(self.revision):
            return Answer(409, b"{}")
        self.revision += 1
        lease["metadata"] = {"name": NAME, "namespace": "kube-system", "resourceVersion": str(self.revision)}
        self.lease = lease
        return Answer(200, msgspec.json.encode(lease))

    def stream(self, target: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def close(self) -> None:
        return None


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_never_two_lead_and_in_the_end_one_does(seed: int) -> None:
    dice, numbers = random.Random(seed), count()
    async with held(Client(Remembering())) as election:
        for _ in range(3):
            election.stand(f"c{next(numbers)}", timedelta(seconds=dice.uniform(-500, 500)))
        for _ in range(60):
            for candidate in election.candidates:
                candidate.way.cut = dice.random() < 0.3
                for passing in (candidate.way.requests, candidate.way.answers):
                    if dice.random() < 0.1:
                        passing.clear()
                    else:
                        passing.set()
            if dice.random() < 0.1:
                candidate = dice.choice(election.candidates)
                candidate.task.cancel()
            for candidate in [each for each in election.candidates if each.task.done()]:
                election.candidates.remove(candidate)
                await candidate.ended()
                election.stand(f"c{next(numbers)}")
            await election.passes(dice.choice([0.5, 2, 5, 12]))
            assert election.most <= 1
        for candidate in election.candidates:
            candidate.way.cut = False
            candidate.way.requests.set()
            candidate.way.answers.set()
        election.stand("last")
        await election.passes(60)
        assert len(election.leading) == 1


def test_every_process_has_an_identity_of_its_own() -> None:
    assert identity() != identity()


async def test_who_waits_is_told_once_for_whom(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        first = election.stand("a")
        await election.passes(1)
        second = election.stand("b")
        await election.passes(10)
        assert second.waited_for == ["a"]
        assert first.waited_for == []


async def test_a_candidate_who_may_not_have_the_lease_is_refused_at_once(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        candidate = election.stand("a")
        candidate.way.refused = True
        await candidate.ended()
        with pytest.raises(Forbidden, match="not you"):
            await candidate.task


async def test_a_lease_without_a_namespace_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        election.stand("a", terms=LeaseTerms(NAME, "nowhere"))
        await election.passes(1)
    assert 'namespaces \\"nowhere\\" not found' in caplog.text


async def test_the_owner_of_the_store_leads_though_nothing_can_be_written(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, held(server.client("test")) as election:
        owner = election.stand("a", terms=LeaseTerms(NAME, owns_store=True))
        owner.way.full = True
        await election.passes(60)
        assert owner.leads
        owner.way.full = False
        await election.passes(5)
        assert (await election.lease())["holderIdentity"] == "a"


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ((15, 10, 2), ""),
        ((10, 10, 2), "leaseDuration must be greater than renewDeadline"),
        ((15, 2, 2), "renewDeadline must be greater than 1.2 times retryPeriod"),
        ((15, 10, 0), "retryPeriod must be greater than zero"),
        ((0.5, 0.4, 0.1), "leaseDuration must be at least one second"),
    ],
)
def test_times_that_do_not_go_together_are_named(times: tuple[float, float, float], problem: str) -> None:
    assert LeaseTerms("x", "y", *times).problem() == problem
