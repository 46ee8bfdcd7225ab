"""A shop of devices without a server: slices and claims go in, and what claims get comes out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from moorage.api.decode import convert
from moorage.api.pod import Pod
from moorage.api.resource import (
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from moorage.scheduler.framework import Cycle
from moorage.scheduler.plugins.dynamicresources import DynamicResources
from tests.scheduler.devices.devicekit import DRIVER, Data, device_class, request, using
from tests.scheduler.plugin_on_table import PluginOnTable, pod

NOT_ENOUGH = "cannot allocate all claims"
ELSEWHERE = "resourceclaim not available on the node"
IS_A100 = f'device.attributes["{DRIVER}"].model == "a100"'


class DevicesOnTable(PluginOnTable):
    """Devices, claims, and a plugin that hands them out."""

    def __init__(self, *nodes: str, classes: Iterable[Data] = (device_class(),)) -> None:
        super().__init__(DynamicResources, {name: {"name": name} for name in nodes})
        self.claims: dict[str, ResourceClaim] = {}
        for each in classes:
            self.told(convert(each, DeviceClass))

    def offer(self, *slices: Data) -> None:
        for each in slices:
            self.told(convert(each, ResourceSlice))

    def ask(self, *claims: Data, **status: Any) -> Pod:
        """A pod that uses these new claims."""
        for each in claims:
            name = each["metadata"]["name"]
            metadata = {**each["metadata"], "uid": f"uid-of-{name}"}
            self.claims[name] = convert({**each, "metadata": metadata, "status": status}, ResourceClaim)
            self.told(self.claims[name])
        return pod(**using(*(each["metadata"]["name"] for each in claims)))

    def why(self, given: Pod) -> dict[str, str]:
        """Why nodes will not do."""
        return {node: reason for node, (reason, _) in self.reasons(given).items()}

    def begin(self, given: Pod) -> Cycle:
        """A pod for which something was found in claims and classes; nodes come next."""
        cycle = self.cycle(given)
        assert self.plugin.pre_filter(cycle) is None
        return cycle

    def choose(self, given: Pod, node: str) -> list[list[str]]:
        """The devices that each claim gets when a pod goes to a node; they are taken from now on."""
        cycle = self.begin(given)
        assert self.plugin.reserve(cycle, node) == ""
        return [[each.device for each in result.devices.results] for result in self.results(cycle)]

    def results(self, cycle: Cycle) -> list[AllocationResult]:
        """What would be written into the claims of a pod."""
        return list(cycle.data[self.plugin.name].allocations.values())


def ways(*class_names: str, **counts: int) -> Data:
    """A request that is content with one of these classes, the first if possible."""
    listed = [
        {"name": f"way-{at}", "deviceClassName": name, "allocationMode": "ExactCount", "count": counts.get(name, 1)}
        for at, name in enumerate(class_names)
    ]
    return {"name": "any", "firstAvailable": listed}


def exactly(count: int = 1, **more: Any) -> Data:
    return request(allocationMode="ExactCount", count=count, **more)


def everything(**more: Any) -> Data:
    return request(allocationMode="All", **more)


def place(key: str, *values: str) -> Data:
    requirement = {"key": key, "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


def plain(value: Any) -> Any:
    """A value as it is written."""
    return msgspec.json.decode(msgspec.json.encode(value))
