from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.decode import DecodeError, from_manifest
from moorage.api.kinds import KINDS
from moorage.api.meta import Data, Object
from moorage.api.node import Taint
from moorage.api.pod import Toleration
from moorage.api.resource import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceRequest,
    DeviceTaintRule,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from moorage.api.resourceversions import from_v1, to_v1

OLDER = ("v1alpha3", "v1alpha4", "v1beta1", "v1beta2")

STORY_4 = """
apiVersion: resource.k8s.io/v1alpha4
kind: ResourceSlice
metadata:
  name: gpu-node-01-slice
spec:
  driver: nvidia.com/gpu
  pool:
    name: gpu-node-01
    generation: 1
  devices:
  - name: gpu-node-01-device-0
    basic:
      attributes:
        memory: "32Gi"
        compute-capability: "8.6"
      capacity:
        count: 1
    taints:
    - key: node.kubernetes.io/sla
      value: "980"  # 98% SLA
      effect: NoSchedule
---
apiVersion: resource.k8s.io/v1alpha4
kind: ResourceClaim
metadata:
  name: gpu-claim-high-sla
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: nvidia-a100
      tolerations:
      - key: node.kubernetes.io/sla
        operator: Gt
        value: "950"
        effect: NoSchedule
"""

# The story leaves out apiVersion; every manifest has one.
STORY_5 = """
apiVersion: resource.k8s.io/v1alpha4
kind: ResourceSlice
spec:
  driver: device.example.com
  devices:
  - name: gpu-node-01-device-0
    attributes:
      memory: "32Gi"
      compute-capability: "8.6"
    taints:
    - key: device.example.com/error-budget-in-hours
      value: "8"  # 8 hours remaining
      effect: NoSchedule
---
apiVersion: resource.k8s.io/v1alpha4
kind: ResourceClaim
metadata:
  name: inference-gpu-claim
spec:
  requests:
  - name: high-reliability-gpu
    deviceClassName: device.example.com
    tolerations:
    - key: device.example.com/error-budget-in-hours
      operator: Gt
      value: "24"
      effect: NoSchedule
"""

SLA_TAINT = Taint("node.kubernetes.io/sla", "980", "NoSchedule")
SLA = Toleration("node.kubernetes.io/sla", "Gt", "950", "NoSchedule")
BUDGET_TAINT = Taint("device.example.com/error-budget-in-hours", "8", "NoSchedule")
BUDGET = Toleration("device.example.com/error-budget-in-hours", "Gt", "24", "NoSchedule")
GPU_ATTRIBUTES = {"memory": DeviceAttribute(string="32Gi"), "compute-capability": DeviceAttribute(string="8.6")}


def read(text: str) -> list[Object | None]:
    return [from_manifest(document) for document in yaml.safe_load_all(text)]


def manifest(kind: str, spec: Any, version: str = "v1") -> Data:
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def test_the_gpu_slice_and_claim_of_story_4_read_as_v1() -> None:
    inventory, claim = read(STORY_4)
    assert isinstance(inventory, ResourceSlice)
    assert isinstance(claim, ResourceClaim)
    capacity = {"count": DeviceCapacity(1)}
    device = Device("gpu-node-01-device-0", GPU_ATTRIBUTES, capacity, taints=(SLA_TAINT,))
    assert inventory.spec.devices == (device,)
    assert (inventory.spec.driver, inventory.spec.pool.generation) == ("nvidia.com/gpu", 1)
    exactly = ExactDeviceRequest("nvidia-a100", tolerations=(SLA,))
    assert claim.spec.devices.requests == (DeviceRequest("gpu", exactly),)


def test_the_error_budgets_of_story_5_read_as_v1() -> None:
    inventory, claim = read(STORY_5)
    assert isinstance(inventory, ResourceSlice)
    assert isinstance(claim, ResourceClaim)
    assert inventory.spec.devices == (Device("gpu-node-01-device-0", GPU_ATTRIBUTES, taints=(BUDGET_TAINT,)),)
    exactly = ExactDeviceRequest("device.example.com", tolerations=(BUDGET,))
    assert claim.spec.devices.requests == (DeviceRequest("high-reliability-gpu", exactly),)


