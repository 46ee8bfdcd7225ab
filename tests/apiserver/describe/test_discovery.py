"""Clients find out what this server has, and kubectl lists it as it lists Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from moorage.api.kinds import KINDS
from moorage.apiserver.describe import discovery, version
from moorage.apiserver.http.messages import Request, Response
from moorage.componentmetrics import git_version
from tests.apiserver.edge import scenario
from tests.apiserver.kubectl import Shelf, kubectl, needs_kubectl

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = V2.replace("v=v2", "v=v2beta1")
EVERY_VERB = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def answer(path: str, accept: str = "application/json", **headers: str) -> Response:
    response = discovery.answer(Request.of("GET", path, [("Accept", accept), *headers.items()]))
    assert response is not None
    return response


def content(path: str, accept: str = "application/json") -> Any:
    response = answer(path, accept)
    assert response.status == 200
    assert isinstance(response.body, bytes)
    return msgspec.json.decode(response.body)


def resource(path: str, name: str) -> dict[str, Any]:
    (only,) = [entry for entry in content(path)["resources"] if entry["name"] == name]
    return dict(only)


def test_the_core_has_one_version() -> None:
    assert content("/api")["kind"] == "APIVersions"
    assert content("/api")["versions"] == ["v1"]


def test_groups_list_their_versions_newest_first() -> None:
    groups = {group["name"]: [each["version"] for each in group["versions"]] for group in content("/apis")["groups"]}
    assert groups.pop("resource.k8s.io") == ["v1", "v1beta2", "v1beta1", "v1alpha4", "v1alpha3"]
    assert set(groups) == {
        "apps", "batch", "policy", "scheduling.k8s.io", "storage.k8s.io", "coordination.k8s.io", "events.k8s.io",
        "rbac.authorization.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "node.k8s.io",
    }  # fmt: skip
    assert all(versions == ["v1"] for versions in groups.values())


def test_a_group_prefers_its_newest_version() -> None:
    group = content("/apis/resource.k8s.io")
    assert (group["kind"], group["name"]) == ("APIGroup", "resource.k8s.io")
    assert group["preferredVersion"] == {"groupVersion": "resource.k8s.io/v1", "version": "v1"}


def test_a_resource_says_how_it_is_named_and_what_can_be_done() -> None:
    assert resource("/apis/apps/v1", "deployments") == {
        "name": "deployments", "singularName": "deployment", "namespaced": True, "kind": "Deployment",
        "verbs": EVERY_VERB, "shortNames": ["deploy"], "categories": ["all"],
    }  # fmt: skip
    assert resource("/api/v1", "secrets") == {
        "name": "secrets", "singularName": "secret", "namespaced": True, "kind": "Secret", "verbs": EVERY_VERB,
    }  # fmt: skip


def test_namespaces_cannot_be_deleted_all_at_once() -> None:
    assert "deletecollection" not in resource("/api/v1", "namespaces")["verbs"]


@pytest.mark.parametrize(
    ("path", "name", "kind", "verbs"),
    [
        ("/api/v1", "pods/status", (None, None, "Pod"), ["get", "patch", "update"]),
        ("/api/v1", "pods/binding", (None, None, "Binding"), ["create"]),
        ("/api/v1", "pods/eviction", ("policy", "v1", "Eviction"), ["create"]),
        ("/api/v1", "pods/log", (None, None, "Pod"), ["get"]),
        ("/api/v1", "pods/exec", (None, None, "PodExecOptions"), ["create", "get"]),
        ("/api/v1", "namespaces/finalize", (None, None, "Namespace"), ["update"]),
        ("/api/v1", "serviceaccounts/token", ("authentication.k8s.io", "v1", "TokenRequest"), ["create"]),
        ("/apis/apps/v1", "deployments/scale", ("autoscaling", "v1", "Scale"), ["get", "patch", "update"]),
    ],
)
def test_parts_of_objects_have_kinds_of_their_own(
    path: str, name: str, kind: tuple[Any, ...], verbs: list[str]
) -> None:
    found = resource(path, name)
    assert (found.get("group"), found.get("version"), found["kind"]) == kind
    assert found["verbs"] == verbs
    assert found["singularName"] == ""


def test_reviews_can_only_be_created() -> None:
    groups = ("authorization.k8s.io", "authentication.k8s.io")
    found = [each for group in groups for each in content(f"/apis/{group}/v1")["resources"]]
    assert {each["kind"]: each["namespaced"] for each in found} == {
        "LocalSubjectAccessReview": True, "SelfSubjectAccessReview": False, "SelfSubjectRulesReview": False,
        "SubjectAccessReview": False, "SelfSubjectReview": False, "TokenReview": False,
    }  # fmt: skip
    assert all(each["verbs"] == ["create"] for each in found)


def test_every_kind_of_the_table_is_listed_in_every_version_it_is_served_in() -> None:
    for kind in KINDS:
        for served in discovery.served_versions(kind):
            listed = resource(discovery.path_of(kind.group, served), kind.plural)
            assert (listed["kind"], listed["namespaced"]) == (kind.kind, kind.namespaced)


def test_the_versions_that_the_design_documents_use_are_served() -> None:
    for older in ("v1alpha3", "v1alpha4", "v1beta1", "v1beta2"):
        assert discovery.answer(Request.of("GET", f"/apis/resource.k8s.io/{older}")) is not None


@pytest.mark.parametrize("path", ["/apis/apps/v2", "/apis/none", "/api/v2", "/healthz", "/api/v1/pods"])
def test_other_paths_are_none_of_discovery(path: str) -> None:
    assert discovery.answer(Request.of("GET", path)) is None


def test_a_slash_at_the_end_changes_nothing() -> None:
    assert content("/apis/") == content("/apis")


def test_the_root_lists_every_path() -> None:
    paths = content("/")["paths"]
    assert {"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/livez", "/openapi/v3"} <= set(paths)
    assert paths == sorted(paths)


@pytest.mark.parametrize("accept", [V2, V2BETA1, f"{V2},{V2BETA1},application/json"])
def test_aggregated_discovery_is_labelled_with_its_form(accept: str) -> None:
    wanted = accept.split(",", maxsplit=1)[0]
    found = answer("/apis", accept)
    assert dict(found.headers)["Content-Type"] == wanted
    version_ = re.search("v=(v2[a-z0-9]*)", wanted)
    assert version_ is not None
    document = content("/apis", accept)
    assert (document["kind"], document["apiVersion"]) == (
        "APIGroupDiscoveryList",
        f"apidiscovery.k8s.io/{version_.group(1)}",
    )


def aggregated() -> Iterator[tuple[Any, ...]]:
    for group in (group for path in ("/api", "/apis") for group in content(path, V2)["items"]):
        for each in group["versions"]:
            assert each["freshness"] == "Current"
            where = group["metadata"].get("name", ""), each["version"]
            for found in each["resources"]:
                namespaced = found["scope"] == "Namespaced"
                for part in (found, *found.get("subresources", ())):
                    name = f"{found['resource']}/{part['subresource']}" if "subresource" in part else found["resource"]
                    kind = part["responseKind"]
                    yield *where, name, namespaced, kind["kind"], kind["group"], tuple(part["verbs"])


def plain() -> Iterator[tuple[Any, ...]]:
    for group, versions in discovery.group_versions().items():
        for each in versions:
            for found in content(discovery.path_of(group, each))["resources"]:
                kind = found["kind"], found.get("group", "")
                yield group, each, found["name"], found["namespaced"], *kind, tuple(found["verbs"])


def test_aggregated_discovery_says_the_same_as_the_plain_one() -> None:
    assert set(aggregated()) == set(plain())


def test_aggregated_discovery_is_only_at_the_two_roots() -> None:
    assert answer("/api/v1", V2).status == 406
    assert content("/api/v1", f"{V2},application/json")["kind"] == "APIResourceList"


def test_the_core_is_the_group_without_a_name() -> None:
    (core,) = content("/api", V2)["items"]
    assert core["metadata"] == {}
    assert [each["version"] for each in core["versions"]] == ["v1"]


def test_a_client_that_has_the_document_is_told_so() -> None:
    tag = dict(answer("/apis", V2).headers)["ETag"]
    assert tag == f'"{tag[1:-1]}"'
    again = answer("/apis", V2, **{"If-None-Match": f'W/"other", {tag}'})
    assert (again.status, again.body) == (304, b"")
    assert answer("/apis", V2BETA1, **{"If-None-Match": tag}).status == 200


def test_discovery_in_other_media_types_is_not_to_be_had() -> None:
    refused = answer("/apis", "text/html")
    assert refused.status == 406
    assert isinstance(refused.body, bytes)
    told = msgspec.json.decode(refused.body)
    assert told["message"] == "only the following media types are accepted: application/json, application/yaml"


def test_documents_cannot_be_written() -> None:
    found = discovery.answer(Request.of("POST", "/apis"))
    assert found is not None
    assert found.status == 405


def test_the_version_is_one_of_kubernetes_marked_as_ours() -> None:
    told = msgspec.json.decode(version.document())
    assert (told["major"], told["minor"]) == ("1", "36")
    assert re.fullmatch(r"v1\.36\.0\+moorage-\d+\.\d+\.\d+", told["gitVersion"])
    assert re.fullmatch(r"[a-z]+/[a-z0-9_]+", told["platform"])
    assert all(isinstance(value, str) for value in told.values())


@needs_kubectl
@scenario
async def test_kubectl_lists_resources_and_versions() -> None:
    async with kubectl(Shelf()) as run:
        lines = [re.split(r"\s{2,}", line) for line in (await run("api-resources")).splitlines()]
        assert lines[0] == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
        assert ["pods", "po", "v1", "true", "Pod"] in lines
        assert ["poddisruptionbudgets", "pdb", "policy/v1", "true", "PodDisruptionBudget"] in lines
        assert ["resourceslices", "resource.k8s.io/v1", "false", "ResourceSlice"] in lines
        assert len(lines) == 1 + len(discovery.all_kinds())
        versions = (await run("api-versions")).split()
        assert {"v1", "apps/v1", "resource.k8s.io/v1", "resource.k8s.io/v1beta1"} <= set(versions)
        code, told, _ = await run.run("version")
        assert (code, f"Server Version: {git_version()}" in told) == (0, True)


WEB = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "creationTimestamp": "2026-01-02T11:55:00Z"},
    "spec": {"nodeName": "n1", "containers": [{"name": "a"}]},
    "status": {"phase": "Running", "podIP": "10.0.0.1",
               "containerStatuses": [{"name": "a", "ready": True, "restartCount": 0, "state": {"running": {}}}]},
}  # fmt: skip


@needs_kubectl
@scenario
async def test_kubectl_prints_the_table_that_it_is_given() -> None:
    async with kubectl(Shelf([WEB])) as run:
        assert (await run("get", "pods")).splitlines() == [
            "NAME   READY   STATUS    RESTARTS   AGE",
            "web    1/1     Running   0          5m",
        ]
        assert (await run("get", "po", "web", "-o", "wide")).splitlines() == [
            "NAME   READY   STATUS    RESTARTS   AGE   IP         NODE   NOMINATED NODE   READINESS GATES",
            "web    1/1     Running   0          5m    10.0.0.1   n1     <none>           <none>",
        ]
        assert (await run("get", "all")).splitlines()[1].startswith("pod/web ")
