"""Named formats: `format.dns1123Label()` and its kin, and `validate`, in Kubernetes' words."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moorage.cel.cost.sizes import REGEX, TRAVERSAL, scale, scaled
from moorage.cel.ext.declare import Costing, function, method, plain
from moorage.cel.ext.urls import UrlError
from moorage.cel.ext.urls import check as check_url
from moorage.cel.library import CallCost, Library, Operand
from moorage.cel.types import STRING, list_of, opaque, optional_of
from moorage.cel.values import NONE, Optional, register
from moorage.names import label_key_errors, label_value_errors, subdomain_errors

FORMAT_TYPE = opaque("kubernetes.NamedFormat")

_MAX_PATTERN = 128

# Possessive, so that a long text is read once: a label is runs of letters and digits with runs of dashes between them.
_LABEL = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format, known by its name. `pattern` is the size of a regular expression that would check it."""

    name: str
    errors: Callable[[str], list[str]] = field(compare=False)
    pattern: int = field(compare=False)


def _label_errors(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not _LABEL.fullmatch(text):
        wrong = any("subdomain" in error for error in subdomain_errors(text))
        errors.append(_LABEL_RULE if wrong else "must not contain dots")
    return errors


def _label_1035_errors(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not _LABEL.fullmatch(text) or text[0].isdigit():
        errors.append(_LABEL_1035_RULE)
    return errors


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def _prefix(errors: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Something may be appended to a prefix, so it may end in a dash."""
    # Kubernetes replaces the last two characters by one.
    return lambda text: errors(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri_errors(text: str) -> list[str]:
    try:
        check_url(text)
    except UrlError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= 12:
        return False
    # Leap years repeat every 400 years; Python has no year 0.
    return 1 <= int(match[3]) <= monthrange(int(match[1]) + 400, int(match[2]))[1]


def _is_datetime(text: str) -> bool:
    day, t, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    return (
        bool(t) and _is_date(day) and match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"
    )


def _unless(valid: Callable[[str], Any], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if valid(text) else [message]


FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", _label_errors, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", subdomain_errors, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _label_1035_errors, 30),
    "qualifiedName": NamedFormat("QualifiedName", label_key_errors, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_label_errors), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(subdomain_errors), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_label_1035_errors), 30),
    "labelValue": NamedFormat("LabelValue", lambda text: [*label_value_errors(text)], 40),
    "uri": NamedFormat("URI", _uri_errors, 1103),
    "uuid": NamedFormat("uuid", _unless(_UUID.fullmatch, "does not match the UUID format"), 70),
    "byte": NamedFormat("byte", _unless(_BASE64.fullmatch, "invalid base64"), 84),
    "date": NamedFormat("date", _unless(_is_date, "invalid date"), 71),
    "datetime": NamedFormat("datetime", _unless(_is_datetime, "invalid datetime"), 71),
}


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


def _validate(known: NamedFormat, text: str) -> Optional:
    errors = known.errors(text)
    return Optional(errors) if errors else NONE


def _estimate(operands: list[Operand]) -> CallCost:
    return CallCost(scale(scale(operands[1].size, TRAVERSAL), _MAX_PATTERN * REGEX))


def _measure(args: tuple[Any, ...], _: Any) -> int:
    # Upstream charges more than it estimates for some formats. No more than the estimate is counted here.
    most = scaled(scaled(len(args[1]), TRAVERSAL), _MAX_PATTERN * REGEX)
    return min(scaled(len(args[1]) + 1, TRAVERSAL) * scaled(args[0].pattern, REGEX), most)


register(NamedFormat, FORMAT_TYPE)


def _constant(name: str) -> Callable[[], NamedFormat]:
    return lambda: FORMATS[name]


LIBRARY = Library(
    "kubernetes.format",
    (
        function("format.named", plain("format-named", (STRING,), optional_of(FORMAT_TYPE), _named)),
        function(
            "validate",
            method(
                "format-validate",
                (FORMAT_TYPE, STRING),
                optional_of(list_of(STRING)),
                _validate,
                Costing(_estimate, _measure),
            ),
        ),
        *(function(f"format.{name}", plain(f"format.{name}", (), FORMAT_TYPE, _constant(name))) for name in FORMATS),
    ),
)
