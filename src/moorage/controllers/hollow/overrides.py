"""Annotations of nodes and pods by which people override what the hollow kubelet does."""

from __future__ import annotations

from math import isfinite

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.controllers.hollow.commands import course_of
from moorage.names import lenient_int64

HOLLOW, FROZEN = "moorage.dev/hollow", "moorage.dev/frozen"
RUN_SECONDS, EXIT_CODE, STOP_SECONDS = "moorage.dev/run-seconds", "moorage.dev/exit-code", "moorage.dev/stop-seconds"
_MISSING_TAGS = ("404", "non-existent")
_LONGEST_SECONDS = 10.0**9
_LARGEST_CODE = 255


def is_alive(node: Node) -> bool:
    """Whether the hollow kubelet runs this node: it has no real kubelet and is not frozen."""
    annotations = node.metadata.annotations
    return annotations.get(HOLLOW) != "false" and annotations.get(FROZEN) != "true"


def run_seconds(pod: Pod) -> float | None:
    """How long the containers of a pod run, if an annotation says so."""
    return _seconds(pod, RUN_SECONDS)


def stop_seconds(pod: Pod) -> float:
    """How long the containers of a pod take to stop."""
    return _seconds(pod, STOP_SECONDS) or 0.0


def exit_code(pod: Pod) -> int:
    """The exit code of the containers of a pod, by annotation or by their commands."""
    text = pod.metadata.annotations.get(EXIT_CODE)
    if text is None:
        course = course_of(pod)
        return course.code if course is not None else 0
    code = lenient_int64(text) or 0
    return code if 0 <= code <= _LARGEST_CODE else 0


def is_missing(image: str) -> bool:
    """Whether an image cannot be pulled: its tag says that there is none."""
    return image.rpartition(":")[2] in _MISSING_TAGS


def mistakes(pod: Pod) -> list[str]:
    """Annotations of a pod that cannot be parsed, and so are ignored."""
    annotations = pod.metadata.annotations
    if not any(name in annotations for name in (RUN_SECONDS, STOP_SECONDS, EXIT_CODE)):
        return []
    problems = [
        f'annotation {name}: "{annotations[name]}" is not a number of seconds'
        for name in (RUN_SECONDS, STOP_SECONDS)
        if name in annotations and _seconds(pod, name) is None
    ]
    if EXIT_CODE in annotations and str(exit_code(pod)) != annotations[EXIT_CODE]:
        problems.append(f'annotation {EXIT_CODE}: "{annotations[EXIT_CODE]}" is not a number from 0 to {_LARGEST_CODE}')
    return problems


def _seconds(pod: Pod, name: str) -> float | None:
    text = pod.metadata.annotations.get(name)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return None
    return min(seconds, _LONGEST_SECONDS) if isfinite(seconds) and seconds >= 0 else None
