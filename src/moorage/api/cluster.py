"""Namespaces, services, events and leases."""

from __future__ import annotations

from moorage.api.meta import Condition, Int32, Object, ObjectReference, Time, Wire


class NamespaceSpec(Wire):
    """The finalizers of a namespace."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Wire):
    """Whether a namespace is being deleted."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Object):
    """A scope for names."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ServicePort(Wire):
    """A port of a service."""

    node_port: Int32 = 0


class ServiceSpec(Wire):
    """Which pods a service is about and how they are reached."""

    selector: dict[str, str] | None = None
    type: str = ""
    ports: tuple[ServicePort, ...] = ()
    allocate_load_balancer_node_ports: bool | None = None


class Service(Object):
    """A name and an address for pods that come and go."""

    spec: ServiceSpec = ServiceSpec()


class EventSource(Wire):
    """Who reports an event."""

    component: str = ""
    host: str = ""


class EventSeries(Wire):
    """How often an event came again."""

    count: Int32 = 0
    last_observed_time: Time | None = None


class Event(Object):
    """Something that happened to an object."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: Int32 = 0
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
    series: EventSeries | None = None
    source: EventSource = EventSource()
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""


class LeaseSpec(Wire):
    """Who holds a lease and until when."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: Int32 | None = None


class Lease(Object):
    """A claim that must be renewed: the heartbeat of a node, or a leadership."""

    spec: LeaseSpec = LeaseSpec()
