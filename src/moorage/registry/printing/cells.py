"""The cells of printed tables: one function for everything that a column can show of an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from moorage.api.wellknown import LABEL_NODE_ROLE, LABEL_NODE_ROLE_PREFIX
from moorage.quantity import Quantity
from moorage.registry.printing.ages import UNKNOWN, human, moment, since
from moorage.registry.printing.podsummary import PodSummary, Printable

NONE, UNSET = "<none>", "<unset>"

Cell = str | int | bool


class PrintedRow:
    """One object, as the columns read it."""

    __slots__ = ("_pod", "item", "metadata", "now", "spec", "status")

    def __init__(self, item: Printable, now: datetime) -> None:
        self.item = item
        self.metadata = _part(item, "metadata")
        self.spec = _part(item, "spec")
        self.status = _part(item, "status")
        self.now = now
        self._pod: PodSummary | None = None

    @property
    def pod(self) -> PodSummary:
        """The summary of a pod, computed once for three columns."""
        if self._pod is None:
            self._pod = PodSummary(self.item)
        return self._pod


def _part(item: Printable, name: str) -> Printable:
    part = item.get(name)
    return part if isinstance(part, dict) else {}


Getter = Callable[[PrintedRow], Any]


def name(row: PrintedRow) -> str:
    """The object's name."""
    return str(row.metadata.get("name", ""))


def age(row: PrintedRow) -> str:
    """How long ago the object was created."""
    return since(row.metadata.get("creationTimestamp"), row.now)


def created_at(row: PrintedRow) -> str:
    """When the object was created."""
    created = moment(row.metadata.get("creationTimestamp"))
    return created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if created else UNKNOWN


def at(path: str, default: Cell = "") -> Getter:
    """The value of a field; `default` stands for an absent or empty one."""
    *parents, last = path.split(".")

    def get(row: PrintedRow) -> Any:
        part: Any = row.item
        for parent in parents:
            part = part.get(parent) or {}
        return part.get(last) or default

    return get


def value(path: str, default: Cell) -> Getter:
    """The value of a field, even if it is empty, false or 0; `default` stands for an absent one."""
    *parents, last = path.split(".")

    def get(row: PrintedRow) -> Any:
        part: Any = row.item
        for parent in parents:
            part = part.get(parent) or {}
        content = part.get(last)
        return default if content is None else content

    return get


def number(path: str) -> Getter:
    """A number; 0 when it is absent."""
    return at(path, 0)


def size(*paths: str) -> Getter:
    """The total number of items of lists or maps."""
    getters = [at(path) for path in paths]
    return lambda row: sum(len(get(row)) for get in getters)


def ago(path: str, absent: str) -> Getter:
    """How long ago the time in a field was."""
    get = at(path)
    return lambda row: since(time, row.now) if (time := get(row)) else absent


def joined(values: Iterable[Any], separator: str = ",", otherwise: str = "") -> str:
    """Values joined by a separator; `otherwise` when there are none."""
    return separator.join(map(str, values)) or otherwise


def label_text(labels: Mapping[str, str] | None) -> str:
    """Labels in the order of their keys."""
    return joined(sorted(f"{key}={value}" for key, value in (labels or {}).items()), otherwise=NONE)


_REQUIREMENTS = {
    "In": "{0} in ({1})",
    "NotIn": "{0} notin ({1})",
    "Exists": "{0}",
    "DoesNotExist": "!{0}",
}


