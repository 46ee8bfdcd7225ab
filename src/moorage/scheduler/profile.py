"""A profile: which plugins place the pods of one schedulerName, in their order at each extension point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moorage.api.pod import Pod
from moorage.scheduler.framework import Plugin

DEFAULT_NAME = "default-scheduler"
ATTACHED_NAME = "moorage"
"""What attach mode calls its profile, unless it is told another name."""
POINTS = {
    "preEnqueue": "pre_enqueue", "queueSort": "sort_key", "preFilter": "pre_filter", "filter": "filter",
    "postFilter": "post_filter", "preScore": "pre_score", "score": "score", "reserve": "reserve",
    "permit": "permit", "preBind": "pre_bind", "bind": "bind",
}  # fmt: skip
"""The extension points as configurations name them, and the method of a plugin for each."""


def scheduler_name(pod: Pod) -> str:
    """The name of the profile that a pod is placed by."""
    return pod.spec.scheduler_name or DEFAULT_NAME


class Weighted(NamedTuple):
    """A plugin that scores, and how much its score counts."""

    plugin: Plugin
    weight: int


class Profile(NamedTuple):
    """The plugins at each extension point. Plugins that filter have pre-filter too, those that score pre-score."""

    name: str
    """The schedulerName of the pods that it places."""
    queue_sort: Plugin
    pre_enqueue: Sequence[Plugin]
    filters: Sequence[Plugin]
    post_filters: Sequence[Plugin]
    scores: Sequence[Weighted]
    reserves: Sequence[Plugin]
    permits: Sequence[Plugin]
    pre_binds: Sequence[Plugin]
    binder: Plugin
    """The first of the plugins that bind: it binds every pod."""

    @classmethod
    def of(cls, name: str, weights: Mapping[str, int], plugins: Mapping[str, Sequence[Plugin]]) -> Profile:
        """A profile of these plugins, by the extension points that POINTS names."""
        return cls(
            name,
            queue_sort=plugins["queueSort"][0],
            pre_enqueue=plugins["preEnqueue"],
            filters=plugins["filter"],
            post_filters=plugins["postFilter"],
            scores=[Weighted(plugin, weights[plugin.name]) for plugin in plugins["score"]],
            reserves=plugins["reserve"],
            permits=plugins["permit"],
            pre_binds=plugins["preBind"],
            binder=plugins["bind"][0],
        )
