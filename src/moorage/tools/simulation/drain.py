"""Drains nodes as kubectl does: one after the other, through evictions that disruption budgets may refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moorage.api import labels
from moorage.api.pod import Pod, PodDisruptionBudget
from moorage.client import ApiError, Missing
from moorage.controllers.frame.gathering import gather_some
from moorage.controllers.frame.pods import POD, controller_of, is_ending
from moorage.controllers.nodes.nodepods import NODE
from moorage.tools.simulation.diary import Diary
from moorage.tools.simulation.privatecluster import PrivateCluster
from moorage.tools.simulation.result import BlockedEviction

_MIRROR = "kubernetes.io/config.mirror"
_RETRY_SECONDS = 5.0
_PATIENCE = 120.0
"""Seconds without progress after which the pods that are left on a node are given up."""
_CAUSE = "drained"


async def drain(cluster: PrivateCluster, diary: Diary, nodes: Sequence[str], until: float) -> None:
    """Evict the pods of cordoned nodes, one node after the other; those that stay are noted in the diary."""
    for name in nodes:
        await _Drain(cluster, diary, name).run(until)


class _Drain:
    def __init__(self, cluster: PrivateCluster, diary: Diary, node: str) -> None:
        self._cluster = cluster
        self._diary = diary
        self._node = node
        self._evicting: set[str] = set()

    async def run(self, until: float) -> None:
        clock = self._cluster.clock
        left, since = len(list(self._pods())), clock.monotonic()
        while pods := list(self._pods()):
            if len(pods) < left:
                left, since = len(pods), clock.monotonic()
            if clock.monotonic() - since > _PATIENCE or clock.monotonic() >= until:
                return
            refused = await gather_some(self._evict(pod) for pod in pods if pod.metadata.uid not in self._evicting)
            await clock.sleep(_RETRY_SECONDS if any(refused) else 1.0)

    def _pods(self) -> Iterator[Pod]:
        """The pods that a drain removes: not those of DaemonSets, and not those that their kubelet made of a file."""
        for pod in self._cluster.pods.by(NODE, self._node):
            owner = controller_of(pod)
            if _MIRROR not in pod.metadata.annotations and (owner is None or owner.kind not in ("DaemonSet", "Node")):
                yield pod

    async def _evict(self, pod: Pod) -> bool:
        """Evict a pod; whether that was refused for now."""
        metadata = pod.metadata
        name = f"{metadata.namespace}/{metadata.name}"
        if is_ending(pod):
            self._evicting.add(metadata.uid)
            return False
        self._diary.told[metadata.uid] = _CAUSE
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": metadata.name}}
        try:
            await self._cluster.client.post(POD, metadata.namespace, metadata.name, "eviction", body)
        except Missing:
            pass
        except ApiError as error:
            self._note(pod, str(error))
            return True
        self._evicting.add(metadata.uid)
        self._diary.blocked.pop(name, None)
        return False

    def _note(self, pod: Pod, message: str) -> None:
        self._diary.told.pop(pod.metadata.uid, None)
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        budget = " and ".join(self._budgets(pod))
        if name not in self._diary.blocked:
            self._diary.say(f"{name} cannot leave {self._node}: {budget or message}")
        self._diary.blocked[name] = BlockedEviction(name, self._node, budget, message)

    def _budgets(self, pod: Pod) -> Iterator[str]:
        for budget in self._cluster.informers.of(PodDisruptionBudget):
            metadata, selector, status = budget.metadata, budget.spec.selector, budget.status
            if metadata.namespace != pod.metadata.namespace or selector is None:
                continue
            if labels.from_struct(selector).matches(pod.metadata.labels):
                counts = f"{status.current_healthy} healthy, {status.desired_healthy} needed"
                yield f"PodDisruptionBudget {metadata.namespace}/{metadata.name} ({counts})"
