"""Whether anybody can stop the server: each attack against a server of its own, with honest users beside it.

    python bench/attacks.py [WORDS]      all rows, or those whose title holds all the words

For each row: the longest answer to an administrator's GET meanwhile, the memory above idle at its peak and afterwards,
what the attacker was answered, and how many requests of honest users were served and failed. It exits with 1 when a row
misses a goal. How a row is written: attack_rows/frame.py.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import attack_rows
from attack_rows.canary import FREEZE, Seen
from attack_rows.frame import NO_ANSWER, ROWS, Row, Site

RISE, LEFT = 300.0, 100.0
"""Megabytes above idle: at most, and of those that may be left a while later."""
PATIENCE = 30.0
LINE = "{:<58} {:<16} {:>10} {:>16} {:>14} {:>10}  {}"


@dataclass
class Result:
    row: Row
    site: Site
    seen: Seen
    peak: float = 0.0
    left: float = 0.0

    def problems(self) -> list[str]:
        """The goals that were missed."""
        found = list(self.site.missed)
        if self.seen.freeze >= FREEZE:
            found.append(f"froze for {self.seen.freeze * 1000:,.0f} ms")
        if self.peak >= RISE:
            found.append(f"{self.peak:,.0f} MB above idle")
        if self.left >= LEFT and not self.row.keeps:
            found.append(f"{self.left:,.0f} MB not given back")
        wrong = [status for status in self.site.answers if status not in self.row.answers]
        found += ["no answer" if status == NO_ANSWER else f"answered {status}" for status in sorted(wrong)]
        if self.seen.failed:
            found.append(f"{self.seen.failed} honest requests failed")
        return found

    def print(self) -> None:
        answers = ", ".join(f"{count}×{status or '–'}" for status, count in sorted(self.site.answers.items()))
        problems = self.problems()
        cells = (
            self.row.title,
            self.row.by,
            f"{self.seen.freeze * 1000:,.0f} ms",
            f"{self.peak:,.0f} → {self.left:,.0f} MB",
            answers,
            f"{self.seen.served:,}/{self.seen.failed}",
            "missed" if problems else "met",
        )
        print(LINE.format(*cells), flush=True)
        for line in [*problems, *self.site.notes]:
            print(f"    {line}", flush=True)


async def measure(row: Row, directory: Path) -> Result:
    directory.mkdir()
    site = Site(directory, row.by, row.command)
    try:
        seen = await _attacked(row, site)
        assert site.process is not None
        result = Result(row, site, seen, site.process.memory("VmHWM") - site.idle)
        if site.process.process.poll() is not None:
            site.miss(f"the process ended with {site.process.process.returncode}")
        if error := site.process.traceback():
            site.miss(f"a traceback: {error}")
        result.left = site.process.memory() - site.idle if row.keeps else await given_back(site)
        return result
    finally:
        if site.process:
            site.process.stop()


async def _attacked(row: Row, site: Site) -> Seen:
    if not row.command:
        await row.act(site)
        await asyncio.sleep(row.linger)
        return Seen()
    await site.serve()
    if row.prepare:
        await row.prepare(site)
    with site.watched() as seen:
        await site.settle()
        await row.act(site)
        await asyncio.sleep(row.linger)
    return seen


async def given_back(site: Site) -> float:
    """Megabytes above idle, after a while at most in which memory may be given back."""
    assert site.process is not None
    end = time.monotonic() + PATIENCE
    while (left := site.process.memory() - site.idle) >= LEFT and time.monotonic() < end:
        await asyncio.sleep(0.5)
    return left


def main(words: list[str]) -> bool:
    for module in pkgutil.iter_modules(attack_rows.__path__):
        importlib.import_module(f"attack_rows.{module.name}")
    rows = [row for row in ROWS if all(word in row.title for word in words)]
    if not rows:
        sys.exit(f"no row's title holds {' and '.join(words)}; without words all rows are run")
    print(LINE.format("attack", "by", "freeze", "above idle", "answers", "honest", ""), flush=True)
    missed = 0
    for row in rows:
        with tempfile.TemporaryDirectory() as directory:
            result = asyncio.run(measure(row, Path(directory) / "data"))
        result.print()
        missed += bool(result.problems())
    print(f"{missed} rows missed a goal" if missed else "every row met its goals")
    return not missed


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
