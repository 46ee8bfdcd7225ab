"""What probes are told."""

from __future__ import annotations

from typing import cast

import pytest

from moorage.apiserver.describe import health
from moorage.apiserver.http.messages import Request
from moorage.store.protocol import Store, StoreUnavailable
from tests.apiserver.asked import Asked


class Broken:
    """A store that does not answer."""

    async def revision(self) -> int:
        raise StoreUnavailable("no leader")


async def probed(target: str) -> tuple[int, str]:
    answer = await health.answer(cast(Store, Broken()), Request.of("GET", target))
    assert answer is not None
    assert isinstance(answer.body, bytes)
    return answer.status, answer.body.decode()


@pytest.mark.parametrize("path", health.PATHS)
async def test_a_probe_is_told_that_all_is_well(ask: Asked, path: str) -> None:
    assert (await ask("GET", f"/{path}"))[:2] == (200, b"ok")
    told = f"[+]ping ok\n[+]etcd ok\n{path} check passed\n"
    assert (await ask("GET", f"/{path}?verbose"))[:2] == (200, told.encode())
    assert (await ask("GET", f"/{path}/etcd"))[:2] == (200, b"ok")
    assert (await ask("GET", f"/{path}/nothing")).status == 404


async def test_a_check_can_be_left_out(ask: Asked) -> None:
    told = (
        '[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for "x"\n'
        "readyz check passed\n"
    )
    assert (await ask("GET", "/readyz?verbose&exclude=etcd&exclude=x")).body == told.encode()


async def test_what_fails_is_named_and_only_who_asks_for_it_alone_learns_why() -> None:
    assert await probed("/livez") == (500, "[+]ping ok\n[-]etcd failed: reason withheld\nlivez check failed\n")
    assert await probed("/livez?exclude=etcd") == (200, "ok")
    assert await probed("/livez/ping") == (200, "ok")
    assert await probed("/livez/etcd") == (500, "internal server error: no leader\n")
