"""Devices and claims on them (dynamic resource allocation), as resource.k8s.io/v1 spells them."""

from __future__ import annotations

from typing import Any

from moorage.api.meta import Condition, Int64, Object, ObjectMeta, QuantityText, Time, Wire
from moorage.api.node import NodeSelector, Taint
from moorage.api.pod import Toleration


class DeviceAttribute(Wire):
    """One property of a device; exactly one of the fields is set."""

    int_: Int64 | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None


class DeviceCapacity(Wire):
    """How much of something a device has."""

    value: QuantityText = 0


class Counter(Wire):
    """How much there is of something that devices share, or how much of it a device takes."""

    value: QuantityText = 0


class CounterSet(Wire):
    """What the devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Wire):
    """What a device takes of a set of counters."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class Device(Wire):
    """One device that a driver offers."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[Taint, ...] = ()
    allow_multiple_allocations: bool | None = None
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()


class ResourcePool(Wire):
    """The slices that together describe one inventory."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Wire):
    """Devices of one driver and the nodes that can reach them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object):
    """A part of a driver's inventory."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class CELDeviceSelector(Wire):
    """A CEL expression over `device`."""

    expression: str = ""


class DeviceSelector(Wire):
    """A condition that a device must meet."""

    cel: CELDeviceSelector | None = None


class CapacityRequirements(Wire):
    """How much of a device's capacity a request needs."""

    requests: dict[str, QuantityText] = {}


class DeviceSubRequest(Wire):
    """One way to satisfy a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(Wire):
    """The one way to satisfy a request."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Wire):
    """Devices that a claim needs: exactly these, or the first of several ways that can be had."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire):
    """What the devices of several requests must have in common."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Wire):
    """Parameters that only a driver understands."""

    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(Wire):
    """How devices of a class are to be set up."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(Wire):
    """How the devices of some requests, of all when none is named, are to be set up."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire):
    """All that a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Wire):
    """What a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Wire):
    """A device that was given to a request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()


class DeviceAllocationConfiguration(Wire):
    """How allocated devices are to be set up, and whether their class or the claim says so."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire):
    """The devices that were given to a claim."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire):
    """What a claim was given and where it can be used."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ResourceClaimConsumerReference(Wire):
    """Who uses a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Wire):
    """Whether a claim has its devices, and who uses them."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class ResourceClaim(Object):
    """A request for devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Wire):
    """The claim that is made for each pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object):
    """A claim to be made for each pod that names it."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Wire):
    """What devices of a class have in common."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()


class DeviceClass(Object):
    """A name for a sort of device."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaintSelector(Wire):
    """The devices that a rule taints; every field that is set must match."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire):
    """A taint and the devices it is put on."""

    device_selector: DeviceTaintSelector | None = None
    taint: Taint = Taint()


class DeviceTaintRuleStatus(Wire):
    """What a rule did."""

    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(Object):
    """Adds a taint to devices from outside of their driver."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()
