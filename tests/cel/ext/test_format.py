from __future__ import annotations

import pytest

from moorage.cel.ext.format import FORMATS, LIBRARY
from moorage.cel.library import Cost
from moorage.cel.values import NONE, equal
from tests.cel.libraries import call, estimate, exactly, measure, up_to

LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
LABEL_1035 = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"
VALUE = "a valid label must be an empty string or consist of alphanumeric characters"


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("dns1123Label", ["my-label-name", "1a", "a" * 63], {"A": LABEL, "": LABEL, "a-": LABEL}),
        ("dns1123Label", [], {"a.b": "must not contain dots", "a" * 64: "must be no more than 63 bytes"}),
        ("dns1123LabelPrefix", ["my-label-prefix-", "a", "a--"], {"-": LABEL, "A-a-": LABEL}),
        (
            "dns1123Subdomain",
            ["apiextensions.k8s.io"],
            {"a..b": SUBDOMAIN, "a" * 254: "must be no more than 253 bytes"},
        ),
        ("dns1123SubdomainPrefix", ["mysubdomain.prefix1-"], {"mysubdomain.prefix.-a.": SUBDOMAIN}),
        ("dns1035Label", ["my-label-name"], {"1a": LABEL_1035, "a_b": LABEL_1035, "": LABEL_1035}),
        ("dns1035LabelPrefix", ["my-label-prefix-"], {"1-a": LABEL_1035}),
        ("qualifiedName", ["apiextensions.k8s.io/v1beta1", "MyName"], {"a/b/c": "a valid label key must consist"}),
        ("qualifiedName", [], {"/a": "prefix part must be non-empty", "a/": "name part must be non-empty"}),
        ("labelValue", ["", "my.value_1"], {"-a": VALUE, "a" * 64: "must be no more than 63 bytes"}),
        ("uri", ["http://example.com", "/path"], {"example.com": 'parse "example.com": invalid URI for request'}),
        (
            "uuid",
            ["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"],
            {"123e4567": "does not match the UUID format"},
        ),
        ("byte", ["aGVsbG8=", "aGVs"], {"aGVsbG8": "invalid base64", "": "invalid base64", "aGV_": "invalid base64"}),
        (
            "date",
            ["2021-01-01", "2024-02-29", "0000-02-29"],
            {"2023-02-29": "invalid date", "2021-1-1": "invalid date"},
        ),
        (
            "datetime",
            ["2021-01-01T00:00:00Z", "2021-01-01t23:59:59.5+01:00"],
            {"2021-01-01": "invalid datetime", "2021-01-01T24:00:00Z": "invalid datetime"},
        ),
    ],
)
def test_formats(name: str, valid: list[str], invalid: dict[str, str]) -> None:
    known = call(LIBRARY, f"format.{name}")
    for text in valid:
        assert call(LIBRARY, "format-validate", known, text) is NONE, text
    for text, beginning in invalid.items():
        errors = call(LIBRARY, "format-validate", known, text)
        assert any(error.startswith(beginning) for error in errors.value), text


def test_formats_can_be_found_by_name() -> None:
    assert len(FORMATS) == 13
    for name, known in FORMATS.items():
        assert call(LIBRARY, "format-named", name).value is known
    assert call(LIBRARY, "format-named", "unknown") is NONE


def test_formats_are_equal_by_name() -> None:
    assert equal(FORMATS["date"], FORMATS["date"])
    assert not equal(FORMATS["date"], FORMATS["datetime"])


def test_a_long_text_is_read_once() -> None:
    for known in FORMATS.values():
        call(LIBRARY, "format-validate", known, "a-" * 100_000)


def test_costs() -> None:
    assert estimate(LIBRARY, "format-validate", exactly(1), up_to(317)).cost == Cost(0, 1024)
    assert measure(LIBRARY, "format-validate", FORMATS["dns1123Label"], "x" * 29) == 24
    assert measure(LIBRARY, "format-validate", FORMATS["uri"], "x" * 29) == 96
