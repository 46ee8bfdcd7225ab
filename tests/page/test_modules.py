"""What the modules of the page say of numbers, names and reasons, asked where they run: in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page


@pytest.mark.parametrize(
    ("told", "shown_as"),
    [
        ("0/5 nodes are available: 1 Insufficient cpu, 4 node(s) had untolerated taint(s). preemption: 0/5 nodes",
         "4 nodes: untolerated taint(s), 1 node: Insufficient cpu"),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
         "3 nodes: node affinity/selector"),
        ("0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't have free ports for the requested "
         "pod ports.", "2 nodes: no free ports, 1 node: unschedulable"),
        ("0/2 nodes are available: 2 node(s) had untolerated taint {a: b}.", "2 nodes: untolerated taint {a: b}"),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
    ],
    ids=str,
)  # fmt: skip
def test_a_reason_fits_in_one_line(new_page: Page, told: str, shown_as: str) -> None:
    said = new_page.evaluate("async told => (await import('/pods.js')).shortReason(told)", told)
    assert said == shown_as


@pytest.mark.parametrize(
    ("sizes", "most", "told"),
    [
        ([3, 3, 3, 5], 4, 3),  # as many rows as with 4, of wider tiles
        ([3, 3, 3, 5], 7, 6),  # two groups of three side by side
        ([1, 1, 1], 4, 3),
        ([1, 1, 1], 10, 6),  # no tile wider than it need be
        ([100], 4, 4),
        ([], 4, 3),
    ],
    ids=str,
)
def test_as_many_tiles_stand_side_by_side_as_saves_rows(new_page: Page, sizes: list[int], most: int, told: int) -> None:
    said = new_page.evaluate("async sizes => (await import('/groups.js')).columns(sizes)", sizes)
    assert said[f"--columns-{most}"] == told


def test_a_key_is_called_by_its_last_part_unless_two_are_called_so(new_page: Page) -> None:
    said = new_page.evaluate(
        """async all => { const { called } = await import("/groups.js"); return all.map(way => called(way, all)); }""",
        ["none", "label:topology.kubernetes.io/zone", "label:a.example/pool", "label:b.example/pool", "taint:a/sla"],
    )
    assert said == ["none", "zone", "a.example/pool", "b.example/pool", "sla"]


def test_workloads_with_most_pods_have_the_first_colours_and_others_a_dot(new_page: Page) -> None:
    meanings = new_page.evaluate(
        """async () => { const { legend, meet } = await import("/colours.js?alone"), pods = [];
             for (let owner = 0; owner < 8; owner++) for (let pod = 0; pod <= owner; pod++)
               pods.push({ key: `default/pod-${owner}-${pod}`, owner: `Deployment/app-${owner}` });
             pods.push({ key: "default/other", owner: "Job/app-0" }); meet(pods);
             return legend(pods, "owner").meanings.map(({ name, colour, isDotted }) => [name, colour, isDotted]); }"""
    )
    assert [name for name, _, _ in meanings] == [f"app-{number}" for number in range(7, 0, -1)] + ["Deployment/app-0"]
    assert len({colour for _, colour, _ in meanings[:7]}) == 7
    assert meanings[7][1:] == [meanings[0][1], True]
    assert not any(dotted for _, _, dotted in meanings[:7])


def test_the_plot_keeps_an_hour_however_often_something_changes(new_page: Page) -> None:
    kept = new_page.evaluate(
        """async () => { const { sample } = await import("/placement.js"), pending = [];
             for (let second = 0; second < 20_000; second++) sample(pending, second, second % 7);
             const all = pending.length;
             sample(pending, 18_000, 99);
             const ascends = pending.every(([at], i) => !i || at >= pending[i - 1][0]);
             return [all, pending[0][0], pending.at(-1), ascends]; }"""
    )
    assert 3600 / 5 <= kept[0] <= 3600 / 5 + 2
    assert kept[1] >= 20_000 - 3600 - 10
    assert kept[2] == [18_000, 99], "after a clock was turned back the newest number is the newest"
    assert kept[3], "the plot takes nothing but ascending times"
