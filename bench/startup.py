"""Processor time of commands that start and answer, and of `moorage up` until it serves and until a first pod runs."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from load import Cluster
from serving import serving

EXAMPLE = "examples/thresholds-1-spot-nodes"
POD = {
    "metadata": {"name": "first"},
    "spec": {"containers": [{"name": "c", "image": "pause"}], "tolerations": [{"operator": "Exists"}]},
}
PODS = "/api/v1/namespaces/default/pods"


def command(*arguments: str) -> Callable[[], list[float]]:
    def measure() -> list[float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "moorage", *arguments], capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]

    return measure


def up() -> list[float]:
    """Seconds until it serves, and until a pod that is created then is running."""
    with serving("up") as server:
        ready = server.processor_seconds()
        cluster = Cluster(server)
        cluster.ask("POST", PODS, POD)
        while cluster.items(PODS)[0].get("status", {}).get("phase") != "Running":
            time.sleep(0.05)
        return [ready, server.processor_seconds()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for what, measure in (
        ("moorage --help", command("--help")),
        (f"moorage lint {EXAMPLE}", command("lint", EXAMPLE)),
        (f"moorage why -f {EXAMPLE}", command("why", "-f", EXAMPLE, "--feature-gates", "AllAlpha=true")),
        ("moorage up: serves, first pod runs", up),
    ):
        measure()  # what Python compiles with the first start is there for the others
        found = list(zip(*(measure() for _ in range(runs)), strict=True))
        said = ", ".join(f"{statistics.median(each):.2f} s ({min(each):.2f}–{max(each):.2f})" for each in found)
        print(f"{what:50} {said}", flush=True)


if __name__ == "__main__":
    main()
