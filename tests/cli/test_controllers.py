"""`moorage controllers` as people run it, beside an API server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from moorage.api import kinds
from moorage.client import Client, Missing
from tests.plane import api_server, eventually, read

CLEAN = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}


@asynccontextmanager
async def controllers(*args: str) -> AsyncIterator[None]:
    """The command while the block lasts."""
    line = [sys.executable, "-m", "moorage", "controllers", "--no-leader-elect", *args]
    process = await asyncio.create_subprocess_exec(*line, stdout=subprocess.DEVNULL, env=CLEAN)
    try:
        yield
    finally:
        process.terminate()
        assert await process.wait() == 0


async def gets(client: Client, namespace: str, certificate: str) -> None:
    """Wait until a namespace has a certificate."""

    async def there() -> bool:
        try:
            config_map = await read(client, "ConfigMap", "kube-root-ca.crt", namespace)
        except Missing:
            return False
        return bool(config_map["data"] == {"ca.crt": certificate})

    await eventually(there)


async def test_every_namespace_is_given_the_certificate_of_the_kubeconfig_or_another_one(tmp_path: Path) -> None:
    async with api_server(tmp_path / "one") as server, api_server(tmp_path / "two"):
        client, file = server.client("test"), str(server.kubeconfig)
        async with controllers("--kubeconfig", file):
            await gets(client, "default", (tmp_path / "one" / "ca.crt").read_text())
            await client.create(kinds.row("v1", "Namespace"), {"metadata": {"name": "new"}})
            await gets(client, "new", (tmp_path / "one" / "ca.crt").read_text())
        other = tmp_path / "two" / "ca.crt"
        async with controllers("--kubeconfig", file, "--root-ca-file", str(other)):
            await gets(client, "default", other.read_text())
