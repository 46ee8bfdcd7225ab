"""The certificate of the webhook: made, kept in a Secret, renewed, and published to the API server.

Several replicas share one Secret. Whoever writes it first has made it: the others read it. The authority's key stays
when its certificate is renewed, so that a replica with an older certificate is trusted all the same.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from datetime import datetime

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.apiserver.access.certificates import LIFE, Pair, covers, expires_soon, issued_by, leaf, self_signed
from moorage.client import Client, Missing
from moorage.client import errors as client_errors
from moorage.client.client import JSON_PATCH
from moorage.client.errors import Conflict, Exists
from moorage.client.transport import Answer
from moorage.logs import Log
from moorage.tools.attach.run import LABELS

SECRET = "moorage-webhook-tls"
CONFIGURATION = "moorage"
_SECRETS = kinds.row("v1", "Secret")
_CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{CONFIGURATION}"
    for kind in ("mutating", "validating")
)
_AUTHORITY, _SERVER = ("ca.crt", "ca.key"), ("tls.crt", "tls.key")

_LOG = Log(__name__)


class WebhookCertificates:
    """The authority and the certificate of the webhook in one namespace."""

    def __init__(self, client: Client, namespace: str, names: tuple[str, ...]) -> None:
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self.tls.options |= ssl.OP_NO_RENEGOTIATION
        self.tls.set_alpn_protocols(["http/1.1"])
        self._client = client
        self._namespace = namespace
        self._names = names
        self._shown: bytes = b""
        """The certificate that connections get now."""
        self._held: Data = {}
        """What the Secret held: it is written again when somebody deletes it."""

    async def renew(self, now: datetime) -> None:
        """Read or make the certificate, show it to new connections, and tell the API server whom to trust."""
        authority, server = await self._agree(now)
        if server.certificate_pem != self._shown:
            _load(self.tls, server)
            self._shown = server.certificate_pem
            _LOG.info("Certificate", expires=server.certificate.not_valid_after_utc.isoformat())
        for configuration in _CONFIGURATIONS:
            await self._publish(configuration, base64.b64encode(authority.certificate_pem).decode())

    async def _agree(self, now: datetime) -> tuple[Pair, Pair]:
        """What the Secret holds, once it holds what is needed."""
        while True:
            stored = await self._stored()
            data = self._held if stored is None else stored.get("data") or {}
            authority = _authority(_pair(data, *_AUTHORITY), now)
            server = _server(_pair(data, *_SERVER), authority, self._names, now)
            needed = {**_texts(authority, *_AUTHORITY), **_texts(server, *_SERVER)}
            if stored is not None and needed.items() <= data.items():  # others may keep more in it
                self._held = needed
                return authority, server
            try:
                if stored is None:
                    metadata = {"name": SECRET, "namespace": self._namespace, "labels": LABELS}
                    secret = {"metadata": metadata, "type": "kubernetes.io/tls", "data": needed}
                    await self._client.create(_SECRETS, secret, self._namespace)
                else:
                    await self._client.update(_SECRETS, {**stored, "data": {**data, **needed}})
            except (Conflict, Exists):
                continue  # another replica was faster

    async def _stored(self) -> Data | None:
        try:
            secret: Data = msgspec.json.decode(await self._client.get(_SECRETS, self._namespace, SECRET))
        except Missing:
            return None
        return secret

    async def _publish(self, path: str, bundle: str) -> None:
        answer = await self._client.transport.request("GET", path)
        if answer.status == 404:
            _LOG.warning("Webhook configuration missing", path=path)
            return
        _raise_for(answer)
        changes: list[Data] = []
        for index, webhook in enumerate(msgspec.json.decode(answer.body).get("webhooks") or ()):
            if webhook["clientConfig"].get("caBundle") != bundle:
                changes.append({"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]})
                changes.append({"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle})
        if changes:
            body = msgspec.json.encode(changes)
            _raise_for(await self._client.transport.request("PATCH", path, body, JSON_PATCH))


def _raise_for(answer: Answer) -> None:
    if answer.status >= 300:
        raise client_errors.of(answer.status, answer.body, answer.retry_after)


def _authority(pair: Pair | None, now: datetime) -> Pair:
    if pair is not None and not expires_soon(pair.certificate, now):
        return pair
    return self_signed(pair.key if pair else ec.generate_private_key(ec.SECP256R1()), now)


def _server(pair: Pair | None, authority: Pair, names: tuple[str, ...], now: datetime) -> Pair:
    if pair and issued_by(pair.certificate, authority.certificate) and covers(pair.certificate, names, now):
        return pair
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "moorage-webhook")])
    key = ec.generate_private_key(ec.SECP256R1())
    return leaf(authority, subject, key, ExtendedKeyUsageOID.SERVER_AUTH, LIFE, names, now)


def _pair(data: Data, certificate_name: str, key_name: str) -> Pair | None:
    """A certificate and its key from the data of a Secret; None when they are not there or cannot be used."""
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(data[certificate_name]))
        key = load_pem_private_key(base64.b64decode(data[key_name]), None)
    except (KeyError, ValueError, TypeError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        return None
    return Pair(certificate, key)


def _texts(pair: Pair, certificate_name: str, key_name: str) -> dict[str, str]:
    parts = {certificate_name: pair.certificate_pem, key_name: pair.key_pem}
    return {name: base64.b64encode(pem).decode() for name, pem in parts.items()}


def _load(tls: ssl.SSLContext, pair: Pair) -> None:
    # Python loads these from files only; this one is readable by its owner only, and removed at once.
    with tempfile.NamedTemporaryFile() as both:
        both.write(pair.certificate_pem + pair.key_pem)
        both.flush()
        tls.load_cert_chain(both.name)
