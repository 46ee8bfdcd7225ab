"""PageAnswers about the cluster that the page shows, by the scheduler that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import msgspec

from moorage.api import kinds
from moorage.api.decode import DecodeError, convert
from moorage.api.manifests import Document, ManifestError, read
from moorage.api.meta import Data, Object
from moorage.api.pod import Pod
from moorage.client import ApiError
from moorage.page.clustermap import ClusterMap
from moorage.scheduler.asking import Asking
from moorage.scheduler.config import Configuration
from moorage.scheduler.scheduler import Scheduler
from moorage.tools.answers import why_data
from moorage.tools.cluster import Cluster, ClusterObject
from moorage.tools.why import Explainer
from moorage.validation import admission_errors

RULES = ("tolerations", "nodeSelector", "affinity", "topologySpreadConstraints")
"""What of a pod decides where it may run, and can be tried out."""
_OWNERS = 3
"""A pod belongs to a ReplicaSet, that to a Deployment; longer chains are not followed."""


class PageAnswers:
    """PageAnswers while the cluster goes on: the scheduler's table is kept up to date by its informers."""

    def __init__(self, scheduler: Scheduler, placement: ClusterMap) -> None:
        self._placement = placement
        self._gates = scheduler.handle.gates
        self._client = scheduler.client
        self._pods = scheduler.handle.informers.of(Pod)
        self._asking = Asking(self._gates, Configuration(), scheduler=scheduler)

    async def why(self, key: str) -> Data | None:
        """What `moorage why` says of a pod, and the plugins that were asked; None when there is no such pod."""
        pod = self._pod(key)
        return None if pod is None else self._explained(pod, await self._owners(pod))

    def rules(self, key: str) -> Data | None:
        """What of a pod decides where it may run, as it is written."""
        pod = self._pod(key)
        if pod is None:
            return None
        spec: Data = msgspec.to_builtins(pod.spec)
        return {name: spec[name] for name in RULES if spec.get(name)}

    async def tried(self, key: str, text: str) -> Data | None:
        """What `why` would say if the pod had these rules instead, or what is wrong with them."""
        pod = self._pod(key)
        if pod is None:
            return None
        try:
            changed, document = _with_rules(pod, text)
        except ManifestError as error:
            return {"errors": [_error(error.message, error.line)]}
        errors = admission_errors(changed, self._gates)
        if errors:
            return {"errors": [_error(str(each), document.line_of(each.field)) for each in errors]}
        return {"errors": [], **self._explained(changed, await self._owners(pod))}

    def _pod(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        return self._pods.get(namespace, name)

    def _explained(self, pod: Pod, owners: Sequence[Object]) -> Data:
        item = ClusterObject(pod)
        cluster = Cluster([item, *map(ClusterObject, owners)], is_complete=True)
        with self._placement.asking():
            explainer = Explainer(cluster, self._gates, items=[item], exact=True, asking=self._asking)
            data = why_data(next(explainer.explain_all()))
        filters = self._asking.runner(pod).profile.filters
        return {**data, "plugins": [plugin.name for plugin in filters]}

    async def _owners(self, pod: Pod) -> list[Object]:
        """The workload of a pod, by which it is changed, as far as this page's user may read it."""
        found: list[Object] = []
        item: Object = pod
        for _ in range(_OWNERS):
            owner = next((each for each in item.metadata.owner_references if each.controller), None)
            row = kinds.find(owner.api_version, owner.kind) if owner else None
            if owner is None or row is None:
                break
            try:
                raw = await self._client.get(row, pod.metadata.namespace, owner.name)
                item = convert(msgspec.json.decode(raw), row.struct)
            except (ApiError, DecodeError):
                break
            found.append(item)
        return found


_HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: tried}\nspec:\n"
"""What is put before rules, so that they are read as those of a manifest."""


def _error(message: str, line: int) -> Data:
    return {"message": message, "line": max(line - _HEAD.count("\n"), 0)}


def _with_rules(pod: Pod, text: str) -> tuple[Pod, Document]:
    """A pod with other rules, and the document that they were read from. Raises ManifestError."""
    manifest = _HEAD + "".join(f"  {line}\n" for line in text.splitlines())
    document = next(iter(read(["-"], BytesIO(manifest.encode()))))
    rules = document.data.get("spec") or {}
    for name in rules:
        if name not in RULES:
            line = document.line_of(f"spec.{name}")
            raise ManifestError(f"{name} cannot be tried here: {', '.join(RULES)} can", "rules", line=line)
    spec: Data = msgspec.to_builtins(pod.spec)
    kept = {name: value for name, value in spec.items() if name not in RULES}
    data: Data = {**msgspec.to_builtins(pod), "spec": {**kept, **rules}}
    try:
        return convert(data, Pod), document
    except DecodeError as error:
        raise ManifestError(error.message, "rules", line=document.line_of(error.path)) from None
