"""Where clients reach a server, and what its kubeconfig says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from moorage.apiserver.access.credentials import SharedFiles
from moorage.apiserver.run import Endpoint, start
from moorage.features import NONE_ON


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (Endpoint("127.0.0.1", 0), "https://127.0.0.1:7"),
        (Endpoint("::1", 0), "https://[::1]:7"),
        (Endpoint("0.0.0.0", 0), "https://127.0.0.1:7"),
        (Endpoint("::", 0), "https://[::1]:7"),
        (Endpoint("0.0.0.0", 0, "192.0.2.7"), "https://192.0.2.7:7"),
        (Endpoint("127.0.0.1", 0, "2001:db8::7"), "https://[2001:db8::7]:7"),
    ],
)
def test_the_url_is_one_that_clients_can_reach_and_the_certificate_names(endpoint: Endpoint, url: str) -> None:
    assert endpoint.url(7) == url


async def test_the_kubeconfig_has_the_advertised_address_and_the_token_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("one,ann,1,dev\ntwo,bob,2,system:masters\n")
    server = await start(
        tmp_path / "data", "sqlite", NONE_ON, "127.0.0.1", 0,
        advertise="192.0.2.7", shared=SharedFiles(tokens=tmp_path / "users.csv"),
    )  # fmt: skip
    await server.stop()
    known = yaml.safe_load(server.kubeconfig.read_text())
    assert known["clusters"][0]["cluster"]["server"] == server.url
    assert server.url.startswith("https://192.0.2.7:")
    assert known["users"][0]["user"] == {"token": "two"}
