"""Who is asking: tokens, certificates, service accounts, nobody; and who they ask to be taken for."""

from __future__ import annotations

import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.apiserver.access import certificates, tokens
from moorage.apiserver.access.accounttokens import ServiceAccountTokens
from moorage.apiserver.access.authentication import Authenticator, impersonate
from moorage.apiserver.access.certificates import prepare
from moorage.apiserver.access.defaultroles import DEFAULTS
from moorage.apiserver.access.rbac import Rbac
from moorage.apiserver.access.reviews import user_info
from moorage.apiserver.access.tokens import TokenError, Tokens
from moorage.apiserver.base.users import ANONYMOUS, User, split_service_account
from moorage.apiserver.http.messages import Refused, Request, Response
from tests.apiserver.access.test_authorization import binding, role, rule, user
from tests.apiserver.edge import made, scenario, serving, told, trust

NOW = 1_800_000_000


class World:
    """What exists, and what time it is."""

    def __init__(self) -> None:
        self.now = float(NOW)
        self.there = {("ServiceAccount", "ci", "bot", "uid-bot"), ("Pod", "ci", "web", "uid-web")}
        self.accounts = self.issuer(made().service_account_key)

    def issuer(self, key: ec.EllipticCurvePrivateKey, **more: Any) -> ServiceAccountTokens:
        return ServiceAccountTokens(key, lambda *each: each in self.there, clock=lambda: self.now, **more)

    def authenticator(self) -> Authenticator:
        known = Tokens({"secret": User("ann", ("dev",), "7"), "master": tokens.ADMIN})
        return Authenticator(known, self.accounts, (made().authority.certificate,))

    def user(self, **headers: str) -> User:
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return self.authenticator().authenticate(Request.of("GET", "/api", named))


def refusal(ask: Callable[[], object]) -> dict[str, Any]:
    with pytest.raises(Refused) as caught:
        ask()
    return told(caught.value.response)


def test_a_token_says_who_one_is() -> None:
    request = Request.of("GET", "/api", [("authorization", "Bearer secret")])
    expected = User("ann", ("dev", "system:authenticated"), "7")
    assert World().authenticator().authenticate(request) == expected
    assert request.user == expected
    assert World().user(Authorization="bearer  master").privileged


@pytest.mark.parametrize(
    "credentials",
    [
        "Bearer wrong",
        "Bearer ",
        "Bearer",
        "Basic YTpi",
        "secret",
        "Bearer a.b.c",
        "Bearer ..",
        "Bearer é",
        "Bearer secre",
    ],
)
def test_bad_credentials_are_unauthorized_and_learn_nothing(credentials: str) -> None:
    assert refusal(lambda: World().user(Authorization=credentials)) == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version", "/livez?verbose"])
def test_nobody_may_read_health_and_version(path: str) -> None:
    authenticator = World().authenticator()
    assert authenticator.authenticate(Request.of("GET", path)) == ANONYMOUS
    assert authenticator.authenticate(Request.of("HEAD", path)) == ANONYMOUS
    assert refusal(lambda: authenticator.authenticate(Request.of("POST", path)))["code"] == 401


@pytest.mark.parametrize(
    "path", ["/", "/api", "/metrics", "/healthz/etcd", "/version/x", "/openapi/v2", "/api/v1/pods"]
)
def test_nobody_may_read_anything_else(path: str) -> None:
    assert refusal(lambda: World().authenticator().authenticate(Request.of("GET", path)))["code"] == 401


def test_a_certificate_says_who_one_is() -> None:
    pair = made().client("ann", ["dev", "ops"])
    request = Request.of("GET", "/api")
    request.certificate = pair.certificate.public_bytes(Encoding.DER)
    authenticator = World().authenticator()
    ann = authenticator.authenticate(request)
    assert (ann.name, ann.groups) == ("ann", ("dev", "ops", "system:authenticated"))
    assert ann.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    assert authenticator.authenticate(request) is ann


