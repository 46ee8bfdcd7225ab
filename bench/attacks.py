"""Whether anybody can stop the server: each attack against a server of its own, with honest users beside it.

    python bench/attacks.py [WORDS]      all rows, or those whose title holds all the words

For each row: the longest answer to an administrator's GET meanwhile, and beside it that of a server nobody attacks,
asked the same on the same machine; the memory above idle at its peak and afterwards, what the attacker was answered,
and how many requests of honest users were served and failed. It exits with 1 when a row misses a goal. A slow answer is
a freeze without the time in which the server was ready to run and had no processor, unless the other server gave a slow
one at that time too. How a row is written: attack_rows/frame.py.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import attack_rows
from attack_rows.canary import FREEZE, Seen, SlowAnswer
from attack_rows.frame import NO_ANSWER, ROWS, Row, Site

RISE, LEFT = 300.0, 100.0
"""Megabytes above idle: at most, and of those that may be left a while later."""
PATIENCE = 30.0
LINE = "{:<58} {:<16} {:>10} {:>10} {:>16} {:>14} {:>10}  {}"


@dataclass
class Result:
    row: Row
    site: Site
    seen: Seen
    beside: Seen
    """What a server was seen to do that nobody attacked."""
    peak: float = 0.0
    left: float = 0.0

    def problems(self) -> list[str]:
        """The goals that were missed."""
        found = list(self.site.missed)
        if freezes := self.freezes():
            worst = max(freezes, key=lambda slow: slow.own)
            found.append(f"froze for {worst.own * 1000:,.0f} ms, {worst.processor * 1000:,.0f} of processor time")
        if self.peak >= RISE:
            found.append(f"{self.peak:,.0f} MB above idle")
        if self.left >= LEFT and not self.row.keeps:
            found.append(f"{self.left:,.0f} MB not given back")
        wrong = [status for status in self.site.answers if status not in self.row.answers]
        found += ["no answer" if status == NO_ANSWER else f"answered {status}" for status in sorted(wrong)]
        if self.seen.failed:
            found.append(f"{self.seen.failed} honest requests failed")
        return found

    def freezes(self) -> list[SlowAnswer]:
        """The slow answers that were not the machine's doing."""
        others = self.beside.slow
        return [slow for slow in self.seen.slow if slow.own >= FREEZE and not any(map(slow.overlaps, others))]

    def print(self) -> None:
        answers = ", ".join(f"{count}×{status or '–'}" for status, count in sorted(self.site.answers.items()))
        problems = self.problems()
        cells = (
            self.row.title,
            self.row.by,
            f"{self.seen.freeze * 1000:,.0f} ms",
            f"{self.beside.freeze * 1000:,.0f} ms",
            f"{self.peak:,.0f} → {self.left:,.0f} MB",
            answers,
            f"{self.seen.served:,}/{self.seen.failed}",
            "missed" if problems else "met",
        )
        print(LINE.format(*cells), flush=True)
        if self.seen.slow and not self.freezes():
            worst = max(self.seen.slow, key=lambda slow: slow.seconds)
            self.site.note(f"of the slowest answer {worst.waited * 1000:,.0f} ms were waited for a processor")
        for line in [*problems, *self.site.notes]:
            print(f"    {line}", flush=True)


async def measure(row: Row, directory: Path, idle: Site) -> Result:
    directory.mkdir()
    site = Site(directory, row.by, row.command)
    try:
        seen, beside = await _attacked(row, site, idle)
        assert site.process is not None
        result = Result(row, site, seen, beside, site.process.memory("VmHWM") - site.idle)
        if site.process.process.poll() is not None:
            site.miss(f"the process ended with {site.process.process.returncode}")
        if error := site.process.traceback():
            site.miss(f"a traceback: {error}")
        result.left = site.process.memory() - site.idle if row.keeps else await given_back(site)
        return result
    finally:
        if site.process:
            site.process.stop()


async def _attacked(row: Row, site: Site, idle: Site) -> tuple[Seen, Seen]:
    if not row.command:
        await row.act(site)
        await asyncio.sleep(row.linger)
        return Seen(), Seen()
    await site.serve()
    if row.prepare:
        await row.prepare(site)
    with idle.watched() as beside, site.watched() as seen:
        await site.settle()
        await row.act(site)
        await asyncio.sleep(row.linger)
    return seen, beside


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
    print(LINE.format("attack", "by", "freeze", "beside it", "above idle", "answers", "honest", ""), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        missed = asyncio.run(_missed(rows, Path(directory)))
    print(f"{missed} rows missed a goal" if missed else "every row met its goals")
    return not missed


async def _missed(rows: list[Row], directory: Path) -> int:
    """Print how it goes, and count the rows that miss a goal."""
    idle, missed = Site(directory / "idle", "nobody", ("apiserver",)), 0
    idle.directory.mkdir()
    try:
        await idle.serve()
        for number, row in enumerate(rows):
            data = directory / str(number)
            result = await measure(row, data, idle)
            result.print()
            missed += bool(result.problems())
            shutil.rmtree(data)
    finally:
        if idle.process:
            idle.process.stop()
    return missed


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
