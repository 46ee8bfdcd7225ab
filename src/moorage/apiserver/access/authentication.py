"""Authentication by client certificate or bearer token, anonymous requests, and impersonation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from moorage.apiserver.access.accounttokens import ServiceAccountTokens, UntrustedError
from moorage.apiserver.access.certificates import issued_by
from moorage.apiserver.access.rbac import Attributes, Rbac, forbidden
from moorage.apiserver.access.tokens import Tokens
from moorage.apiserver.base.users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    service_account_groups,
    split_service_account,
)
from moorage.apiserver.http.failures import bad_request
from moorage.apiserver.http.messages import Reason, Refused, Request, TargetError, decoded, status
from moorage.bounded import Bounded
from moorage.logs import Log

FOR_EVERYBODY = frozenset(("/healthz", "/livez", "/readyz", "/version", "/version/"))
"""Paths that may be read anonymously."""
MOST_CERTIFICATES = 10_000
"""How many verified certificates are cached."""
_EXTRA_PREFIX = "impersonate-extra-"

_LOG = Log(__name__)


class _CertifiedUser(NamedTuple):
    user: User
    begins: datetime
    ends: datetime


class Authenticator:
    """Finds the user of a request; Refused (401) when its credentials are not accepted."""

    def __init__(self, tokens: Tokens, accounts: ServiceAccountTokens, authorities: Sequence[x509.Certificate]) -> None:
        self._tokens = tokens
        self._accounts = accounts
        self._authorities = tuple(authorities)
        self._certified: Bounded[bytes, _CertifiedUser] = Bounded(MOST_CERTIFICATES)

    def authenticate(self, request: Request) -> User:
        """The user, who is also set on the request."""
        request.user = self._user(request)
        return request.user

    def _user(self, request: Request) -> User:
        if request.certificate is not None:
            return self._by_certificate(request.certificate)
        credentials = request.headers.get("authorization")
        if credentials:
            scheme, _, token = credentials.partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                raise _unauthorized("the Authorization header is no bearer token")
            return self.by_token(token.strip())
        if request.path in FOR_EVERYBODY and request.method in ("GET", "HEAD"):
            return ANONYMOUS
        raise _unauthorized("there are no credentials")

    def by_token(self, token: str) -> User:
        """The user of a token. Refused (401) when it is not accepted."""
        user = self._tokens.find(token)
        if user is not None:
            return user
        if token.count(".") != 2:
            raise _unauthorized("the token is not certified")
        try:
            return self._accounts.verify(token)
        except UntrustedError as error:
            raise _unauthorized(f"the token is not accepted: {error}") from None

    def _by_certificate(self, certificate: bytes) -> User:
        certified = self._certified.get(certificate)
        if certified is None:
            certified = self._read(certificate)
            self._certified.put(certificate, certified)
        if not certified.begins <= datetime.now(UTC) <= certified.ends:
            raise _unauthorized(f"the certificate of {certified.user.name} has expired")
        return certified.user

    def _read(self, der: bytes) -> _CertifiedUser:
        """The user of a certificate. TLS has verified it already; this check holds even if that were turned off."""
        try:
            certificate = x509.load_der_x509_certificate(der)
        except ValueError:
            raise _unauthorized("the certificate cannot be read") from None
        if not any(issued_by(certificate, authority) for authority in self._authorities):
            raise _unauthorized("the certificate was not issued by an authority of clients")
        names = _values(certificate, NameOID.COMMON_NAME)
        if len(names) != 1 or not names[0]:
            raise _unauthorized("the certificate names no user")
        groups = dict.fromkeys((*_values(certificate, NameOID.ORGANIZATION_NAME), AUTHENTICATED))
        identity = f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}"
        user = User(names[0], tuple(groups), extra={"authentication.kubernetes.io/credential-id": (identity,)})
        return _CertifiedUser(user, certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def impersonate(request: Request, rbac: Rbac) -> User:
    """The user that a request is made as: its own, or the one that it impersonates. Refused (400, 403)."""
    user = request.user or ANONYMOUS
    if not request.headers.impersonates:
        return user
    permissions = list(_permissions(request))
    if not permissions:
        return user
    for asked in permissions:
        decision = rbac.decide(user, asked)
        if not decision.allowed:
            raise Refused(forbidden(user, asked, decision.reason))
    request.user = _impersonated(permissions)
    _LOG.info(
        "Impersonated", v=2, user=user.name, impersonated=request.user.name, verb=request.method, URI=request.path
    )
    return request.user


def _permissions(request: Request) -> Iterator[Attributes]:
    """What must be allowed for the impersonation that the headers ask for, the user first."""
    headers = request.headers
    name, uid, groups = (
        headers.get("impersonate-user"),
        headers.get("impersonate-uid"),
        headers.all("impersonate-group"),
    )
    extras = [(key, value) for key, value in headers.items() if key.startswith(_EXTRA_PREFIX)]
    if not name:
        if uid or groups or extras:
            raise bad_request("requested groups, a uid or extra fields without impersonating a user")
        return
    account = split_service_account(name)
    if account:
        yield Attributes("impersonate", "serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attributes("impersonate", "users", name=name)
    for group in groups:
        yield Attributes("impersonate", "groups", name=group)
    for key, value in extras:
        field = _unescaped(key.removeprefix(_EXTRA_PREFIX))
        yield Attributes("impersonate", "userextras", "authentication.k8s.io", field, name=value)
    if uid:
        yield Attributes("impersonate", "uids", "authentication.k8s.io", name=uid)


def _unescaped(key: str) -> str:
    try:
        return decoded(key.encode())
    except TargetError:
        return key


def _impersonated(permissions: list[Attributes]) -> User:
    who = permissions[0]
    account = who.resource == "serviceaccounts"
    name = f"system:serviceaccount:{who.namespace}:{who.name}" if account else who.name
    groups = [asked.name for asked in permissions if asked.resource == "groups"]
    if account and not groups:
        groups = list(service_account_groups(who.namespace))
    if name == ANONYMOUS.name:
        groups += [] if UNAUTHENTICATED in groups else [UNAUTHENTICATED]
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    extra: dict[str, tuple[str, ...]] = {}
    for asked in permissions:
        if asked.resource == "userextras":
            extra[asked.subresource] = (*extra.get(asked.subresource, ()), asked.name)
    uid = next((asked.name for asked in permissions if asked.resource == "uids"), "")
    return User(name, tuple(groups), uid, extra)


def _values(certificate: x509.Certificate, kind: x509.ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(kind)]


def _unauthorized(why: str) -> Refused:
    """The reason goes to the log only: the client must not learn from it."""
    _LOG.info("Unable to authenticate the request", v=2, err=why)
    return Refused(status(401, Reason.UNAUTHORIZED, "Unauthorized", headers=[("WWW-Authenticate", "Bearer")]))