def test_a_certificate_of_another_authority_or_past_its_end_proves_nothing(tmp_path: Path) -> None:
    foreign = prepare(tmp_path).client("ann")
    late = made().client("ann", life=timedelta(seconds=-1))
    for pair in (foreign, late):
        request = Request.of("GET", "/healthz")
        request.certificate = pair.certificate.public_bytes(Encoding.DER)
        assert refusal(lambda request=request: World().authenticator().authenticate(request))["code"] == 401  # type: ignore[misc]
    request = Request.of("GET", "/healthz")
    request.certificate = b"rubbish"
    assert refusal(lambda: World().authenticator().authenticate(request))["code"] == 401


def test_a_certificate_without_a_name_proves_nothing() -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")])
    key = ec.generate_private_key(ec.SECP256R1())
    pair = certificates.leaf(made().authority, subject, key, ExtendedKeyUsageOID.CLIENT_AUTH, timedelta(days=1))
    request = Request.of("GET", "/api")
    request.certificate = pair.certificate.public_bytes(Encoding.DER)
    assert refusal(lambda: World().authenticator().authenticate(request))["code"] == 401


@scenario
async def test_certificates_work_through_tls(tmp_path_factory: pytest.TempPathFactory) -> None:
    authenticator = World().authenticator()

    async def whoami(request: Request) -> Response:
        return Response(200, msgspec.json.encode(user_info(authenticator.authenticate(request))))

    async with serving(whoami) as server:

        async def ask(context: Any, **headers: str) -> Any:
            connector = aiohttp.TCPConnector(ssl=context)
            async with (
                aiohttp.ClientSession(f"https://127.0.0.1:{server.port}", connector=connector) as session,
                session.get("/api", headers=headers) as answer,
            ):
                return await answer.json()

        assert (await ask(trust(made().client("ann", ["dev"]))))["groups"] == ["dev", "system:authenticated"]
        assert (await ask(trust(), Authorization="Bearer secret"))["username"] == "ann"
        assert (await ask(trust()))["code"] == 401
        foreign = prepare(tmp_path_factory.mktemp("other")).client("ann", ["system:masters"])
        with pytest.raises(aiohttp.ClientError):
            await ask(trust(foreign))
        with pytest.raises(aiohttp.ClientError):
            await ask(trust(made().server))
        assert (await ask(trust(), Authorization="Bearer secret"))["username"] == "ann"


