"""Exec plugins: commands that print the credentials of a user, run again when these expire."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

import msgspec

from moorage.api.decode import DecodeError, decode
from moorage.api.meta import Data, Time, Wire
from moorage.client.clock import Clock
from moorage.client.kubeconfig.entries import ExecEntry
from moorage.client.kubeconfig.files import FileEntry
from moorage.client.kubeconfig.trust import KeyPair

_GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")
_PATIENCE, _PATIENCE_WITH_PEOPLE = 60.0, 600.0
"""How many seconds a plugin may take: a person may have to sign in when it may ask."""
_LARGEST = 1 << 20
"""How many bytes a plugin may print."""
_GOODBYE_TIME = 1.0
_SHORTEST = 1.0
"""For how many seconds credentials are used at least, however soon they expire."""


class ExecCredentialStatus(Wire):
    """The credentials that a plugin prints."""

    expiration_timestamp: Time | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class ExecCredential(Wire):
    """What a plugin prints."""

    api_version: str = ""
    kind: str = ""
    status: ExecCredentialStatus | None = None


class Issued(NamedTuple):
    """UserCredentials of a plugin, and for how many more seconds they hold; None when they do not expire."""

    token: str
    pair: KeyPair | None
    seconds: float | None


class ExecPlugin:
    """The command of a user's exec entry. Raises KubeconfigError when the entry cannot be used."""

    def __init__(self, entry: FileEntry, plugin: ExecEntry, cluster: Data) -> None:
        self._entry = entry
        self._plugin = plugin
        self._cluster = cluster if plugin.provide_cluster_info else None
        if plugin.api_version not in VERSIONS:
            entry.fail("exec.apiVersion", f"expected {' or '.join(VERSIONS)}, got {plugin.api_version!r}")
        mode = plugin.interactive_mode or ("IfAvailable" if plugin.api_version == VERSIONS[1] else "")
        if mode not in _MODES:
            entry.fail("exec.interactiveMode", f"expected {', '.join(_MODES)}, got {mode!r}")
        self._mode = mode
        self._command = self._found()

    def _found(self) -> str:
        command = self._plugin.command
        if not command:
            self._entry.fail("exec.command", "is missing")
        path = str(self._entry.path(command)) if os.sep in command else command
        if found := shutil.which(path):
            return found
        hint = f": {' '.join(self._plugin.install_hint.split())}" if self._plugin.install_hint else ""
        return self._entry.fail("exec.command", f"there is no program {path!r}{hint}")

    async def issue(self, clock: Clock) -> Issued:
        """Run the command. Raises KubeconfigError when it prints no credentials."""
        interactive = self._mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if self._mode == "Always" and not interactive:
            self._entry.fail("exec", f"{self._command} must ask somebody, and there is no terminal")
        printed = await self._output(interactive)
        try:
            credential = decode(printed, ExecCredential)
        except DecodeError as error:
            self._entry.fail("exec", f"{self._command} printed no ExecCredential: {error}")
        return self._read(credential, clock.now())

    async def _output(self, interactive: bool) -> bytes:
        try:
            process = await self._started(interactive)
        except (OSError, ValueError) as error:
            self._entry.fail("exec", f"{self._command} cannot be started: {getattr(error, 'strerror', None) or error}")
        patience = _PATIENCE_WITH_PEOPLE if interactive else _PATIENCE
        try:
            async with asyncio.timeout(patience):
                printed = await _read_all(process)
                code = await process.wait() if len(printed) <= _LARGEST else 0
        except TimeoutError:
            self._entry.fail("exec", f"{self._command} has not ended within {patience:g} s")
        finally:
            await _end(process, with_children=not interactive)
        if len(printed) > _LARGEST:
            self._entry.fail("exec", f"{self._command} prints more than {_LARGEST >> 20} MiB")
        if code:
            self._entry.fail("exec", f"{self._command} failed with exit code {code}")
        return printed

    async def _started(self, interactive: bool) -> Process:
        """A process of the command. Who is cancelled meanwhile waits for it: asyncio would wait for ever."""
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                self._command,
                *(self._plugin.args or ()),
                env={**os.environ, **self._environment(interactive)},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=PIPE,
                start_new_session=not interactive,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _end(await starting, with_children=not interactive)
            raise

    def _environment(self, interactive: bool) -> dict[str, str]:
        spec: Data = {"interactive": interactive}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec}
        own = {each.name: each.value for each in self._plugin.env or ()}
        return {**own, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}

    def _read(self, credential: ExecCredential, now: datetime) -> Issued:
        said, status = credential.api_version, credential.status
        if said != self._plugin.api_version or credential.kind != "ExecCredential":
            self._entry.fail(
                "exec", f"{self._command} printed a {credential.kind} of {said!r}, expected {self._plugin.api_version}"
            )
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            self._entry.fail("exec", f"{self._command} printed neither a token nor a client certificate")
        if status.token and not is_word(status.token):
            self._entry.fail("exec", f"{self._command} printed a token that is none")
        certificate, key = status.client_certificate_data, status.client_key_data
        if bool(certificate) != bool(key):
            self._entry.fail("exec", f"{self._command} printed a certificate or a key, but not both")
        pair = KeyPair(certificate.encode(), key.encode()) if certificate else None
        until = status.expiration_timestamp
        return Issued(status.token, pair, None if until is None else max(_SHORTEST, (until - now).total_seconds()))


def is_word(text: str) -> bool:
    """Whether a text can be a bearer token."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


async def _read_all(process: Process) -> bytes:
    """What a process prints; a byte more than is allowed when it prints too much."""
    assert process.stdout is not None
    parts, size = [], 0
    while size <= _LARGEST and (part := await process.stdout.read(_LARGEST)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


async def _end(process: Process, *, with_children: bool) -> None:
    """Kill a process that is still running, and read the rest of what it has printed: until then its pipe is open."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            if with_children:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_GOODBYE_TIME):
            await process.communicate()
