"""Options of lists, watches and deletions: what is understood, and what is refused in Kubernetes' words."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.http.messages import Refused, Request
from moorage.apiserver.request import options
from tests.registry.generated import JSON


def asked(query: str = "", body: object = None, method: str = "GET") -> Request:
    return Request.of(method, f"/?{query}", body=b"" if body is None else msgspec.json.encode(body))


def refusal(refused: Refused) -> tuple[int, str]:
    assert isinstance(refused.response.body, bytes)
    return refused.response.status, msgspec.json.decode(refused.response.body)["message"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Exact&resourceVersion=1&continue=x", "is forbidden when continue is provided"),
        ("resourceVersionMatch=Newest&resourceVersion=1", 'Unsupported value: "Newest": supported values: "Exact"'),
        ("resourceVersionMatch=Exact&resourceVersion=0", '"exact" is forbidden for resourceVersion "0"'),
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
    ],
)
def test_a_list_whose_options_contradict_each_other_is_refused(query: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        options.check_list(asked(query))
    code, told = refusal(refused.value)
    assert code == 422
    assert told.startswith('ListOptions.meta.k8s.io "" is invalid: ')
    assert message in told


@pytest.mark.parametrize("query", ["", "resourceVersion=0", "resourceVersion=5&resourceVersionMatch=Exact&limit=3"])
def test_lists_as_clients_ask_for_them_are_fine(query: str) -> None:
    options.check_list(asked(query))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ("resourceVersionMatch=NotOlderThan", "is forbidden for watch unless sendInitialEvents is provided"),
        ("sendInitialEvents=1&resourceVersionMatch=Exact", 'Unsupported value: "Exact": supported values: "NotOld'),
        ("sendInitialEvents=1&resourceVersionMatch=NotOlderThan&continue=x", "forbidden when continue is provided"),
    ],
)
def test_a_watch_whose_options_contradict_each_other_is_refused(query: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        options.check_watch(asked(query))
    assert message in refusal(refused.value)[1]


@pytest.mark.parametrize("text", ["", "0", "0s", "3m", "1h30m", "1.5s", ".5s", "-1us", "2µs"])
def test_a_timeout_is_a_duration(text: str) -> None:
    options.check_timeout(asked(f"timeout={text}"))


@pytest.mark.parametrize("text", ["invalid", "5", "5 s", "1d", "s", "."])
def test_a_timeout_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        options.check_timeout(asked(f"timeout={text}"))
    message = f'invalid timeout specified in the request URL - time: invalid duration "{text}"'
    assert refusal(refused.value) == (400, message)


def test_what_is_not_false_is_true() -> None:
    assert [options.flag(asked(f"a={text}"), "a") for text in ("true", "1", "", "x", "0", "False")] == [True] * 4 + [
        False
    ] * 2
    assert not options.flag(asked(), "a")


@pytest.mark.parametrize("text", ["x", "1.5", "--5", "²", "٣", "9" * 19, "9" * 400, "-", "0x1"])
def test_what_is_no_number_is_refused(text: str) -> None:
    for read in (lambda request: options.number(request, "a"), options.revision):
        with pytest.raises(Refused):
            read(asked(f"a={text}&resourceVersion={text}"))


def test_numbers_are_read() -> None:
    assert options.number(asked("a=-5"), "a") == -5
    assert options.number(asked(), "a") == 0
    assert options.revision(asked("resourceVersion=9223372036854775807")) == 2**63 - 1
    with pytest.raises(Refused):
        options.revision(asked("resourceVersion=-1"))


async def test_options_of_a_deletion_come_from_the_body_and_the_query() -> None:
    body = {"gracePeriodSeconds": 5, "preconditions": {"uid": "a"}, "propagationPolicy": None, "kind": "DeleteOptions"}
    found = await options.delete_options(asked("propagationPolicy=Orphan&dryRun=All", body, "DELETE"))
    assert (found.grace_period_seconds, found.propagation_policy, found.dry_run) == (5, "Orphan", ("All",))
    assert found.preconditions.uid == "a"
    assert (await options.delete_options(asked("gracePeriodSeconds=0"))).grace_period_seconds == 0
    assert (await options.delete_options(asked("orphanDependents=true"))).orphan_dependents


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ([], 400, "the body must be DeleteOptions"),
        ({"gracePeriodSeconds": "5"}, 400, "gracePeriodSeconds: expected an integer, got a string"),
        ({"propagationPolicy": ["Orphan"]}, 400, "propagationPolicy: expected a string"),
        ({"preconditions": 5}, 400, "preconditions: expected a map"),
        ({"dryRun": 5}, 400, "dryRun: expected a list"),
        ({"dryRun": ["Some"]}, 422, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ({"propagationPolicy": "Sideways"}, 422, 'propagationPolicy: Unsupported value: "Sideways": supported values:'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
    ],
)
async def test_options_of_a_deletion_that_make_no_sense_are_refused(body: object, code: int, message: str) -> None:
    with pytest.raises(Refused) as refused:
        await options.delete_options(asked("", body, "DELETE"))
    found = refusal(refused.value)
    assert found[0] == code
    assert message in found[1]


@given(JSON, st.dictionaries(st.sampled_from(("gracePeriodSeconds", "propagationPolicy", "dryRun")), JSON))
def test_whatever_the_options_are_they_are_read_or_refused(body: object, members: dict[str, object]) -> None:
    for sent in (body, members):
        code = 0
        try:
            asyncio.run(options.delete_options(asked("", sent, "DELETE")))
        except Refused as refused:
            code = refused.response.status
        assert code in (0, 400, 422)
