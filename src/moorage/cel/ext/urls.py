"""URLs: `url`, `isURL` and the parts of a URL, parsed by the rules of Go's net/url."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote as escape
from urllib.parse import unquote_to_bytes

from moorage.bounded import remember_short
from moorage.cel.cost.sizes import product
from moorage.cel.errors import EvalError
from moorage.cel.ext import costs
from moorage.cel.ext.declare import Costing, function, method, plain
from moorage.cel.ext.ip import AddressError, address
from moorage.cel.library import CallCost, Library, Operand, Size
from moorage.cel.types import BOOL, STRING, list_of, map_of, opaque
from moorage.cel.values import register
from moorage.gotext import quote

URL_TYPE = opaque("kubernetes.URL")
_QUERY = map_of(STRING, list_of(STRING))

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT = re.compile(r"(?::[0-9]*)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USERINFO = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
# In a host only %25 and what is not ASCII may be escaped, and a few characters may not stand at all.
_HOST_ESCAPE = re.compile(r"%(?!25)[0-7][0-9A-Fa-f]")
_NOT_IN_HOST = re.compile(r"[^A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff-]")
_NOT_IN_HOST_AS_WRITTEN = re.compile(rf"{_BAD_ESCAPE.pattern}|{_HOST_ESCAPE.pattern}|{_NOT_IN_HOST.pattern}")
_ZONE_PART = re.compile(rf"%[0-9A-Fa-f]{{2}}|{_BAD_ESCAPE.pattern}|{_NOT_IN_HOST.pattern}")
_LONE_BYTE = re.compile("[\udc80-\udcff]")
_ENCODED = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@\[\]%/-]*")
_ENCODED_FRAGMENT = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@\[\]%/?-]*")

# Beside letters, digits and -_.~, which are never escaped.
_PATH, _FRAGMENT, _USER, _HOST = "$&+,/:;=@", "$&+,/:;=?@!()*", "$&+,;=", "!$&'()*+,;=:[]<>\""


class UrlError(ValueError):
    """The text is not a URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class URL:
    """A URL. Equality is that of its text with all parts escaped in the usual way."""

    text: str
    scheme: str = field(compare=False)
    host: str = field(compare=False)
    path: str = field(compare=False)
    query: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> URL:
    """Read an absolute URL or an absolute path, with or without a fragment."""
    check(text)
    url, _, fragment = text.partition("#")
    return _parse(url, fragment, absolute=False)


def check(text: str) -> None:
    """Raise a UrlError unless the text is an absolute URL or an absolute path."""
    _parse(text, "", absolute=True)


def _parse(text: str, fragment: str, absolute: bool) -> URL:
    try:
        url = _split(text, absolute)
    except UrlError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None
    try:
        ending = fragment and f"#{_normal(fragment, _ENCODED_FRAGMENT, _FRAGMENT)}"
    except UrlError as error:
        raise UrlError(f"parse {quote(f'{text}#{fragment}')}: {error}") from None
    return URL(url.text + ending, url.scheme, url.host, url.path, url.query)


