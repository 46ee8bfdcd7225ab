"""How fast the matcher answers, and how long `why` takes for a large cluster."""

from __future__ import annotations

import contextlib
import io
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.features import ALL_ON, NONE_ON, Gates
from moorage.match.tolerations import Tolerations

CASES = {
    "Equal": (Toleration(key="sla", operator="Equal", value="950"), "950"),
    "Exists": (Toleration(key="sla", operator="Exists"), "950"),
    "Gt": (Toleration(key="sla", operator="Gt", value="900"), "950"),
    "SemverGt": (Toleration(key="sla", operator="SemverGt", value="1.31.0"), "v1.32.4"),
    "wildcard": (Toleration(key="s*", operator="Exists"), "950"),
}
ROUNDS, BATCH = 40, 20_000


def seconds(test: Callable[[Taint], object], taint: Taint) -> float:
    start = time.perf_counter()
    for _ in range(BATCH):
        test(taint)
    return time.perf_counter() - start


def compiled(toleration: Toleration, gates: Gates) -> Callable[[Taint], object]:
    return Tolerations([toleration], gates).verdict


def verdicts() -> None:
    print(f"{'toleration':<12}{'verdicts/s':>14}")
    for name, (toleration, value) in CASES.items():
        test, taint = compiled(toleration, ALL_ON), Taint("sla", value, "NoSchedule")
        best = min(seconds(test, taint) for _ in range(ROUNDS // 4))
        print(f"{name:<12}{BATCH / best:>14,.0f}")


def gates_cost_nothing() -> bool:
    """Compare Equal with all gates on and off in alternating rounds, so that noise strikes both alike."""
    toleration, value = CASES["Equal"]
    taint = Taint("sla", value, "NoSchedule")
    tests = {gates: compiled(toleration, gates) for gates in (ALL_ON, NONE_ON)}
    best = dict.fromkeys(tests, float("inf"))
    for _ in range(ROUNDS):
        for gates, test in tests.items():
            best[gates] = min(best[gates], seconds(test, taint))
    ratio = best[ALL_ON] / best[NONE_ON]
    within = abs(ratio - 1) <= 0.03
    print(f"\nEqual, all gates on / all off: {ratio:.3f} (target: within 3 %: {'met' if within else 'missed'})")
    return within


def cluster(pods: int, nodes: int) -> Iterator[str]:
    for index in range(nodes):
        yield (
            f"apiVersion: v1\nkind: Node\nmetadata:\n  name: node-{index}\n  labels:\n"
            f"    kubernetes.io/hostname: node-{index}\n    topology.kubernetes.io/zone: zone-{index % 10}\n"
            f"    example.com/kernel: 5.{10 + index % 10}.{index % 7}\nspec:\n  taints:\n"
            f"  - key: example.com/sla\n    value: '{700 + index % 300}'\n    effect: NoSchedule\n"
        )
    for index in range(pods):
        yield (
            f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod-{index}\nspec:\n  tolerations:\n"
            f"  - key: example.com/sla\n    operator: Gt\n    value: '{600 + index % 500}'\n    effect: NoSchedule\n"
            "  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n"
            "        nodeSelectorTerms:\n        - matchExpressions:\n          - key: example.com/kernel\n"
            f"            operator: SemverGt\n            values: ['5.{8 + index % 13}.0']\n"
        )


def why(pods: int, nodes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.yaml"
        file.write_text("---\n".join(cluster(pods, nodes)))
        command = [sys.executable, __file__, "why", str(file)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    took, peak = float(answer[0]), int(answer[1]) / 1024
    met = took < 5 and peak < 500
    print(f"why, {pods:,} pods × {nodes:,} nodes from YAML: {took:.2f} s, peak {peak:.0f} MB", end=" ")
    print(f"(target: under 5 s and 500 MB: {'met' if met else 'missed'})")


def run_why(file: str) -> None:
    from moorage.cli import main

    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(["why", "-f", file, "--feature-gates", "AllAlpha=true"])
    print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    if sys.argv[1:2] == ["why"]:
        run_why(sys.argv[2])
    else:
        verdicts()
        ok = gates_cost_nothing()
        why(1_000, 5_000)
        sys.exit(not ok)
