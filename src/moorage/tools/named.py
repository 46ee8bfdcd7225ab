"""Objects of a cluster by the names that people type: `web`, `pod/web`, `deploy/web`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from moorage.api import kinds
from moorage.api.kinds import Kind
from moorage.api.pod import Pod
from moorage.scheduler.table.shape import FINISHED
from moorage.tools.cluster import Cluster, ClusterObject

_POD = kinds.row("v1", "Pod")


class UnknownName(ValueError):
    """Nothing in the cluster has this name; the sentence says what has one like it."""


def named(cluster: Cluster, names: Iterable[str], namespace: str = "") -> list[ClusterObject]:
    """The pods and workloads of these names, each once. Without a namespace, `default` counts before the others."""
    found: dict[int, ClusterObject] = {}
    for text in names:
        for item in _find(cluster, text, namespace):
            found[id(item)] = item
    return list(found.values())


def pending(cluster: Cluster, namespace: str = "") -> list[ClusterObject]:
    """The pods that wait for a node."""
    return [
        item
        for item, pod in cluster.of(Pod)
        if not pod.spec.node_name
        and pod.status.phase not in FINISHED
        and pod.metadata.deletion_timestamp is None
        and namespace in ("", pod.metadata.namespace or "default")
    ]


def askable(cluster: Cluster) -> list[ClusterObject]:
    """The pods that have not finished, and the templates of workloads that no other object owns."""
    found = []
    for item in cluster.items:
        owned = any(owner.controller for owner in item.object.metadata.owner_references)
        if isinstance(item.object, Pod):
            if item.object.status.phase not in FINISHED:
                found.append(item)
        elif kinds.of(item.object).pod_spec and not owned:
            found.append(item)
    return found


def is_by_hand(item: ClusterObject) -> bool:
    """Whether an object has never been on a server."""
    return item.document is not None and not item.object.metadata.uid


def within(items: Iterable[ClusterObject], namespace: str) -> list[ClusterObject]:
    """The items of a namespace; all of them when it is empty."""
    return [item for item in items if namespace in ("", item.object.metadata.namespace or "default")]


def _find(cluster: Cluster, text: str, namespace: str) -> list[ClusterObject]:
    word, slash, name = text.rpartition("/")
    kind = _kind(word) if slash else _POD
    candidates = within(_of_kind(cluster, kind), namespace)
    found = [item for item in candidates if item.object.metadata.name == name]
    nearest = [item for item in found if (item.object.metadata.namespace or "default") == "default"]
    if len(found) > 1 and not nearest:
        places = ", ".join(sorted(item.object.metadata.namespace for item in found))
        raise UnknownName(f"{text} is in several namespaces, {places}: choose one with -n")
    if not found:
        same = (item for item in within(askable(cluster), namespace) if item.object.metadata.name == name)
        alike = [f"{kinds.of(item.object).singular}/{name}" for item in same]
        raise UnknownName(_sentence(text, kind, name, namespace, candidates, alike))
    return (nearest or found)[-1:]


def _of_kind(cluster: Cluster, kind: Kind) -> Iterator[ClusterObject]:
    return (item for item in cluster.items if not item.within and kinds.of(item.object) is kind)


def _kind(word: str) -> Kind:
    lower = word.lower()
    for kind in kinds.KINDS:
        names = (kind.singular, kind.plural, *kind.short_names)
        if kind.pod_spec and lower in (*names, *(f"{name}.{kind.group}" for name in names)):
            return kind
    known = sorted(kind.singular for kind in kinds.KINDS if kind.pod_spec)
    raise UnknownName(f"{word} is not a kind that has pods: {', '.join(known)}")


def _sentence(
    text: str, kind: Kind, name: str, namespace: str, candidates: list[ClusterObject], workloads: list[str]
) -> str:
    """That there is no such object, and what has the same name, or one like it."""
    where = f" in namespace {namespace}" if namespace else ""
    names = sorted({item.object.metadata.name for item in candidates})
    close = workloads or get_close_matches(name, names, n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"there is no {kind.singular} {name or text}{where}{hint}"