def test_tokens_are_made_once_and_kept_private(tmp_path: Path) -> None:
    first = tokens.prepare(tmp_path)
    file = tmp_path / tokens.FILE
    assert set(first) == {"admin", "system:kube-scheduler", "system:kube-controller-manager"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len({*first.values()}) == 3
    assert min(map(len, first.values())) >= 43
    assert tokens.prepare(tmp_path) == first
    more = tokens.prepare(tmp_path, [User("node", ("system:nodes", "other"))])
    assert more.items() > first.items()
    known = Tokens(tokens.load(file))
    assert known.find(more["node"]) == User("node", ("system:nodes", "other", "system:authenticated"))
    admin = known.find(first["admin"])
    assert admin is not None
    assert admin.privileged


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"token-only\n", "line 1: the user name is missing"),
        (b"a,b\n,user\n", "line 2: the token is missing"),
        (b'a,b,1,"x,\ny"\na,c\n', "line 3: the token stands on an earlier line too"),
        (b'a,b\n"c,d\n', "line 2: unexpected end of data"),
        (b'a,b\n"c"d,e\n', "line 2: ',' expected after '\"'"),
        (b"a,b\n\xff\xfe\n", "line 2: not text in UTF-8"),
        (b"a" * 200_000, "line 1: field larger than field limit"),
    ],
)
def test_a_bad_file_of_tokens_is_an_error_that_says_where_and_what_to_do(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    file = tmp_path / tokens.FILE
    file.write_bytes(content)
    with pytest.raises(TokenError) as refused:
        tokens.prepare(tmp_path)
    assert f"{file}, {sentence}" in str(refused.value)
    assert 'write token,user,uid,"group1,group2"' in str(refused.value)
    assert file.read_bytes() == content


def test_a_file_of_tokens_may_be_written_by_hand(tmp_path: Path) -> None:
    file = tmp_path / tokens.FILE
    file.write_text('abc,ann,1,"dev, ops"\n\ndef,zoe\n')
    assert tokens.load(file) == {"abc": User("ann", ("dev", "ops"), "1"), "def": User("zoe")}


RBAC = Rbac(
    [
        *DEFAULTS,
        role(
            "act-as",
            rule("impersonate", "users", names="zoe system:anonymous"),
            rule("impersonate", "groups", names="dev"),
        ),
        role(
            "act-as-more",
            rule("impersonate", "serviceaccounts"),
            rule("impersonate", "userextras/scopes uids", "authentication.k8s.io"),
        ),
        binding("a", "act-as", user("ann")),
        binding("b", "act-as-more", user("ann")),
    ]
)


def acting(*headers: tuple[str, str], who: str = "ann") -> User:
    request = Request.of("GET", "/api", headers)
    request.user = User(who, ("system:authenticated",))
    return impersonate(request, RBAC)


def test_who_asks_for_nothing_stays_who_they_are() -> None:
    assert acting().name == "ann"


def test_who_may_is_taken_for_another() -> None:
    assert acting(("Impersonate-User", "zoe")) == User("zoe", ("system:authenticated",))
    assert acting(("Impersonate-User", "zoe"), ("Impersonate-Group", "dev")) == User(
        "zoe", ("dev", "system:authenticated")
    )
    assert acting(("Impersonate-User", "system:anonymous")) == ANONYMOUS
    full = acting(
        ("Impersonate-User", "zoe"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Scopes", "a"),
        ("Impersonate-Extra-scop%65s", "b"),
    )
    assert full == User("zoe", ("system:authenticated",), "7", {"scopes": ("a", "b")})
    assert acting(("Impersonate-User", "zoe"), ("Impersonate-Extra-scopes", "50%")).extra == {"scopes": ("50%",)}
    account = acting(("Impersonate-User", "system:serviceaccount:ci:bot"))
    assert account.groups == ("system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            [("Impersonate-User", "root")],
            'users "root" is forbidden: User "ann" cannot impersonate resource "users" in API group "" '
            "at the cluster scope",
        ),
        (
            [("Impersonate-User", "zoe"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "system:masters")],
            'groups "system:masters" is forbidden: User "ann" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope",
        ),
        (
            [("Impersonate-User", "zoe"), ("Impersonate-Extra-Other%", "x")],
            'userextras.authentication.k8s.io "x" is forbidden: User "ann" cannot impersonate resource '
            '"userextras/other%" in API group "authentication.k8s.io" at the cluster scope',
        ),
    ],
)
def test_who_may_not_is_refused(headers: list[tuple[str, str]], message: str) -> None:
    failure = refusal(lambda: acting(*headers))
    assert (failure["code"], failure["message"]) == (403, message)


def test_groups_alone_cannot_be_impersonated() -> None:
    for header in ("Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-X"):
        assert refusal(lambda header=header: acting((header, "dev")))["code"] == 400  # type: ignore[misc]


def test_nobody_acts_as_anybody_by_default() -> None:
    assert refusal(lambda: acting(("Impersonate-User", "zoe"), who="zed"))["code"] == 403


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("system:serviceaccount:ci:bot", ("ci", "bot")),
        ("system:serviceaccount:ci", None),
        ("system:serviceaccount:ci:", None),
        ("system:serviceaccount::bot", None),
        ("system:serviceaccount:ci:bot:x", None),
        ("ann", None),
    ],
)
def test_names_of_service_accounts_are_recognised(name: str, split: tuple[str, str] | None) -> None:
    assert split_service_account(name) == split
