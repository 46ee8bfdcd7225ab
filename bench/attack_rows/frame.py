"""What a row of bench/attacks.py is made of: an attack, who makes it, and the server that it is made against.

A row is one decorated coroutine in a module of this package; `attacks.py` imports every module.

    @attack("120 KB of [ as YAML", by="authenticated")
    async def brackets(site: Site) -> None:
        await site.ask("POST", "/apis/…/selfsubjectaccessreviews", b"[" * 120_000, "application/yaml")

`site.ask` asks as the user of the row and counts the status; with `by=` it asks as somebody else and does not count.
`prepare=` names a coroutine that fills the server first: memory counts from then on. `answers` are the statuses that
are right (any 4xx unless told), `linger` the seconds for which honest users are watched after the attack, `command`
what is started (`("apiserver",)` for the API server alone). A row that measures more says so with `site.note`, and
fails with `site.miss`. `keeps=True` says that what is there afterwards is lawful, such as events, and need not be
given back. A row with `command=()` has no server: it starts what it attacks with `site.start`, then calls
`site.settle`.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from attack_rows.canary import Seen, canary

ROLES = {"editor": "edit", "viewer": "view", "namespace admin": "admin", "tenant": "edit"}
"""Users with a role in a namespace: `default`, but that of the honest tenant is `honest`."""
USERS = ("administrator", *ROLES, "authenticated")
UNAUTHENTICATED = "nobody"
MEMORY_LIMIT = 4 << 30
PATIENCE = 120.0
NO_ANSWER = 0
JSON = "application/json"
_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
_GROUP = "rbac.authorization.k8s.io"


class Answer(NamedTuple):
    status: int
    text: str


class Process:
    """A process under a memory limit, and how much memory it has."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
        resource.prlimit(self.process.pid, resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))

    def memory(self, which: str = "VmRSS") -> float:
        """Megabytes in memory now; `VmHWM` since `forget_peak`. 0 when the process has ended."""
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        found = re.search(which + r":\s+(\d+)", text)
        return int(found[1]) / 1024 if found else 0

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def traceback(self) -> str:
        """The end of the last traceback that was printed, empty when there was none."""
        found = re.findall(r"^Traceback .*\n(?: .*\n)*(.*)", self.log.read_text(), re.MULTILINE)
        return str(found[-1]) if found else ""

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


@dataclass
class Site:
    """What is attacked, and who attacks it."""

    directory: Path
    attacker: str
    command: tuple[str, ...]
    url: str = ""
    process: Process | None = None
    idle: float = 0.0
    """Megabytes in memory before the attack."""
    answers: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Print a sentence below the row."""
        self.notes.append(text)

    def miss(self, text: str) -> None:
        """Print a sentence below the row, which has missed its goal."""
        self.missed.append(text)

    @property
    def authority(self) -> str:
        return f"{self.directory}/ca.crt"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def token(self, user: str) -> str:
        return "" if user == UNAUTHENTICATED else f"token-of-{user.replace(' ', '-')}"

    def session(self, by: str | None = None, connections: int = 0) -> aiohttp.ClientSession:
        """Connections of a user, for a row that needs more than `ask`; count the answers in `answers`."""
        token = self.token(by or self.attacker)
        head = {"Authorization": f"Bearer {token}"} if token else {}
        trust = ssl.create_default_context(cafile=self.authority)
        pool = aiohttp.TCPConnector(ssl=trust, limit=connections)
        return aiohttp.ClientSession(
            self.url, headers=head, connector=pool, timeout=aiohttp.ClientTimeout(total=PATIENCE)
        )

    async def ask(
        self, method: str, path: str, body: Any = None, media_type: str = JSON, *, by: str | None = None
    ) -> Answer:
        """Ask once, with bytes as they are and anything else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session(by) as session:
            try:
                async with session.request(method, path, data=data, headers={"Content-Type": media_type}) as answer:
                    given = Answer(answer.status, await answer.text())
            except (aiohttp.ClientError, TimeoutError) as error:
                given = Answer(NO_ANSWER, repr(error))
        if by is None:
            self.answers[given.status] += 1
        return given

    async def fill(self, path: str, objects: list[Any]) -> None:
        """Create objects as the administrator."""
        waiting = iter(objects)
        async with self.session("administrator") as session:

            async def worker() -> None:
                for item in waiting:
                    async with session.post(path, json=item) as answer:
                        assert answer.status == 201, await answer.text()

            await asyncio.gather(*(worker() for _ in range(16)))

    def start(self, *command: str) -> Process:
        """Start a component under the memory limit; its memory is that of the row."""
        self.process = Process([sys.executable, "-m", "moorage", *command], self.directory.with_suffix(".log"))
        return self.process

    async def settle(self) -> None:
        """Note how much memory is used before the attack."""
        assert self.process is not None
        await asyncio.sleep(1)
        self.process.forget_peak()
        self.idle = self.process.memory()

    def watched(self) -> AbstractContextManager[Seen]:
        """Honest users, until the block ends."""
        assert self.process is not None
        tokens = self.token("administrator"), self.token("tenant")
        return canary(self.port, self.authority, *tokens, self.process.process.pid)

    async def serve(self) -> None:
        """Start the server of the row, with its users."""
        lines = [f"{self.token(user)},{user},,{'system:masters' if user == 'administrator' else ''}" for user in USERS]
        (self.directory / "tokens.csv").write_text("\n".join(lines) + "\n")
        options = ("--data-dir", str(self.directory), "--port", "0", "--feature-gates", "AllAlpha=true")
        process = self.start(*self.command, *options).process
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"https://\S+", line):
                self.url = found[0]
            if "Ctrl-C" in line:
                break
        await self._give_roles()

    async def _give_roles(self) -> None:
        await self.fill("/api/v1/namespaces", [{"metadata": {"name": "honest"}}])
        for user, role in ROLES.items():
            namespace = "honest" if user == "tenant" else "default"
            binding = {
                "metadata": {"name": user.replace(" ", "-")},
                "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": user}],
            }
            await self.fill(f"{_RBAC}/{namespace}/rolebindings", [binding])
        await self.fill("/api/v1/namespaces/honest/configmaps", [{"metadata": {"name": "counter"}}])


@dataclass(frozen=True)
class Row:
    """One attack."""

    title: str
    by: str
    act: Callable[[Site], Awaitable[None]]
    prepare: Callable[[Site], Awaitable[None]] | None
    command: tuple[str, ...]
    answers: Collection[int]
    linger: float
    keeps: bool


ROWS: list[Row] = []


def attack(
    title: str,
    *,
    by: str,
    prepare: Callable[[Site], Awaitable[None]] | None = None,
    command: tuple[str, ...] = ("up", "--nodes", "3"),
    answers: Collection[int] = range(400, 500),
    linger: float = 2.0,
    keeps: bool = False,
) -> Callable[[Callable[[Site], Awaitable[None]]], Callable[[Site], Awaitable[None]]]:
    """Add a row."""

    def add(act: Callable[[Site], Awaitable[None]]) -> Callable[[Site], Awaitable[None]]:
        ROWS.append(Row(title, by, act, prepare, command, answers, linger, keeps))
        return act

    return add
