"""What pods ask for and no node has takes no room in the table of nodes."""

from __future__ import annotations

from weakref import WeakSet

from moorage.api.decode import convert
from moorage.api.node import Node
from moorage.features import ALL_ON
from moorage.scheduler.table.nodes import NodeTable
from moorage.scheduler.table.shape import PodInfo, Shape, Shapes
from tests.scheduler.profile_on_table import ProfileOnTable, node, pod


def test_pods_cannot_make_the_table_grow_by_what_they_ask_for() -> None:
    table, shapes = NodeTable(), Shapes(ALL_ON)
    for number in range(3):
        table.set_node(_offering(f"n{number}", cpu="4", pods="10"))
    lines = table.requested.shape
    asked = {f"example.com/r{number}": "1" for number in range(50)}
    given = pod(asked)
    info = PodInfo(given, shapes.info(given).shape, "n0")
    table.add_pod(info)
    assert table.requested.shape == table.allocatable.shape == table.scored.shape == lines
    assert {table.line_of(name) for name in asked} == {table.line_of("example.com/other")}
    assert len({id(table.labels(f"key-{number}")) for number in range(50)}) == 1
    table.set_node(_offering("n1", cpu="4", pods="10", **{"example.com/r7": "2"}))
    line = table.line_of("example.com/r7")
    assert table.requested[line, table.rows["n0"]] == 1, "what is there already counts"
    assert table.allocatable[line, table.rows["n1"]] == 2
    table.remove_pod(info)
    assert not table.requested[line].any()


def test_a_label_that_a_node_gets_later_is_seen() -> None:
    table = NodeTable()
    table.set_node(_offering("n0"))
    assert table.labels("disk").value(table.rows["n0"]) is None
    table.set_node(convert({"metadata": {"name": "n1", "labels": {"disk": "ssd"}}}, Node))
    assert [table.labels("disk").value(table.rows[name]) for name in ("n0", "n1")] == [None, "ssd"]
    for number in range(2, 200):
        table.set_node(_offering(f"n{number}"))
    assert len(table.labels("absent").codes) == len(table.labels("disk").codes) == table.size


def test_of_thousands_of_resources_that_are_lacking_a_hundred_are_named() -> None:
    engine = ProfileOnTable()
    for name in ("a", "b"):
        engine.table.set_node(node(name, room={"cpu": "4", "pods": "10", "example.com/r1": "1"}))
    missing = engine.place(pod({f"example.com/r{number}": "1" for number in range(3000)})).rejections
    assert len(missing["NodeResourcesFit"]) == 100
    nothing = pod({f"example.com/r{number}": "0" for number in range(3000)})
    assert engine.best(nothing) == {"a", "b"}


def test_large_specifications_are_forgotten_with_their_pods() -> None:
    engine = ProfileOnTable()
    engine.table.set_node(node("a", room={"cpu": "4", "pods": "10"}))
    shapes = WeakSet[Shape]()
    for number in range(60):
        tolerations = [{"key": f"{number}-{each}", "operator": "Exists"} for each in range(4000)]
        info = engine.shapes.info(pod(tolerations=tolerations))
        assert engine.best(info.pod) == {"a"}
        assert engine.info(info.pod).shape is info.shape
        shapes.add(info.shape)
    del info
    assert len(shapes) <= 20
    assert engine.shapes.bytes <= 2 << 20


def test_pods_that_are_there_keep_their_shape_however_many_others_there_are() -> None:
    shapes = Shapes(ALL_ON)
    infos = [shapes.info(pod(priority=number)) for number in range(3000)]
    assert all(shapes.info(pod(priority=number)).shape is info.shape for number, info in enumerate(infos))


def _offering(name: str, **room: str) -> Node:
    return convert({"metadata": {"name": name}, "status": {"allocatable": room}}, Node)