def selector_text(selector: Printable | None) -> str:
    """A label selector in the syntax of commands. Raises ValueError when it is invalid."""
    requirements = [(key, f"{key}={value}") for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    for expression in (selector or {}).get("matchExpressions") or ():
        form, values = _REQUIREMENTS.get(expression.get("operator", "")), expression.get("values") or ()
        if form is None or bool(values) != ("{1}" in form):
            raise ValueError("not a label selector")
        requirements.append((expression["key"], form.format(expression["key"], joined(sorted(values)))))
    return joined(text for _, text in sorted(requirements, key=lambda requirement: requirement[0]))


def selector(path: str) -> Getter:
    """A label selector."""
    get = value(path, "")

    def text(row: PrintedRow) -> str:
        try:
            return selector_text(get(row) or None) or NONE
        except ValueError:
            return "<error>"

    return text


def items(path: str, field: str) -> Getter:
    """One field of all items of a list."""
    get = at(path)
    return lambda row: joined(item.get(field, "") for item in get(row))


def ratio(have: str, want: str) -> Getter:
    """A ratio such as ready replicas; an absent second number is 1."""
    numerator, denominator = number(have), value(want, 1)
    return lambda row: f"{numerator(row)}/{denominator(row)}"


def truth(path: str) -> Getter:
    """A boolean as text."""
    get = value(path, "")
    words = {True: "True", False: "False"}
    return lambda row: words.get(get(row), UNSET)


def condition_status(conditions: Iterable[Printable], type_: str) -> str:
    """The status of the first condition of a type; empty when there is none."""
    return next((condition.get("status", "") for condition in conditions if condition.get("type") == type_), "")


def phase(row: PrintedRow) -> str:
    """The phase, or Terminating."""
    return "Terminating" if row.metadata.get("deletionTimestamp") else row.status.get("phase") or ""


def pod_ready(row: PrintedRow) -> str:
    """How many of the containers are ready."""
    return f"{row.pod.ready}/{row.pod.total}"


def pod_status(row: PrintedRow) -> str:
    """The status of a pod in one word."""
    return row.pod.reason


def pod_restarts(row: PrintedRow) -> str:
    """How often containers were restarted, and how long ago the last one was."""
    pod = row.pod
    if pod.restarts and pod.last_restart:
        return f"{pod.restarts} ({human((row.now - pod.last_restart).total_seconds())} ago)"
    return str(pod.restarts)


def pod_ip(row: PrintedRow) -> str:
    """The first address."""
    addresses = row.status.get("podIPs")
    return (addresses[0].get("ip") if addresses else row.status.get("podIP")) or NONE


def readiness_gates(row: PrintedRow) -> str:
    """How many of the readiness gates are true."""
    gates = row.spec.get("readinessGates")
    if not gates:
        return NONE
    conditions = row.status.get("conditions") or ()
    passed = sum(condition_status(conditions, gate["conditionType"]) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


def node_status(row: PrintedRow) -> str:
    """Whether the node is ready, and whether it takes new pods."""
    ready = condition_status(row.status.get("conditions") or (), "Ready")
    words = ["Unknown" if not ready else "Ready" if ready == "True" else "NotReady"]
    if row.spec.get("unschedulable"):
        words.append("SchedulingDisabled")
    return joined(words)


def node_roles(row: PrintedRow) -> str:
    """The roles that labels give a node."""
    labels = row.metadata.get("labels") or {}
    roles = {key.removeprefix(LABEL_NODE_ROLE_PREFIX) for key in labels if key.startswith(LABEL_NODE_ROLE_PREFIX)}
    return joined(sorted((roles | {labels.get(LABEL_NODE_ROLE, "")}) - {""}), otherwise=NONE)


def node_address(type_: str) -> Getter:
    """The first address of a type."""
    return lambda row: next(
        (entry.get("address", "") for entry in row.status.get("addresses") or () if entry.get("type") == type_), NONE
    )


def kernel(row: PrintedRow) -> str:
    """The kernel's version and the architecture."""
    info = row.status.get("nodeInfo") or {}
    architecture = info.get("architecture")
    return (info.get("kernelVersion") or UNKNOWN) + (f" ({architecture})" if architecture else "")


_JOB_CONDITIONS = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")
"""The conditions that are the status of a Job, by precedence; the empty one stands for a Job in deletion."""


def job_status(row: PrintedRow) -> str:
    """The status of a Job."""
    conditions = row.status.get("conditions") or ()
    for type_ in _JOB_CONDITIONS:
        if type_ and condition_status(conditions, type_) == "True":
            return type_
        if not type_ and row.metadata.get("deletionTimestamp"):
            return "Terminating"
    return "Running"


def job_completions(row: PrintedRow) -> str:
    """How many pods of how many have finished."""
    succeeded, completions = row.status.get("succeeded") or 0, row.spec.get("completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = row.spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(row: PrintedRow) -> str:
    """How long a job took, or takes so far."""
    start = moment(row.status.get("startTime"))
    end = moment(row.status.get("completionTime")) or row.now
    return human((end - start).total_seconds()) if start else ""


def service_cluster_ip(row: PrintedRow) -> str:
    """The first cluster IP."""
    addresses = row.spec.get("clusterIPs")
    return addresses[0] if addresses else row.spec.get("clusterIP") or NONE


def service_external_ip(row: PrintedRow) -> str:
    """The addresses of a Service for clients outside of the cluster."""
    match row.spec.get("type") or "ClusterIP":
        case "ExternalName":
            return row.spec.get("externalName") or ""
        case "ClusterIP" | "NodePort":
            return joined(row.spec.get("externalIPs") or (), otherwise=NONE)
        case "LoadBalancer":
            ingress = (row.status.get("loadBalancer") or {}).get("ingress") or ()
            points = {entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""}
            return joined([*sorted(points), *(row.spec.get("externalIPs") or ())], otherwise="<pending>")
    return UNKNOWN


def service_ports(row: PrintedRow) -> str:
    """The ports of a Service, with their node ports."""
    return joined(map(_port, row.spec.get("ports") or ()), otherwise=NONE)


def _port(port: Printable) -> str:
    node_port = port.get("nodePort")
    number = f"{port.get('port', 0)}:{node_port}" if node_port else str(port.get("port", 0))
    return f"{number}/{port.get('protocol') or 'TCP'}"


_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _modes(modes: Iterable[str] | None) -> str:
    return joined(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def _storage(resources: Printable | None) -> str:
    return str(Quantity.of((resources or {}).get("storage", 0)))


def volume_capacity(row: PrintedRow) -> str:
    """How much a volume holds."""
    return _storage(row.spec.get("capacity"))


def volume_access_modes(row: PrintedRow) -> str:
    """How a volume can be mounted."""
    return _modes(row.spec.get("accessModes"))


def volume_claim(row: PrintedRow) -> str:
    """The claim that has a volume."""
    claim = row.spec.get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim is not None else ""


def storage_class(row: PrintedRow) -> str:
    """The storage class; an old annotation wins over the field."""
    class_: str | None = (row.metadata.get("annotations") or {}).get(_BETA_CLASS)
    return (row.spec.get("storageClassName") or "") if class_ is None else class_


def claim_capacity(row: PrintedRow) -> str:
    """How much a claim was given, once it has a volume."""
    return _storage(row.status.get("capacity")) if row.spec.get("volumeName") else ""


def claim_access_modes(row: PrintedRow) -> str:
    """How a claim's volume can be mounted, once it has one."""
    return _modes(row.status.get("accessModes")) if row.spec.get("volumeName") else ""


def class_name(row: PrintedRow) -> str:
    """The name of a storage class, marked when it is the default."""
    annotations = row.metadata.get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return f"{name(row)} (default)" if is_default else name(row)


def token_audiences(row: PrintedRow) -> str:
    """The audiences of a driver's token requests."""
    requests = row.spec.get("tokenRequests")
    return UNSET if requests is None else joined(request.get("audience", "") for request in requests)


def _either(item: Printable, *spellings: str) -> Any:
    """A field of an Event, which has different names in the two groups of events."""
    return next((value for spelling in spellings if (value := item.get(spelling))), None)


def event_first_seen(row: PrintedRow) -> str:
    """How long ago an event was reported first."""
    first = _either(row.item, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
    return since(first, row.now)


def event_last_seen(row: PrintedRow) -> str:
    """How long ago an event was reported last."""
    series = row.item.get("series")
    if series is not None:
        return since(series.get("lastObservedTime"), row.now)
    last = _either(row.item, "lastTimestamp", "deprecatedLastTimestamp")
    return since(last, row.now) if last else event_first_seen(row)


def event_count(row: PrintedRow) -> int:
    """How often an event was reported."""
    series = row.item.get("series")
    if series is not None:
        return int(series.get("count") or 0)
    return int(_either(row.item, "count", "deprecatedCount") or 1)


def event_object(row: PrintedRow) -> str:
    """What an event is about."""
    about = _either(row.item, "involvedObject", "regarding") or {}
    kind, name_ = str(about.get("kind", "")).lower(), about.get("name")
    return f"{kind}/{name_}" if name_ else kind


def event_subobject(row: PrintedRow) -> str:
    """Which part of the object an event is about."""
    return (_either(row.item, "involvedObject", "regarding") or {}).get("fieldPath") or ""


def event_source(row: PrintedRow) -> str:
    """Who reports an event."""
    source = _either(row.item, "source", "deprecatedSource") or {}
    component = source.get("component") or _either(row.item, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or row.item.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


def event_message(row: PrintedRow) -> str:
    """What happened."""
    return str(_either(row.item, "message", "note") or "").strip()


def role(row: PrintedRow) -> str:
    """The role that a binding gives."""
    reference = row.item.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def subjects(kind: str, form: str = "{name}") -> Getter:
    """The subjects of a kind in a binding."""

    def text(row: PrintedRow) -> str:
        bound = (subject for subject in row.item.get("subjects") or () if subject.get("kind") == kind)
        return joined((form.format_map({"namespace": "", "name": "", **subject}) for subject in bound), ", ")

    return text


def controller(row: PrintedRow) -> str:
    """The object that controls this one."""
    for owner in row.metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            group, slash, _ = owner.get("apiVersion", "").partition("/")
            kind = f"{owner['kind']}.{group}" if slash else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


def claim_state(row: PrintedRow) -> str:
    """Whether a device claim has its devices and is used."""
    deleted, allocated = row.metadata.get("deletionTimestamp"), row.status.get("allocation") is not None
    states = {
        "deleted": deleted,
        "pending": not allocated and not deleted,
        "allocated": allocated,
        "reserved": allocated and row.status.get("reservedFor"),
    }
    return joined(state for state, holds in states.items() if holds)
