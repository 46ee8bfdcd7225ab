"""What a process of attach mode says about itself to those who watch it: that it is alive, and its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

from moorage.apiserver.base.users import User
from moorage.apiserver.http.limits import Limits
from moorage.apiserver.http.listener import Server
from moorage.apiserver.http.messages import Reason, Request, Response, status

_LIMITS = Limits(body_size=1 << 10, connections=64, seats=8, queued=16, request_time=10)
_ANYBODY = User("system:anonymous")
_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)


class _Together:
    """The metrics of several components, each series once: the gates are those of the process."""

    def __init__(self, registries: Sequence[CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for registry in self._registries:
            for family in registry.collect():
                known = families.setdefault(family.name, family)
                if known is not family:
                    known.samples += [each for each in family.samples if each not in known.samples]
        return families.values()


def health_server(metrics: Sequence[CollectorRegistry], bind: str, port: int) -> Server:
    """A server of /healthz, /readyz and /metrics, without TLS. It answers as long as the event loop turns."""
    together = _Together(metrics)

    async def answer(request: Request) -> Response:
        if request.method != "GET":
            return status(405, Reason.METHOD_NOT_ALLOWED, "here is only something to read")
        if request.path in ("/healthz", "/readyz"):
            return Response(200, b"ok", _TEXT)
        if request.path == "/metrics":
            return Response(200, generate_latest(together), (("Content-Type", CONTENT_TYPE_LATEST),))
        return status(404, Reason.NOT_FOUND, f"nothing is served at {request.path}")

    return Server(answer, lambda _: _ANYBODY, None, bind, port, _LIMITS)