def _split(text: str, absolute: bool) -> URL:
    if _CONTROL.search(text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and absolute:
        raise UrlError("empty url")
    if text == "*":
        return URL("*", "", "", "*", "")
    if text.startswith(":"):
        raise UrlError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    rest, mark, query = rest.partition("?")
    start, ending = scheme and f"{scheme}:", mark + query
    if scheme and not rest.startswith("/"):
        return URL(start + rest + ending, scheme, "", "", query)
    if absolute and not rest.startswith("/"):
        raise UrlError("invalid URI for request")
    user, host, slashes = "", b"", ""
    if rest.startswith("//") and (scheme or (not absolute and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(scheme, authority)
        rest, slashes = slash + path, "//" if user or host or path or slash else ""
    path = _normal(rest, _ENCODED, _PATH)
    text = f"{start}{slashes}{user}{escape(host, safe=_HOST)}{path}{ending}"
    return URL(text, scheme, _decode(host), path, query)


def _authority(scheme: str, authority: str) -> tuple[str, bytes]:
    """The escaped user information with its @, and the host with its port."""
    user, at, written = authority.rpartition("@")
    host = _host(scheme, written)
    if not _USERINFO.fullmatch(user):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    return "".join((_normal_user(name), colon, _normal_user(password), at)), host


def _normal_user(text: str) -> str:
    return escape(_unescape(text), safe=_USER)


def _host(scheme: str, host: str) -> bytes:
    bracket = host.rfind("[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        return _ip_literal(host)
    # Only for the web is a colon in a name an error: databases list several hosts with their ports.
    colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    if colon >= 0 and not _PORT.fullmatch(host[colon:]):
        raise UrlError(f"invalid port {quote(host[colon:])} after host")
    return _unescape_host(host)


def _ip_literal(host: str) -> bytes:
    literal, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise UrlError("missing ']' in host")
    if not _PORT.fullmatch(port):
        raise UrlError(f"invalid port {quote(port)} after host")
    number, percent, zone = literal.partition("%25")
    raw = _unescape_host(number) + (_unescape_zone(percent + zone) if percent else b"")
    try:
        parsed, _ = address(raw.decode("utf-8", "surrogateescape"))
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from None
    if parsed.version == 4:
        raise UrlError("invalid IP-literal")
    return b"[" + raw + b"]" + port.encode()


def _unescape_host(text: str) -> bytes:
    if wrong := _NOT_IN_HOST_AS_WRITTEN.search(text):
        raise _not_in_host(text, wrong.start())
    return unquote_to_bytes(text)


def _unescape_zone(text: str) -> bytes:
    for part in _ZONE_PART.finditer(text):
        char = chr(int(part[0][1:], 16)) if len(part[0]) == 3 else ""
        if char not in ("%", " ") and (not char or char > "\x7f" or _NOT_IN_HOST.match(char)):
            raise _not_in_host(text, part.start())
    return unquote_to_bytes(text)


def _not_in_host(text: str, start: int) -> UrlError:
    if text[start] == "%":
        return _bad_escape(text, start)
    return UrlError(f"invalid character {quote(text[start])} in host name")


def _unescape(text: str) -> bytes:
    if wrong := _BAD_ESCAPE.search(text):
        raise _bad_escape(text, wrong.start())
    return unquote_to_bytes(text)


def _bad_escape(text: str, start: int) -> UrlError:
    """An escape is three bytes to Go, which may end within a character."""
    escaped = text[start : start + 3].encode()[:3].decode("utf-8", "surrogateescape")
    return UrlError(f"invalid URL escape {quote(escaped)}")


def _decode(raw: bytes) -> str:
    """Text of what was unescaped: each byte that is not UTF-8 is U+FFFD."""
    return _LONE_BYTE.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


def _normal(text: str, encoded: re.Pattern[str], safe: str) -> str:
    """The text unchanged when it is fully escaped, else escaped again from its unescaped form."""
    raw = _unescape(text)
    return text if encoded.fullmatch(text) else escape(raw, safe=safe)


def _values(query: str) -> dict[str, list[str]]:
    """The parameters of a query; malformed ones are left out, as Go leaves them out."""
    values: dict[str, list[str]] = {}
    for setting in query.split("&"):
        if setting and ";" not in setting and not _BAD_ESCAPE.search(setting):
            key, _, value = setting.replace("+", " ").partition("=")
            values.setdefault(_decode(_unescape(key)), []).append(_decode(_unescape(value)))
    return values


def _host_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(colon + port):
        name, port = host, ""
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), port


@remember_short(4096)
def _url(text: str) -> URL:
    try:
        return parse(text)
    except UrlError as error:
        raise EvalError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        check(text)
    except UrlError:
        return False
    return True


def _escaped(operands: list[Operand]) -> Size:
    # Each character can become four bytes of three characters each.
    return Size(0, product(operands[0].size.max, 12))


def _query_estimate(operands: list[Operand]) -> CallCost:
    size = costs.up_to_first(operands)
    return CallCost(costs.ONE, size, size)


register(URL, URL_TYPE)

_PART = costs.sized(costs.up_to_first)

LIBRARY = Library(
    "kubernetes.urls",
    (
        function("url", plain("string_to_url", (STRING,), URL_TYPE, _url, costs.traversal(size=costs.first))),
        function("isURL", plain("is_url_string", (STRING,), BOOL, _is_url)),
        function("getScheme", method("url_get_scheme", (URL_TYPE,), STRING, lambda url: url.scheme, _PART)),
        function("getHost", method("url_get_host", (URL_TYPE,), STRING, lambda url: url.host, _PART)),
        function(
            "getHostname", method("url_get_hostname", (URL_TYPE,), STRING, lambda url: _host_port(url.host)[0], _PART)
        ),
        function("getPort", method("url_get_port", (URL_TYPE,), STRING, lambda url: _host_port(url.host)[1], _PART)),
        function(
            "getEscapedPath",
            method("url_get_escaped_path", (URL_TYPE,), STRING, lambda url: url.path, costs.sized(_escaped)),
        ),
        function(
            "getQuery",
            method("url_get_query", (URL_TYPE,), _QUERY, lambda url: _values(url.query), Costing(_query_estimate)),
        ),
    ),
)
