"""`moorage perf`: how fast pods are placed, by workloads in the format of Kubernetes' scheduler_perf."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from moorage.cli.options import FINDINGS, cannot_run

if TYPE_CHECKING:
    from moorage.tools.perf.measure import Measurement
    from moorage.tools.perf.run import Progress
    from moorage.tools.perf.workloads import WorkloadPlan

_LINE_SECONDS = 5.0
_NAME = 36
_RATES, _WAITS = ("Average", "Perc50", "Perc90", "Perc99"), ("Perc50", "Perc90", "Perc99")


@click.command()
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE",
              help="Workloads, as in Kubernetes' test/integration/scheduler_perf.")  # fmt: skip
@click.option("--workload", default="", metavar="NAME",
              help="Which to run: TEST/WORKLOAD, or one of the two. All, when it is left out.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def perf(config: Path, workload: str, output: str) -> None:
    """Measure how fast pods are placed: through the API, the scheduler and a store on disk, in one process.

    Each workload begins with an empty cluster and has a process of its own.
    Exit code: 0 all is well, 1 a threshold was missed or a workload did not end, 2 cannot run.

    \b
    Examples:
      moorage perf --config bench/workloads.yaml --workload Basic/500Nodes
      moorage perf --config bench/workloads.yaml --workload 5000Nodes -o json > figures.json
    """
    import msgspec

    from moorage.tools.perf.cluster import Failed
    from moorage.tools.perf.measure import document
    from moorage.tools.perf.workloads import File, WorkloadError

    try:
        file = File(config)
        plans = [file.plan(name) for name in file.names(workload)]
    except WorkloadError as error:
        cannot_run(str(error))
    items, problems = [], []
    table = Table() if output == "table" else None
    for plan in plans:
        for note in plan.notes:
            click.echo(f"note: {plan.name}: {note}", err=True)
        try:
            measurements = _measure(config, plan.name)
        except Failed as error:
            problems.append(str(error))
            continue
        for measurement in measurements:
            figures = measurement.items()
            problems += plan.threshold.misses(figures)
            items += figures
            if table:
                table.show(plan, measurement, alone=len(measurements) == 1)
    if not table:
        click.echo(msgspec.json.format(msgspec.json.encode(document(items)), indent=2))
    for problem in problems:
        click.echo(f"moorage: {problem}", err=True)
    sys.exit(FINDINGS if problems else 0)


def _measure(config: Path, name: str) -> list[Measurement]:
    """Run a workload and show its progress. Raises Failed."""
    from moorage.tools.perf.worker import measure

    progress = ProgressLine(name, sys.stderr)
    try:
        return measure(config, name, progress.tell)
    finally:
        progress.end()


class Table:
    """Lines of figures, each shown as soon as it is known."""

    def __init__(self) -> None:
        self._begun = False

    def show(self, plan: WorkloadPlan, measured: Measurement, *, alone: bool) -> None:
        """Show one line, the first one below the heads of the columns."""
        if not self._begun:
            click.echo(f"{'':{_NAME + 7}}{'pods/s':>8}{'':21}{'latency, ms':>16}{'':5}{'memory':>7}")
            heads = "".join(f"{each:>7}" for each in ("p50", "p90", "p99"))
            click.echo(f"{'workload':{_NAME}}{'pods':>7}{'average':>8}{heads}{heads}{'MB':>7}")
            self._begun = True
        name = plan.name if alone else measured.name
        name = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
        rates = [f"{measured.throughput.get(each, 0):,.0f}" for each in _RATES]
        waits = [f"{measured.latency.get(each, 0):,.0f}" for each in _WAITS]
        cells = "".join(f"{each:>7}" for each in (*rates[1:], *waits, f"{measured.memory:,.0f}"))
        click.echo(f"{name:{_NAME}}{measured.pods:>7,}{rates[0]:>8}{cells}")


class ProgressLine:
    """The progress of a workload: one line that is overwritten on a terminal, a new line now and then elsewhere."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._shown_at = time.monotonic()
        self._placed = 0

    def tell(self, progress: Progress) -> None:
        """Show how far a workload has come."""
        now = time.monotonic()
        if not self._is_terminal and now - self._shown_at < _LINE_SECONDS:
            return
        rate = (progress.placed - self._placed) / max(now - self._shown_at, 1e-9)
        self._shown_at, self._placed = now, progress.placed
        share = f" {progress.done:,}/{progress.total:,}" if progress.total else ""
        text = f"{self._name}: {progress.operation}{share}, {progress.placed:,} pods placed, {rate:,.0f}/s"
        self._stream.write(f"\r\x1b[K{text}" if self._is_terminal else f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        """Erase the line, if it is on a terminal."""
        if self._is_terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
