"""Bytes become requests, or a reason why they are none; no sockets here."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.base.pacing import made
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.messages import Headers, Reason, Request, Response, Target, TargetError, status, success
from moorage.apiserver.http.wire import BATCH, Gzip, Reader, ReadStage, accepts_gzip, batches, chunk, head
from tests.apiserver.edge import told

LIMITS = Limits(body_size=1000, header_size=2000, header_count=10)
START = b"POST /a HTTP/1.1\r\nHost: x\r\n"


def read(data: bytes, step: int = 0) -> list[Request | Response]:
    reader = Reader(LIMITS, lambda _: None)
    messages: list[Request | Response] = []
    for at in range(0, len(data), step or len(data) or 1):
        reader.feed(data[at : at + (step or len(data))])
        while reader.messages:
            messages.append(reader.messages.popleft())
            reader.advance()
    return messages


def request(data: bytes, step: int = 0) -> Request:
    (message,) = read(data, step)
    assert isinstance(message, Request)
    return message


def refusal(data: bytes) -> Response:
    message = read(data)[-1]
    assert isinstance(message, Response), message
    return message


@pytest.mark.parametrize("step", [0, 1, 7])
def test_a_request_is_the_same_however_it_arrives(step: int) -> None:
    data = (
        b"PATCH /api/v1/namespaces/d%65fault/pods?fieldManager=a+b%2Fc&dryRun=All&dryRun=All&x HTTP/1.1\r\n"
        b"host: x\r\nCONTENT-TYPE: application/json\r\ncontent-length: 5\r\nA: 1\r\na: 2\r\n\r\nhello"
    )
    got = request(data, step)
    assert (got.method, got.path, got.body) == ("PATCH", "/api/v1/namespaces/default/pods", b"hello")
    assert got.segments == ("api", "v1", "namespaces", "default", "pods")
    assert got.query == {"fieldManager": ["a b/c"], "dryRun": ["All", "All"], "x": [""]}
    assert got.headers.get("Content-Type") == "application/json"
    assert got.headers.all("A") == ["1", "2"]
    assert got.keep_alive


def test_pipelined_requests_come_in_order() -> None:
    data = b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(5000))
    assert [message.path for message in read(data) if isinstance(message, Request)] == [f"/{n}" for n in range(5000)]


def test_a_flood_of_pipelined_requests_is_not_parsed_ahead() -> None:
    reader = Reader(LIMITS, lambda _: None)
    reader.feed(b"GET / HTTP/1.1\r\nHost:\r\n\r\n" * 10_000)
    assert 0 < len(reader.messages) < 1000
    assert reader.backlog > 200_000


CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    ("body", "content"),
    [
        (b"0\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5;name=value\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"1\r\nh\r\n4\r\nello\r\n00000\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\n0\r\nTrailer: x\r\nHost: y\r\n\r\n", b"hello"),
    ],
)
def test_chunked_bodies_are_put_together(body: bytes, content: bytes, step: int) -> None:
    got = request(CHUNKED + body, step)
    assert got.body == content
    assert got.headers.all("host") == ["x"]
    assert "trailer" not in got.headers


BAD = {
    "length and chunks": START + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": START + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": START + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "twice the same length": START + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": START + b"Content-Length: 5, 5\r\n\r\nhello",
    "a signed length": START + b"Content-Length: +5\r\n\r\nhello",
    "a negative length": START + b"Content-Length: -1\r\n\r\n",
    "a hexadecimal length": START + b"Content-Length: 0x5\r\n\r\nhello",
    "a length in other digits": START + "Content-Length: ٥\r\n\r\nhello".encode(),
    "an empty length": START + b"Content-Length: \r\n\r\n",
    "an endless length": START + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "two codings": START + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "two coding headers": START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": START + b"Transfer-Encoding: gzip\r\n\r\n",
    "no coding": START + b"Transfer-Encoding: identity\r\n\r\n",
    "a disguised coding": START + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a name with a space": START + b"Content-Length : 5\r\n\r\nhello",
    "a folded header": START + b"A: b\r\n c\r\n\r\n",
    "a bare carriage return": START + b"A: b\rC: d\r\n\r\n",
    "a bare line feed": b"GET / HTTP/1.1\nHost: x\n\n",
    "a NUL": START + b"A: b\0c\r\n\r\n",
    "bad UTF-8": START + b"A: \xff\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "two authorizations": START + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no chunk size": CHUNKED + b"\r\nhello",
    "a bad chunk size": CHUNKED + b"g\r\n",
    "a negative chunk size": CHUNKED + b"-5\r\nhello\r\n",
    "a chunk that is too short": CHUNKED + b"5\r\nhell\r\n0\r\n\r\n",
    "a chunk that is too long": CHUNKED + b"5\r\nhelloo\r\n0\r\n\r\n",
    "a huge chunk size": CHUNKED + b"fffffffffffffffff\r\n",
    "an upgrade with a body": START + b"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello",
    "an unknown method": b"MAKE / HTTP/1.1\r\nHost: x\r\n\r\n",
    "an unknown version": b"GET / HTTP/3.7\r\nHost: x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS in TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a host as target": b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "a relative target": b"GET a HTTP/1.1\r\nHost: x\r\n\r\n",
    "half an escape": b"GET /%e HTTP/1.1\r\nHost: x\r\n\r\n",
    "an escape that is none": b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    "an escape that is not UTF-8": b"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    "an escaped NUL": b"GET /a%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "an escaped slash": b"GET /namespaces/a%2Fb HTTP/1.1\r\nHost: x\r\n\r\n",
    "a way up": b"GET /namespaces/../secrets HTTP/1.1\r\nHost: x\r\n\r\n",
    "an escaped way up": b"GET /namespaces/%2e%2e/secrets HTTP/1.1\r\nHost: x\r\n\r\n",
    "a bad query": b"GET /?a=%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a query without end": b"GET /?%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"&" * 1001),
}  # fmt: skip


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_ambiguous_or_malformed_requests_are_refused(data: bytes) -> None:
    response = refusal(data)
    assert response.status == 400
    assert told(response)["reason"] == "BadRequest"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (START + b"Content-Length: 1001\r\n\r\n", 413),
        (CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n0\r\n\r\n", 413),
        (CHUNKED + b"1;" + b"x" * 40_000, 413),
        (b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET /" + b"a" * 40_000, 431),
        (START + b"A: " + b"a" * 2000 + b"\r\n\r\n", 431),
        (START + b"A: " + b"a" * 40_000, 431),
        (START + b"A: b\r\n" * 10 + b"\r\n", 431),
        (CHUNKED + b"0\r\n" + b"A: b\r\n" * 10 + b"\r\n", 431),
        (START + b"Expect: miracle\r\n\r\n", 417),
    ],
)
def test_what_is_too_large_is_refused(data: bytes, code: int) -> None:
    assert refusal(data).status == code


def test_what_is_just_small_enough_is_not_refused() -> None:
    assert len(request(START + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000).body) == 1000
    assert request(START + b"A: b\r\n" * 9 + b"\r\n").headers.all("a") == ["b"] * 9
    assert len(request(CHUNKED + b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n").body) == 1000


def test_nothing_is_read_after_a_refusal() -> None:
    messages = read(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nrubbish\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n")
    assert [type(message) for message in messages] == [Request, Response]


def test_nothing_is_read_after_a_request_that_ends_the_connection() -> None:
    data = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert not request(data + b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n").keep_alive
    assert not request(b"GET /a HTTP/1.0\r\n\r\nrubbish").keep_alive
    assert not request(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nrubbish").keep_alive
    upgrade = b"GET /exec HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n\x80\x03\0\1"
    assert not request(upgrade).keep_alive


def test_a_client_may_wait_before_it_sends_its_body() -> None:
    reader = Reader(LIMITS, lambda _: None)
    reader.feed(START + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert reader.awaits_continue
    assert reader.stage is ReadStage.BODY
    reader.feed(b"hello")
    assert not reader.awaits_continue
    reader = Reader(LIMITS, lambda _: None)
    reader.feed(START + b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n")
    assert not reader.awaits_continue


def test_an_absolute_target_is_a_path() -> None:
    assert request(b"GET https://x:1/a?b=c HTTP/1.1\r\nHost: x\r\n\r\n").segments == ("a",)
    assert request(b"GET https://x HTTP/1.1\r\nHost: x\r\n\r\n").path == "/"


@given(st.binary(max_size=400), st.integers(1, 50))
def test_rubbish_is_a_request_or_a_refusal_and_never_an_error(data: bytes, step: int) -> None:
    for message in read(data, step):
        assert isinstance(message, Request) or 400 <= message.status < 500


FRAGMENTS = st.sampled_from(
    [
        b"GET ", b"POST ", b"/", b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"Host: x\r\n", b"Content-Length: 3\r\n", b"\r\n",
        b"Transfer-Encoding: chunked\r\n", b"abc", b"3\r\n", b"0\r\n", b"\n", b"\r", b"%", b"?a=b", b":", b"\0", b" ",
        b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n",
    ]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=25).map(b"".join), st.integers(1, 40))
def test_near_requests_are_read_alike_however_they_arrive(data: bytes, step: int) -> None:
    def seen(messages: list[Request | Response]) -> list[object]:
        return [
            (m.method, m.path, m.body, m.keep_alive) if isinstance(m, Request) else m.status
            for m in messages
        ]  # fmt: skip

    assert seen(read(data, step)) == seen(read(data))


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30))
def test_any_name_survives_the_path(name: str) -> None:
    target = b"/" + b"".join(b"%%%02X" % byte for byte in name.encode())
    if name in (".", "..") or "/" in name:
        with pytest.raises(TargetError):
            Target(target)
    else:
        assert Target(target).segments == ((name,) if name else ())


@pytest.mark.parametrize(
    ("target", "watching"),
    [
        ("/api/v1/pods?watch=true", True),
        ("/api/v1/pods?watch=1", True),
        ("/api/v1/pods?watch", True),
        ("/api/v1/pods?watch=false", False),
        ("/api/v1/pods?watch=0", False),
        ("/api/v1/pods", False),
        ("/api/v1/watch/pods", True),
        ("/apis/apps/v1/watch/deployments", True),
        ("/api/v1/namespaces/watch", False),
        ("/", False),
    ],
)
def test_watches_are_told_from_other_reads(target: str, watching: bool) -> None:
    assert Request.of("GET", target).watching is watching
    assert not Request.of("GET", target).mutating
    assert Request.of("POST", target).mutating


def test_the_first_value_of_a_parameter_counts() -> None:
    request = Request.of("GET", "/api?limit=5&limit=6&empty")
    assert (request.parameter("limit"), request.parameter("empty"), request.parameter("none", "x")) == ("5", "", "x")


def test_headers_are_found_in_any_case() -> None:
    headers = Headers([("Accept", "a"), ("ACCEPT", "b")])
    assert headers.get("accept") == headers.get("Accept") == "a"
    assert headers.all("aCCept") == ["a", "b"]
    assert headers.get("missing", "none") == "none"
    assert list(headers.items()) == [("accept", "a"), ("accept", "b")]
    assert "Accept" in headers
    assert repr(headers) == "Headers([('accept', 'a'), ('accept', 'b')])"
    assert len(headers) == 2


def test_a_status_has_kubernetes_shape() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec"}]
    details = {"name": "x", "group": "", "kind": "pods", "causes": causes, "retryAfterSeconds": 0}
    response = status(422, Reason.INVALID, "no", details)
    assert response.body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Invalid",'
        b'"details":{"name":"x","kind":"pods","causes":[{"reason":"FieldValueInvalid","message":"bad","field":"spec"}]},'
        b'"code":422}\n'
    )
    assert told(status(403, "Forbidden", "no", {}))["details"] == {}
    assert "details" not in told(status(401, "Unauthorized", "no"))
    assert ("Retry-After", "3") in status(429, "TooManyRequests", "no", {"retryAfterSeconds": 3}).headers


def test_a_success_has_kubernetes_shape() -> None:
    plain = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"'
    assert success().body == plain + b"}"
    assert success(details={"name": "x", "group": ""}).body == plain + b',"details":{"name":"x","group":""}}'
    assert (success(201).status, success(201).body) == (201, plain + b',"code":201}')


def test_a_header_cannot_smuggle_another() -> None:
    response = Response(200, b"", [("Warning", '299 - "a\r\nSet-Cookie: b"')])
    assert b"\r\nSet-Cookie" not in head(response, "now", length=0, close=False)


@pytest.mark.parametrize(
    ("offer", "accepted"),
    [
        ("gzip", True),
        ("gzip, deflate", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("", False),
        ("br", False),
    ],
)
def test_gzip_is_for_those_who_ask(offer: str, accepted: bool) -> None:
    assert accepts_gzip(Request.of("GET", "/", [("Accept-Encoding", offer)])) is accepted


@given(st.lists(st.binary(max_size=10) | st.integers(0, 3 * BATCH).map(bytes), max_size=8))
def test_batches_hold_the_same_bytes(parts: list[bytes]) -> None:
    async def gathered() -> list[bytes | memoryview]:
        return [piece async for piece in batches(made(parts))]

    pieces = asyncio.run(gathered())
    assert b"".join(pieces) == b"".join(parts)
    assert all(len(piece) <= BATCH for piece in pieces)
    packer = Gzip()
    packed = [*map(packer.part, pieces), packer.end()]
    assert gzip.decompress(b"".join(packed)) == b"".join(parts)


def test_a_chunk_says_its_length_in_hexadecimal() -> None:
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
