"""Service account tokens: JWTs with an expiry and an audience, bound to a pod, a secret or a node."""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from moorage.apiserver.base.users import User, service_account_groups, service_account_name
from moorage.bounded import Bounded

ISSUER = "https://kubernetes.default.svc.cluster.local"
SHORTEST, LONGEST = 600, 2**32
"""How many seconds a token may be valid."""
SKEW = 60
"""How many seconds the clock of the server that issued a token may be ahead."""
LARGEST = 64 << 10
"""How many characters a token may have: no larger one fits into the headers of a request."""
MOST_VERIFIED = 10_000
"""How many verified tokens are cached."""
SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
VerifyingKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_EXTRA = "authentication.kubernetes.io/"


class UntrustedError(Exception):
    """A token that is not accepted; the message is for the log, not for the client."""


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object that a token names."""

    name: str
    uid: str = ""


class KubernetesClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The service account of a token, and the object that the token is bound to: a pod, a secret or a node."""

    namespace: str
    serviceaccount: Reference
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class Claims(msgspec.Struct, frozen=True):
    """The payload of a token."""

    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    kubernetes: KubernetesClaims = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str


class IssuedToken(NamedTuple):
    """A token and when it expires, in seconds since 1970."""

    text: str
    expires: int


_DECODING: jwt.types.Options = {
    "require": list(Claims.__struct_encode_fields__),
    # The signature is verified once and the claims are cached; these are checked at every use, by our own clock.
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
}

ObjectExists = Callable[[str, str, str, str], bool]
"""Whether there is an object of a kind, in a namespace, with a name and a uid."""


class ServiceAccountTokens:
    """Signs tokens with one key, and accepts those that were signed with it or with another one that is known."""

    def __init__(
        self,
        key: SigningKey,
        exists: ObjectExists,
        *,
        issuer: str = ISSUER,
        audiences: Sequence[str] = (),
        others: Sequence[VerifyingKey] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        """The audiences that this server accepts."""
        self._key = key
        self._exists = exists
        self._clock = clock
        self._keys = {key_id(public): public for public in (key.public_key(), *others)}
        # Like Kubernetes, no "typ": PyJWT leaves out an empty one.
        self._algorithm = algorithm(key.public_key())
        self._header = {"kid": key_id(key.public_key()), "typ": ""}
        self._verified: Bounded[bytes, tuple[Claims, User]] = Bounded(MOST_VERIFIED)

    def issue(self, about: KubernetesClaims, seconds: int = 3600, audiences: Sequence[str] = ()) -> IssuedToken:
        """A new token. Raises ValueError when its life is too short or too long."""
        if not SHORTEST <= seconds <= LONGEST:
            raise ValueError(f"a token lives from {SHORTEST} to {LONGEST} seconds, not {seconds}")
        now = int(self._clock())
        subject = service_account_name(about.namespace, about.serviceaccount.name)
        claims = Claims(
            aud=tuple(audiences) or self.audiences, exp=now + seconds, iat=now, iss=self.issuer, jti=str(uuid.uuid4()),
            kubernetes=about, nbf=now, sub=subject,
        )  # fmt: skip
        text = jwt.encode(msgspec.to_builtins(claims), self._key, self._algorithm, self._header)
        return IssuedToken(text, claims.exp)

    def verify(self, token: str, audiences: Sequence[str] = ()) -> User:
        """The service account that a token authenticates now. Raises UntrustedError."""
        if not token.isascii():
            raise UntrustedError("it is not a token of a service account: it has characters that no token has")
        digest = hashlib.sha256(token.encode()).digest()
        verified = self._verified.get(digest)
        if verified is None:
            claims = self._claims(token)
            verified = claims, _user(claims)
            self._verified.put(digest, verified)
        claims, user = verified
        self._check(claims, audiences or self.audiences)
        return user

    def _claims(self, token: str) -> Claims:
        """The claims of a token, after its signature is verified."""
        if len(token) > LARGEST or "=" in token:  # PyJWT takes padding, with which one token would have two spellings.
            raise UntrustedError("it is not a token of a service account: it is too long, or padded")
        try:
            # Without the payload, which would be decoded twice.
            header = jwt.get_unverified_header(f"{token.partition('.')[0]}..")
            key = self._keys[header.get("kid", "")]
            return msgspec.convert(jwt.decode(token, key, [algorithm(key)], _DECODING), Claims)
        except (KeyError, jwt.InvalidAlgorithmError):
            raise UntrustedError("it is signed in another way, or with a key that is not known here") from None
        except jwt.InvalidSignatureError:
            raise UntrustedError("its signature is wrong") from None
        except (jwt.PyJWTError, msgspec.ValidationError) as error:
            raise UntrustedError(f"it is not a token of a service account: {error}") from None

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


def _objects(bound: KubernetesClaims) -> Iterator[tuple[str, str, Reference]]:
    """Kind, namespace and reference of the objects that must exist for a token to be valid.

    The node of a pod's token is only for information: that token is bound to the pod.
    """
    yield "ServiceAccount", bound.namespace, bound.serviceaccount
    if bound.pod:
        yield "Pod", bound.namespace, bound.pod
    if bound.secret:
        yield "Secret", bound.namespace, bound.secret
    if bound.node and not bound.pod:
        yield "Node", "", bound.node


def algorithm(key: VerifyingKey) -> str:
    """How tokens are signed with a key, as Kubernetes does; empty for a curve that has no algorithm."""
    return "RS256" if isinstance(key, rsa.RSAPublicKey) else _CURVES.get(key.curve.name, "")


def key_id(key: VerifyingKey) -> str:
    """The name of a key in the header of a token."""
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _user(claims: Claims) -> User:
    bound = claims.kubernetes
    facts = {
        "credential-id": f"JTI={claims.jti}",
        "node-name": bound.node.name if bound.node else "",
        "node-uid": bound.node.uid if bound.node else "",
        "pod-name": bound.pod.name if bound.pod else "",
        "pod-uid": bound.pod.uid if bound.pod else "",
    }
    extra = {f"{_EXTRA}{key}": (value,) for key, value in facts.items() if value}
    return User(claims.sub, service_account_groups(bound.namespace), bound.serviceaccount.uid, extra)
