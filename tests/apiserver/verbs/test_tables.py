"""Tables have the columns of Kubernetes, and a row for every object whatever it holds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.api.kinds import KINDS, Kind
from moorage.apiserver.verbs import tables
from moorage.registry.printing.ages import human
from tests.registry.rows import NOW, Item, heads, shown, table

WORKLOAD = "CONTAINERS|IMAGES|SELECTOR"
BINDING = ("NAME|ROLE|AGE", "USERS|GROUPS|SERVICEACCOUNTS")
EVENT = ("LAST SEEN|TYPE|REASON|OBJECT|MESSAGE", "SUBOBJECT|SOURCE|FIRST SEEN|COUNT|NAME")
HEADS = {
    "limitranges": ("NAME|CREATED AT", ""),
    "resourcequotas": ("NAME|REQUEST|LIMIT|AGE", ""),
    "namespaces": ("NAME|STATUS|AGE", ""),
    "nodes": ("NAME|STATUS|ROLES|AGE|VERSION", "INTERNAL-IP|EXTERNAL-IP|OS-IMAGE|KERNEL-VERSION|CONTAINER-RUNTIME"),
    "pods": ("NAME|READY|STATUS|RESTARTS|AGE", "IP|NODE|NOMINATED NODE|READINESS GATES"),
    "persistentvolumes": (
        "NAME|CAPACITY|ACCESS MODES|RECLAIM POLICY|STATUS|CLAIM|STORAGECLASS|VOLUMEATTRIBUTESCLASS|REASON|AGE",
        "VOLUMEMODE",
    ),
    "persistentvolumeclaims": (
        "NAME|STATUS|VOLUME|CAPACITY|ACCESS MODES|STORAGECLASS|VOLUMEATTRIBUTESCLASS|AGE",
        "VOLUMEMODE",
    ),
    "configmaps": ("NAME|DATA|AGE", ""),
    "secrets": ("NAME|TYPE|DATA|AGE", ""),
    "services": ("NAME|TYPE|CLUSTER-IP|EXTERNAL-IP|PORT(S)|AGE", "SELECTOR"),
    "serviceaccounts": ("NAME|AGE", ""),
    "events": EVENT,
    "deployments.apps": ("NAME|READY|UP-TO-DATE|AVAILABLE|AGE", WORKLOAD),
    "podtemplates": ("NAME|CONTAINERS|IMAGES|POD LABELS", ""),
    "replicationcontrollers": ("NAME|DESIRED|CURRENT|READY|AGE", WORKLOAD),
    "runtimeclasses.node.k8s.io": ("NAME|HANDLER|AGE", ""),
    "replicasets.apps": ("NAME|DESIRED|CURRENT|READY|AGE", WORKLOAD),
    "statefulsets.apps": ("NAME|READY|AGE", "CONTAINERS|IMAGES"),
    "daemonsets.apps": ("NAME|DESIRED|CURRENT|READY|UP-TO-DATE|AVAILABLE|NODE SELECTOR|AGE", WORKLOAD),
    "controllerrevisions.apps": ("NAME|CONTROLLER|REVISION|AGE", ""),
    "jobs.batch": ("NAME|STATUS|COMPLETIONS|DURATION|AGE", WORKLOAD),
    "cronjobs.batch": ("NAME|SCHEDULE|TIMEZONE|SUSPEND|ACTIVE|LAST SCHEDULE|AGE", WORKLOAD),
    "poddisruptionbudgets.policy": ("NAME|MIN AVAILABLE|MAX UNAVAILABLE|ALLOWED DISRUPTIONS|AGE", ""),
    "priorityclasses.scheduling.k8s.io": ("NAME|VALUE|GLOBAL-DEFAULT|AGE|PREEMPTIONPOLICY", ""),
    "storageclasses.storage.k8s.io": (
        "NAME|PROVISIONER|RECLAIMPOLICY|VOLUMEBINDINGMODE|ALLOWVOLUMEEXPANSION|AGE",
        "",
    ),
    "csinodes.storage.k8s.io": ("NAME|DRIVERS|AGE", ""),
    "csidrivers.storage.k8s.io": (
        "NAME|ATTACHREQUIRED|PODINFOONMOUNT|STORAGECAPACITY|TOKENREQUESTS|REQUIRESREPUBLISH|MODES|AGE",
        "",
    ),
    "volumeattachments.storage.k8s.io": ("NAME|ATTACHER|PV|NODE|ATTACHED|AGE", ""),
    "csistoragecapacities.storage.k8s.io": ("NAME|CREATED AT", ""),
    "leases.coordination.k8s.io": ("NAME|HOLDER|AGE", ""),
    "events.events.k8s.io": EVENT,
    "roles.rbac.authorization.k8s.io": ("NAME|CREATED AT", ""),
    "rolebindings.rbac.authorization.k8s.io": BINDING,
    "clusterroles.rbac.authorization.k8s.io": ("NAME|CREATED AT", ""),
    "clusterrolebindings.rbac.authorization.k8s.io": BINDING,
    "resourceslices.resource.k8s.io": ("NAME|NODE|DRIVER|POOL|AGE", ""),
    "resourceclaims.resource.k8s.io": ("NAME|STATE|AGE", ""),
    "resourceclaimtemplates.resource.k8s.io": ("NAME|AGE", ""),
    "deviceclasses.resource.k8s.io": ("NAME|AGE", ""),
    "devicetaintrules.resource.k8s.io": ("NAME|KEY|VALUE|EFFECT|TIMEADDED|AGE", ""),
}


def test_every_kind_has_the_columns_of_kubernetes() -> None:
    assert {kind.resource: heads(kind) for kind in KINDS} == HEADS


SECOND, MINUTE, HOUR, DAY, YEAR = 1, 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-1.5, "0s"), (-1, "0s"), (0, "0s"), (0.9, "0s"), (1, "1s"), (119.9, "119s"),
        (2 * MINUTE, "2m"), (2 * MINUTE + 1, "2m1s"), (9 * MINUTE + 59, "9m59s"), (10 * MINUTE, "10m"),
        (10 * MINUTE + 59, "10m"), (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"), (3 * HOUR + 59, "3h"),
        (3 * HOUR + MINUTE, "3h1m"), (8 * HOUR - 1, "7h59m"), (8 * HOUR, "8h"), (47 * HOUR + 59 * MINUTE, "47h"),
        (2 * DAY, "2d"), (2 * DAY + HOUR - 1, "2d"), (2 * DAY + HOUR, "2d1h"), (8 * DAY - 1, "7d23h"), (8 * DAY, "8d"),
        (8 * DAY + 23 * HOUR, "8d"), (2 * YEAR - 1, "729d"), (2 * YEAR, "2y"), (2 * YEAR + DAY - 1, "2y"),
        (2 * YEAR + DAY, "2y1d"), (8 * YEAR - 1, "7y364d"), (8 * YEAR, "8y"), (9 * YEAR + 30 * DAY, "9y"),
    ],
)  # fmt: skip
def test_ages_have_two_or_three_figures(seconds: float, text: str) -> None:
    assert human(seconds) == text


def test_an_object_that_was_never_created_has_no_age() -> None:
    made = table("v1", "ConfigMap", {"metadata": {"name": "c"}})
    assert made["rows"][0]["cells"] == ["c", 0, "<unknown>"]


@pytest.mark.parametrize(
    ("phase", "conditions"),
    [
        ("Running", None),
        ("Succeeded", ("Succeeded", "The pod has completed successfully.")),
        ("Failed", ("Failed", "The pod failed.")),
    ],
)
def test_rows_of_ended_pods_are_marked_as_completed(phase: str, conditions: tuple[str, str] | None) -> None:
    row = table("v1", "Pod", {"metadata": {"name": "p"}, "status": {"phase": phase}})["rows"][0]
    told = conditions and [{"type": "Completed", "status": "True", "reason": conditions[0], "message": conditions[1]}]
    assert row.get("conditions") == told


def test_a_scale_is_shown_with_its_replicas() -> None:
    scale = Kind("autoscaling", "v1", "Scale", "scales")
    item = {"metadata": {"name": "s"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    assert tables.render(scale, [item], now=NOW)["rows"][0]["cells"] == ["s", 3, 2, "<unknown>"]


WEB = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {}}


def test_rows_carry_metadata_the_whole_object_or_nothing() -> None:
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": WEB["metadata"]}
    assert table("v1", "Pod", WEB)["rows"][0]["object"] == partial
    assert table("v1", "Pod", WEB, include="")["rows"][0]["object"] == partial
    assert table("v1", "Pod", WEB, include="Object")["rows"][0]["object"] == WEB
    assert "object" not in table("v1", "Pod", WEB, include="None")["rows"][0]


def test_an_unknown_way_to_include_objects_is_refused() -> None:
    assert [tables.include_error(each) for each in ("", "Metadata", "Object", "None")] == [""] * 4
    assert tables.include_error("Some") == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "Some": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


def test_a_table_says_what_it_is() -> None:
    made = table("v1", "Pod", WEB, metadata={"resourceVersion": "7", "continue": "x"})
    assert (made["kind"], made["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert made["metadata"] == {"resourceVersion": "7", "continue": "x"}
    first = made["columnDefinitions"][0]
    assert set(first) == {"name", "type", "format", "description", "priority"}
    assert (first["name"], first["type"], first["format"], first["priority"]) == ("Name", "string", "name", 0)


def test_a_watch_leaves_the_headers_out_after_its_first_event() -> None:
    assert table("v1", "Pod", WEB, headers=False)["columnDefinitions"] is None


def test_a_cell_that_cannot_be_read_is_invalid_and_the_others_are_shown() -> None:
    cells = shown("v1", "Service", {"spec": {"type": "ClusterIP", "ports": 5, "clusterIPs": ["10.0.0.1"]}})
    assert (cells["PORT(S)"], cells["CLUSTER-IP"], cells["AGE"]) == ("<invalid>", "10.0.0.1", "5h")


json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=5,
)
FIELDS = (
    "type", "ports", "replicas", "selector", "template", "conditions", "containerStatuses", "initContainerStatuses",
    "phase", "capacity", "accessModes", "taint", "pool", "drivers", "addresses", "nodeInfo", "containers",
    "initContainers", "series", "subjects", "roleRef", "count", "data", "active", "startTime", "labels", "annotations",
    "ownerReferences", "creationTimestamp", "deletionTimestamp", "matchLabels", "matchExpressions", "spec",
)  # fmt: skip
part = st.dictionaries(st.sampled_from(FIELDS), json | st.dictionaries(st.sampled_from(FIELDS), json), max_size=4)


@given(
    st.sampled_from(KINDS), part, st.fixed_dictionaries({"spec": part | json, "status": part | json, "metadata": part})
)
def test_whatever_an_object_holds_it_has_a_row(kind: Kind, top: Item, item: Item) -> None:
    made = tables.render(kind, [{**top, **item}], now=NOW)
    assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"])
    msgspec.json.encode(made)
