"""Older spellings of resource.k8s.io: objects are stored as v1, and converted from and to the version of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.api.meta import Data

OLDER_VERSIONS = ("v1alpha3", "v1alpha4", "v1beta1", "v1beta2")
"""The versions that are served beside v1."""
SPELLED_AS_V1 = ("v1beta2",)
"""Those of them whose fields are those of v1. The others have `basic:` devices and requests without `exactly:`."""

_REQUEST_FIELDS = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


def to_v1(data: Data) -> Data:
    """An object of an older version (`basic:` devices, requests without `exactly:`) as v1 spells it.

    Parts that are not of the expected shape stay as they are: decoding says what is wrong with them.
    """
    return _respelled(data, _device_to_v1, _claim_to_v1)


def from_v1(data: Data, version: str) -> Data:
    """An object of v1 as an older version spells it; `to_v1` takes it back."""
    if version not in SPELLED_AS_V1:
        data = _respelled(data, _basic_device, _flat_claim)
    return {**data, "apiVersion": f"resource.k8s.io/{version}"}


def _respelled(data: Data, device: Callable[[Data], Data], claim: Callable[[Data], Data]) -> Data:
    spec = data.get("spec")
    if not isinstance(spec, dict):
        return data
    match data.get("kind"):
        case "ResourceSlice":
            spec = _each(spec, "devices", device)
        case "ResourceClaim":
            spec = claim(spec)
        case "ResourceClaimTemplate" if isinstance(inner := spec.get("spec"), dict):
            spec = {**spec, "spec": claim(inner)}
    return {**data, "spec": spec}


def _each(data: Data, name: str, change: Callable[[Data], Data]) -> Data:
    items = data.get(name)
    if not isinstance(items, list):
        return data
    return {**data, name: [change(item) if isinstance(item, dict) else item for item in items]}


def _claim_to_v1(spec: Data) -> Data:
    devices = spec.get("devices", {})
    if "requests" in spec and isinstance(devices, dict):
        # Nobody is answered so: beside `devices` it comes from a patch, and is what the client wants now.
        devices = {**devices, "requests": spec["requests"]}
        spec = {**{name: value for name, value in spec.items() if name != "requests"}, "devices": devices}
    return _with_requests(spec, _request_to_v1)


def _flat_claim(spec: Data) -> Data:
    return _with_requests(spec, _flat_request)


def _with_requests(spec: Data, change: Callable[[Data], Data]) -> Data:
    devices = spec.get("devices")
    return {**spec, "devices": _each(devices, "requests", change)} if isinstance(devices, dict) else spec


def _flat_request(request: Data) -> Data:
    exactly = request.get("exactly")
    if not isinstance(exactly, dict):
        return request
    return {**{name: value for name, value in request.items() if name != "exactly"}, **exactly}


def _basic_device(device: Data) -> Data:
    basic = {name: value for name, value in device.items() if name != "name"}
    return {**({"name": device["name"]} if "name" in device else {}), "basic": basic}


def _request_to_v1(request: Data) -> Data:
    exactly = {name: request[name] for name in _REQUEST_FIELDS if name in request}
    if not exactly or "exactly" in request:
        return request
    return {**{name: value for name, value in request.items() if name not in exactly}, "exactly": exactly}


def _device_to_v1(device: Data) -> Data:
    if isinstance(basic := device.get("basic"), dict):
        device = {**basic, **{name: value for name, value in device.items() if name != "basic"}}
    attributes, capacity = device.get("attributes"), device.get("capacity")
    if isinstance(attributes, dict):
        device = {**device, "attributes": {name: _attribute_to_v1(value) for name, value in attributes.items()}}
    if isinstance(capacity, dict):
        bare = {name: value if isinstance(value, dict) else {"value": value} for name, value in capacity.items()}
        device = {**device, "capacity": bare}
    return device


def _attribute_to_v1(value: Any) -> Any:
    for kind, name in ((bool, "bool"), (int, "int"), (str, "string")):
        if isinstance(value, kind):
            return {name: value}
    return value
