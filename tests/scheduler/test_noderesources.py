"""Room on nodes: the inputs and numbers of kube-scheduler's own unit tests for its plugins of node resources."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.api.requests import MOST
from moorage.features import ALL_ON
from moorage.scheduler.config import Configuration
from moorage.scheduler.decisions import RANKS_MAX, Decisions
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo, Shapes
from tests.scheduler.profile_on_table import AskedPlugin, ProfileOnTable, node, pod
from tests.seeds import seed

Data = dict[str, Any]
Amounts = Mapping[str, str]


def asks(*containers: Amounts, init: Sequence[Amounts] = (), sidecars: Sequence[Amounts] = (), **spec: Any) -> Pod:
    """A pod whose containers ask for so much."""

    def of(each: Amounts, **more: Any) -> Data:
        return {"image": "app", "resources": {"requests": dict(each)}, **more}

    first = [of(each, restartPolicy="Always") for each in sidecars] + [of(each) for each in init]
    return pod(containers=[of(each) for each in containers], initContainers=first, **spec)


def cpu_memory(cpu: str, memory: str, **more: str) -> Amounts:
    return {"cpu": cpu, "memory": memory, **{name.replace("_", "/"): value for name, value in more.items()}}


def sized(*rooms: Amounts) -> list[Node]:
    return [node(f"node{number}", room={"pods": "110", **room}) for number, room in enumerate(rooms, 1)]


def weights(**of: int) -> list[Data]:
    return [{"name": name.replace("_", "/"), "weight": weight} for name, weight in of.items()]


NOTHING = asks()
FIVE = asks(cpu_memory("1000", "2000"), cpu_memory("2000", "3000"))
UNEVEN = sized(cpu_memory("4000", "10000"), cpu_memory("6000", "10000"))
EVEN = sized(cpu_memory("4000", "10000"), cpu_memory("4000", "10000"))
BIG = sized(cpu_memory("10000", "20000"), cpu_memory("10000", "20000"))
CPU = asks(cpu_memory("3000", "0"))
BOTH = asks(cpu_memory("3000", "5000"))
GPUS = ("nvidia.com/gpu",)


def twice(given: Pod) -> list[Pod]:
    return [given, pod(containers=[{"resources": {"requests": {"cpu": "3000", "memory": "0"}}}])]


@pytest.mark.parametrize(
    ("strategy", "resources", "nodes", "there", "asked", "expected"),
    [
        ("LeastAllocated", None, EVEN, {}, NOTHING, [100, 100]),
        ("LeastAllocated", None, UNEVEN, {}, FIVE, [37, 50]),
        ("LeastAllocated", None, BIG, {"node1": twice(CPU), "node2": twice(BOTH)}, NOTHING, [70, 57]),
        ("LeastAllocated", None, BIG, {"node1": [CPU], "node2": [BOTH]}, FIVE, [57, 45]),
        ("LeastAllocated", None, EVEN, {"node1": [CPU], "node2": [BOTH]}, asks(cpu_memory("3000", "0")), [50, 25]),
        ("LeastAllocated", None, sized({}, {}), {"node1": [CPU], "node2": [BOTH]}, NOTHING, [0, 0]),
        ("LeastAllocated", weights(memory=2, cpu=1), UNEVEN, {}, FIVE, [41, 50]),
        (
            "LeastAllocated", weights(abc_com_xyz=2, cpu=1, memory=1),
            sized(cpu_memory("6000", "10000"), cpu_memory("6000", "10000", abc_com_xyz="4")), {}, FIVE, [50, 50],
        ),
        (
            "LeastAllocated", weights(abc_com_xyz=2, cpu=1, memory=1),
            sized(cpu_memory("6000", "10000", abc_com_xyz="4"), cpu_memory("6000", "10000", abc_com_xyz="10")), {},
            asks(cpu_memory("3000", "5000", abc_com_xyz="2")), [50, 65],
        ),
        ("MostAllocated", None, EVEN, {}, NOTHING, [0, 0]),
        ("MostAllocated", None, UNEVEN, {}, FIVE, [62, 50]),
        ("MostAllocated", None, BIG, {"node1": twice(CPU), "node2": twice(BOTH)}, NOTHING, [30, 42]),
        ("MostAllocated", None, BIG, {"node1": [CPU], "node2": [BOTH]}, FIVE, [42, 55]),
        (
            "MostAllocated", None, sized(cpu_memory("5000", "10000"), cpu_memory("10000", "9000")), {},
            asks(cpu_memory("2000", "4000"), cpu_memory("3000", "5000")), [95, 75],
        ),
        ("MostAllocated", weights(memory=2, cpu=1), UNEVEN, {}, FIVE, [58, 50]),
        (
            "MostAllocated", None, sized(cpu_memory("250m", "1000Mi"), cpu_memory("250m", "1000Mi")),
            {"node1": [asks({}), asks({})]}, asks({}), [80, 30],
        ),
        (
            "MostAllocated", None, EVEN,
            {"node1": [asks(cpu_memory("1000", "2000"), sidecars=[cpu_memory("1000", "2000")])],
             "node2": [asks(cpu_memory("1000", "2000"))]},
            asks(cpu_memory("1000", "2000")), [67, 45],
        ),
    ],
)  # fmt: skip
def test_room_left_or_used_makes_the_score(
    strategy: str, resources: list[Data] | None, nodes: list[Node], there: Any, asked: Pod, expected: list[int]
) -> None:
    args = {"scoringStrategy": {"type": strategy, "resources": resources}}
    assert AskedPlugin("NodeResourcesFit", nodes, there, args).scores(asked) == expected


RISING, FALLING = [(0, 0), (100, 10)], [(0, 10), (100, 0)]
FOO = {"intel.com/foo": "2"}
FOO_BAR = {"intel.com/foo": "2", "intel.com/bar": "2"}
FOO_MORE = {"intel.com/foo": "4", "intel.com/bar": "2"}
FOO_NODES = sized({"intel.com/foo": "8"}, {"intel.com/foo": "4"})
BAR_NODES = sized({"intel.com/foo": "8", "intel.com/bar": "4"}, {"intel.com/foo": "4", "intel.com/bar": "8"})
ONE_TENTH = [(0, 0), (100, 1)]
USED = {"node1": [asks(cpu_memory("2000", "4000"))], "node2": [asks(cpu_memory("1000", "2000"))]}


@pytest.mark.parametrize(
    ("line", "resources", "nodes", "there", "asked", "expected"),
    [
        (FALLING, weights(cpu=1, memory=1), EVEN, {"node1": [NOTHING]}, NOTHING, [100, 100]),
        (FALLING, weights(cpu=1, memory=1), UNEVEN, {"node1": [NOTHING]}, FIVE, [38, 50]),
        (FALLING, weights(cpu=1, memory=1), UNEVEN, {"node1": [BOTH], "node2": [asks(cpu_memory("3000", "5000"))]},
         NOTHING, [38, 50]),
        (FALLING, weights(cpu=1, memory=1), UNEVEN, USED, asks(cpu_memory("3000", "5000")), [10, 32]),
        (RISING, weights(cpu=1, memory=1), UNEVEN, USED, asks(cpu_memory("3000", "5000")), [95, 68]),
        (ONE_TENTH, [{"name": "intel.com/foo", "weight": 1}], FOO_NODES, {}, NOTHING, [0, 0]),
        (ONE_TENTH, [{"name": "intel.com/foo", "weight": 1}], FOO_NODES, {}, asks(FOO), [2, 5]),
        (ONE_TENTH, [{"name": "intel.com/foo", "weight": 1}], FOO_NODES, {"node2": [asks(FOO)]}, asks(FOO), [2, 10]),
        (ONE_TENTH, [{"name": "intel.com/foo", "weight": 1}], FOO_NODES, {}, asks({"intel.com/foo": "4"}), [5, 10]),
        (ONE_TENTH, [{"name": "intel.com/foo", "weight": 3}, {"name": "intel.com/bar", "weight": 5}], BAR_NODES, {},
         asks(FOO_BAR), [4, 3]),
        (ONE_TENTH, [{"name": "intel.com/foo", "weight": 3}, {"name": "intel.com/bar", "weight": 5}], BAR_NODES,
         {"node2": [asks(FOO_MORE)]}, asks(FOO_BAR), [4, 7]),
        (ONE_TENTH, [{"name": "intel.com/foo", "weight": 3}, {"name": "intel.com/bar", "weight": 5}], BAR_NODES, {},
         asks(FOO_MORE), [5, 5]),
        ([(0, 2), (40, 10), (100, 0)], weights(cpu=1), sized(*({"cpu": "100m"} for _ in range(5))), {
            "node1": [asks({"cpu": "20m"})], "node2": [asks({"cpu": "30m"})], "node3": [asks({"cpu": "40m"})],
            "node4": [asks({"cpu": "70m"})], "node5": [asks({"cpu": "130m"})],
        }, NOTHING, [60, 80, 100, 50, 0]),
    ],
)  # fmt: skip
def test_a_broken_line_says_how_good_it_is_to_use_so_much(
    line: list[tuple[int, int]], resources: list[Data], nodes: list[Node], there: Any, asked: Pod, expected: list[int]
) -> None:
    shape = [{"utilization": used, "score": score} for used, score in line]
    ratio = {"type": "RequestedToCapacityRatio", "resources": resources, "requestedToCapacityRatio": {"shape": shape}}
    assert AskedPlugin("NodeResourcesFit", nodes, there, {"scoringStrategy": ratio}).scores(asked) == expected


MILLI = asks(cpu_memory("1000m", "2000"), cpu_memory("2000m", "3000"))
CPU_ONLY = asks({"cpu": "1000m"}, {"cpu": "2000m"})
GPU_WEIGHTS = [*weights(cpu=1, memory=1), {"name": "nvidia.com/gpu", "weight": 1}]


def milli(*rooms: tuple[int, int, int]) -> list[Node]:
    return sized(*({"cpu": f"{c}m", "memory": str(m), **({GPUS[0]: str(g)} if g else {})} for c, m, g in rooms))


@pytest.mark.parametrize(
    ("resources", "nodes", "there", "asked", "expected"),
    [
        (None, milli((4000, 10000, 0), (4000, 10000, 0)), {}, NOTHING, None),
        (None, milli((4000, 10000, 0), (6000, 10000, 0)), {}, MILLI, [68, 75]),
        (None, milli((10000, 20000, 0), (10000, 20000, 0)), {"node1": [CPU_ONLY], "node2": [MILLI]}, MILLI, [73, 74]),
        (None, milli((10000, 20000, 0), (10000, 50000, 0)), {"node1": [CPU_ONLY], "node2": [MILLI]}, MILLI, [73, 70]),
        (None, milli((3000, 5000, 0), (3000, 5000, 0)), {"node1": [CPU_ONLY]},
         asks({"memory": "2000"}, {"memory": "3000"}), [100, 50]),
        (None, milli((6000, 10000, 0), (6000, 10000, 0)), {"node1": [CPU_ONLY], "node2": [MILLI]}, CPU_ONLY, [62, 62]),
        (GPU_WEIGHTS, milli((3500, 40000, 8), (3500, 40000, 8)), {
            "node1": [asks(cpu_memory("1000m", "2000"), {**cpu_memory("2000m", "3000"), GPUS[0]: "3"})],
            "node2": [MILLI],
        }, asks({"cpu": "0", "memory": "0", GPUS[0]: "1"}), [75, 76]),
        (GPU_WEIGHTS, milli((3500, 40000, 8), (3500, 40000, 0)), {}, MILLI, [56, 56]),
    ],
)  # fmt: skip
def test_a_pod_that_evens_out_what_is_used_makes_a_better_score(
    resources: list[Data] | None, nodes: list[Node], there: Any, asked: Pod, expected: list[int] | None
) -> None:
    args = {"resources": resources} if resources else {}
    assert AskedPlugin("NodeResourcesBalancedAllocation", nodes, there, args).scores(asked) == expected


A, B, HUGE = "example.com/aaa", "example.com/bbb", "hugepages-2Mi"
CORE = "kubernetes.io/something"
TIGHT = {"cpu": "10m", "memory": "20", A: "5", HUGE: "5", "ephemeral-storage": "20"}


def small(cpu: int = 0, memory: int = 0, **more: int) -> Amounts:
    named = {"a": A, "b": B, "huge": HUGE, "core": CORE, "disk": "ephemeral-storage"}
    return {"cpu": f"{cpu}m", "memory": str(memory), **{named[name]: str(value) for name, value in more.items()}}


@pytest.mark.parametrize(
    ("asked", "used", "short", "resolvable"),
    [
        (NOTHING, small(10, 20), [], True),
        (asks(small(1, 1)), small(10, 20), ["cpu", "memory"], True),
        (asks(small(1, 1), init=[small(3, 1)]), small(8, 19), ["cpu"], True),
        (asks(small(1, 1), init=[small(3, 1), small(2, 1)]), small(8, 19), ["cpu"], True),
        (asks(small(1, 1), init=[small(1, 3), small(1, 2)]), small(9, 19), ["memory"], True),
        (asks(small(1, 1), init=[small(1, 1), small(1, 1)]), small(9, 19), [], True),
        (asks(small(1, 1), sidecars=[small(1, 1)]), small(9, 19), ["cpu", "memory"], True),
        (asks(small(1, 1), sidecars=[small(1, 1)], init=[small(1, 1)]), small(8, 18), [], True),
        (asks(small(1, 1), sidecars=[small(1, 1)], init=[small(2, 1)]), small(8, 18), ["cpu"], True),
        (asks(small(5, 1)), small(5, 19), [], True),
        (asks(small(a=1)), small(), [], True),
        (asks(small(1, 1, a=10)), small(), [A], False),
        (asks(init=[small(1, 1, a=10)]), small(), [A], False),
        (asks(small(1, 1, a=1)), small(a=5), [A], True),
        (asks(small(1, 1, a=3), small(1, 1, a=3)), small(a=2), [A], False),
        (asks(init=[small(1, 1, a=3), small(1, 1, a=3)]), small(a=2), [], True),
        (asks(init=[small(1, 1, a=6), small(1, 1, a=3)]), small(a=2), [A], False),
        (asks(small(1, 1, b=1)), small(), [B], False),
        (asks(small(1, 1, core=10)), small(), [CORE], False),
        (asks(small(1, 1, huge=10)), small(), [HUGE], False),
        (asks(small(1, 1, huge=3), small(1, 1, huge=3)), small(huge=2), [HUGE], False),
        (asks(small(1, 1, a=0)), small(a=6), [], True),
        (asks(small(1, 1), overhead=small(3, 13)), small(5, 5), [], True),
        (asks(small(1, 1), overhead=small(1, 15)), small(5, 5), ["memory"], True),
        (asks(small(1, 1), resources={"requests": small(1, 2)}), small(5, 5), [], True),
        (asks(small(1, 1), resources={"requests": small(7, 2)}), small(5, 5), ["cpu"], True),
        (asks(small(1, 1), resources={"requests": small(3, 2)}), small(5, 19), ["memory"], True),
        (asks(small(1, 1), resources={"requests": small(1, 1)}, init=[small(9, 1)]), small(5, 5), [], True),
        (asks(small(disk=10)), small(disk=15), ["ephemeral-storage"], True),
        (asks(small(disk=25)), small(), ["ephemeral-storage"], False),
        (asks(small(11, 25)), small(), ["cpu", "memory"], False),
    ],
)
def test_a_node_without_enough_left_will_not_do(asked: Pod, used: Amounts, short: list[str], resolvable: bool) -> None:
    here = AskedPlugin("NodeResourcesFit", sized(TIGHT), {"node1": [asks(used)]})
    assert here.refusals(asked) == [([f"Insufficient {name}" for name in short], resolvable)]


def test_one_pod_more_than_a_node_may_have_is_too_many() -> None:
    here = AskedPlugin("NodeResourcesFit", [node("full", room={"pods": "1", "cpu": "4"})], {"full": [asks({})]})
    assert here.refusals(asks({})) == [(["Too many pods"], True)]
    assert here.refusals(asks({"cpu": "5"})) == [(["Too many pods", "Insufficient cpu"], False)]


def test_ignored_resources_are_not_looked_at_if_they_are_extended_ones() -> None:
    nodes = sized({"cpu": "1"})
    asked = asks({"cpu": "2", B: "1", CORE: "1"})
    by_name = AskedPlugin("NodeResourcesFit", nodes, args={"ignoredResources": [B, "cpu"]})
    assert by_name.reasons(asked) == [["Insufficient cpu", f"Insufficient {CORE}"]]
    by_group = AskedPlugin("NodeResourcesFit", nodes, args={"ignoredResourceGroups": ["example.com", "kubernetes.io"]})
    assert by_group.reasons(asked) == [["Insufficient cpu", f"Insufficient {CORE}"]]


def test_what_is_remembered_of_nodes_is_bounded_however_many_shapes_ask() -> None:
    here = ProfileOnTable(configuration=Configuration())
    here.table.set_node(node("only"))
    decisions, asked = here.runner.decisions, [asks({"cpu": str(number)}) for number in range(1, 5)]
    row = here.table.rows["only"]
    for number in range(RANKS_MAX // 3):
        here.table.requested[0, row] = number
        here.table.touch(row)
        for each in asked:
            decisions.of(here.cycle(each))
    assert 0 < len(decisions.ranks) <= RANKS_MAX
    assert decisions.ranks.evictions


@pytest.mark.seeded
def test_a_row_has_the_rank_that_the_plugins_give_it_whatever_is_remembered() -> None:
    chance = random.Random(seed(1))
    here = ProfileOnTable(configuration=Configuration())
    for number in range(8):
        here.table.set_node(node(f"node{number}", room={"cpu": str(2 + number % 2), "memory": "8Gi", "pods": "6"}))
    asked = [asks({"cpu": "1"}), asks({"memory": "1Gi"}), asks({})]
    placed: list[PodInfo] = []
    for _ in range(400):
        if placed and chance.random() < 0.4:
            here.table.remove_pod(placed.pop(chance.randrange(len(placed))))
        else:
            placed.append(here.info(asks({"cpu": chance.choice("12")}), on=f"node{chance.randrange(8)}"))
            here.table.add_pod(placed[-1])
        cycle = here.cycle(chance.choice(asked))
        kept = here.runner.decisions.of(cycle)
        anew = Decisions(here.table, here.profile.filters, here.profile.scores).of(cycle)
        assert (kept.rank == anew.rank).all()
        assert kept.tops.best() == anew.tops.best()
    assert here.runner.decisions.ranks


def test_a_pod_that_asks_for_more_than_there_can_be_is_charged_and_given_back() -> None:
    table, shapes = NodeTable(), Shapes(ALL_ON)
    row = table.set_node(sized(cpu_memory("4", "8Gi"))[0])
    cpu, memory = table.line_of("cpu"), table.line_of("memory")

    def used(*amounts: Amounts) -> PodInfo:
        asking = asks(*amounts)
        return PodInfo(asking, shapes.info(asking).shape, "node1")

    huge = [used({"cpu": "1E", "memory": "100E"}, {"cpu": "1E"}) for _ in range(3)]
    for info in (*huge, used({"cpu": "1"})):
        table.add_pod(info)
    assert (int(table.requested[cpu, row]), int(table.requested[memory, row])) == (MOST, MOST)
    for info in huge:
        assert int(table.requested[cpu, row]) == MOST
        table.remove_pod(info)
    assert (int(table.requested[cpu, row]), int(table.requested[memory, row])) == (1000, 0)
    assert int(table.scored[cpu, row]) == 1000
