"""Pods are counted as they come and go, and so are those that speak of others."""

from __future__ import annotations

import random
from unittest.mock import patch

import numpy as np
import pytest

from moorage.api.decode import convert
from moorage.api.labels import EVERYTHING, NOTHING, parse
from moorage.api.node import Node
from moorage.features import NONE_ON
from moorage.scheduler.pods import counts
from moorage.scheduler.pods.counts import PodCounts, holders, pod_counts
from moorage.scheduler.pods.terms import Pick
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo, Shapes
from tests.scheduler.plugin_on_table import exists, far, near, pod, pods, term, weighted
from tests.seeds import seed

SHAPES = Shapes(NONE_ON)
WEB = Pick.of(["default"], parse("app=web"))
ANY_APP = Pick.of(["default"], parse("app"))
EVERYWHERE = Pick.of([], parse("app=web"), EVERYTHING)


def added(table: NodeTable, text: str) -> list[PodInfo]:
    """Put pods on nodes."""
    infos = [SHAPES.info(each) for each in pods(text)]
    for info in infos:
        table.add_pod(info)
    return infos


def on_nodes(table: NodeTable, *picks: Pick, terminating: bool = True) -> dict[str, int]:
    """How many pods are where."""
    counts = pod_counts(table).of(picks, terminating=terminating)
    assert counts.sum() == sum(counts[row] for row in table.rows.values())
    return {name: int(counts[row]) for name, row in table.rows.items() if counts[row]}


def test_pods_that_were_there_before_and_pods_that_come_later_are_counted() -> None:
    table = NodeTable()
    added(table, "a:app=web a:app=web b:app=db b:app=web@other")
    assert on_nodes(table, WEB) == {"a": 2}
    assert on_nodes(table, ANY_APP) == {"a": 2, "b": 1}
    assert on_nodes(table, EVERYWHERE) == {"a": 2, "b": 1}
    later = added(table, "b:app=web c:app=web,tier=1 c:tier=1")
    assert on_nodes(table, WEB) == {"a": 2, "b": 1, "c": 1}
    for info in later:
        table.remove_pod(info)
    assert on_nodes(table, WEB) == {"a": 2}


def test_all_picks_must_match_the_same_pod() -> None:
    table = NodeTable()
    added(table, "a:app=web a:tier=1 b:app=web,tier=1")
    tier = Pick.of(["default"], parse("tier"))
    assert on_nodes(table, WEB, tier) == {"b": 1}
    added(table, "c:app=web,tier=1 c:app=web")
    assert on_nodes(table, WEB, tier) == {"b": 1, "c": 1}


def test_pods_that_are_being_deleted_count_or_do_not() -> None:
    table = NodeTable()
    (there,) = added(table, "a:app=web")
    assert on_nodes(table, WEB, terminating=False) == {"a": 1}
    (ending,) = pods("a:app=web!")
    metadata = {"uid": there.uid, "deletionTimestamp": ending.metadata.deletion_timestamp}
    table.replace_pod(SHAPES.info(pod(there.pod.metadata.labels, node="a", metadata=metadata)))
    assert on_nodes(table, WEB, terminating=False) == {}
    assert on_nodes(table, WEB) == {"a": 1}


def test_labels_that_change_are_counted_anew() -> None:
    table = NodeTable()
    (there,) = added(table, "a:app=web")
    assert on_nodes(table, WEB) == {"a": 1}
    table.replace_pod(SHAPES.info(pod({"app": "db"}, node="a", metadata={"uid": there.uid})))
    assert on_nodes(table, WEB) == {}
    assert on_nodes(table, ANY_APP) == {"a": 1}


def test_nothing_and_everything_are_not_the_same() -> None:
    table = NodeTable()
    added(table, "a:app=web b:")
    assert on_nodes(table, Pick.of(["default"], NOTHING)) == {}
    assert on_nodes(table, Pick.of(["default"], EVERYTHING)) == {"a": 1, "b": 1}
    assert on_nodes(table, Pick.of(["other"], EVERYTHING)) == {}


def test_picks_that_read_the_same_share_one_count() -> None:
    counts = PodCounts(NodeTable())
    assert counts.of((WEB,)) is counts.of((Pick.of(["default"], parse("app=web")),))
    assert counts.of((WEB,)) is not counts.of((WEB,), terminating=False)
    assert counts.of((WEB,)) is not counts.of((EVERYWHERE,))


