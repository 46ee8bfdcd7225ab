from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api import manifests
from moorage.api.decode import from_manifest
from moorage.api.meaning import meant
from moorage.api.pod import Pod, Toleration
from moorage.api.rules import COVER, DEVICE_TOLERATIONS, TOLERATIONS, parsed
from moorage.api.yamlwriting import write
from moorage.cli import main
from moorage.features import NONE_ON
from moorage.match.tolerations import Tolerations
from moorage.tools.convert import all_to_annotations, to_native
from moorage.validation import admission_errors
from moorage.validation.attached import attached_errors
from tests.live.conftest import ROOT
from tests.match import operands

Data = dict[str, Any]
FOLDERS = sorted(folder for folder in (ROOT / "examples").iterdir() if folder.is_dir())


def objects(*paths: Path) -> list[Data]:
    return [document.data for document in manifests.read(list(map(str, paths)))]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_example_becomes_what_a_stock_api_server_takes_and_comes_back_unchanged(folder: Path) -> None:
    written = objects(folder)
    attached = all_to_annotations(written, "moorage")
    for data in attached:
        typed = from_manifest(data)
        assert typed is not None
        assert admission_errors(typed, NONE_ON) == []
    assert [to_native(data) for data in attached] == written


tolerations = st.lists(operands.tolerations, max_size=4)
requirements = st.builds(
    lambda operator: {"key": "a", "operator": operator, "values": ["1.2.3"]}, st.sampled_from(("In", "SemverGt"))
)
terms = st.lists(
    st.fixed_dictionaries(
        {}, optional={"matchExpressions": st.lists(requirements), "matchCELExpressions": st.lists(st.just("true"))}
    ),
    min_size=1,
    max_size=3,
)
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
affinities = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.builds(lambda found: {"nodeSelectorTerms": found}, terms),
        PREFERRED: terms.map(lambda found: [{"weight": 1, "preference": each} for each in found]),
    },
).filter(bool)
KINDS = {
    ("v1", "Pod"): (),
    ("v1", "PodTemplate"): ("template",),
    ("apps/v1", "Deployment"): ("spec", "template"),
    ("apps/v1", "DaemonSet"): ("spec", "template"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}


def inside(holder: Data, path: tuple[str, ...]) -> Data:
    for step in reversed(path):
        holder = {step: holder}
    return holder


@settings(max_examples=80)
@given(
    st.sampled_from(sorted(KINDS)),
    tolerations,
    st.none() | affinities,
    st.sampled_from(("", "default-scheduler", "moorage", "mine")),
    st.none() | st.just({"team": "a"}),
)
def test_nothing_is_lost_on_the_way_there_and_back(
    kind: tuple[str, str], found: list[Toleration], affinity: Data | None, scheduler: str, annotations: Data | None
) -> None:
    spec: Data = {"containers": [{"name": "app", "image": "app"}]}
    if found:
        spec["tolerations"] = msgspec.to_builtins(found)
    if affinity:
        spec["affinity"] = {"nodeAffinity": affinity}
    if scheduler:
        spec["schedulerName"] = scheduler
    holder: Data = {"spec": spec}
    if annotations:
        holder["metadata"] = {"annotations": annotations}
    given_object = {"apiVersion": kind[0], "kind": kind[1], **inside(holder, KINDS[kind])}
    before = deepcopy(given_object)
    (attached,) = all_to_annotations([given_object], "moorage")
    assert given_object == before, "the manifest that was given stays as it is"
    assert to_native(attached) == before
    text = write([attached])
    assert [document.data for document in read_text(text)] == [attached], "YAML says the same"


def read_text(text: str) -> list[manifests.Document]:
    from io import BytesIO

    return list(manifests.read(["-"], BytesIO(text.encode())))


@settings(max_examples=80)
@given(st.lists(operands.tolerations, max_size=5), st.lists(operands.taints, min_size=1, max_size=3))
def test_a_converted_pod_means_what_it_said(found: list[Toleration], taints: list[Any]) -> None:
    spec = {"containers": [], "tolerations": msgspec.to_builtins(found)}
    (attached,) = all_to_annotations([{"apiVersion": "v1", "kind": "Pod", "spec": spec}], "moorage")
    pod = msgspec.convert(attached, Pod)
    assert meant(pod.spec, pod.metadata.annotations).tolerations == tuple(found)
    native = Tolerations(pod.spec.tolerations, NONE_ON)
    said = Tolerations(found, NONE_ON)
    assert not any(native.verdict(taint).matched and not said.verdict(taint).matched for taint in taints)


@given(st.text(st.sampled_from("0159.eExyn~-+_:#' \"\n\t{}[]*&!|>%@`oftrue"), max_size=8))
def test_a_text_in_yaml_stays_a_text(text: str) -> None:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"it": text}}
    assert [document.data for document in read_text(write([data]))] == [data]


