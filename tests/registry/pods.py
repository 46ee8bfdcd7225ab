"""Pods with defaults, and what is said of them."""

from __future__ import annotations

from typing import Any

from moorage.api import kinds
from moorage.registry.pod.defaults import default_pod
from moorage.registry.pod.pods import pod_errors

POD = kinds.row("v1", "Pod")


def a_pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    listed = [{"name": f"c{index}", "image": "a:1", **each} for index, each in enumerate(containers)]
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": listed or [{"name": "c", "image": "a:1"}], **spec},
    }
    default_pod(pod)
    return pod


def said(pod: dict[str, Any]) -> list[str]:
    return [str(error) for error in pod_errors(pod, None)]
