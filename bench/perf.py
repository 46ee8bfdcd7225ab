"""How many pods are placed a second at 5,000 nodes, by what they ask for; those without constraints in between."""

from __future__ import annotations

from pathlib import Path

from moorage.tools.perf.worker import measure

FILE = Path(__file__).with_name("workloads.yaml")
BASIC, AFFINITY = "Basic", "NodeAffinity"
OPERATORS = ("NumericToleration", "SemverToleration", "WildcardToleration", "CELToleration", "CELAffinity")
OTHERS = ("TopologySpread", "TaintChurn", "VolumeAffinity", "DeviceTaints")
KUBERNETES = {BASIC: 217, AFFINITY: 198}
"""Pods a second of Kubernetes v1.36 with scheduler_perf on the same sort of machine."""
FAST, ALIKE = 2000, 0.8
"""The targets: pods a second, and of those without constraints."""


def pods_per_second(name: str) -> float:
    (measured, *_) = measure(FILE, f"{name}/5000Nodes", lambda _: None)
    return measured.throughput["Average"]


def main() -> None:
    missed, before = 0, pods_per_second(BASIC)
    for name in (AFFINITY, *OPERATORS):
        found, after = pods_per_second(name), pods_per_second(BASIC)
        # Machines become faster and slower: what ran just before and just after is compared with.
        ratio, before = found / ((before + after) / 2), after
        missed += name in OPERATORS and ratio < ALIKE
        print(f"{name:20} {found:6,.0f} pods/s   {ratio:.2f} of {BASIC}{_beside(name, found)}", flush=True)
    for name in (BASIC, *OTHERS):
        found = pods_per_second(name)
        print(f"{name:20} {found:6,.0f} pods/s{_beside(name, found)}", flush=True)
    print(f"operators: at least {ALIKE:.0%} of {BASIC}: {'met' if not missed else f'{missed} missed'}")


def _beside(name: str, found: float) -> str:
    if name not in KUBERNETES:
        return ""
    verdict = "met" if found >= FAST else "missed"
    return f"   {found / KUBERNETES[name]:.1f} × Kubernetes (target {FAST:,}: {verdict})"


if __name__ == "__main__":
    main()
