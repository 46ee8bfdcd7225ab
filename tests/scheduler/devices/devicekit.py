"""Manifests of device classes, slices and claims, as short as tests want them."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
V1 = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", *selectors: str, **spec: Any) -> Data:
    chosen = [{"cel": {"expression": each}} for each in selectors]
    return {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": chosen, **spec}}


def device(name: str, *taints: Data, **attributes: Any) -> Data:
    kind = {bool: "bool", int: "int", str: "string"}
    typed = {key: {kind[type(value)]: value} for key, value in attributes.items()}
    return {"name": name, "attributes": typed, "taints": list(taints)}


def taint(value: str, effect: str = "NoSchedule", key: str = "hours") -> Data:
    return {"key": key, "value": value, "effect": effect}


def resource_slice(node: str, *devices: Data, name: str = "", pool: str = "", generation: int = 1, **spec: Any) -> Data:
    place = {"nodeName": node} if node else {}
    count = spec.pop("count", 1)
    return {
        "apiVersion": V1,
        "kind": "ResourceSlice",
        "metadata": {"name": name or node},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool or name or node, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            **place,
            **spec,
        },
    }


def request(name: str = "gpu", class_name: str = "gpu", selector: str = "", **exactly: Any) -> Data:
    chosen = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    return {"name": name, "exactly": {"deviceClassName": class_name, **chosen, **exactly}}


def claim(name: str, *requests: Data, **devices: Any) -> Data:
    spec = {"devices": {"requests": list(requests) or [request()], **devices}}
    return {"apiVersion": V1, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def using(*claims: str) -> Data:
    """What a pod's specification says when it uses claims."""
    return {"resourceClaims": [{"name": f"use-{at}", "resourceClaimName": name} for at, name in enumerate(claims)]}
