from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cel.ext.urls import LIBRARY, UrlError, check, parse
from moorage.cel.library import Cost, Size
from tests.cel.libraries import call, error, estimate, up_to

PARTS = ("scheme", "host", "hostname", "port", "escaped_path", "query")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("/absolute/path", ("", "", "", "", "/absolute/path", {})),
        (
            "https://user:pw@example.com:80/a/b?k=1&k=2&l=#frag",
            ("https", "example.com:80", "example.com", "80", "/a/b", {"k": ["1", "2"], "l": [""]}),
        ),
        ("HTTP://x", ("http", "x", "x", "", "", {})),
        ("https://[::1]:443/", ("https", "[::1]:443", "::1", "443", "/", {})),
        ("https://[fe80::1%25en0]/", ("https", "[fe80::1%en0]", "fe80::1%en0", "", "/", {})),
        ("http://x:/", ("http", "x:", "x", "", "/", {})),
        ("pg://a:1,b:2/", ("pg", "a:1,b:2", "a:1,b", "2", "/", {})),
        ("mailto:someone@example.com", ("mailto", "", "", "", "", {})),
        ("http://é.example/ü", ("http", "é.example", "é.example", "", "/%C3%BC", {})),
        ("http://x/a%2fb", ("http", "x", "x", "", "/a%2fb", {})),
        ("http://x/a b!", ("http", "x", "x", "", "/a%20b%21", {})),
        ("http://x/[a]!", ("http", "x", "x", "", "/[a]!", {})),
        ("http://x?a=+b%20c&%zz=1&d;e=2&f", ("http", "x", "x", "", "", {"a": [" b c"], "f": [""]})),
        ("*", ("", "", "", "", "*", {})),
        ("//host/path", ("", "host", "host", "", "/path", {})),
        ("//", ("", "", "", "", "", {})),
        ("//?", ("", "", "", "", "", {})),
        ("///", ("", "", "", "", "///", {})),
        ("http:?a=1", ("http", "", "", "", "", {"a": ["1"]})),
        ("x://%E6%97?%E6%97", ("x", "\ufffd\ufffd", "\ufffd\ufffd", "", "", {"\ufffd\ufffd": [""]})),
    ],
)
def test_parts_of_a_url(text: str, want: tuple[Any, ...]) -> None:
    url = call(LIBRARY, "string_to_url", text)
    assert tuple(call(LIBRARY, f"url_get_{part}", url) for part in PARTS) == want
    assert call(LIBRARY, "is_url_string", text) is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty url"),
        ("relative/path", "invalid URI for request"),
        ("1http://x", "invalid URI for request"),
        (":x", "missing protocol scheme"),
        ("http://x y/", 'invalid character " " in host name'),
        ("http://x:y/", 'invalid port ":y" after host'),
        ("http://1:2:3/", 'invalid port ":2:3" after host'),
        ("http://[::1", "missing ']' in host"),
        ("http://[::1]x", 'invalid port "x" after host'),
        ("http://[1.2.3.4]/", "invalid IP-literal"),
        ("http://x[::1]/", "invalid IP-literal"),
        (
            "http://[::z]/",
            'invalid host: ParseAddr("::z"): each colon-separated field must have at least one digit (at "z")',
        ),
        ("http://[::1%25%0a]/", 'invalid URL escape "%0a"'),
        ("http://x/%zz", 'invalid URL escape "%zz"'),
        ("http://x/%2", 'invalid URL escape "%2"'),
        ("http://%41/", 'invalid URL escape "%41"'),
        ("http://%00|/", 'invalid URL escape "%00"'),
        ("http://|%00/", 'invalid character "|" in host name'),
        ("http://[::1%25%e6%97]/", 'invalid URL escape "%e6"'),
        ("http://[%25|%41]/", 'invalid character "|" in host name'),
        ("/%é21", 'invalid URL escape "%é"'),
        ("/%2é", r'invalid URL escape "%2\xc3"'),
        ("http://u{@x/", "net/url: invalid userinfo"),
    ],
)
def test_texts_that_are_no_urls(text: str, reason: str) -> None:
    message = f'URL parse error during conversion from string: parse "{text}": {reason}'
    assert error(LIBRARY, "string_to_url", text) == message
    assert call(LIBRARY, "is_url_string", text) is False


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("// ", 'parse "// ": invalid character " " in host name'),
        ("//[", "parse \"//[\": missing ']' in host"),
        ("//[]", 'parse "//[]": invalid host: ParseAddr(""): unable to parse IP'),
        ("//:x", 'parse "//:x": invalid port ":x" after host'),
        ("//{@", 'parse "//{@": net/url: invalid userinfo'),
        ("http:#%zz", 'parse "http:#%zz": invalid URL escape "%zz"'),
    ],
)
def test_a_text_can_be_a_request_uri_and_yet_no_url(text: str, reason: str) -> None:
    """`isURL` reads `//` as the start of a path and `#` as a character; `url` reads an authority and a fragment."""
    assert error(LIBRARY, "string_to_url", text) == f"URL parse error during conversion from string: {reason}"
    assert call(LIBRARY, "is_url_string", text) is True


def test_control_characters_are_refused() -> None:
    assert error(LIBRARY, "string_to_url", "/\n").endswith('"/\\n": net/url: invalid control character in URL')


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("http://x/a", "HTTP://x/a", True),
        ("http://x/a b", "http://x/a%20b", True),
        ("http://x/a", "http://x/b", False),
        ("http://x/a", "http://x/a#b", False),
        ("http://a@x/", "http://x/", False),
        ("http://x", "http://x?", False),
        ("x://%ff", "x://%FF", True),
        ("x://%ff", "x://%fe", False),
    ],
)
def test_equality_is_that_of_the_escaped_text(a: str, b: str, same: bool) -> None:
    assert (parse(a) == parse(b)) is same


@given(st.text(alphabet="ht:p/?#[]@%2e1. é\x00&=", max_size=16))
def test_what_is_a_url_parses_to_something_that_is_one(text: str) -> None:
    try:
        check(text)
    except UrlError:
        return
    try:
        url = parse(text)
    except UrlError:
        assert "#" in text or text.startswith("//")
        return
    if url.text[:1] in ("", "?", "#"):
        # An empty authority is not written, and what is left does not begin as a URL does.
        assert (text[:2], url.host, url.path) == ("//", "", "")
    else:
        assert parse(url.text).path == url.path


def test_costs() -> None:
    estimated = estimate(LIBRARY, "string_to_url", up_to(63))
    assert (estimated.cost, estimated.size) == (Cost(0, 7), Size(0, 63))
    assert estimate(LIBRARY, "url_get_host", up_to(63)).size == Size(0, 63)
    assert estimate(LIBRARY, "url_get_escaped_path", up_to(63)).size == Size(0, 756)
    assert estimate(LIBRARY, "url_get_query", up_to(63)) == (Cost(1, 1), Size(0, 63), Size(0, 63))
