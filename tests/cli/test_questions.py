"""`moorage why` and `moorage capacity`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import moorage
from tests.plane import node, pod


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two small nodes, a pod on one of them, one that waits, and a Deployment."""
    placed = pod("busy", requests={"cpu": "3"})
    placed["spec"]["nodeName"] = "a"
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web", requests={"cpu": "1"})["spec"]}
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }  # fmt: skip
    waiting = pod("waiting", requests={"cpu": "6"})
    file = tmp_path / "cluster.yaml"
    objects = [node("a", cpu="4"), node("b", cpu="4"), placed, waiting, deployment]
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def test_why_answers_for_the_names_that_are_given(cluster: str) -> None:
    ended = moorage("why", "-f", cluster, "deploy/web", "busy")
    assert ended.returncode == 0, ended.stdout
    assert "Deployment shop/web" in ended.stdout
    assert "is on a and may stay" in ended.stdout
    assert "2 pods, each asked about alone, 2 nodes: 2 fit, 0 fit nowhere" in ended.stdout


def test_why_pending_answers_for_pods_that_wait(cluster: str) -> None:
    ended = moorage("why", "-f", cluster, "--pending", "-o", "json")
    assert ended.returncode == 1
    (waiting,) = json.loads(ended.stdout)["pods"]
    assert waiting["pod"] == "Pod default/waiting"
    assert [reason["reason"] for refused in waiting["refused"] for reason in refused["reasons"]] == [
        "asks for 6, 1 of 4 free",
        "asks for 6, 4 of 4 free",
    ]
    assert waiting["smallestChange"]["of"] == "pod"
    nobody = moorage("why", "-f", cluster, "--pending", "-n", "shop")
    assert (nobody.returncode, "no pod waits for a node in namespace shop" in nobody.stderr) == (0, True)


def test_why_wide_shows_the_score_of_every_plugin(cluster: str) -> None:
    ended = moorage("why", "-f", cluster, "deploy/web", "-o", "wide")
    assert "TaintToleration 300, NodeAffinity 0, NodeResourcesFit" in ended.stdout


def test_why_answers_with_the_profiles_of_a_configuration(cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    file.write_text(head + "profiles: [{plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}}]\n")
    assert moorage("why", "-f", cluster, "waiting", "--config", str(file)).returncode == 0
    file.write_text("kind: Nonsense\n")
    ended = moorage("why", "-f", cluster, "waiting", "--config", str(file))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["why", "wating"], "there is no pod wating: did you mean waiting?"),
        (["why", "web"], "there is no pod web: did you mean deployment/web?"),
        (["why", "gizmo/web"], "gizmo is not a kind that has pods"),
        (["why", "deploy/web", "-n", "default"], "there is no deployment web in namespace default"),
        (["capacity", "--like", "deploy/wbe"], "there is no deployment wbe: did you mean web?"),
        (["capacity", "--like", "deploy/web=0"], "--like deploy/web=0: a share is a whole number above 0"),
        (["capacity", "--like", "deploy/web", "--growth", "0"], "0 is not in the range x>=1"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(cluster: str, arguments: list[str], sentence: str) -> None:
    ended = moorage(*arguments, "-f", cluster)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_capacity_says_how_many_more_fit_and_what_runs_out(cluster: str) -> None:
    ended = moorage("capacity", "-f", cluster, "--like", "deploy/web", "--growth", "9")
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == [
        "Deployment shop/web: 5 more fit on 2 of 2 nodes",
        "  b  4",
        "  a  1",
        "what runs out: cpu on 2 of the 2 nodes that took it, for example: asks for 1, 0 of 4 free",
        "growth by 9: 1 more node like a",
    ]
    assert moorage("capacity", "-f", cluster, "--like", "deploy/web", "--growth", "5").returncode == 0


def test_capacity_json_and_yaml_say_the_same(cluster: str) -> None:
    given = ("capacity", "-f", cluster, "--like", "deploy/web=2", "--like", "busy")
    as_json = json.loads(moorage(*given, "-o", "json").stdout)
    assert as_json == yaml.safe_load(moorage(*given, "-o", "yaml").stdout)
    assert as_json["pods"] == [
        {"pod": "Deployment shop/web", "share": 2, "fit": 2}, {"pod": "Pod default/busy", "share": 1, "fit": 1}
    ]  # fmt: skip
    assert [each["subject"] for each in as_json["runsOut"]] == ["cpu"]


def test_capacity_asks_which_pod_when_none_was_written_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(yaml.safe_dump(node("a")))
    ended = moorage("capacity", "-f", str(file))
    assert (ended.returncode, ended.stderr.startswith("moorage: which pod? ")) == (2, True)
