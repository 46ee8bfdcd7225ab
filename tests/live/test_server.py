"""The server itself: how it starts and stops, what survives, who may do what."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.live.conftest import Live, eventually
from tests.plane import PATIENCE

PODS = "/api/v1/namespaces/default/pods"
Data = dict[str, Any]


def pod(name: str, *tolerations: Data, **metadata: Any) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "app", "image": "myapp:latest"}], "tolerations": [*tolerations]},
    }


SLA = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}


def refusal(*args: str) -> str:
    """The error of a command that cannot run."""
    run = subprocess.run(
        [sys.executable, "-m", "moorage", "up", *args], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    assert not run.stdout
    return run.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_on_a_signal(tmp_path: Path, number: int) -> None:
    server = Live(tmp_path / "data")
    server.start()
    assert server.stop(number) == 0


def test_secrets_are_readable_by_the_owner_alone(live: Live) -> None:
    for name in ("kubeconfig", "tokens.csv", "ca.key", "apiserver.key"):
        assert stat.S_IMODE((live.directory / name).stat().st_mode) == 0o600


def test_a_second_instance_on_the_same_directory_is_refused(live: Live) -> None:
    assert "another process" in refusal("--data-dir", str(live.directory), "--port", "0")


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal("--data-dir", str(tmp_path), "--port", str(port))
    remedy = "stop what listens there, or choose another port"
    assert message.strip() == f"moorage: 127.0.0.1:{port}: Address already in use: {remedy}"


def test_a_directory_that_is_a_file_or_a_store_that_is_none_is_said(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in refusal("--data-dir", str(file), "--port", "0")
    assert "is not a store" in refusal("--data-dir", str(tmp_path / "d"), "--port", "0", "--store", "mysql://x")


def test_a_directory_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("theirs")
    assert f"{tmp_path}: holds other files (notes.txt)" in refusal("--data-dir", str(tmp_path), "--port", "0")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_strangers_learn_only_that_the_server_is_well(live: Live) -> None:
    assert live.http("GET", "/livez", token="") == (200, "ok")
    assert live.http("GET", "/version", token="")[0] == 200
    code, answer = live.http("GET", PODS, token="")
    assert code in (401, 403)
    assert "p1" not in json.dumps(answer)
    assert live.http("GET", PODS, token="wrong")[0] == 401


def test_a_service_account_may_do_what_its_roles_allow(live: Live) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert live.http("POST", accounts, {"metadata": {"name": "reader"}})[0] == 201
    token = live.http("POST", f"{accounts}/reader/token", {"spec": {}})[1]["status"]["token"]
    code, answer = live.http("GET", PODS, token=token)
    assert code == 403
    assert answer["message"] == (
        'pods is forbidden: User "system:serviceaccount:default:reader" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    )
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
    assert live.http("POST", f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})[0] == 201
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    }
    assert live.http("POST", f"{rbac}/rolebindings", binding)[0] == 201
    eventually(lambda: live.http("GET", PODS, token=token)[0] == 200)
    assert live.http("POST", PODS, pod("mine"), token=token)[0] == 403


def watch(live: Live, query: str, count: int) -> list[Data]:
    context = ssl.create_default_context(cafile=str(live.directory / "ca.crt"))
    headers = {"Authorization": f"Bearer {live.token}"}
    with urlopen(
        Request(f"{live.url}{PODS}?watch=1&{query}", headers=headers), context=context, timeout=PATIENCE
    ) as stream:
        return [json.loads(stream.readline()) for _ in range(count)]


def test_a_watch_goes_on_from_a_revision_and_misses_nothing(live: Live) -> None:
    start = live.http("GET", PODS)[1]["metadata"]["resourceVersion"]
    live.http("POST", PODS, pod("watched", labels={"watch": "me"}))
    live.http(
        "PATCH", f"{PODS}/watched", {"metadata": {"labels": {"watch": None}}}, media_type="application/merge-patch+json"
    )
    live.http("DELETE", f"{PODS}/watched")
    plain = watch(live, f"resourceVersion={start}", 3)
    assert [event["type"] for event in plain] == ["ADDED", "MODIFIED", "DELETED"]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in plain]
    assert revisions == sorted(set(revisions))
    selected = watch(live, f"resourceVersion={start}&labelSelector=watch%3Dme", 2)
    assert [event["type"] for event in selected] == ["ADDED", "DELETED"]


def test_a_watch_can_begin_with_what_is_there(live: Live) -> None:
    live.http("POST", PODS, pod("there", labels={"there": "yes"}))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=there"
    added, bookmark = watch(live, query, 2)
    assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "there")
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_list_in_pages_is_of_one_moment(live: Live) -> None:
    for index in range(5):
        live.http("POST", PODS, pod(f"page-{index}", labels={"page": "yes"}))
    code, first = live.http("GET", f"{PODS}?limit=2&labelSelector=page")
    assert (code, len(first["items"])) == (200, 2)
    live.http("DELETE", f"{PODS}/page-4")
    token = first["metadata"]["continue"]
    rest = live.http("GET", f"{PODS}?limit=10&labelSelector=page&continue={token}")[1]
    assert [item["metadata"]["name"] for item in rest["items"]] == ["page-2", "page-3", "page-4"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_pod_is_bound_once(live: Live) -> None:
    live.http("POST", PODS, pod("bound"))
    target = {"target": {"kind": "Node", "name": "n1"}}
    assert live.http("POST", f"{PODS}/bound/binding", target)[0] == 201
    bound = live.http("GET", f"{PODS}/bound")[1]
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    code, answer = live.http("POST", f"{PODS}/bound/binding", target)
    assert (code, answer["message"]) == (
        409,
        'Operation cannot be fulfilled on pods/binding "bound": pod bound is already assigned to node "n1"',
    )


def test_a_pod_that_runs_gets_time_to_end(live: Live) -> None:
    live.http("POST", PODS, pod("graceful"))
    live.http("POST", f"{PODS}/graceful/binding", {"target": {"name": "n1"}})
    deleted = live.http("DELETE", f"{PODS}/graceful")[1]
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
    assert live.http("GET", f"{PODS}/graceful")[0] == 200
    assert live.http("DELETE", f"{PODS}/graceful?gracePeriodSeconds=0")[0] == 200
    assert live.http("GET", f"{PODS}/graceful")[0] == 404


def test_an_eviction_respects_the_disruption_budget(live: Live) -> None:
    live.http("POST", PODS, pod("kept", labels={"app": "kept"}))
    live.http("POST", f"{PODS}/kept/binding", {"target": {"name": "n1"}})
    running = {"status": {"phase": "Running"}}
    live.http("PATCH", f"{PODS}/kept/status", running, media_type="application/merge-patch+json")
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    budget = {"metadata": {"name": "kept"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}}
    assert live.http("POST", budgets, budget)[0] == 201
    code, answer = live.http("POST", f"{PODS}/kept/eviction", {"metadata": {"name": "kept"}})
    assert (code, answer["message"]) == (429, "Cannot evict pod as it would violate the pod's disruption budget.")
    allowed = {"status": {"disruptionsAllowed": 1, "observedGeneration": 1}}
    live.http("PATCH", f"{budgets}/kept/status", allowed, media_type="application/merge-patch+json")
    assert live.http("POST", f"{PODS}/kept/eviction", {"metadata": {"name": "kept"}})[0] == 201
    assert live.http("GET", f"{budgets}/kept")[1]["status"]["disruptionsAllowed"] == 0


def test_a_taint_that_pods_compare_and_that_is_no_number_is_warned_of(live: Live) -> None:
    live.http("POST", PODS, pod("comparing", SLA))
    taint = {"key": "sla", "value": "high", "effect": "NoSchedule"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "odd"}, "spec": {"taints": [taint]}}
    run = live.kubectl("create", "-f", "-", stdin=json.dumps(node))
    assert 'Warning: spec.taints[0].value: "high" is not a decimal integer, and pods compare sla with Gt' in run.stderr


def test_metrics_count_requests(live: Live) -> None:
    live.http("GET", PODS)
    text = live.http("GET", "/metrics")[1]
    assert 'apiserver_request_total{code="200"' in text
    assert 'moorage_cel_cache_total{cache="toleration",result="hits"}' in text


def test_logs_and_shells_are_said_not_to_exist(live: Live) -> None:
    live.http("POST", PODS, pod("silent"))
    assert live.http("GET", f"{PODS}/silent/log")[0] == 501


def test_kubectl_edits_labels_taints_and_waits(live: Live) -> None:
    live.http("POST", PODS, pod("edited"))
    live.kubectl("edit", "pod", "edited", KUBE_EDITOR="sed -i s/myapp:latest/myapp:edited/")
    assert live.http("GET", f"{PODS}/edited")[1]["spec"]["containers"][0]["image"] == "myapp:edited"
    live.kubectl("label", "pod", "edited", "colour=blue")
    live.kubectl("annotate", "pod", "edited", "note=kept")
    live.kubectl("wait", "pod/edited", "--for=jsonpath={.metadata.labels.colour}=blue", f"--timeout={PATIENCE:.0f}s")
    assert "Annotations:      note: kept" in live.kubectl("describe", "pod", "edited").stdout
    live.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "e1"}})
    )
    live.kubectl("taint", "node", "e1", "sla=900:NoSchedule")
    taints = live.http("GET", "/api/v1/nodes/e1")[1]["spec"]["taints"]
    assert {"key": "sla", "value": "900", "effect": "NoSchedule"} in taints
    live.kubectl("delete", "pod", "edited")
    live.kubectl("wait", "pod/edited", "--for=delete", f"--timeout={PATIENCE:.0f}s")


STORIES = sorted(path for path in (Path(__file__).parents[2] / "examples").iterdir())


@pytest.mark.parametrize("story", STORIES, ids=[path.name for path in STORIES])
def test_every_story_is_admitted(live: Live, story: Path) -> None:
    live.kubectl("create", "--dry-run=server", "-f", str(story))
