"""Service account tokens: what is signed, what is accepted, and what is refused."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.access import accounttokens
from moorage.apiserver.access.accounttokens import KubernetesClaims, Reference, UntrustedError
from tests.apiserver.access.test_authentication import NOW, World
from tests.apiserver.edge import made

BOT = KubernetesClaims(
    "ci", Reference("bot", "uid-bot"), pod=Reference("web", "uid-web"), node=Reference("n1", "uid-n1")
)
EARLIER = (
    "eyJhbGciOiJFUzI1NiIsImtpZCI6Ilh6Y1NBU1NpMnE5bVZyNTdJNGc2RXE2eXJyc01qY1d5am5XNE5wZHFILTgifQ.eyJhdWQiOlsiaHR0cHM"
    "6Ly9rdWJlcm5ldGVzLmRlZmF1bHQuc3ZjLmNsdXN0ZXIubG9jYWwiXSwiZXhwIjoxODAwMDAzNjAwLCJpYXQiOjE4MDAwMDAwMDAsImlzcyI6I"
    "mh0dHBzOi8va3ViZXJuZXRlcy5kZWZhdWx0LnN2Yy5jbHVzdGVyLmxvY2FsIiwianRpIjoiMTkwYzgzZmQtMDc0MS00NmY3LTg2ZDAtNjYzYTU"
    "5MDZmYTBjIiwia3ViZXJuZXRlcy5pbyI6eyJuYW1lc3BhY2UiOiJjaSIsInNlcnZpY2VhY2NvdW50Ijp7Im5hbWUiOiJib3QiLCJ1aWQiOiJ1a"
    "WQtYm90In0sInBvZCI6eyJuYW1lIjoid2ViIiwidWlkIjoidWlkLXdlYiJ9LCJub2RlIjp7Im5hbWUiOiJuMSIsInVpZCI6InVpZC1uMSJ9fSw"
    "ibmJmIjoxODAwMDAwMDAwLCJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6Y2k6Ym90In0.NajbCfGTwxLSxHygJviY85Jzvv6b_KMLwi8Ys"
    "FrBCMRrFMNWlWLyXJhzEToCYKXMur4cK9SqugbXOpBWRzaVRQ"
)
"""A token for BOT that was signed at NOW, not by the library."""


def test_a_service_account_token_says_who_it_is_for() -> None:
    world = World()
    token = world.accounts.issue(BOT, 3600)
    assert token.expires == NOW + 3600
    header, claims, _ = (part + "=" * (-len(part) % 4) for part in token.text.split("."))
    assert json.loads(base64.urlsafe_b64decode(header))["alg"] == "ES256"
    content = json.loads(base64.urlsafe_b64decode(claims))
    jti = content.pop("jti")
    assert content == {
        "aud": ["https://kubernetes.default.svc.cluster.local"],
        "exp": NOW + 3600,
        "iat": NOW,
        "iss": "https://kubernetes.default.svc.cluster.local",
        "kubernetes.io": {
            "namespace": "ci",
            "serviceaccount": {"name": "bot", "uid": "uid-bot"},
            "pod": {"name": "web", "uid": "uid-web"},
            "node": {"name": "n1", "uid": "uid-n1"},
        },
        "nbf": NOW,
        "sub": "system:serviceaccount:ci:bot",
    }
    who = world.user(Authorization=f"Bearer {token.text}")
    assert who.name == "system:serviceaccount:ci:bot"
    assert who.groups == ("system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated")
    assert who.uid == "uid-bot"
    assert who.extra == {
        "authentication.kubernetes.io/credential-id": (f"JTI={jti}",),
        "authentication.kubernetes.io/node-name": ("n1",),
        "authentication.kubernetes.io/node-uid": ("uid-n1",),
        "authentication.kubernetes.io/pod-name": ("web",),
        "authentication.kubernetes.io/pod-uid": ("uid-web",),
    }


def test_a_token_ends() -> None:
    world = World()
    token = world.accounts.issue(BOT, 600).text
    for offset, good in ((0, True), (599, True), (600, False), (-60, True), (-61, False)):
        world.now = NOW + offset
        if good:
            world.accounts.verify(token)
        else:
            with pytest.raises(UntrustedError):
                world.accounts.verify(token)


@pytest.mark.parametrize("gone", [("ServiceAccount", "ci", "bot", "uid-bot"), ("Pod", "ci", "web", "uid-web")])
def test_a_token_ends_with_what_it_is_bound_to(gone: tuple[str, str, str, str]) -> None:
    world = World()
    token = world.accounts.issue(BOT).text
    world.accounts.verify(token)
    world.there.remove(gone)
    with pytest.raises(UntrustedError, match="is gone"):
        world.accounts.verify(token)
    world.there.add((*gone[:3], "a new one of the same name"))
    with pytest.raises(UntrustedError, match="is gone"):
        world.accounts.verify(token)


def test_a_token_may_be_bound_to_a_secret_or_a_node() -> None:
    world = World()
    account = Reference("bot", "uid-bot")
    for kind, namespace, bound in (
        ("Secret", "ci", KubernetesClaims("ci", account, secret=Reference("s", "u"))),
        ("Node", "", KubernetesClaims("ci", account, node=Reference("s", "u"))),
    ):
        token = world.accounts.issue(bound).text
        with pytest.raises(UntrustedError, match="is gone"):
            world.accounts.verify(token)
        world.there.add((kind, namespace, "s", "u"))
        world.accounts.verify(token)


def test_a_token_for_somebody_else_is_not_accepted_here() -> None:
    world = World()
    token = world.accounts.issue(BOT, audiences=["vault"]).text
    with pytest.raises(UntrustedError, match="it is for vault"):
        world.accounts.verify(token)
    assert world.accounts.verify(token, ["vault"]).name == "system:serviceaccount:ci:bot"
    with pytest.raises(UntrustedError, match="issued by"):
        world.issuer(made().service_account_key, issuer="https://other", audiences=["vault"]).verify(token)


def test_a_token_of_another_key_is_not_accepted_unless_it_is_an_older_one() -> None:
    world = World()
    old = ec.generate_private_key(ec.SECP256R1())
    token = world.issuer(old).issue(BOT).text
    with pytest.raises(UntrustedError, match="a key that is not known here"):
        world.accounts.verify(token)
    world.issuer(made().service_account_key, others=[old.public_key()]).verify(token)


@pytest.mark.parametrize("seconds", [0, 599, 2**32 + 1])
def test_a_token_lives_neither_too_short_nor_too_long(seconds: int) -> None:
    with pytest.raises(ValueError, match="a token lives from 600"):
        World().accounts.issue(BOT, seconds)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decoded(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return content


def signed(header: dict[str, Any], claims: dict[str, Any]) -> str:
    """A token with a good signature, made without the library that verifies it."""
    text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    r, s = decode_dss_signature(made().service_account_key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


KID = accounttokens.key_id(made().service_account_key.public_key())
HEADER = {"alg": "ES256", "kid": KID}
TOKEN = World().accounts.issue(BOT, 2**31).text
CLAIMS = decoded(TOKEN.split(".")[1])


def refused(token: str, why: str | None = None) -> None:
    with pytest.raises(UntrustedError, match=why):
        World().accounts.verify(token)


def test_a_token_signed_by_hand_is_accepted() -> None:
    assert World().accounts.verify(signed(HEADER, CLAIMS)).name == "system:serviceaccount:ci:bot"
    assert World().accounts.verify(signed({**HEADER, "typ": "JWT"}, CLAIMS)).name == "system:serviceaccount:ci:bot"


def test_the_header_of_a_token_names_the_algorithm_and_the_key() -> None:
    assert decoded(TOKEN.split(".")[0]) == HEADER


def test_a_token_from_before_the_library_is_still_accepted() -> None:
    point = bytes.fromhex("03d9aa844bbf7dbe66009e690177cc0cd19349c7cf530371f64adb5a1a151a48c2")
    older = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    issuer = World().issuer(made().service_account_key, others=[older])
    assert issuer.verify(EARLIER).extra["authentication.kubernetes.io/credential-id"] == (
        "JTI=190c83fd-0741-46f7-86d0-663a5906fa0c",
    )


def test_no_other_algorithm_is_accepted() -> None:
    claims, signature = TOKEN.split(".")[1:]
    for alg in ("none", "None", "NONE", "HS256", "RS256", "ES384", "EdDSA", "es256", "", None, ["ES256"], 1):
        header = encoded(json.dumps({"alg": alg, "kid": KID}).encode())
        refused(f"{header}.{claims}.{signature}")
        refused(f"{header}.{claims}.")
        refused(signed({"alg": alg, "kid": KID}, CLAIMS), "signed in another way")
    refused(signed({"kid": KID}, CLAIMS), "signed in another way")


def test_the_public_key_is_no_secret_to_sign_with() -> None:
    key = made().service_account_key.public_key()
    text = f"{encoded(json.dumps({'alg': 'HS256', 'kid': KID}).encode())}.{TOKEN.split('.')[1]}"
    for form in (PublicFormat.SubjectPublicKeyInfo, PublicFormat.UncompressedPoint):
        for encoding in (Encoding.PEM, Encoding.DER) if form is PublicFormat.SubjectPublicKeyInfo else (Encoding.X962,):
            secret = key.public_bytes(encoding, form)
            signature = encoded(hmac.digest(secret, text.encode(), "sha256"))
            refused(f"{text}.{signature}", "signed in another way")


@pytest.mark.parametrize("kid", ["", "other", None, 1, ["x"]])
def test_a_token_must_name_a_known_key(kid: object) -> None:
    refused(signed({"alg": "ES256", "kid": kid}, CLAIMS))
    refused(signed({"alg": "ES256"}, CLAIMS), "a key that is not known here")


def test_a_header_that_asks_for_more_than_is_understood_is_refused() -> None:
    refused(signed({**HEADER, "crit": ["exp"], "exp": 1}, CLAIMS))
    refused(signed({**HEADER, "b64": False, "crit": ["b64"]}, CLAIMS))
    refused(signed({**HEADER, "b64": False}, CLAIMS))


def test_a_changed_payload_is_refused() -> None:
    header, _, signature = TOKEN.split(".")
    changed = encoded(json.dumps({**CLAIMS, "exp": CLAIMS["exp"] + 1}).encode())
    refused(f"{header}.{changed}.{signature}", "its signature is wrong")
    refused(f"{header}.{TOKEN.split('.')[1]}.{encoded(bytes(64))}", "its signature is wrong")
    refused(f"{header}.{TOKEN.split('.')[1]}.", "its signature is wrong")


@pytest.mark.parametrize("ending", ["=", "==", "====", ".", "\n", " "])
def test_a_token_has_one_spelling(ending: str) -> None:
    refused(TOKEN + ending)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"iss": "https://other"}, "issued by https://other"),
        ({"iss": ""}, "issued by"),
        ({"aud": ["vault"]}, "it is for vault"),
        ({"aud": []}, "it is for"),
        ({"exp": NOW}, "it has expired"),
        ({"exp": 0}, "it has expired"),
        ({"nbf": NOW + 61}, "it is not valid yet"),
        ({"iat": NOW + 61}, "it is not valid yet"),
        ({"sub": "system:serviceaccount:kube-system:other"}, "two service accounts"),
    ],
)
def test_a_signed_token_is_refused_for_what_it_says(change: dict[str, Any], why: str) -> None:
    refused(signed(HEADER, {**CLAIMS, **change}), why)


@pytest.mark.parametrize("claim", ["aud", "exp", "iat", "iss", "jti", "kubernetes.io", "nbf", "sub"])
@pytest.mark.parametrize("value", [None, True, {"a": 1}, [1]])
def test_a_signed_token_must_have_every_claim_in_its_type(claim: str, value: object) -> None:
    refused(signed(HEADER, {**CLAIMS, claim: value}), "not a token of a service account")
    refused(signed(HEADER, {name: other for name, other in CLAIMS.items() if name != claim}), "not a token")


def test_an_oversized_token_is_refused_before_it_is_parsed() -> None:
    large = signed(HEADER, {**CLAIMS, "more": "x" * accounttokens.LARGEST})
    refused(large, "too long")
    assert World().accounts.verify(signed(HEADER, {**CLAIMS, "more": "x" * (accounttokens.LARGEST // 2)}))


@given(st.integers(0, len(TOKEN) - 1), st.characters(max_codepoint=255))
def test_a_token_with_one_other_character_is_not_accepted(place: int, character: str) -> None:
    changed = TOKEN[:place] + character + TOKEN[place + 1 :]
    if changed != TOKEN:
        with pytest.raises(UntrustedError):
            World().accounts.verify(changed)


def json_values() -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["alg", "kid", "typ", "b64", "crit", "x"])
    plain = st.none() | st.booleans() | st.integers() | st.text()
    return st.recursive(plain, lambda values: st.lists(values) | st.dictionaries(keys, values))


@given(json_values())
def test_any_other_header_is_refused(header: Any) -> None:
    _, claims, signature = TOKEN.split(".")
    refused(f"{encoded(json.dumps(header).encode())}.{claims}.{signature}")


@given(st.text(max_size=50) | st.lists(st.text("ab-_=", max_size=9), min_size=3, max_size=3).map(".".join))
def test_rubbish_is_not_accepted(text: str) -> None:
    with pytest.raises(UntrustedError):
        World().accounts.verify(text)


def test_verified_tokens_are_cached_and_the_least_used_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounttokens, "MOST_VERIFIED", 3)
    world = World()
    first = world.accounts.issue(BOT).text
    user = world.accounts.verify(first)
    for _ in range(3):
        assert world.accounts.verify(first) is user
        world.accounts.verify(world.accounts.issue(BOT).text)
    assert world.accounts.verify(first) is user
    for _ in range(3):
        world.accounts.verify(world.accounts.issue(BOT).text)
    assert world.accounts.verify(first) is not user
    assert world.accounts.verify(first) == user


@pytest.mark.parametrize("header", ["[" * 45_000, '{"a":' * 9_000 + "1" + "}" * 9_000, '{"kid":' + "9" * 5_000 + "}"])
def test_a_header_that_is_hard_to_parse_is_refused(header: str) -> None:
    _, claims, signature = TOKEN.split(".")
    refused(f"{encoded(header.encode())}.{claims}.{signature}")


def test_a_text_that_is_no_unicode_is_refused() -> None:
    """YAML can hold half of a surrogate pair, and a TokenReview may come as YAML."""
    refused("\udcff.a.b")
