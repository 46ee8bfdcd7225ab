"""The answer of a simulation in the forms that people and programs read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import click
import msgspec

from moorage.cli.terminal import say
from moorage.tools.simulation.result import (
    AnswerPart,
    Effects,
    GroupChange,
    GroupUse,
    MovedPod,
    PendingPod,
    ResourceShare,
    SchedulerComparison,
    Simulation,
)

_SHOWN = 10

T = TypeVar("T")


def write(result: Simulation, output: str, source: str, *, timeline: bool) -> None:
    """Write the answer to standard output."""
    if output in ("json", "yaml"):
        click.echo(_data(result, output, timeline=timeline), nl=False)
        return
    limit = None if output == "wide" else _SHOWN
    say("\n".join(_text(result, source, limit, timeline=timeline)))


def _data(result: Simulation, output: str, *, timeline: bool) -> str:
    return _formatted(result if timeline else msgspec.structs.replace(result, timeline=[]), output)


def _formatted(result: AnswerPart, output: str) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"
    import yaml

    return str(yaml.safe_dump(msgspec.to_builtins(result), sort_keys=False, allow_unicode=True))


def write_comparison(result: SchedulerComparison, output: str) -> None:
    """Write where two configurations differ to standard output."""
    if output in ("json", "yaml"):
        click.echo(_formatted(result, output), nl=False)
        return
    limit = None if output == "wide" else _SHOWN
    say("\n".join(_comparison(result, limit)))


def _comparison(result: SchedulerComparison, limit: int | None) -> Iterator[str]:
    names = result.first.configuration, result.second.configuration
    yield _bold(f"{_count(result.pods, 'pod')} placed with {names[0]} and with {names[1]}")
    for assumption in result.assumptions:
        yield f"  note: {assumption}"
    yield f"Differently: {_count(len(result.differences), 'pod')}"
    yield from _some(
        result.differences, limit, lambda each: [f"{each.pod}: {each.first or 'Pending'} | {each.second or 'Pending'}"]
    )
    for part in (result.first, result.second):
        yield _bold(f"With {part.configuration}")
        for use in part.utilization:
            yield _group(GroupChange(use.group, use, use))
        if part.pending:
            yield click.style(f"  Pending: {_count(len(part.pending), 'pod')}", fg="red")
            yield from (f"  {line}" for line in _some(part.pending, limit, _pending(limit)))


def _text(result: Simulation, source: str, limit: int | None, *, timeline: bool) -> Iterator[str]:
    yield _bold(f"{_count(result.nodes, 'node')}, {_count(result.pods, 'pod')} from {source}")
    for assumption in result.assumptions:
        yield f"  note: {assumption}"
    if result.changes:
        if summary := _summary(result.before):
            yield f"Already under way without the changes: {summary}"
        yield _bold("Changes")
        for command in result.changes:
            yield f"  $ {command}"
    yield from _effects(result.after, limit)
    if result.still_pending:
        yield f"Pending before and after: {_count(len(result.still_pending), 'pod')}"
        yield from _some(result.still_pending, limit, _pending(limit))
    if timeline:
        yield _bold("Timeline")
        yield from (f"  {_moment(each.at):>9}  {each.what}" for each in result.timeline)
    yield _bold("Requested of the nodes, before and after" if result.changes else "Requested of the nodes")
    yield from map(_group, result.utilization)
    yield _bold(_verdict(result))


def _effects(effects: Effects, limit: int | None) -> Iterator[str]:
    sections: tuple[tuple[str, str, Sequence[Any], Callable[[Any], list[str]]], ...] = (
        ("Moves", "green", effects.moved, _moved),
        ("Placed", "green", effects.placed, lambda each: [f"{each.pod} on {each.node} after {_moment(each.at)}"]),
        ("Ends Pending", "red", effects.pending, _pending(limit)),
        ("Evicted and not replaced", "red", effects.lost,
         lambda each: [f"{each.pod} from {each.node} after {_moment(each.at)}: {each.cause}"]),
        ("Blocked by a disruption budget", "red", effects.blocked,
         lambda each: [f"{each.pod} stays on {each.node}: {each.budget or each.message}"]),
        ("Evicted again and again", "red", effects.restless,
         lambda each: [f"{each.owner}: {_count(each.evictions, 'more eviction')}: {each.cause}"]),
        ("Refused by the API server", "red", effects.refused, lambda each: [f"{each.object}: {each.message}"]),
        ("Deleted", "yellow", effects.deleted,
         lambda each: [f"{each.pod}{f' from {each.node}' if each.node else ''} after {_moment(each.at)}"]),
        ("Ended", "yellow", effects.finished, lambda each: [f"{each.pod} on {each.node}: {each.cause}"]),
    )  # fmt: skip
    for title, colour, found, lines in sections:
        if found:
            noun = "pod" if hasattr(found[0], "pod") else "workload"
            yield click.style(f"{title}: {_count(len(found), noun)}", fg=colour)
            yield from _some(found, limit, lines)


def _some(found: Sequence[T], limit: int | None, lines: Callable[[T], Sequence[str]]) -> Iterator[str]:
    for each in islice(found, limit):
        first, *rest = lines(each)
        yield f"  {first}"
        yield from (f"    {line}" for line in rest)
    if limit is not None and len(found) > limit:
        yield f"  and {len(found) - limit} more (all with -o wide)"


def _moved(move: MovedPod) -> list[str]:
    name = "" if move.replacement == move.pod else f" as {move.replacement}"
    why = f": {move.cause}" if move.cause else ""
    return [f"{move.pod} from {move.source or 'no node'} to {move.to}{name} after {_moment(move.at)}{why}"]


def _pending(limit: int | None) -> Callable[[PendingPod], list[str]]:
    """The lines for a pod that waits: all that the scheduler says where every pod is named, else why no node fits."""

    def lines(pod: PendingPod) -> list[str]:
        place = f" in the place of {pod.replaces}" if pod.replaces and pod.replaces != pod.pod else ""
        reason = pod.reason
        if limit is not None:
            reason = reason.partition(" no new claims to deallocate")[0].partition(" preemption:")[0]
        return [f"{pod.pod}{place}", reason]

    return lines


def _group(change: GroupChange) -> str:
    parts = [change.before, change.after]
    nodes = _arrow([str(each.nodes) if each else "0" for each in parts])
    pods = _arrow([str(each.pods) if each else "0" for each in parts])
    cpu = _arrow([_percent(each, lambda use: use.cpu) for each in parts])
    memory = _arrow([_percent(each, lambda use: use.memory) for each in parts])
    return f"  {change.group}: nodes {nodes}, pods {pods}, cpu {cpu}, memory {memory}"


def _arrow(texts: list[str]) -> str:
    before, after = texts
    return before if before == after else f"{before} -> {after}"


def _percent(use: GroupUse | None, part: Callable[[GroupUse], ResourceShare]) -> str:
    share = part(use) if use is not None else ResourceShare(0, 0)
    return f"{100 * share.requested / share.allocatable:.0f} %" if share.allocatable else "-"


def _summary(effects: Effects) -> str:
    counts = (
        (effects.moved, "moved"), (effects.placed, "placed"), (effects.pending, "pending"),
        (effects.lost, "evicted"), (effects.refused, "refused"), (effects.finished, "ended"),
    )  # fmt: skip
    return ", ".join(f"{len(found)} {word}" for found, word in counts if found)


def _verdict(result: Simulation) -> str:
    summary = _summary(result.after) or "nothing changes for any pod"
    if result.after.blocked:
        summary += f", {len(result.after.blocked)} blocked"
    end = "then nothing happens any more" if result.at_rest else "and it would go on: see --for"
    return f"{summary}; {end}"


def _moment(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0") + " s"


def _bold(text: str) -> str:
    return click.style(text, bold=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