DEVICE_V1 = {
    "name": "gpu-0",
    "attributes": {"model": {"string": "a100"}, "driver": {"version": "1.2.3"}, "cores": {"int": 8}},
    "capacity": {"memory": {"value": "40Gi"}},
    "taints": [{"key": "a", "effect": "NoExecute"}],
}
DEVICE_SPELLINGS: dict[str, Data] = {
    "everything under basic": {"name": "gpu-0", "basic": {key: DEVICE_V1[key] for key in DEVICE_V1 if key != "name"}},
    "taints beside basic": {
        "name": "gpu-0",
        "basic": {"attributes": DEVICE_V1["attributes"], "capacity": DEVICE_V1["capacity"]},
        "taints": DEVICE_V1["taints"],
    },
    "bare capacity": {**DEVICE_V1, "capacity": {"memory": "40Gi"}},
    "bare attributes": {**DEVICE_V1, "attributes": {"model": "a100", "driver": {"version": "1.2.3"}, "cores": 8}},
    "as in v1": DEVICE_V1,
}


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("device", DEVICE_SPELLINGS.values(), ids=DEVICE_SPELLINGS)
def test_older_spellings_of_a_device_mean_the_same_device(device: Data, version: str) -> None:
    old = from_manifest(manifest("ResourceSlice", {"devices": [device]}, version))
    new = from_manifest(manifest("ResourceSlice", {"devices": [DEVICE_V1]}))
    assert isinstance(old, ResourceSlice)
    assert isinstance(new, ResourceSlice)
    assert old.spec == new.spec


def test_a_bare_truth_is_a_truth_and_not_the_integer_one() -> None:
    item = from_manifest(manifest("ResourceSlice", {"devices": [{"basic": {"attributes": {"ecc": True}}}]}, "v1alpha4"))
    assert isinstance(item, ResourceSlice)
    assert item.spec.devices[0].attributes == {"ecc": DeviceAttribute(bool_=True)}


REQUEST = {
    "deviceClassName": "gpu",
    "count": 2,
    "allocationMode": "ExactCount",
    "tolerations": [{"key": "a", "operator": "Exists"}],
}
FIRST = {
    "name": "r",
    "firstAvailable": [{"name": "big", "deviceClassName": "gpu", "tolerations": REQUEST["tolerations"]}],
}
REQUEST_V1 = {"name": "r", "exactly": REQUEST}


def claim_spec(request: Data) -> Data:
    return {"devices": {"requests": [request], "constraints": [{"requests": ["r"], "matchAttribute": "x/numa"}]}}


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize(
    ("given_request", "meant"),
    [({"name": "r", **REQUEST}, REQUEST_V1), (REQUEST_V1, REQUEST_V1), (FIRST, FIRST), ({"name": "r"}, {"name": "r"})],
    ids=["flat", "exactly", "first available", "only a name"],
)
def test_older_spellings_of_a_request_mean_the_same_request(given_request: Data, meant: Data, version: str) -> None:
    for kind, wrap in (("ResourceClaim", claim_spec), ("ResourceClaimTemplate", lambda it: {"spec": claim_spec(it)})):
        old = from_manifest(manifest(kind, wrap(given_request), version))
        new = from_manifest(manifest(kind, wrap(meant)))
        assert isinstance(old, ResourceClaim | ResourceClaimTemplate)
        assert isinstance(new, ResourceClaim | ResourceClaimTemplate)
        assert old.spec == new.spec


def test_v1_is_not_respelled() -> None:
    item = from_manifest(manifest("ResourceClaim", claim_spec({"name": "r", **REQUEST})))
    assert isinstance(item, ResourceClaim)
    assert item.spec.devices.requests == (DeviceRequest("r"),)


