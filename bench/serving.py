"""A Moorage server in a process of its own, for benchmarks to load."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Serving:
    url: str
    token: str
    authority: str
    """The file with the certificate to trust."""
    process: int

    def memory(self) -> float:
        """Megabytes that the server has in memory."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process}/status").read_text())
        return int(found[1]) / 1024 if found else 0


@contextmanager
def serving(*command: str, gates: str = "AllAlpha=true") -> Iterator[Serving]:
    """Run `moorage COMMAND` on a new data directory until it is no longer needed."""
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-m", "moorage", *command, "--data-dir", folder, "--port", "0"]
        line += ["--feature-gates", gates]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            url = ""
            for text in server.stdout:
                if found := re.search(r"https://\S+", text):
                    url = found[0]
                if "Ctrl-C" in text:
                    break
            known = yaml.safe_load((Path(folder) / "kubeconfig").read_text())
            try:
                yield Serving(url, known["users"][0]["user"]["token"], f"{folder}/ca.crt", server.pid)
            finally:
                server.send_signal(signal.SIGTERM)