def test_a_table_that_grows_keeps_its_counts() -> None:
    table = NodeTable()
    added(table, "a:app=web")
    assert on_nodes(table, WEB) == {"a": 1}
    added(table, " ".join(f"node-{number}:app=web" for number in range(200)))
    assert sum(on_nodes(table, WEB).values()) == 201
    assert len(pod_counts(table).of((WEB,))) == table.size


def test_rows_that_are_used_again_start_from_nothing() -> None:
    table = NodeTable()
    for info in added(table, "a:app=web a:app=web"):
        assert on_nodes(table, WEB)
        table.remove_pod(info)
    added(table, "b:app=db")
    assert on_nodes(table, WEB) == {}


def test_counts_that_nobody_asks_for_are_forgotten_and_made_again() -> None:
    table = NodeTable()
    added(table, "a:app=web")
    with patch.object(counts, "BYTES_MAX", 0):
        first = pod_counts(table).of((WEB,))
        for number in range(40):
            on_nodes(table, Pick.of(["default"], parse(f"app=x{number}")))
        added(table, "a:app=web b:app=web")
        assert pod_counts(table).of((WEB,)) is not first
        assert on_nodes(table, WEB) == {"a": 2, "b": 1}


def test_everybody_shares_the_counts_of_a_table() -> None:
    table = NodeTable()
    assert pod_counts(table) is pod_counts(table)
    assert holders(table) is holders(table)
    assert len(table.observers) == 2


@pytest.mark.parametrize("few", [0, 64])
def test_terms_are_held_as_long_as_somebody_holds_them(few: int) -> None:
    table = NodeTable()
    web = term("zone", {"matchLabels": {"app": "web"}})
    affinity = near(term("zone", exists("tier"))) | far(web)
    first = SHAPES.info(pod({}, node="a", affinity=affinity))
    table.add_pod(first)
    held = holders(table)
    second = SHAPES.info(pod({}, node="b", affinity=affinity))
    table.add_pod(second)
    with patch.object(counts, "FEW_ROWS", few):
        (one,) = held.anti_affinity.of("default", {"app": "web"})
        assert [each.tolist() for each in one.rows(table.size)] == [
            sorted(table.rows[name] for name in "ab"), [1, 1],
        ]  # fmt: skip
        assert not list(held.anti_affinity.of("default", {"app": "db"}))
        assert list(held.affinity.of("default", {})), "a term without a certain label is about any pod"
        table.remove_pod(first)
        assert one.rows(table.size)[0].tolist() == [table.rows["b"]]
    table.remove_pod(second)
    assert not held.anti_affinity
    assert not held.affinity


def test_a_table_that_grows_keeps_the_holders_of_a_term() -> None:
    table = NodeTable()
    held = holders(table)
    affinity = far(term("zone", {"matchLabels": {"app": "web"}}))
    for number in range(200):
        table.add_pod(SHAPES.info(pod({}, node=f"node-{number}", affinity=affinity)))
        (one,) = held.anti_affinity.of("default", {"app": "web"})
        assert len(one.rows(table.size)[0]) == number + 1


@pytest.mark.seeded
def test_the_nodes_near_the_holders_of_a_term_are_known_as_pods_and_nodes_change() -> None:
    chance = random.Random(seed(1_818))
    table = NodeTable()
    held = holders(table)
    affinity = far(term("zone", {"matchLabels": {"app": "web"}}))
    there: list[PodInfo] = []
    zones = {f"n{number}": "" for number in range(80)}
    for step in range(400):
        name = chance.choice(list(zones))
        if there and chance.random() < 0.4:
            table.remove_pod(there.pop(chance.randrange(len(there))))
        elif chance.random() < 0.5:
            there.append(SHAPES.info(pod({}, node=name, affinity=affinity)))
            table.add_pod(there[-1])
        else:
            zones[name] = chance.choice(["", "a", "b", "c", "d", f"alone-{step}"])
            labels = {"zone": zones[name]} if zones[name] else {}
            table.set_node(convert({"metadata": {"name": name, "labels": labels}}, Node))
        near_them = {zones[info.node_name] for info in there} - {""}
        for one in held.anti_affinity.of("default", {"app": "web"}):
            mask = one.near(table)
            found = {name for name in zones if name in table.rows and mask[table.rows[name]]}
            assert found == {name for name, zone in zones.items() if zone in near_them}