def test_a_device_taint_rule_of_an_older_version_is_read() -> None:
    spec = {"deviceSelector": {"driver": "d"}, "taint": {"key": "a", "value": "8", "effect": "NoExecute"}}
    item = from_manifest(manifest("DeviceTaintRule", spec, "v1alpha3"))
    assert isinstance(item, DeviceTaintRule)
    assert item.spec.taint == Taint("a", "8", "NoExecute")


MISSHAPEN: list[tuple[str, Any, str]] = [
    ("ResourceSlice", [], "spec"),
    ("ResourceSlice", {"devices": {}}, "spec.devices"),
    ("ResourceSlice", {"devices": [3]}, "spec.devices[0]"),
    ("ResourceSlice", {"devices": [{"basic": {"taints": 3}}]}, "spec.devices[0].taints"),
    ("ResourceSlice", {"devices": [{"basic": {"attributes": {"a": 1.5}}}]}, "spec.devices[0].attributes[...]"),
    ("ResourceSlice", {"devices": [{"capacity": {"a": []}}]}, "spec.devices[0].capacity[...].value"),
    ("ResourceClaim", {"requests": 3}, "spec.devices.requests"),
    ("ResourceClaim", {"devices": 3}, "spec.devices"),
    ("ResourceClaim", {"devices": {"requests": [{"count": "two"}]}}, "spec.devices.requests[0].exactly.count"),
    ("ResourceClaimTemplate", {"spec": 3}, "spec.spec"),
]


@pytest.mark.parametrize(("kind", "spec", "path"), MISSHAPEN)
def test_a_misshapen_older_object_is_refused_with_the_path(kind: str, spec: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        from_manifest(manifest(kind, spec, "v1alpha4"))
    assert caught.value.path == path


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "devices", "requests", "basic", "attributes", "capacity", "exactly", "count", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
device_kinds = st.sampled_from([kind.kind for kind in KINDS if kind.upgrade])


@given(device_kinds, anything)
def test_respelling_never_fails_changes_nothing_that_it_is_given_and_is_done_once(kind: str, spec: Any) -> None:
    data = manifest(kind, spec, "v1alpha4")
    before = copy.deepcopy(data)
    once = to_v1(data)
    assert data == before
    assert to_v1(once) == once


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("ResourceSlice", {"driver": "d", "devices": [{"name": "a", "taints": [{"key": "k"}]}, {"name": "b"}]}),
        (
            "ResourceClaim",
            {"devices": {"requests": [{"name": "a", "exactly": {"count": 1, "capacity": {}}}]}},
        ),
        ("ResourceClaim", {"devices": {"requests": [{"name": "a", "firstAvailable": [{"name": "b"}]}]}}),
        ("ResourceClaimTemplate", {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"count": 2}}]}}}),
        ("DeviceClass", {"selectors": []}),
        ("DeviceTaintRule", {"taint": {"key": "k"}}),
    ],
)
def test_an_answer_in_an_older_version_says_the_same(kind: str, spec: Data, version: str) -> None:
    data = manifest(kind, spec, "v1")
    older = from_v1(data, version)
    assert older["apiVersion"] == f"resource.k8s.io/{version}"
    assert to_v1(older)["spec"] == spec


def test_what_an_older_version_nests_otherwise_is_nested_so() -> None:
    slice_ = from_v1(manifest("ResourceSlice", {"devices": [{"name": "a", "allNodes": True}]}, "v1"), "v1beta1")
    assert slice_["spec"] == {"devices": [{"name": "a", "basic": {"allNodes": True}}]}
    claim = {"devices": {"requests": [{"name": "a", "exactly": {"count": 2}}]}}
    assert from_v1(manifest("ResourceClaim", claim, "v1"), "v1alpha4")["spec"] == {
        "devices": {"requests": [{"name": "a", "count": 2}]}
    }


def test_requests_beside_devices_come_from_a_patch_and_count() -> None:
    spec = {"requests": [{"name": "b", "count": 1}], "devices": {"requests": [{"name": "a"}], "constraints": []}}
    assert to_v1(manifest("ResourceClaim", spec, "v1alpha4"))["spec"] == {
        "devices": {"requests": [{"name": "b", "exactly": {"count": 1}}], "constraints": []}
    }