def test_a_daemon_set_gets_a_cover_for_the_controller_that_judges_nodes_natively() -> None:
    template = {"spec": {"tolerations": [{"key": "a/*", "operator": "Exists", "effect": "NoSchedule"}]}}
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": template}}
    (attached,) = all_to_annotations([daemons], "moorage")
    found = attached["spec"]["template"]
    assert found["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert found["metadata"]["annotations"][COVER] == '[{"operator":"Exists"}]'
    assert to_native(attached) == daemons


def test_rules_beside_native_fields_are_combined_on_the_way_back(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("""
apiVersion: v1
kind: Pod
metadata:
  name: app
  annotations:
    moorage.dev/tolerations: '[{key: a, operator: Gt, value: "5"}]'
    moorage.dev/node-affinity: |
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: v, operator: SemverGt, values: ["1.2"]}]}]
spec:
  tolerations: [{key: b, operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [x]}]}]
""")
    answer = CliRunner().invoke(main, ["convert", "--to", "native", str(file)])
    assert answer.exit_code == 0
    (native,) = (document.data for document in read_text(answer.output))
    assert native["metadata"] == {"name": "app"}
    assert [each["key"] for each in native["spec"]["tolerations"]] == ["a", "b"]
    (term,) = native["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [each["key"] for each in term["matchExpressions"]] == ["zone", "v"]


def test_rules_that_cannot_be_read_are_not_converted(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    metadata = {"name": "app", "annotations": {TOLERATIONS: "- {key: a, oprator: Gt}"}}
    file.write_text(write([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}]))
    answer = CliRunner().invoke(main, ["convert", "--to", "native", str(file)])
    assert answer.exit_code == 2
    assert f"{file}:1: annotation moorage.dev/tolerations: unknown field [0].oprator" in answer.output


GT, NATIVE = {"key": "sla", "operator": "Gt", "value": "5"}, {"key": "own", "operator": "Exists"}
ONLY = {"name": "gpu", "exactly": {"tolerations": [GT]}}
SEVERAL = {
    "devices": {
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "a", "tolerations": [NATIVE, GT, NATIVE]}},
            {"name": "nic", "firstAvailable": [{"name": "fast", "tolerations": [GT]}, {"name": "slow"}]},
        ]
    }
}


@pytest.mark.parametrize(
    ("manifest", "rules"),
    [
        ({"kind": "ResourceClaim", "spec": SEVERAL}, {"gpu": [NATIVE, GT], "nic/fast": [GT]}),
        ({"kind": "ResourceClaimTemplate", "spec": {"spec": SEVERAL}}, {"gpu": [NATIVE, GT], "nic/fast": [GT]}),
        ({"kind": "ResourceClaim", "spec": {"devices": {"requests": [ONLY]}}}, [GT]),
    ],
    ids=["several requests", "template", "one request"],
)
def test_claims_keep_the_rules_of_each_request(manifest: Data, rules: Any) -> None:
    written = {"apiVersion": "resource.k8s.io/v1", **manifest}
    (attached,) = all_to_annotations([written], "moorage")
    holder = attached["spec"] if manifest["kind"] == "ResourceClaimTemplate" else attached
    assert parsed(DEVICE_TOLERATIONS, holder["metadata"]["annotations"][DEVICE_TOLERATIONS]) == rules
    typed = from_manifest(attached)
    assert typed is not None
    assert attached_errors(typed) == []
    assert to_native(attached) == written
