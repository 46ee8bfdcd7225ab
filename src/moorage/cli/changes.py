"""The changes that the options of a command ask for; imported when a command needs them, with a whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moorage.cli.sources import Asked
from moorage.scheduler.config import Configuration, ConfigurationError
from moorage.tools.simulation.changes import (
    AddNodes,
    ApplyManifest,
    CannotChange,
    ClusterChange,
    CordonNodes,
    DeleteObject,
    DrainNodes,
    LabelNodes,
    NamedObject,
    RemoveNodes,
    ScaleWorkload,
    SetConfiguration,
    SetGates,
    TaintNodes,
)

ChangeMaker = Callable[[Any, str], ClusterChange]
"""Makes a change of the value of an option, and of the namespace."""


def configuration(path: str) -> Configuration:
    """The configuration in a file. Raises CannotChange."""
    try:
        return Configuration.read(Path(path))
    except ConfigurationError as error:
        raise CannotChange(str(error)) from None


def _scale(text: str, namespace: str) -> ClusterChange:
    what, _, number = text.rpartition("=")
    if not what or not number.isascii() or not number.isdigit():
        raise CannotChange(f"--scale {text}: write KIND/NAME=N, such as deploy/web=5")
    return ScaleWorkload(NamedObject.parse(what, namespace), int(number))


_MAKERS: dict[str, ChangeMaker] = {
    "apply": lambda path, _: ApplyManifest(path),
    "delete": lambda text, namespace: DeleteObject(NamedObject.parse(text, namespace)),
    "scale": _scale,
    "taint": lambda pair, _: TaintNodes.parse(*pair),
    "untaint": lambda pair, _: TaintNodes.parse(*pair, remove=True),
    "label": lambda pair, _: LabelNodes.parse(*pair),
    "cordon": lambda which, _: CordonNodes(which),
    "uncordon": lambda which, _: CordonNodes(which, on=False),
    "drain": lambda which, _: DrainNodes(which),
    "remove_nodes": lambda which, _: RemoveNodes(which),
    "config": lambda path, _: SetConfiguration(configuration(path), path),
}


def changes(order: Iterable[str], given: dict[str, Any], namespace: str, asked: Asked) -> list[ClusterChange]:
    """The changes in the order of the options that ask for them. Raises CannotChange."""
    values = {name: iter(value) for name, value in given.items()}
    made: list[ClusterChange] = []
    for name in order:
        if name == "add_nodes":
            like = next(values["like"], None)
            if like is None:
                raise CannotChange("--add-nodes: say which node they are like with --like NODE")
            made.append(AddNodes(next(values[name]), like))
        elif name == "gates":
            if asked.cluster.gates is not None and asked.gates != asked.cluster.gates:
                made.append(SetGates(asked.gates))
        elif maker := _MAKERS.get(name):
            made.append(maker(next(values[name]), namespace))
    if next(values["like"], None) is not None:
        raise CannotChange("--like: say how many nodes to add with --add-nodes N")
    return made
