"""Requests at random against a live control plane: whether anything is answered with a 5xx, freezes, grows or breaks.

    FUZZ_SECONDS=60 SEED=… PYTHONPATH=. python bench/fuzz.py

It prints the seed first, which repeats the same requests, and a curl command for every request that something is wrong
with; it exits with 1 when there is any. The grammar is in fuzzing/, the server and the honest users beside it are those
of attacks.py.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from attack_rows.canary import FREEZE, Seen
from attack_rows.frame import NO_ANSWER, Site
from attacks import LEFT, given_back
from fuzzing.asking import CUT, NAMESPACE, NARROW, Asked, stream
from fuzzing.sending import Line, Told
from fuzzing.stored import unusable

LINES = 4
BY_DESIGN = {
    501: "what needs running containers",
    503: "the server is shutting down, or its disk is full",
    504: "the time that the request gave itself is over",
    507: "the disk is full",
}
MANY_BUDGETS = "more than one PodDisruptionBudget"
"""Kubernetes answers an eviction of such a pod with 500 too."""
HISTORY = 128.0
"""Megabytes of past changes that the server keeps for watches."""
PARTS = 8
"""How often memory is looked at on the way: it must level off."""
MOST = 20
"""So many requests of a sort are printed."""


@dataclass
class Run:
    """What was asked and what came of it."""

    site: Site
    seed: int
    answers: Counter[int] = field(default_factory=Counter)
    recent: deque[tuple[float, float, Asked]] = field(default_factory=lambda: deque(maxlen=500_000))
    """When it was sent, when it was answered, and what."""
    budgets: int = 0
    """Evictions that were answered with 500 because of two PodDisruptionBudgets."""
    problems: list[str] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)

    def curl(self, asked: Asked) -> str:
        return f"    {asked.curl(self.site.url, Path(tempfile.gettempdir()) / f'moorage-fuzz-{self.seed}')}"

    def judge(self, asked: Asked, told: Told) -> None:
        """Note what is wrong with an answer."""
        self.answers[told.status] += 1
        if told.status == NO_ANSWER:
            if asked.delivery != CUT:
                self.problems.append(f"{asked}: no answer: {told.text}\n{self.curl(asked)}")
        elif told.status == 500 and asked.target.partition("?")[0].endswith("/eviction") and MANY_BUDGETS in told.text:
            self.budgets += 1
        elif told.status >= 500 and told.status not in BY_DESIGN:
            self.problems.append(f"{asked}: {told.status} {told.text[:300]}\n{self.curl(asked)}")

    def judge_log(self, text: str) -> None:
        """Note tracebacks and errors that the server printed, each once, with the line before."""
        tracebacks = Counter(re.findall(r"^.*\nTraceback .*\n(?:(?: .*)?\n)*.*", text, re.MULTILINE))
        self.problems += [f"{count} × in the log: {text}" for text, count in tracebacks.items()]
        self.problems += [
            f"in the log: {line}" for line in sorted(set(re.findall(r"^.*(?:ERROR|CRITICAL).*", text, re.MULTILINE)))
        ]

    def judge_freezes(self) -> None:
        """Note slow answers for which the server itself was busy, and what was asked meanwhile."""
        for slow in self.seen.slow:
            if slow.processor < FREEZE:
                continue
            load = os.getloadavg()[0]
            about = [asked for sent, end, asked in self.recent if sent < slow.start + slow.seconds and end > slow.start]
            self.problems.append(
                f"froze for {slow.seconds * 1000:,.0f} ms, {slow.processor * 1000:,.0f} ms of processor time "
                f"(load of the machine {load:.1f}), while these were asked:\n"
                + "\n".join(self.curl(asked) for asked in about[:MOST])
            )


async def fuzz(run: Run, requests: Iterator[Asked], seconds: float) -> None:
    """Send requests on a few connections until the time is over."""
    end = time.monotonic() + seconds

    async def worker() -> None:
        line = Line(run.site)
        for asked in requests:
            sent = time.monotonic()
            if sent >= end:
                break
            told = await line.ask(asked)
            run.recent.append((sent, time.monotonic(), asked))
            run.judge(asked, told)
        await line.close()

    await asyncio.gather(*(worker() for _ in range(LINES)))


async def prepare(site: Site) -> None:
    """Bound what controllers may make of the objects, as any administrator would."""
    await site.fill("/api/v1/namespaces", [{"metadata": {"name": NARROW}}])
    hard = {"pods": "100", "count/jobs.batch": "50", "count/replicasets.apps": "50"}
    for namespace in (NAMESPACE, NARROW):
        quota = {"metadata": {"name": "bound"}, "spec": {"hard": hard}}
        await site.fill(f"/api/v1/namespaces/{namespace}/resourcequotas", [quota])


async def measure(seed: int, seconds: float, directory: Path) -> Run:
    directory.mkdir()
    site = Site(directory, "administrator", ("up", "--nodes", "3"))
    run = Run(site, seed)
    try:
        await site.serve()
        await prepare(site)
        with site.watched() as run.seen:
            await site.settle()
            assert site.process is not None
            requests, levels = stream(seed), []
            for _ in range(PARTS):
                await fuzz(run, requests, seconds / PARTS)
                levels.append(site.process.memory())
        print(f"memory along the way: {', '.join(f'{level:,.0f}' for level in levels)} MB")
        run.judge_freezes()
        if run.seen.failed:
            run.problems.append(f"{run.seen.failed} honest requests failed")
        run.problems += await unusable(site)
        if (left := await given_back(site)) >= HISTORY + LEFT:
            run.problems.append(f"{left:,.0f} MB not given back, of which {HISTORY:.0f} MB may be history for watches")
        if (code := site.process.process.poll()) is not None:
            run.problems.append(f"the process ended with {code}")
        print(f"memory: {site.idle:,.0f} MB idle, {site.process.memory('VmHWM'):,.0f} MB at most, {left:+,.0f} MB left")
    finally:
        if site.process:
            site.process.stop()
    run.judge_log(site.process.log.read_text())
    return run


def main() -> bool:
    seconds = float(os.environ.get("FUZZ_SECONDS") or 60)
    seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"== requests at random for {seconds:.0f} s: make fuzz SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        run = asyncio.run(measure(seed, seconds, Path(directory) / "data"))
    answers = ", ".join(f"{count:,} × {status or 'none'}" for status, count in sorted(run.answers.items()))
    print(f"{run.answers.total():,} requests: {answers}")
    for status in sorted(BY_DESIGN.keys() & run.answers.keys()):
        print(f"  {status} is by design: {BY_DESIGN[status]}")
    if run.budgets:
        print(f"  500 is Kubernetes' answer to {run.budgets} evictions of pods with {MANY_BUDGETS}")
    print(
        f"honest users: {run.seen.served:,} served, {run.seen.failed} failed, freeze {run.seen.freeze * 1000:,.0f} ms"
    )
    for problem in run.problems:
        print(f"- {problem}")
    print(f"{len(run.problems)} problems" if run.problems else "nothing is wrong")
    return not run.problems


if __name__ == "__main__":
    sys.exit(not main())