def test_preferences_of_one_node_are_added_up() -> None:
    table = NodeTable()
    held = holders(table)
    web = term("zone", {"matchLabels": {"app": "web"}})
    infos = [SHAPES.info(pod({}, node="a", affinity=weighted((weight, web)))) for weight in (5, 7, -12)]
    for info in infos[:2]:
        table.add_pod(info)
    (one,) = held.preferred.of("default", {"app": "web"})
    assert one.rows(table.size)[1].tolist() == [12]
    table.add_pod(infos[2])
    assert not held.preferred
    table.remove_pod(infos[0])
    (one,) = held.preferred.of("default", {"app": "web"})
    assert one.rows(table.size)[1].tolist() == [-5]
    for info in infos[1:]:
        table.remove_pod(info)
    assert not held.preferred


def test_a_term_that_cannot_be_read_does_not_keep_the_others_from_being_held() -> None:
    table = NodeTable()
    wrong = term("zone", {"matchLabels": {"app": "{{wrong}}"}})
    table.add_pod(SHAPES.info(pod({}, node="a", affinity=near(wrong) | far(term("zone", exists("app"))))))
    held = holders(table)
    assert not held.affinity
    assert held.anti_affinity


def test_amounts_are_added_up_by_value() -> None:
    codes = np.array([0, 1, 2, 1], np.int32)
    assert counts.by_value(codes, np.array([9, 1, 2, 3], np.int32), 4).tolist() == [9, 4, 2, 0]


def test_pods_may_come_and_go_while_they_are_counted() -> None:
    table = NodeTable()
    there = [info for row in range(40) for info in added(table, f"n{row}:app=web n{row}:app=web n{row}:app=db")]
    with patch.object(counts, "AT_ONCE", 10):
        steps = pod_counts(table).steps((WEB,))
        for number, _ in enumerate(steps):
            table.remove_pod(there[number * 3])
            table.remove_pod(there[-1 - number * 3 - 1])
            added(table, f"n{number}:app=web m{number}:app=web")
    assert number > 10
    fresh = PodCounts(table).of((WEB,))
    assert pod_counts(table).of((WEB,)).tolist() == fresh.tolist()


def test_no_more_than_a_few_pods_are_compared_at_once() -> None:
    table = NodeTable()
    added(table, " ".join(f"n{number % 50}:app=web" for number in range(1000)))
    with patch.object(counts, "AT_ONCE", 100):
        assert len(list(pod_counts(table).steps((ANY_APP,)))) == 10, "five rows of twenty pods each time"
    assert list(pod_counts(table).steps((ANY_APP,))) == []


def test_few_picks_are_kept_without_a_label_that_leads_to_them() -> None:
    table = NodeTable()
    added(table, "a:app=web")
    with patch.object(counts, "WIDE_MAX", 10):
        first = pod_counts(table).of((ANY_APP,))
        for number in range(9):
            on_nodes(table, Pick.of(["default"], parse(f"x{number}")))
        assert pod_counts(table).of((ANY_APP,)) is first
        on_nodes(table, Pick.of(["default"], parse("another")))
        assert pod_counts(table).of((ANY_APP,)) is first, "it was used last"
        for number in range(10):
            on_nodes(table, Pick.of(["default"], parse(f"y{number}")))
            on_nodes(table, Pick.of(["default"], parse(f"app=y{number}")))
        assert pod_counts(table).of((ANY_APP,)) is not first


def test_terms_about_one_namespace_are_not_compared_with_pods_of_others() -> None:
    table = NodeTable()
    held = holders(table)
    for number in range(5):
        table.add_pod(SHAPES.info(pod({}, node="a", affinity=far(term("zone", exists(f"x{number}"))))))
    table.add_pod(SHAPES.info(pod({}, node="a", affinity=far(term("zone", exists("y"), namespaces=["a", "other"])))))
    assert len(list(held.anti_affinity.of("default", {}))) == 6
    assert len(list(held.anti_affinity.of("other", {}))) == 1
