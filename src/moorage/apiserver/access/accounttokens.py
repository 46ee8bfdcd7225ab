"""Tokens of service accounts: signed, with an end, bound to an object, good for an audience."""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from moorage.apiserver.base.users import User, service_account_groups, service_account_name

ISSUER = "https://kubernetes.default.svc.cluster.local"
SHORTEST, LONGEST = 600, 2**32
"""How many seconds a token may be asked for."""
SKEW = 60
"""How many seconds the clock of the server that issued a token may be ahead."""
REMEMBERED = 10_000
_EXTRA = "authentication.kubernetes.io/"
_BYTES = 32


class UntrustedError(Exception):
    """A token that proves nothing; the message is for the log, not for who sent it."""


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object that a token speaks of."""

    name: str
    uid: str = ""


class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose token it is, and with whom it ends: a pod, a secret or a node."""

    namespace: str
    serviceaccount: Reference
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class Claims(msgspec.Struct, frozen=True):
    """What a token says."""

    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    kubernetes: Bound = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str


class Token(NamedTuple):
    """A token and when it ends, in seconds since 1970."""

    text: str
    expires: int


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str


Exists = Callable[[str, str, str, str], bool]
"""Whether the object of a kind in a namespace with a name and a uid is there."""


class ServiceAccountTokens:
    """Issues tokens with one key, and believes those of that key and of older ones."""

    def __init__(
        self,
        key: ec.EllipticCurvePrivateKey,
        exists: Exists,
        *,
        issuer: str = ISSUER,
        audiences: Sequence[str] = (),
        older: Sequence[ec.EllipticCurvePublicKey] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        """Whom the tokens that this server accepts are for."""
        self._key = key
        self._exists = exists
        self._clock = clock
        self._keys = {key_id(each): each for each in (key.public_key(), *older)}
        self._header = _encoded(msgspec.json.encode(_Header("ES256", key_id(key.public_key()))))
        self._believed: dict[bytes, tuple[Claims, User]] = {}

    def issue(self, bound: Bound, seconds: int = 3600, audiences: Sequence[str] = ()) -> Token:
        """A new token. Raises ValueError when its life is too short or too long."""
        if not SHORTEST <= seconds <= LONGEST:
            raise ValueError(f"a token lives from {SHORTEST} to {LONGEST} seconds, not {seconds}")
        now = int(self._clock())
        subject = service_account_name(bound.namespace, bound.serviceaccount.name)
        claims = Claims(
            aud=tuple(audiences) or self.audiences, exp=now + seconds, iat=now, iss=self.issuer, jti=str(uuid.uuid4()),
            kubernetes=bound, nbf=now, sub=subject,
        )  # fmt: skip
        signed = self._header + b"." + _encoded(msgspec.json.encode(claims))
        r, s = decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_BYTES, "big") + s.to_bytes(_BYTES, "big")
        return Token((signed + b"." + _encoded(signature)).decode(), claims.exp)

    def verify(self, token: str, audiences: Sequence[str] = ()) -> User:
        """The service account that a token speaks for, now. Raises UntrustedError."""
        digest = hashlib.sha256(token.encode()).digest()
        believed = self._believed.get(digest)
        if believed is None:
            claims = self._claims(token)
            believed = claims, _user(claims)
            if len(self._believed) >= REMEMBERED:
                self._believed.clear()
            self._believed[digest] = believed
        claims, user = believed
        self._check(claims, audiences or self.audiences)
        return user

    def _claims(self, token: str) -> Claims:
        """What a token says, if we signed it."""
        signed, _, signature_text = token.rpartition(".")
        header_text, _, claims_text = signed.partition(".")
        try:
            header = msgspec.json.decode(_decoded(header_text), type=_Header)
            claims = msgspec.json.decode(_decoded(claims_text), type=Claims)
            signature = _decoded(signature_text)
        except (ValueError, msgspec.DecodeError) as error:
            raise UntrustedError(f"it is not a token of a service account: {error}") from None
        key = self._keys.get(header.kid)
        if header.alg != "ES256" or key is None or len(signature) != 2 * _BYTES:
            raise UntrustedError("it is signed in another way, or with a key that is not known here")
        r, s = (int.from_bytes(half, "big") for half in (signature[:_BYTES], signature[_BYTES:]))
        try:
            key.verify(encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise UntrustedError("its signature is wrong") from None
        return claims

    def _check(self, claims: Claims, audiences: Sequence[str]) -> None:
        now = self._clock()
        bound = claims.kubernetes
        if claims.iss != self.issuer:
            raise UntrustedError(f"it is issued by {claims.iss}")
        if now >= claims.exp:
            raise UntrustedError("it has expired")
        if now < claims.nbf - SKEW or now < claims.iat - SKEW:
            raise UntrustedError("it is not valid yet")
        if not set(audiences) & set(claims.aud):
            raise UntrustedError(f"it is for {', '.join(claims.aud)}")
        if claims.sub != service_account_name(bound.namespace, bound.serviceaccount.name):
            raise UntrustedError("it speaks for two service accounts")
        for kind, namespace, reference in _objects(bound):
            if not self._exists(kind, namespace, reference.name, reference.uid):
                raise UntrustedError(f"its {kind} {reference.name} is gone")


def _objects(bound: Bound) -> Iterator[tuple[str, str, Reference]]:
    """What must be there for a token to be good. The node of a pod is only told: the pod is enough."""
    yield "ServiceAccount", bound.namespace, bound.serviceaccount
    if bound.pod:
        yield "Pod", bound.namespace, bound.pod
    if bound.secret:
        yield "Secret", bound.namespace, bound.secret
    if bound.node and not bound.pod:
        yield "Node", "", bound.node


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    """The name of a key in the header of a token."""
    return _encoded(hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()).decode()


def _user(claims: Claims) -> User:
    bound = claims.kubernetes
    said = {
        "credential-id": f"JTI={claims.jti}",
        "node-name": bound.node.name if bound.node else "",
        "node-uid": bound.node.uid if bound.node else "",
        "pod-name": bound.pod.name if bound.pod else "",
        "pod-uid": bound.pod.uid if bound.pod else "",
    }
    extra = {f"{_EXTRA}{key}": (value,) for key, value in said.items() if value}
    return User(claims.sub, service_account_groups(bound.namespace), bound.serviceaccount.uid, extra)


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: str) -> bytes:
    """Strictly: one spelling for the same bytes, or a token could be changed and still be believed."""
    try:
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from None
    if _encoded(data).decode() != text:
        raise ValueError("it has another base64 spelling")
    return data
