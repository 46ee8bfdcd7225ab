"""Every workload of Kubernetes' scheduler_perf that has a threshold: python bench/thresholds.py FOLDER [NAME …]

FOLDER is test/integration/scheduler_perf of a checkout of Kubernetes. Of variants of a workload that differ only in
gates, which make no difference here, the first is run, against the highest of their thresholds. One row a workload, the
lowest ratio first; a workload that takes longer than four minutes is ended.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

PATIENCE = 240
_GATES = ("_QueueingHints", "_Async")


class Measured(NamedTuple):
    name: str
    threshold: float
    rate: float
    micros: float
    """Processor time a pod."""


def workloads(file: Path) -> Iterator[tuple[str, float]]:
    """The workloads of a file that have thresholds."""
    for test in yaml.safe_load(file.read_text()):
        found: dict[str, tuple[str, float]] = {}
        for workload in test["workloads"]:
            name, given = workload["name"], workload.get("threshold") or 0
            threshold = float(max(given.values()) if isinstance(given, dict) else given)
            plain = name
            for gates in _GATES:
                plain = plain.partition(gates)[0]
            first, before = found.get(plain, (name, 0.0))
            found[plain] = first, max(before, threshold)
        yield from ((f"{test['name']}/{name}", threshold) for name, threshold in found.values() if threshold)


def measured(file: Path, name: str, threshold: float) -> Measured | str:
    """Run a workload; why it has no figures, if it has none."""
    command = [sys.executable, "-m", "moorage", "perf", "--config", file.name, "--workload", name, "-o", "json"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=file.parent, check=False)
    except subprocess.TimeoutExpired:
        return f"{name}: not at its end after {PATIENCE} seconds"
    if not ended.stdout:
        return f"{name}: {ended.stderr.strip().splitlines()[-1]}"
    items: list[dict[str, Any]] = msgspec.json.decode(ended.stdout)["dataItems"]
    averages = {item["labels"]["Metric"]: item["data"].get("Average", 0.0) for item in items}
    return Measured(name, threshold, averages["SchedulingThroughput"], averages["ProcessorTimePerPod"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="parts of the names of those to be run")
    given = parser.parse_args()
    rows: list[Measured] = []
    for file in sorted(given.folder.rglob("performance-config.yaml")):
        for name, threshold in workloads(file):
            if given.names and not any(part in name for part in given.names):
                continue
            row = measured(file, name, threshold)
            print(row, file=sys.stderr, flush=True)
            if isinstance(row, Measured):
                rows.append(row)
    print("| workload | threshold | pods/s | ratio | CPU a pod |\n|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: row.rate / row.threshold):
        ratio = row.rate / row.threshold
        print(f"| `{row.name}` | {row.threshold:,.0f} | {row.rate:,.0f} | {ratio:.1f} × | {row.micros:,.0f} µs |")


if __name__ == "__main__":
    main()
