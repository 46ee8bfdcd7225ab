"""The plots of docs/perf.md, drawn as SVG from the figures in docs/perf-figures.json.

python scripts/perf_plots.py [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from html import escape
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "perf-figures.json"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 300, 70, 40, 46
APART = 14
COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5")


class Line(NamedTuple):
    """One quantity over the number of nodes."""

    name: str
    points: Sequence[tuple[float, float]]


class Bar(NamedTuple):
    """One figure with its range over runs."""

    name: str
    low: float
    middle: float
    high: float
    colour: str


def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12, colour: str = "#444") -> str:
    """Words at a place."""
    look = f'text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(words)}</text>'


def picture(title: str, parts: Iterator[str], height: int = HEIGHT) -> str:
    """An SVG with a title."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img" '
        f'aria-label="{escape(title)}"><rect width="100%" height="100%" fill="#fff"/>'
    )
    return "\n".join((head, text(WIDTH / 2, 22, title, size=15, colour="#111"), *parts, "</svg>\n"))


def growth(title: str, lines: Sequence[Line]) -> str:
    """Lines over the number of nodes, both axes logarithmic: what grows in proportion rises at the same angle."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points if y > 0]
    low, high = int(log10(min(ys)) // 1), int(-(-log10(max(ys)) // 1))
    first, last = log10(min(xs)), log10(max(xs))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (log10(x) - first) / (last - first or 1)
        up = (log10(y) - low) / (high - low or 1)
        return LEFT + across * (WIDTH - LEFT - 190), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def parts() -> Iterator[str]:
        for power in range(low, high + 1):
            x, y = place(min(xs), 10.0**power)
            yield f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{WIDTH - 190}" y2="{y:.1f}" stroke="#ddd"/>'
            yield text(x - 8, y + 4, f"{10.0**power:,.6g}", "end")
        for nodes in sorted(set(xs)):
            x, y = place(nodes, 10.0**low)
            yield text(x, y + 18, f"{nodes:,.0f}")
        yield text(LEFT + (WIDTH - LEFT - 190) / 2, HEIGHT - 8, "nodes")
        for line, colour in zip(lines, COLOURS, strict=False):
            places = [place(x, y) for x, y in line.points]
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            yield f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>'
            yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)
            yield text(places[-1][0] + 8, names[line.name], line.name, "start", 11, colour)

    names = spread({line.name: place(*line.points[-1])[1] + 4 for line in lines})
    return picture(title, parts())


def spread(heights: dict[str, float]) -> dict[str, float]:
    """Names at the ends of lines, so far apart that each can be read."""
    lowest, placed = 0.0, {}
    for name, y in sorted(heights.items(), key=lambda item: item[1]):
        placed[name] = lowest = max(y, lowest + APART)
    return placed


def bars(title: str, unit: str, shown: Sequence[Bar]) -> str:
    """Bars of medians, with a line from the lowest to the highest run."""
    most, step = max(bar.high for bar in shown), 26
    height, scale = TOP + step * len(shown) + 30, (WIDTH - 330) / most

    def parts() -> Iterator[str]:
        for place, bar in enumerate(shown):
            y = TOP + place * step
            yield text(230, y + 14, bar.name, "end")
            size, ends = bar.middle * scale, (240 + bar.low * scale, 240 + bar.high * scale)
            yield f'<rect x="240" y="{y}" width="{size:.1f}" height="18" fill="{bar.colour}" opacity="0.85"/>'
            across = f'x1="{ends[0]:.1f}" y1="{y + 9}" x2="{ends[1]:.1f}" y2="{y + 9}"'
            yield f'<line {across} stroke="#111" stroke-width="2"/>'
            yield text(ends[1] + 8, y + 14, f"{bar.middle:,.0f}", "start")
        yield text(WIDTH / 2, height - 8, unit)

    return picture(title, parts(), height)


def _bar(row: dict[str, Any], colour: str) -> Bar:
    low, middle, high = row["range"]
    return Bar(row["name"], low, middle, high, colour)


def plots() -> dict[str, str]:
    """The pictures by file name."""
    known = json.loads(FIGURES.read_text())
    scale = known["scale"]

    def line(name: str, field: str) -> Line:
        return Line(name, [(row["nodes"], row[field]) for row in scale if field in row])

    ours, theirs = COLOURS[0], COLOURS[1]
    rates = [_bar(row, theirs if row.get("other") else ours) for row in known["rates"]]
    return {
        "perf-scale.svg": growth(
            "How it grows with the number of nodes",
            [
                line("CPU until ready, s", "ready"),
                line("at rest, % of a core", "rest"),
                line("pods bound/s", "bound"),
                line("memory, MB", "memory"),
            ],
        ),
        "perf-rates.svg": bars("What one machine of two cores does", "a second, with the range over runs", rates),
    }


def main() -> None:
    """Draw them, or say with `--check` which are not as the figures are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    checks = parser.parse_args().check
    for name, drawn in plots().items():
        file = DOCS / name
        if checks and (not file.exists() or file.read_text() != drawn):
            sys.exit(f"docs/{name} is not what scripts/perf_plots.py draws")
        file.write_text(drawn)


if __name__ == "__main__":
    main()
