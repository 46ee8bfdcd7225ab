"""Who asks: exec plugins, certificates that are replaced, other people's names, and what a 401 leads to."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from moorage.api.meta import Data
from moorage.apiserver.access import certificates
from moorage.client import ApiError, Unavailable
from moorage.client.clock import ManualClock
from moorage.client.https import HTTPSTransport
from moorage.client.kubeconfig import load
from tests.apiserver.kubectl import needs_kubectl
from tests.client.scripted import Scripted, Serve, Visit, scripted

_START = datetime(2026, 1, 1, tzinfo=UTC)
_V1, _V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


async def _echo(visit: Visit) -> None:
    while True:
        await visit.answer(await visit.request())


def _plugin(folder: Path, script: str) -> str:
    """A program that counts its runs in `runs`, keeps what it was told in `info`, and then does what is said."""
    file = folder / "plugin"
    file.write_text(f'#!/bin/sh\ncd {folder}\necho run >> runs\nprintf "%s" "$KUBERNETES_EXEC_INFO" > info\n{script}\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def _printing(status: Data, version: str = _V1, through: str = "") -> str:
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    return f"cat <<'END' {through}\n{json.dumps(credential)}\nEND"


def _numbered(until: timedelta | None = None) -> str:
    """A script that prints another token each time."""
    status = {"token": "token-@"}
    if until is not None:
        status["expirationTimestamp"] = (_START + until).strftime("%Y-%m-%dT%H:%M:%SZ")
    return _printing(status, through='| sed "s/@/$(wc -l < runs)/"')


def _runs(folder: Path) -> int:
    file = folder / "runs"
    return file.read_text().count("\n") if file.exists() else 0


@asynccontextmanager
async def _server(
    folder: Path, user: Data, serve: Serve = _echo, **cluster: object
) -> AsyncIterator[tuple[Scripted, ManualClock]]:
    """A server, and a client that asks as a user."""
    async with scripted(folder, serve, client_certificates=True) as server:
        data = yaml.safe_load((folder / "kubeconfig").read_text())
        data["users"][0]["user"] = user
        data["clusters"][0]["cluster"] |= cluster
        file = folder / "as-user"
        file.write_text(json.dumps(data))
        clock = ManualClock(_START)
        await server.transport.close()
        server.transport = HTTPSTransport(load(file), "test", clock)
        yield server, clock
        await server.transport.close()


async def _shown(server: Scripted) -> str:
    sent = (await server.transport.request("GET", "/api")).body.decode()
    found = re.search(r"Authorization: (.*)\r", sent)
    return found[1] if found else ""


def _exec(command: str, version: str = _V1, **more: object) -> Data:
    return {"exec": {"apiVersion": version, "command": command, "interactiveMode": "Never", **more}}


@pytest.mark.parametrize("version", [_V1, _V1BETA1])
async def test_a_plugin_says_who_asks_and_is_run_once(tmp_path: Path, version: str) -> None:
    command = _plugin(tmp_path, _printing({"token": "issued"}, version))
    async with _server(tmp_path, _exec(command, version)) as (server, _):
        assert await asyncio.gather(*(_shown(server) for _ in range(20))) == ["Bearer issued"] * 20
        assert _runs(tmp_path) == 1
        info = json.loads((tmp_path / "info").read_text())
        assert info == {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_a_plugin_gets_its_arguments_and_variables(tmp_path: Path) -> None:
    command = _plugin(tmp_path, 'T="$1-$2-$REGION"\n' + _printing({"token": "@"}, through='| sed "s/@/$T/"'))
    user = _exec(Path(command).name, args=["a", "b"], env=[{"name": "REGION", "value": "north"}])
    user["exec"]["command"] = f"./{user['exec']['command']}"  # from the folder of the kubeconfig
    async with _server(tmp_path, user) as (server, _):
        assert await _shown(server) == "Bearer a-b-north"


async def test_a_plugin_beside_a_kubeconfig_of_this_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plugin(tmp_path, _numbered())
    monkeypatch.chdir(tmp_path)
    async with _server(Path(), _exec("./plugin")) as (server, _):
        assert await _shown(server) == "Bearer token-1"


async def test_a_plugin_is_told_of_the_cluster_when_it_wants_to_be(tmp_path: Path) -> None:
    command = _plugin(tmp_path, _printing({"token": "issued"}))
    extension = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "us"}}]
    settings: Data = {"extensions": extension, "tls-server-name": "127.0.0.1"}
    async with _server(tmp_path, _exec(command, provideClusterInfo=True), **settings) as (server, _):
        await _shown(server)
        told = json.loads((tmp_path / "info").read_text())["spec"]["cluster"]
        assert told["config"] == {"audience": "us"}
        assert told["server"].startswith("https://127.0.0.1:")
        assert told["tls-server-name"] == "127.0.0.1"
        assert base64.b64decode(told["certificate-authority-data"]).startswith(b"-----BEGIN CERTIFICATE")


async def test_a_plugin_is_run_again_when_its_credentials_expire(tmp_path: Path) -> None:
    command = _plugin(tmp_path, _numbered(timedelta(minutes=15)))
    async with _server(tmp_path, _exec(command)) as (server, clock):
        assert await _shown(server) == "Bearer token-1"
        clock.advance(14 * 60)
        assert await _shown(server) == "Bearer token-1"
        clock.advance(61)
        assert await _shown(server) == "Bearer token-2"


def _refusing(refused: str) -> Serve:
    async def serve(visit: Visit) -> None:
        while True:
            sent = await visit.request()
            if re.search(refused, sent):
                await visit.answer('{"message": "Unauthorized"}', "401 Unauthorized")
            else:
                await visit.answer(sent)

    return serve


async def test_a_refused_token_is_renewed_and_the_request_made_again(tmp_path: Path) -> None:
    command = _plugin(tmp_path, _numbered())
    async with _server(tmp_path, _exec(command), _refusing("token-1")) as (server, _):
        shown = await asyncio.gather(*(_shown(server) for _ in range(10)))
        assert shown == ["Bearer token-2"] * 10
        assert _runs(tmp_path) == 2
        async with server.transport.stream("/api") as chunks:
            assert b"token-2" in b"".join([chunk async for chunk in chunks])


async def test_a_watch_with_a_refused_token_is_begun_again(tmp_path: Path) -> None:
    command = _plugin(tmp_path, _numbered())
    async with (
        _server(tmp_path, _exec(command), _refusing("token-1")) as (server, _),
        server.transport.stream("/api") as chunks,
    ):
        assert b"token-2" in b"".join([chunk async for chunk in chunks])


async def test_who_is_refused_for_good_is_told_so_after_one_renewal(tmp_path: Path) -> None:
    command = _plugin(tmp_path, _numbered())
    async with _server(tmp_path, _exec(command), _refusing("token-")) as (server, _):
        assert (await server.transport.request("GET", "/api")).status == 401
        assert _runs(tmp_path) == 2
        with pytest.raises(ApiError, match="Unauthorized"):
            async with server.transport.stream("/api"):
                pass
        assert _runs(tmp_path) == 3


async def test_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    async with _server(tmp_path, {"tokenFile": "token"}, _refusing("Bearer old")) as (server, _):
        (tmp_path / "token").write_text("new")
        assert await _shown(server) == "Bearer new"


async def test_a_token_in_a_file_is_read_again_when_it_is_old(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    async with _server(tmp_path, {"tokenFile": "token"}) as (server, clock):
        assert await _shown(server) == "Bearer first"
        token.write_text("second")
        assert await _shown(server) == "Bearer first"
        clock.advance(61)
        assert await _shown(server) == "Bearer second"
        token.unlink()
        clock.advance(61)
        assert await _shown(server) == "Bearer second"


async def test_a_plain_token_that_is_refused_is_not_shown_again(tmp_path: Path) -> None:
    async with _server(tmp_path, {"token": "fixed"}, _refusing("fixed")) as (server, _):
        assert (await server.transport.request("GET", "/api")).status == 401
        assert len(server.visits) == 1


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("exit 3", "failed with exit code 3"),
        ("echo nothing", "printed no ExecCredential: not JSON"),
        (_printing({}), "printed neither a token nor a client certificate"),
        (_printing({"clientKeyData": "k"}), "printed a certificate or a key, but not both"),
        (_printing({"token": "t"}, _V1BETA1), f"printed a ExecCredential of '{_V1BETA1}', expected {_V1}"),
        ("yes", "prints more than 1 MiB"),
        (
            _printing({"clientCertificateData": "c", "clientKeyData": "k"}),
            "the certificate that was printed is not in PEM form",
        ),
        (_printing({"token": "a\nb"}), "printed a token that is none"),
    ],
)
async def test_a_plugin_that_fails_is_one_sentence(tmp_path: Path, script: str, sentence: str) -> None:
    async with _server(tmp_path, _exec(_plugin(tmp_path, script))) as (server, _):
        with pytest.raises(Unavailable) as caught:
            await _shown(server)
        assert sentence in str(caught.value)
        assert str(caught.value).startswith(f"{tmp_path}/as-user: users[")


async def test_a_plugin_that_does_not_end_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.client.kubeconfig.execplugin._PATIENCE", 0.2)
    command = _plugin(tmp_path, "sleep 1000 & echo $! > child\nsleep 1000")
    async with _server(tmp_path, _exec(command)) as (server, _):
        with pytest.raises(Unavailable, match=r"plugin has not ended within 0\.2 s"):
            await _shown(server)
    child = (tmp_path / "child").read_text().strip()
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


async def test_a_plugin_that_must_ask_somebody_is_not_run_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    command = _plugin(tmp_path, _printing({"token": "issued"}))
    async with _server(tmp_path, _exec(command, interactiveMode="Always")) as (server, _):
        with pytest.raises(Unavailable, match="must ask somebody, and there is no terminal"):
            await _shown(server)
    assert _runs(tmp_path) == 0


async def test_a_token_of_the_kubeconfig_goes_before_a_plugin(tmp_path: Path) -> None:
    command = _plugin(tmp_path, "exit 1")
    async with _server(tmp_path, {"token": "given", **_exec(command)}) as (server, _):
        assert await _shown(server) == "Bearer given"


async def test_a_user_name_and_the_names_of_others_are_shown(tmp_path: Path) -> None:
    user = {
        "username": "jane", "password": "p:w", "as": "joe", "as-uid": "7", "as-groups": ["a", "b"],
        "as-user-extra": {"example.com/Scopes": ["read"]},
    }  # fmt: skip
    async with _server(tmp_path, user) as (server, _):
        sent = (await server.transport.request("GET", "/api")).body.decode()
    for line in (
        f"Authorization: Basic {base64.b64encode(b'jane:p:w').decode()}", "Impersonate-User: joe", "Impersonate-Uid: 7",
        "Impersonate-Group: a", "Impersonate-Group: b", "Impersonate-Extra-example.com%2FScopes: read",
    ):  # fmt: skip
        assert f"\r\n{line}\r\n" in sent


async def _naming(visit: Visit) -> None:
    """Answer with the name in the client certificate."""
    while True:
        await visit.request()
        subject = dict(entry[0] for entry in visit.writer.get_extra_info("peercert")["subject"])
        await visit.answer(subject["commonName"])


async def _named(server: Scripted) -> str:
    return (await server.transport.request("GET", "/api")).body.decode()


async def test_a_client_certificate_that_is_replaced_is_shown_from_then_on(tmp_path: Path) -> None:
    material = certificates.prepare(tmp_path)

    def put(user: str) -> None:
        pair = material.client(user)
        (tmp_path / "user.crt").write_bytes(pair.certificate_pem)
        (tmp_path / "user.key").write_bytes(pair.key_pem)

    put("jane")
    user = {"client-certificate": "user.crt", "client-key": "user.key"}
    async with _server(tmp_path, user, _naming) as (server, clock):
        assert [await _named(server), await _named(server)] == ["jane", "jane"]
        (tmp_path / "user.crt").write_bytes(material.client("joe").certificate_pem)
        clock.advance(61)
        assert await _named(server) == "jane"  # its key has not come yet
        put("joe")
        clock.advance(40)
        assert await _named(server) == "jane"
        clock.advance(21)
        assert await _named(server) == "joe"
        assert len(server.visits) == 3


async def test_a_client_certificate_of_a_plugin_is_shown_until_it_expires(tmp_path: Path) -> None:
    material = certificates.prepare(tmp_path)
    for number, name in enumerate(("jane", "joe"), 1):
        pair = material.client(name)
        status = {
            "clientCertificateData": pair.certificate_pem.decode(), "clientKeyData": pair.key_pem.decode(),
            "expirationTimestamp": (_START + timedelta(seconds=30 * number)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }  # fmt: skip
        printed = {"apiVersion": _V1, "kind": "ExecCredential", "status": status}
        (tmp_path / f"printed-{number}").write_text(json.dumps(printed))
    command = _plugin(tmp_path, "cat printed-$(wc -l < runs)")
    async with _server(tmp_path, _exec(command), _naming) as (server, clock):
        assert [await _named(server), await _named(server)] == ["jane", "jane"]
        clock.advance(31)
        assert await _named(server) == "joe"
        assert (_runs(tmp_path), len(server.visits)) == (2, 2)


@needs_kubectl
@pytest.mark.parametrize("version", [_V1, _V1BETA1])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("extensions", [None, [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}]])
async def test_a_plugin_is_told_what_kubectl_tells_it(
    tmp_path: Path, version: str, told: bool, extensions: list[Data] | None
) -> None:
    command = _plugin(tmp_path, _printing({"token": "issued"}, version))
    settings: Data = {"extensions": extensions} if extensions else {}
    async with _server(tmp_path, _exec(command, version, provideClusterInfo=told), **settings) as (server, _):
        await _shown(server)
        ours = json.loads((tmp_path / "info").read_text())
        kubectl = await asyncio.create_subprocess_exec(
            "kubectl", "get", "--raw", "/api", "--kubeconfig", str(tmp_path / "as-user"), stdout=asyncio.subprocess.PIPE
        )
        answer, _ = await kubectl.communicate()
        assert b"Bearer issued" in answer
        assert _runs(tmp_path) == 2
        assert json.loads((tmp_path / "info").read_text()) == ours
