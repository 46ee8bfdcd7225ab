"""The description of the API holds together, and kubectl explains, validates and patches with it."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from moorage.api.kinds import KINDS
from moorage.api.resourceversions import OLDER_VERSIONS, SPELLED_AS_V1
from moorage.apiserver.describe import discovery, glossary, models, openapi
from moorage.apiserver.http.messages import Request, Response
from moorage.registry.schema import field_table
from tests.apiserver.edge import scenario
from tests.apiserver.kubectl import Shelf, kubectl, needs_kubectl

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
GVK = "x-kubernetes-group-version-kind"
CORE = "io.k8s.api.core.v1"
Content = dict[str, Any]


def answer(path: str, accept: str = "application/json", **headers: str) -> Response:
    response = openapi.answer(Request.of("GET", path, [("Accept", accept), *headers.items()]))
    assert response is not None
    return response


def content(path: str) -> Content:
    response = answer(path)
    assert response.status == 200
    assert isinstance(response.body, bytes)
    decoded: Content = msgspec.json.decode(response.body)
    return decoded


def index() -> dict[str, str]:
    return {path: each["serverRelativeURL"] for path, each in content("/openapi/v3")["paths"].items()}


def everything() -> Iterator[Content]:
    return (content(url) for url in index().values())


def schema(path: str, name: str) -> Content:
    found: Content = content(f"/openapi/v3{path}")["components"]["schemas"][name]
    return found


def operations(document: Content) -> Iterator[tuple[str, str, Content]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, method, operation


def test_the_index_has_every_group_and_version() -> None:
    served = discovery.group_versions()
    assert set(index()) == {
        discovery.path_of(group, version)[1:] for group, versions in served.items() for version in versions
    }


def test_every_schema_that_is_mentioned_is_there() -> None:
    for document in everything():
        assert set(models.mentioned(document)) <= set(document["components"]["schemas"])
    described = content("/openapi/v2")
    mentioned = set(re.findall(rb'"\$ref":"#/definitions/([^"]+)"', msgspec.json.encode(described)))
    assert {name.decode() for name in mentioned} <= set(described["definitions"])


def test_every_kind_is_described_once_in_each_version() -> None:
    for group, versions in discovery.group_versions().items():
        for version, kinds in versions.items():
            path = discovery.path_of(group, version)
            schemas = content(f"/openapi/v3{path}")["components"]["schemas"].values()
            for kind in kinds:
                wanted = {"group": group, "version": version, "kind": kind.kind}
                (found,) = [each for each in schemas if wanted in each.get(GVK, ())]
                assert found["type"] == "object"
                assert found["description"]
                assert {"apiVersion", "kind", "metadata"} <= set(found["properties"])


def test_operations_have_names_of_their_own() -> None:
    names = [each["operationId"] for document in everything() for _, _, each in operations(document)]
    assert len(names) == len(set(names))


def test_placeholders_of_paths_are_described() -> None:
    for document in everything():
        for path, item in document["paths"].items():
            placeholders = {each["name"] for each in item.get("parameters", ())}
            assert placeholders == set(re.findall(r"{(\w+)}", path))


def test_what_kubectl_looks_for_before_it_leaves_validation_to_the_server() -> None:
    for kind in KINDS:
        for version in discovery.served_versions(kind):
            document = content(f"/openapi/v3{discovery.path_of(kind.group, version)}")
            gvk = {"group": kind.group, "version": version, "kind": kind.kind}
            patches = [each for _, method, each in operations(document) if method == "patch" and each[GVK] == gvk]
            assert patches
            for each in patches:
                names = {parameter["name"] for parameter in each["parameters"] if parameter["in"] == "query"}
                assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= names


def test_strategic_merge_patches_are_offered_in_every_version() -> None:
    form = "application/strategic-merge-patch+json"
    item = "/namespaces/{namespace}/resourceclaims/{name}"
    for version in ("v1", "v1beta2", "v1beta1"):
        base = f"/apis/resource.k8s.io/{version}"
        patch = content(f"/openapi/v3{base}")["paths"][base + item]["patch"]
        assert form in patch["requestBody"]["content"]


def test_what_is_empty_is_left_out_because_clients_that_write_it_again_do_so() -> None:
    for path in ("/api/v1", "/apis/apps/v1", "/apis/authorization.k8s.io/v1"):
        assert '"parameters":[]' not in msgspec.json.encode(content(f"/openapi/v3{path}")["paths"]).decode()


def test_what_no_node_here_can_answer_is_not_described() -> None:
    paths = content("/openapi/v3/api/v1")["paths"]
    parts = {path.rpartition("/")[2] for path in paths if "/pods/{name}/" in path}
    assert parts == {"binding", "ephemeralcontainers", "eviction", "resize", "status"}
    eviction = paths["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]
    assert eviction[GVK] == {"group": "policy", "version": "v1", "kind": "Eviction"}


def test_fields_have_the_types_of_kubernetes() -> None:
    properties = schema("/api/v1", f"{CORE}.Container")["properties"]
    assert properties["image"]["type"] == "string"
    assert properties["env"]["items"] == {"$ref": f"#/components/schemas/{CORE}.EnvVar"}
    resources = schema("/api/v1", f"{CORE}.ResourceRequirements")["properties"]
    assert resources["limits"]["additionalProperties"]["$ref"].endswith(".resource.Quantity")
    assert schema("/api/v1", f"{CORE}.Secret")["properties"]["data"]["additionalProperties"]["format"] == "byte"
    ports = schema("/api/v1", f"{CORE}.ContainerPort")["properties"]
    assert ports["containerPort"]["format"] == "int32"


LIST, KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
STRATEGY, KEY, MAP = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-map-type"


@pytest.mark.parametrize(
    ("path", "name", "field", "extensions"),
    [
        ("/api/v1", f"{CORE}.PodSpec", "containers", {LIST: "map", KEYS: ["name"], STRATEGY: "merge", KEY: "name"}),
        ("/api/v1", f"{CORE}.PodSpec", "volumes",
         {LIST: "map", KEYS: ["name"], STRATEGY: "merge,retainKeys", KEY: "name"}),
        ("/api/v1", f"{CORE}.PodSpec", "tolerations", {LIST: "atomic"}),
        ("/api/v1", f"{CORE}.PodSpec", "nodeSelector", {MAP: "atomic"}),
        ("/api/v1", f"{CORE}.Container", "ports",
         {LIST: "map", KEYS: ["containerPort", "protocol"], STRATEGY: "merge", KEY: "containerPort"}),
        ("/api/v1", f"{CORE}.Container", "args", {LIST: "atomic"}),
        ("/api/v1", f"{CORE}.NodeStatus", "addresses", {LIST: "map", KEYS: ["type"], STRATEGY: "merge", KEY: "type"}),
        ("/api/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", {LIST: "set", STRATEGY: "merge"}),
        ("/apis/apps/v1", "io.k8s.api.apps.v1.DeploymentSpec", "strategy", {STRATEGY: "retainKeys"}),
        ("/apis/apps/v1", f"{CORE}.PodSpec", "containers",
         {LIST: "map", KEYS: ["name"], STRATEGY: "merge", KEY: "name"}),
        ("/apis/policy/v1", "io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "selector",
         {MAP: "atomic", STRATEGY: "replace"}),
    ],
)  # fmt: skip
def test_fields_say_how_they_merge(path: str, name: str, field: str, extensions: Content) -> None:
    found = schema(path, name)["properties"][field]
    assert {key: value for key, value in found.items() if key.startswith("x-kubernetes")} == extensions


def fields_by_type() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for code, fields in {**field_table()["types"], **models.ANSWERS}.items():
        found.setdefault(code.rpartition(".")[2], set()).update(fields)
    return found


def test_the_glossary_speaks_only_of_what_exists() -> None:
    known = fields_by_type()
    assert set(glossary.TYPES) <= set(known)
    for owner, texts in glossary.FIELDS.items():
        assert set(texts) <= known[owner], owner


def test_kinds_say_themselves_what_they_are() -> None:
    assert not {kind.kind for kind in KINDS} & set(glossary.TYPES)
    assert schema("/api/v1", f"{CORE}.Service")["description"] == "A name and an address for pods that come and go."
    assert schema("/api/v1", f"{CORE}.Secret")["description"] == "Data that not everybody may see."


def test_required_fields_are_those_of_kubernetes() -> None:
    assert schema("/api/v1", f"{CORE}.Container")["required"] == ["name"]
    assert schema("/api/v1", f"{CORE}.Taint")["required"] == ["effect", "key"]
    assert "required" not in schema("/api/v1", f"{CORE}.Toleration")


def test_texts_are_sentences() -> None:
    texts = [*glossary.TYPES.values(), *(text for each in glossary.FIELDS.values() for text in each.values())]
    assert [text for text in texts if not text.endswith(".") or text[0].islower()] == []


def test_what_a_type_says_is_not_what_its_field_has_said_already() -> None:
    for document in everything():
        schemas = document["components"]["schemas"]
        for name, each in schemas.items():
            for field, told in each.get("properties", {}).items():
                for inner in models.mentioned(told):
                    assert schemas[inner].get("description") != told.get("description"), f"{name}.{field}"


def test_our_own_fields_are_explained_with_their_gates() -> None:
    toleration = schema("/api/v1", f"{CORE}.Toleration")["properties"]
    assert "TaintTolerationNodeAffinityCEL" in toleration["expression"]["description"]
    assert "WildcardTolerationKeys" in toleration["key"]["description"]
    assert "TaintTolerationComparisonOperators" in toleration["operator"]["description"]
    assert "TolerationAffinitySemverOperators" in toleration["operator"]["description"]
    term = schema("/api/v1", f"{CORE}.NodeSelectorTerm")["properties"]
    assert "TaintTolerationNodeAffinityCEL" in term["matchCELExpressions"]["description"]
    device = schema("/apis/resource.k8s.io/v1", "io.k8s.api.resource.v1.DeviceToleration")["properties"]
    assert device["expression"] == toleration["expression"]


def test_types_say_what_their_structs_say() -> None:
    assert schema("/api/v1", f"{CORE}.Taint")["description"].startswith("A mark on a node or a device that repels")


def test_the_older_description_covers_the_same() -> None:
    described = content("/openapi/v2")
    assert described["swagger"] == "2.0"
    assert set(described["paths"]) == {path for document in everything() for path in document["paths"]}
    pods = described["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"]
    assert pods["parameters"][0]["in"] == "body"
    assert pods["parameters"][0]["schema"] == {"$ref": f"#/definitions/{CORE}.Pod"}
    assert described["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"
    assert b"oneOf" not in msgspec.json.encode(described)
    assert b"allOf" not in msgspec.json.encode(described)


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that have a length, by their numbers."""
    rest = io.BytesIO(data)

    def varint() -> int:
        value, shift = 0, 0
        while True:
            (byte,) = rest.read(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while rest.tell() < len(data):
        tag = varint()
        if tag & 7 == 2:
            yield tag >> 3, rest.read(varint())
        else:
            varint()


def members(data: bytes, number: int) -> dict[str, bytes]:
    """A map: entries of one number, each with a name and a value."""
    entries = [dict(fields(entry)) for found, entry in fields(data) if found == number]
    return {entry[1].decode(): entry[2] for entry in entries}


@pytest.mark.parametrize("wanted", [PROTOBUF, PROTOBUF.replace("@", "."), f"{PROTOBUF},application/json;q=0.5"])
def test_the_older_description_is_to_be_had_in_protobuf(wanted: str) -> None:
    found = answer("/openapi/v2", wanted)
    assert (found.status, dict(found.headers)["Content-Type"]) == (200, PROTOBUF.replace("@", "."))
    assert isinstance(found.body, bytes)
    told, described = dict(fields(found.body)), content("/openapi/v2")
    assert (told[1], dict(fields(told[2]))[1]) == (b"2.0", b"Moorage")
    assert members(told[8], 2).keys() == described["paths"].keys()
    definitions = members(told[9], 1)
    assert definitions.keys() == described["definitions"].keys()
    pod = dict(fields(definitions[f"{CORE}.Pod"]))
    assert pod[4].decode() == described["definitions"][f"{CORE}.Pod"]["description"]
    assert members(pod[25], 1).keys() == described["definitions"][f"{CORE}.Pod"]["properties"].keys()
    extension = dict(fields(members(definitions[f"{CORE}.Pod"], 31)["x-kubernetes-group-version-kind"]))
    assert msgspec.json.decode(extension[2]) == [{"group": "", "version": "v1", "kind": "Pod"}]


def test_json_is_given_to_all_others_and_nothing_to_who_wants_something_else() -> None:
    for wanted in ("", "*/*", "application/json", f"application/json,{PROTOBUF}"):
        assert dict(answer("/openapi/v2", wanted).headers)["Content-Type"] == "application/json"
    assert answer("/openapi/v2", "text/html").status == 406
    assert answer("/openapi/v3/api/v1", PROTOBUF.replace("v2", "v3")).status == 406


def test_a_document_that_is_named_by_its_state_is_kept_for_ever() -> None:
    url = index()["apis/apps/v1"]
    found = dict(answer(url).headers)
    assert found["ETag"] == f'"{url.partition("hash=")[2]}"'
    assert "immutable" in found["Cache-Control"]
    assert "Cache-Control" not in dict(answer("/openapi/v3/apis/apps/v1").headers)


def test_a_client_that_asks_for_an_old_state_is_sent_to_the_present_one() -> None:
    found = answer("/openapi/v3/apis/apps/v1?hash=OLD")
    assert (found.status, dict(found.headers)["Location"]) == (301, index()["apis/apps/v1"])


def test_a_client_that_has_the_index_is_told_so() -> None:
    tag = dict(answer("/openapi/v3").headers)["ETag"]
    assert answer("/openapi/v3", **{"If-None-Match": tag}).status == 304


def test_every_server_gives_the_same_state_the_same_name() -> None:
    script = "from moorage.apiserver.describe.openapi import description; print(description().index, description().v2)"
    command = [sys.executable, "-c", script]
    first, second = (subprocess.check_output(command, env={"PYTHONHASHSEED": seed}) for seed in "12")
    assert first == second


@pytest.mark.parametrize("path", ["/openapi", "/openapi/v4", "/openapi/v3/apis/none/v1", "/openapi/v3/apis/apps", "/"])
def test_other_paths_are_no_descriptions(path: str) -> None:
    assert openapi.answer(Request.of("GET", path)) is None


@needs_kubectl
@scenario
async def test_kubectl_explains_our_fields() -> None:
    async with kubectl(Shelf()) as run:
        told = " ".join((await run("explain", "pod.spec.tolerations")).split())
        assert "FIELD: tolerations <[]Toleration>" in told
        assert "expression <string> With the feature gate TaintTolerationNodeAffinityCEL: a CEL expression" in told
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        terms = f"deployment.spec.template.spec.affinity.nodeAffinity.{required}.nodeSelectorTerms"
        assert "matchCELExpressions\t<[]string>" in await run("explain", terms)
        assert "name\t<string> -required-" in await run("explain", "pods.spec.containers")


@needs_kubectl
@scenario
@pytest.mark.parametrize("version", OLDER_VERSIONS)
async def test_kubectl_explains_devices_in_every_version_as_it_spells_them(version: str) -> None:
    async with kubectl(Shelf()) as run:
        of = f"--api-version=resource.k8s.io/{version}"
        assert f"VERSION:    {version}" in await run("explain", "resourceclaims", of)
        basic, exactly = ("", ".exactly") if version in SPELLED_AS_V1 else (".basic", "")
        assert "effect\t<string> -required-" in await run("explain", f"resourceslices.spec.devices{basic}.taints", of)
        assert "tolerationSeconds" in await run(
            "explain", f"resourceclaims.spec.devices.requests{exactly}.tolerations", of
        )
        assert "deviceSelector" in await run("explain", "devicetaintrules.spec", of)


POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  containers: [{name: a, image: "a:1", env: [{name: X, value: "1"}]}, {name: b, image: "b:1"}]
  tolerations: [{expression: "taint.key == 'sla'"}]
"""


@needs_kubectl
@scenario
async def test_kubectl_leaves_validation_to_the_server() -> None:
    shelf = Shelf()
    async with kubectl(shelf) as run:
        assert await run("create", "--dry-run=server", "-f", "-", text=POD) == "pod/web created (server dry run)\n"
        assert await run("apply", "--validate=true", "-f", "-", text=POD) == "pod/web created\n"
        assert await run("apply", "--validate=warn", "-f", "-", text=POD) == "pod/web unchanged\n"
    assert [dict(each.query)["fieldValidation"] for each in shelf.asked("POST", "/pods")] == [["Strict"], ["Strict"]]
    assert shelf.asked("GET", "/openapi/v2") == []


@needs_kubectl
@scenario
async def test_kubectl_makes_strategic_patches_from_our_schemas() -> None:
    shelf = Shelf()
    async with kubectl(shelf) as run:
        await run("apply", "-f", "-", text=POD)
        changed = POD.replace('value: "1"', 'value: "2"').replace("app: web", "tier: front")
        assert await run("apply", "-f", "-", text=changed) == "pod/web configured\n"
    (patch,) = shelf.asked("PATCH", "/pods/web")
    assert patch.headers.get("Content-Type") == "application/strategic-merge-patch+json"
    told = msgspec.json.decode(patch.body)
    assert told["metadata"]["labels"] == {"app": None, "tier": "front"}
    assert told["spec"] == {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
        "containers": [{"name": "a", "$setElementOrder/env": [{"name": "X"}], "env": [{"name": "X", "value": "2"}]}],
    }
