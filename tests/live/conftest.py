"""A real server as a separate process, and ways to talk to it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.plane import PATIENCE

ROOT = Path(__file__).parents[2]


@dataclass
class Live:
    """A server process, and how to reach it."""

    directory: Path
    gates: str = "AllAlpha=true"
    store: str = "sqlite"
    command: str = "up"
    more: tuple[str, ...] = ()
    """Further options of the command."""
    url: str = ""
    page: str = ""
    """The address of its page, with a token that serves once."""
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def begin(self) -> subprocess.Popen[str]:
        """Start the process without waiting until it serves."""
        command = [
            sys.executable, "-m", "moorage", self.command, "--data-dir", str(self.directory), "--port", "0",
            "--feature-gates", self.gates, "--store", self.store, *self.more,
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        return self.process

    def start(self) -> None:
        self.process = self.begin()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if address := re.search(r"https://\S+", line):
                self.url = address[0]
            if address := re.search(r"http://\S+", line):
                self.page = address[0]
            if "Ctrl-C" in line:
                return
        pytest.fail(f"the server ended with {self.process.wait()} before it was ready")

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def token(self) -> str:
        token: str = yaml.safe_load(self.kubeconfig.read_text())["users"][0]["user"]["token"]
        return token

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.directory / "ca.crt"))

    def kubectl(
        self, *args: str, stdin: str = "", check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            pytest.skip("kubectl is not on PATH")
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.directory), **environment}
        run = subprocess.run(
            [kubectl, *args],
            input=stdin,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=ROOT,
            check=False,
        )
        assert not check or run.returncode == 0, run.stderr
        return run

    def http(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        media_type: str = "application/json",
    ) -> tuple[int, Any]:
        headers = {"Content-Type": media_type}
        token = self.token if token is None else token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            request = Request(self.url + path, data, headers, method=method)
            with urlopen(request, context=self.trust(), timeout=PATIENCE) as answer:
                return answer.status, _content(answer.read())
        except HTTPError as error:
            return error.code, _content(error.read())


def eventually(check: Callable[[], Any]) -> Any:
    """Ask again and again until the answer is true; an AssertionError counts as not yet."""
    end = time.monotonic() + PATIENCE
    while True:
        problem: Exception | None = None
        try:
            if answer := check():
                return answer
        except AssertionError as error:
            problem = error
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE} s") from problem
        time.sleep(0.02)


def _content(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The API server alone: no controller changes the objects of a test."""
    server = Live(tmp_path_factory.mktemp("moorage"), command="apiserver")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A whole control plane: pods are scheduled, run, evicted and replaced."""
    server = Live(tmp_path_factory.mktemp("moorage"))
    server.start()
    yield server
    server.stop()
