"""LimitRanges: what is wrong with them, what they give to pods, and what they refuse, in the words of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.api import kinds
from moorage.registry.judge import limit
from moorage.registry.prepare import prepare_create, prepare_update
from moorage.registry.state import Denied, State
from moorage.registry.table import strategy_of
from tests.registry.ruled import NOW, UID, made, said

Data = dict[str, Any]
GPU = "example.com/gpu"


def said_of_limits(*limits: Data) -> list[str]:
    return said("v1", "LimitRange", spec={"limits": list(limits)})


@pytest.mark.parametrize(
    ("limits", "problems"),
    [
        ([{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}}], []),
        ([{"type": "example.com/Thing", "max": {"storage": "1"}}], []),
        ([{"type": "Thing"}], [
            'spec.limits[0].type: Invalid value: "Thing": must be a standard limit type or fully qualified']),
        ([{"type": "Pod"}, {"type": "Pod"}], ['spec.limits[1].type: Duplicate value: "Pod"']),
        ([{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}], [
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            "spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"]),
        ([{"type": "Pod", "max": {"storage": "1"}}], [
            'spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers']),
        ([{"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}], [
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither "
            "was provided"]),
        ([{"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}], [
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1']),
        ([{"type": "Container", "defaultRequest": {"cpu": "3"}, "max": {"cpu": "2"}, "default": {"cpu": "1"}}], [
            'spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max '
            "value 2",
            'spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than default '
            "limit value 1"]),
        ([{"type": "Container", "default": {GPU: "2"}, "defaultRequest": {GPU: "1"}}], [
            f'spec.limits[0].defaultRequest[{GPU}]: Invalid value: "1": default value 2 must equal to defaultRequest '
            f"value 1 in {GPU}"]),
        ([{"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}}], [
            'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1']),
        ([{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}}], [
            'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = '
            "2.000000"]),
        ([{"type": "Pod", "min": {"cpu": "0"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}}], []),
    ],
)  # fmt: skip
def test_a_limit_range_must_make_sense(limits: list[Data], problems: list[str]) -> None:
    assert said_of_limits(*limits) == problems


def test_the_maximum_is_the_default_limit_and_that_the_default_request() -> None:
    sent = {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "min": {"memory": "1Mi", GPU: "1"}}
    (stored,) = made("v1", "LimitRange", spec={"limits": [{**sent, "default": {"cpu": "1"}}]})["spec"]["limits"]
    assert stored == {
        **sent,
        "default": {"cpu": "1", "memory": "1Gi"},
        "defaultRequest": {"cpu": "1", "memory": "1Gi", GPU: "1"},
    }


def limited(*limits: Data, namespace: str = "default") -> State:
    """What a namespace is like that has these limits."""
    stored = made("v1", "LimitRange", spec={"limits": list(limits)})
    stored["metadata"]["namespace"] = namespace
    return State({"limitranges": [stored]}, is_complete=False)


def pod(*containers: Data, **spec: Any) -> Data:
    whole = [{"name": f"c{number}", "image": "web", "resources": each} for number, each in enumerate(containers)]
    return {"metadata": {"name": "a"}, "spec": {"containers": whole, **spec}}


def created(state: State, kind: str, obj: Data) -> Data:
    strategy = strategy_of(kinds.row("v1", kind))
    prepare_create(strategy, obj, "default", state, NOW, UID)
    limit(strategy, obj, None, state)
    return obj


def refusal(state: State, kind: str, obj: Data) -> str:
    """Why an object is refused; empty when it is not."""
    try:
        created(state, kind, obj)
    except Denied as error:
        return str(error)
    return ""


DEFAULTS = {"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"cpu": "200m"}}


def test_containers_get_the_requests_and_limits_that_they_leave_open() -> None:
    init = [{"name": "i", "image": "web"}]
    new = created(limited(DEFAULTS), "Pod", pod({"limits": {"cpu": "1"}}, initContainers=init))
    assert new["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        # Defaults of a pod come first, and with them a request is its limit.
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    assert new["spec"]["initContainers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1Gi"},
        "requests": {"cpu": "200m", "memory": "1Gi"},
    }
    assert new["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: memory request for container c0; memory limit for container c0; cpu, memory request "
        "for init container i; cpu, memory limit for init container i"
    )
    assert new["status"]["qosClass"] == "Burstable"


def test_limits_of_another_namespace_do_not_count() -> None:
    new = created(limited(DEFAULTS, namespace="other"), "Pod", pod({}))
    assert new["spec"]["containers"][0]["resources"] == {}
    assert "annotations" not in new["metadata"]


@pytest.mark.parametrize(
    ("limits", "resources", "words"),
    [
        ({"min": {"cpu": "100m"}}, {"requests": {"cpu": "50m"}},
         "minimum cpu usage per Pod is 100m, but request is 50m"),
        ({"min": {"cpu": "1"}}, {}, "minimum cpu usage per Pod is 1.  No request is specified"),
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, ""),
        ({"max": {"cpu": "1"}}, {"requests": {"cpu": "1"}}, "maximum cpu usage per Pod is 1.  No limit is specified"),
        ({"max": {"cpu": "1"}}, {"limits": {"cpu": "1001m"}}, "maximum cpu usage per Pod is 1, but limit is 1001m"),
        ({"max": {"cpu": "1"}}, {"limits": {"cpu": "1"}}, ""),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, ""),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
         "cpu max limit to request ratio per Pod is 1500m, but provided ratio is 2.000000"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"limits": {"cpu": "0"}},
         "cpu max limit to request ratio per Pod is 2, but no request is specified or request is 0"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}},
         "cpu max limit to request ratio per Pod is 2, but no limit is specified or limit is 0"),
        ({"max": {"memory": "9Pi"}}, {"limits": {"memory": "10Pi"}},
         "maximum memory usage per Pod is 9Pi, but limit is 10Pi"),
        ({"min": {"cpu": "2"}, "max": {"cpu": "3"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
         "[minimum cpu usage per Pod is 2, but request is 1, maximum cpu usage per Pod is 3, but limit is 4]"),
    ],
)  # fmt: skip
def test_what_a_pod_asks_for_keeps_to_the_limits(limits: Data, resources: Data, words: str) -> None:
    assert refusal(limited({"type": "Pod", **limits}), "Pod", pod(resources)) == words


def test_each_container_keeps_to_its_limits_and_all_of_them_to_those_of_the_pod() -> None:
    half = {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}
    assert refusal(limited({"type": "Container", "max": {"cpu": "600m"}}), "Pod", pod(half, half)) == ""
    words = "maximum cpu usage per Pod is 600m, but limit is 1"
    assert refusal(limited({"type": "Pod", "max": {"cpu": "600m"}}), "Pod", pod(half, half)) == words


def test_an_init_container_counts_while_it_runs_and_a_sidecar_all_the_time() -> None:
    most = limited({"type": "Pod", "max": {"cpu": "1"}})

    def limits(cpu: str) -> Data:
        return {"limits": {"cpu": cpu}}

    first = {"name": "first", "image": "i", "resources": limits("1")}
    beside = {"name": "beside", "image": "i", "restartPolicy": "Always", "resources": limits("200m")}
    assert refusal(most, "Pod", pod(limits("500m"), initContainers=[first])) == ""
    assert refusal(most, "Pod", pod(limits("500m"), initContainers=[beside])) == ""
    words = "maximum cpu usage per Pod is 1, but limit is 1200m"
    assert refusal(most, "Pod", pod(limits("500m"), initContainers=[beside, first])) == words


def claim(size: str) -> Data:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "a", "namespace": "default"}, "spec": spec}


STORAGE = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("2Gi", ""),
        ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
        ("6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"),
    ],
)
def test_a_claim_keeps_to_the_limits_of_storage(size: str, words: str) -> None:
    assert refusal(limited(STORAGE), "PersistentVolumeClaim", claim(size)) == words


def test_a_claim_that_is_being_deleted_is_left_alone() -> None:
    old, strategy = claim("9Gi"), strategy_of(kinds.row("v1", "PersistentVolumeClaim"))
    with pytest.raises(Denied, match="maximum storage usage"):
        limit(strategy, claim("9Gi"), old, limited(STORAGE))
    old["metadata"]["deletionTimestamp"] = NOW
    limit(strategy, claim("9Gi"), old, limited(STORAGE))


def test_a_pod_is_limited_when_it_is_made_or_resized_and_not_when_it_is_labelled() -> None:
    strategy = strategy_of(kinds.row("v1", "Pod"))
    old = created(State(is_complete=False), "Pod", pod({"limits": {"cpu": "4"}}))
    state = limited({"type": "Pod", "max": {"cpu": "2"}})
    for subresource in ("", "status", "ephemeralcontainers"):
        limit(strategy, old, old, state, subresource)
    with pytest.raises(Denied, match="maximum cpu usage per Pod is 2, but limit is 4"):
        limit(strategy, old, old, state, "resize")


def test_a_resize_gets_defaults_as_a_new_pod_does() -> None:
    strategy = strategy_of(kinds.row("v1", "Pod"))
    old = created(State(is_complete=False), "Pod", pod({}))
    new = created(State(is_complete=False), "Pod", pod({}))
    prepare_update(strategy, new, old, "resize", limited(DEFAULTS), NOW)
    assert new["spec"]["containers"][0]["resources"]["limits"] == DEFAULTS["default"]
