"""Every kind in the table is served, and the commands of kubectl work with it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from moorage.api.kinds import KINDS, Kind
from tests.live.conftest import ROOT, Live
from tests.live.manifests import collection, manifest
from tests.plane import PATIENCE

Data = dict[str, Any]
MERGE = "application/merge-patch+json"
# Both spellings of an event are one object.
OBJECTS = [(kind, manifest(kind, "it2" if kind.group == "events.k8s.io" else "it")) for kind in KINDS]
NAMED = [f"{kind.resource}/{item['metadata']['name']}" for kind, item in OBJECTS]


@pytest.fixture(scope="module")
def everything(live: Live) -> str:
    """One object of each kind, created by one command."""
    items = [item for _, item in OBJECTS]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    output = live.kubectl("create", "-f", "-", stdin=listed).stdout
    assert output.count(" created\n") == len(items)
    return listed


def test_kubectl_gets_and_describes_every_kind(live: Live, everything: str) -> None:
    shown = live.kubectl("get", "-o", "name", *NAMED).stdout.split()
    assert len(shown) == len(NAMED)
    assert live.kubectl("get", "-o", "wide", *NAMED).stderr == ""
    described = live.kubectl("describe", *NAMED).stdout
    assert sum(line.startswith("Name: ") for line in described.splitlines()) == len(NAMED)


def test_kubectl_labels_applies_and_waits_for_every_kind(live: Live, everything: str) -> None:
    labelled = live.kubectl("label", *NAMED, "seen=yes").stdout
    assert labelled.count(" labeled\n") == len(NAMED)
    live.kubectl("wait", "--for=jsonpath={.metadata.labels.seen}=yes", f"--timeout={PATIENCE:.0f}s", *NAMED[:3])
    live.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=everything)


def test_kubectl_explains_with_the_older_description_too(live: Live) -> None:
    explained = live.kubectl("explain", "pods.spec.tolerations", "--output=plaintext-openapiv2").stdout
    assert "RESOURCE: tolerations <[]Object>" in explained
    assert "expression" in explained


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha4"])
def test_kubectl_applies_claims_of_an_older_version_twice(live: Live, version: str) -> None:
    example = (ROOT / "examples/thresholds-5-error-budget/manifests.yaml").read_text()
    text = example.replace("resource.k8s.io/v1beta1", f"resource.k8s.io/{version}")
    live.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)
    applied = [live.kubectl("apply", "-f", "-", stdin=text).stdout for _ in range(2)]
    assert [len(lines.splitlines()) for lines in applied] == [7, 7]
    claim = ("get", f"resourceclaims.{version}.resource.k8s.io/training-gpu-claim")
    assert live.kubectl(*claim, "-o", "jsonpath={.apiVersion}").stdout == f"resource.k8s.io/{version}"
    assert live.kubectl(*claim, "-o", "jsonpath={..requests[0].tolerations[0].value}").stdout == "1"
    live.kubectl("apply", "-f", "-", stdin=text.replace('value: "8"', 'value: "48"'))
    shown = live.kubectl("get", "resourceslices", "-o", "jsonpath={.items[*].spec.devices[*].taints[*].value}").stdout
    assert "48 0" in shown
    live.kubectl("delete", "-f", "-", stdin=text)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_every_kind_is_created_read_changed_and_deleted(live: Live, kind: Kind) -> None:
    path, name = collection(kind), f"gone-{kind.group.partition('.')[0] or 'core'}"
    code, created = live.http("POST", path, manifest(kind, name))
    assert (code, created["kind"], created["apiVersion"]) == (201, kind.kind, kind.api_version)
    code, changed = live.http("PATCH", f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}}, media_type=MERGE)
    assert (code, changed["metadata"]["labels"]["a"], changed["apiVersion"]) == (200, "b", kind.api_version)
    listed = live.http("GET", f"{path}?labelSelector=a%3Db&fieldSelector=metadata.name%3D{name}")[1]
    assert [item["metadata"]["uid"] for item in listed["items"]] == [created["metadata"]["uid"]]
    changed["metadata"]["annotations"] = {"replaced": "yes"}
    assert live.http("PUT", f"{path}/{name}", changed)[0] == 200
    if "status" in kind.subresources:
        code, answer = live.http("GET", f"{path}/{name}/status")
        assert (code, answer["kind"]) == (200, kind.kind)
    assert live.http("DELETE", f"{path}/{name}")[0] == 200


def test_the_status_of_an_attachment_is_its_own(live: Live) -> None:
    path = "/apis/storage.k8s.io/v1/volumeattachments"
    kind = next(kind for kind in KINDS if kind.kind == "VolumeAttachment")
    live.http("POST", path, {**manifest(kind, "attached"), "status": {"attached": True}})
    assert not live.http("GET", f"{path}/attached")[1]["status"].get("attached")
    attached = {"spec": {"nodeName": "other"}, "status": {"attached": True}}
    code, answer = live.http("PATCH", f"{path}/attached/status", attached, media_type=MERGE)
    assert (code, answer["status"]["attached"], answer["spec"]["nodeName"]) == (200, True, "it")


def test_a_pod_is_bound_by_a_binding_of_its_own_name(live: Live) -> None:
    pods, bindings = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/bindings"
    pod = next(kind for kind in KINDS if kind.kind == "Pod")
    for name, path in (("first", bindings), ("second", f"{pods}/second/binding")):
        uid = live.http("POST", pods, manifest(pod, name))[1]["metadata"]["uid"]
        binding: Data = {"metadata": {"name": name, "uid": "other"}, "target": {"kind": "Node", "name": "n1"}}
        assert live.http("POST", path, binding)[0] == 409
        binding["metadata"] = {"name": name, "uid": uid, "labels": {"zone": "a"}, "annotations": {"by": "me"}}
        assert live.http("POST", path, binding)[1]["status"] == "Success"
        bound = live.http("GET", f"{pods}/{name}")[1]
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["labels"] | bound["metadata"]["annotations"] == {"zone": "a", "by": "me"}
        assert live.http("POST", path, binding)[0] == 409
    assert live.http("POST", f"{pods}/second/binding", {"metadata": {"name": "first"}})[0] == 400
    assert live.http("POST", bindings, {"target": {"name": "n1"}})[0] == 400
    assert live.http("POST", bindings, {"metadata": {"name": "absent"}, "target": {"name": "n1"}})[0] == 404
    assert live.http("GET", bindings)[0] == 405


def test_a_workload_is_scaled_in_every_way_and_nonsense_is_refused(live: Live) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    kind = next(kind for kind in KINDS if kind.kind == "Deployment")
    live.http("POST", path, manifest(kind, "scaled"))
    live.kubectl("scale", "deployment/scaled", "--replicas=2", "--current-replicas=1")
    assert live.http("GET", f"{path}/scaled/scale")[1]["spec"] == {"replicas": 2}
    add = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    assert live.http("PATCH", f"{path}/scaled/scale", add, media_type="application/json-patch+json")[0] == 200
    assert live.http("GET", f"{path}/scaled")[1]["spec"]["replicas"] == 3
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 4}}
    for nonsense, code in (
        (stale, 409),
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": "four"}}, 400),
        ({"spec": [1]}, 400),
        ({"metadata": 5}, 400),
        (5, 400),
    ):
        assert live.http("PUT", f"{path}/scaled/scale", nonsense)[0] == code
        assert live.http("PATCH", f"{path}/scaled/scale", nonsense, media_type=MERGE)[0] == code


def test_a_revision_that_is_still_to_come_is_not_waited_for(live: Live) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    live.http("POST", path, {"metadata": {"name": "early"}})
    current = live.http("GET", path)[1]["metadata"]["resourceVersion"]
    for target in (path, f"{path}/early"):
        assert live.http("GET", f"{target}?resourceVersion={current}")[0] == 200
        code, answer = live.http("GET", f"{target}?resourceVersion=999999")
        assert (code, answer["reason"]) == (504, "Timeout")
        assert answer["message"].startswith("Timeout: Too large resource version: 999999, current: ")
        assert answer["details"] == {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }


def test_a_list_as_of_a_revision_is_that_of_then(live: Live) -> None:
    path = "/api/v1/namespaces/kube-public/configmaps"
    live.http("POST", path, {"metadata": {"name": "a"}})
    then = live.http("GET", path)[1]["metadata"]["resourceVersion"]
    live.http("POST", path, {"metadata": {"name": "b"}})

    def names(query: str) -> list[str]:
        return [item["metadata"]["name"] for item in live.http("GET", f"{path}?{query}")[1]["items"]]

    assert names(f"resourceVersion={then}&resourceVersionMatch=Exact") == ["a"]
    assert names(f"resourceVersion={then}&limit=5") == ["a"]
    assert names(f"resourceVersion={then}&resourceVersionMatch=NotOlderThan&limit=5") == ["a", "b"]
    assert names(f"resourceVersion={then}") == names("") == ["a", "b"]


def test_a_made_up_continue_token_shows_nothing(live: Live) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for after in ("/registry/core/secrets/default/a", "/registry/core/configmaps/default/a"):
        token = base64.urlsafe_b64encode(json.dumps({"rv": 999_999, "start": after}).encode()).decode()
        assert live.http("GET", f"{path}?limit=1&continue={token}")[0] == 400
    assert live.http("GET", f"{path}?limit=1&continue=rubbish")[0] == 400


@pytest.mark.parametrize("name", ["CSINode", "Lease", "PodDisruptionBudget", "RuntimeClass"])
def test_some_kinds_are_replaced_only_by_who_knows_what_they_replace(live: Live, name: str) -> None:
    kind = next(kind for kind in KINDS if kind.kind == name)
    group = f"/apis/{kind.group}/{kind.version}"
    path = f"{group}/namespaces/default/{kind.plural}" if kind.namespaced else f"{group}/{kind.plural}"
    created = live.http("POST", path, manifest(kind, "conditional"))[1]
    version = created["metadata"].pop("resourceVersion")
    code, answer = live.http("PUT", f"{path}/conditional", created)
    assert code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer["message"]
    created["metadata"]["resourceVersion"] = version
    assert live.http("PUT", f"{path}/conditional", created)[0] == 200
