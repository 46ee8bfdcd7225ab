"""A head that a client sends again: parsed once, and to the same as ever."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.messages import Reason, Request, Response, status
from moorage.apiserver.http.wire import LONGEST_KNOWN, Reader

LIMITS = Limits(body_size=64)
HEADS = (
    b"POST /api/v1/pods?dryRun=All HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
    b"POST /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nContent-Length: %d\r\n\r\n",
    b"GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\nX-Padding: %d\r\n\r\n",
    b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nX-Padding: %d\r\n\r\n",
    b"PUT /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
    b"POST /a HTTP/1.0\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
    b"POST /a HTTP/1.1\r\nContent-Length: %d\r\n\r\n",
)
BODIES = (b"", b"{}", b"[]", b"0\r\n\r\n", b"\r\n\r\nxyz", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"x" * 65)
ENDS = (b"", b"\r\n", b"!", b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n")


def read(pieces: Iterable[bytes]) -> list[object]:
    """What a reader makes of bytes that arrive in pieces, each request being served before the next arrives."""
    reader = Reader(LIMITS, lambda _: None)
    seen: list[object] = []
    for piece in pieces:
        reader.feed(piece)
        while reader.messages:
            message = reader.messages.popleft()
            if isinstance(message, Response):
                seen.append(message.status)
            else:
                query, headers = dict(message.query), dict(message.headers.items())
                seen.append((message.method, message.path, query, headers, message.body, message.keep_alive))
            if reader.backlog:
                reader.advance()
    return [*seen, reader.stage]


@given(
    st.lists(st.tuples(st.sampled_from(HEADS), st.sampled_from(BODIES), st.sampled_from(ENDS)), max_size=8),
    st.integers(0, 2),
)
def test_the_same_requests_are_read_however_they_arrive(sent: list[tuple[bytes, bytes, bytes]], repeated: int) -> None:
    requests = [head % len(body) + body + end for head, body, end in sent for _ in range(repeated + 1)]
    bytewise = (whole[at : at + 1] for whole in requests for at in range(len(whole)))
    assert read(requests) == read(bytewise)


def test_the_head_of_a_client_that_sends_it_again_is_parsed_once() -> None:
    heads: list[object] = []
    reader = Reader(LIMITS, lambda request: heads.append(request.headers))
    for body in (b"{}", b"[]", b"{}"):
        reader.feed(HEADS[0] % 2 + body)
        message = reader.messages.popleft()
        assert isinstance(message, Request)
        assert message.body == body
    assert len(heads) == 3
    assert heads[1] is heads[0]
    assert heads[2] is heads[0]


def test_a_client_is_authenticated_again_with_each_request() -> None:
    answers = iter((None, status(401, Reason.UNAUTHORIZED, "expired")))
    reader = Reader(LIMITS, lambda _: next(answers))
    reader.feed(HEADS[1] % 2 + b"{}")
    assert isinstance(reader.messages.popleft(), Request)
    reader.feed(HEADS[1] % 2 + b"{}")
    refusal = reader.messages.popleft()
    assert isinstance(refusal, Response)
    assert refusal.status == 401


def test_a_long_head_is_not_remembered() -> None:
    heads: list[object] = []
    reader = Reader(LIMITS, lambda request: heads.append(request.headers))
    for _ in range(2):
        reader.feed(b"GET / HTTP/1.1\r\nHost: x\r\nX-Padding: " + b"x" * LONGEST_KNOWN + b"\r\n\r\n")
        reader.messages.clear()
    assert heads[0] is not heads[1]
