"""`moorage simulate` on the command line: changes in their order, the forms of the answer, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from moorage.tools.simulation import simulate
from tests.cli.commands import EXAMPLES, moorage

CLUSTER = str(EXAMPLES.parent / "docs" / "simulate-cluster.yaml")


def test_exit_code_0_when_nothing_is_lost_and_1_when_something_is() -> None:
    assert moorage("simulate", "-f", CLUSTER, "--scale", "sts/shop=2").returncode == 0
    assert moorage("simulate", "-f", CLUSTER, "--drain", "node-3").returncode == 1


def test_changes_of_several_options_keep_their_order() -> None:
    args = (
        "--taint",
        "node-1",
        "a:NoSchedule",
        "--cordon",
        "node-2",
        "--taint",
        "node-1",
        "a-",
        "--uncordon",
        "node-2",
    )
    ended = moorage("simulate", "-f", CLUSTER, *args, "-o", "json")
    assert json.loads(ended.stdout)["changes"] == [
        "kubectl taint nodes node-1 a:NoSchedule --overwrite",
        "kubectl cordon node-2",
        "kubectl taint nodes node-1 a-",
        "kubectl uncordon node-2",
    ]
    assert ended.returncode == 0


def test_json_and_yaml_say_the_same() -> None:
    args = ("simulate", "-f", CLUSTER, "--drain", "node-1", "--timeline", "-o")
    data = json.loads(moorage(*args, "json").stdout)
    assert yaml.safe_load(moorage(*args, "yaml").stdout) == data
    assert {each["pod"] for each in data["after"]["moved"]} == {"default/cart-0"}
    assert data["timeline"]


def test_wide_names_every_pod(tmp_path: Path) -> None:
    args = ("simulate", "-f", CLUSTER, "--scale", "sts/cart=30", "-o")
    assert "more (all with -o wide)" in moorage(*args, "text").stdout
    assert "more (all with -o wide)" not in moorage(*args, "wide").stdout
    assert not list(tmp_path.iterdir())


def test_a_manifest_is_applied(tmp_path: Path) -> None:
    manifest = tmp_path / "cart.yaml"
    template = {"metadata": {"labels": {"app": "cart"}}, "spec": {"containers": [{"name": "cart", "image": "cart:2"}]}}
    body = {"replicas": 1, "selector": {"matchLabels": {"app": "cart"}}, "template": template}
    new = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": template["spec"]}
    changed = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "cart"}, "spec": body}
    manifest.write_text(yaml.safe_dump_all([changed, new]))
    after = json.loads(moorage("simulate", "-f", CLUSTER, "--apply", str(manifest), "-o", "json").stdout)["after"]
    assert [each["pod"] for each in after["placed"]] == ["default/new"]
    assert [each["pod"] for each in after["moved"]] == ["default/cart-0"]
    assert [each["pod"] for each in after["deleted"]] == ["default/cart-1"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--drain", "nod-1"), "there is no node nod-1: did you mean node-1"),
        (("--scale", "sts/shop"), "--scale sts/shop: write KIND/NAME=N, such as deploy/web=5"),
        (("--add-nodes", "2"), "--add-nodes: say which node they are like with --like NODE"),
        (("--like", "node-1"), "--like: say how many nodes to add with --add-nodes N"),
        (("--apply", "absent.yaml"), "absent.yaml: No such file or directory"),
        (("--config", "absent.yaml"), "absent.yaml: No such file or directory"),
        (("--for", "long"), "'long' is no duration: write 90s, 10m or 1h30m"),
        (("--taint", "node-1"), "requires 2 arguments"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(args: tuple[str, ...], sentence: str) -> None:
    ended = moorage("simulate", "-f", CLUSTER, *args)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_cluster_without_nodes_cannot_be_simulated(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("")
    ended = moorage("simulate", "-f", str(tmp_path))
    assert ended.returncode == 2
    assert "no nodes in" in ended.stderr


def test_an_interrupted_simulation_ends_with_130_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "simulate", interrupted)
    ended = moorage("simulate", "-f", CLUSTER)
    assert (ended.returncode, ended.stderr) == (130, "moorage: interrupted\n")


PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}
"""
SPREAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_two_configurations_are_compared(tmp_path: Path) -> None:
    packed, spread = tmp_path / "packed.yaml", tmp_path / "spread.yaml"
    packed.write_text(PACKED)
    spread.write_text(SPREAD)
    args = ("simulate", "-f", CLUSTER, "--compare", str(packed), str(spread))
    data = json.loads(moorage(*args, "-o", "json").stdout)
    assert data["pods"] == 5
    assert data["differences"]
    assert not any(each["pod"] == "default/report" for each in data["differences"])
    assert json.loads(moorage(*args, "--replace", "-o", "json").stdout)["pods"] == 6
    text = moorage(*args).stdout
    assert f"5 pods placed with {packed} and with {spread}" in text
    same = moorage("simulate", "-f", CLUSTER, "--compare", str(spread), str(spread), "-o", "json")
    assert (json.loads(same.stdout)["differences"], same.returncode) == ([], 0)
    for wrong in (("--replace",), ("--compare", str(packed), "absent.yaml"), (*args[3:], "--drain", "node-1")):
        ended = moorage("simulate", "-f", CLUSTER, *wrong)
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1
