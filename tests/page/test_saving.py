"""Rules that are saved from the page: to where they last, with what would change shown first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.conftest import Live, eventually
from tests.page.test_guard import ask, exchanged

EXISTS = "tolerations:\n- key: maintenance\n  operator: Exists\n"
VERSION = "tolerations:\n- key: example.com/version\n  operator: SemverGt\n  value: 1.2.0\n  effect: NoSchedule\n"
TEMPLATE: Any = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR = {"matchLabels": {"app": "x"}}


@pytest.fixture(scope="module")
def secret(live: Live) -> str:
    return exchanged(live)


def asked(live: Live, secret: str, method: str, path: str, **body: str) -> Any:
    answer = ask(live, method, f"/ui/v1/{path}", json.dumps(body).encode() if body else b"", x_moorage_page=secret)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def saved(live: Live, secret: str, rules: str, **subject: str) -> Any:
    """Look at what would change, agree, and save."""
    plan = asked(live, secret, "POST", "save", rules=rules, **subject)
    assert "problem" not in plan, plan
    made = asked(live, secret, "POST", "save", rules=rules, digest=plan["digest"], **subject)
    assert made.get("saved"), made
    return made


def created(live: Live, kind: str, path: str, spec: Any, name: str = "x") -> None:
    version = path.removeprefix("/apis/").removeprefix("/api/").partition("/namespaces")[0]
    data = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    code, answer = live.http("POST", f"{path}?fieldManager=author", data)
    assert code == 201, answer


def read(live: Live, path: str) -> Any:
    code, answer = live.http("GET", path)
    assert code == 200, answer
    return answer


def is_known(live: Live, secret: str, pod: str) -> bool:
    """Whether the page has seen a pod."""
    return "target" in asked(live, secret, "GET", f"rules?pod={pod}")


def a_pod_of(live: Live, secret: str, owner: str) -> str:
    def look() -> str:
        for pod in read(live, "/api/v1/namespaces/default/pods")["items"]:
            if any(each["name"].startswith(owner) for each in pod["metadata"].get("ownerReferences", ())):
                name = f"default/{pod['metadata']['name']}"
                return name if is_known(live, secret, name) else ""
        return ""

    found: str = eventually(look)
    return found


APPS, BATCH = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
CRON = {"restartPolicy": "Never", **TEMPLATE["spec"]}
WORKLOADS = [
    ("Deployment", f"{APPS}/deployments", {"selector": SELECTOR, "template": TEMPLATE}, "replaced one after the other"),
    ("StatefulSet", f"{APPS}/statefulsets",
     {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "x", "updateStrategy": {"type": "OnDelete"}},
     "when they are deleted"),
    ("DaemonSet", f"{APPS}/daemonsets", {"selector": SELECTOR, "template": TEMPLATE}, "replaced one after the other"),
    ("ReplicaSet", f"{APPS}/replicasets", {"selector": SELECTOR, "template": TEMPLATE}, "only new pods"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "spec", "consequence"), WORKLOADS, ids=[each[0] for each in WORKLOADS])
def test_rules_of_a_pod_with_an_owner_go_to_its_template(
    live: Live, secret: str, kind: str, path: str, spec: Any, consequence: str
) -> None:
    created(live, kind, path, spec)
    pod = a_pod_of(live, secret, "x")
    told = asked(live, secret, "GET", f"rules?pod={pod}")
    assert told["target"] == f"{kind} default/x"
    assert consequence in told["consequence"]
    assert told["text"] == "", "what admission and controllers add to a pod is not in its template"
    made = saved(live, secret, EXISTS, pod=pod)
    assert made["target"] == f"{kind} default/x"
    assert [line for line in made["diff"] if line[0] in "+-"] == [
        "+      tolerations:", "+      - key: maintenance", "+        operator: Exists"
    ]  # fmt: skip
    stored = read(live, f"{path}/x")
    assert stored["spec"]["template"]["spec"]["tolerations"] == [{"key": "maintenance", "operator": "Exists"}]
    managers = {(each["manager"], each["operation"]) for each in stored["metadata"]["managedFields"]}
    assert ("moorage-page", "Apply") in managers
    live.http("DELETE", f"{path}/x")
    eventually(lambda: live.http("GET", "/api/v1/namespaces/default/pods")[1]["items"] == [])


def test_rules_of_a_job_go_to_its_cron_job(live: Live, secret: str) -> None:
    template = {"metadata": TEMPLATE["metadata"], "spec": CRON}
    created(
        live, "CronJob", f"{BATCH}/cronjobs", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}
    )
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "x", "controller": True}
    owner["uid"] = read(live, f"{BATCH}/cronjobs/x")["metadata"]["uid"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}
    assert (
        live.http("POST", f"{BATCH}/jobs", {**job, "metadata": {"name": "x-1", "ownerReferences": [owner]}})[0] == 201
    )
    made = saved(live, secret, EXISTS, pod=a_pod_of(live, secret, "x-1"))
    assert made["target"] == "CronJob default/x"
    stored = read(live, f"{BATCH}/cronjobs/x")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert stored["tolerations"] == [{"key": "maintenance", "operator": "Exists"}]
    live.http("DELETE", f"{BATCH}/cronjobs/x?propagationPolicy=Background")


def test_a_pod_without_an_owner_only_gets_tolerations_and_that_is_said_before(live: Live, secret: str) -> None:
    created(
        live, "Pod", "/api/v1/namespaces/default/pods", {"nodeSelector": {"disk": "nvme"}, **TEMPLATE["spec"]}, "bare"
    )
    pod = "default/bare"
    eventually(lambda: is_known(live, secret, pod))
    told = asked(live, secret, "GET", f"rules?pod={pod}")
    assert told["target"] == "Pod default/bare"
    assert "tolerations can only be added, nodeSelector and affinity are immutable" in told["consequence"]
    less = told["text"].replace("disk: nvme", "disk: hdd")
    assert asked(live, secret, "POST", "try", pod=pod, rules=less)["immutable"] == [
        "spec.nodeSelector: Forbidden: pod updates may not change this field"
    ]
    assert "may not change" in asked(live, secret, "POST", "save", pod=pod, rules=less)["problem"]
    more = told["text"].replace("tolerations:\n", EXISTS)
    assert asked(live, secret, "POST", "try", pod=pod, rules=more)["immutable"] == []
    saved(live, secret, more, pod=pod)
    stored = read(live, "/api/v1/namespaces/default/pods/bare")["spec"]["tolerations"]
    assert {"key": "maintenance", "operator": "Exists"} in stored
    live.kubectl("delete", "pod", "bare", "--now")


def test_a_change_since_one_looked_is_shown_before_anything_is_saved(live: Live, secret: str) -> None:
    path = f"{APPS}/deployments"
    created(live, "Deployment", path, {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE})
    seen = asked(live, secret, "POST", "save", template="default/Deployment/x", rules=EXISTS)
    assert "tolerations" not in read(live, f"{path}/x")["spec"]["template"]["spec"], "a look changes nothing"
    mine = [{"key": "other", "operator": "Exists"}]
    patch = {"spec": {"template": {"spec": {"tolerations": mine}}}}
    live.http("PATCH", f"{path}/x?fieldManager=rival", patch, media_type="application/merge-patch+json")
    again = asked(live, secret, "POST", "save", template="default/Deployment/x", rules=EXISTS, digest=seen["digest"])
    assert not again["saved"]
    assert again["conflicts"] == [{"manager": "rival", "field": ".spec.template.spec.tolerations"}]
    assert read(live, f"{path}/x")["spec"]["template"]["spec"]["tolerations"] == mine
    done = asked(live, secret, "POST", "save", template="default/Deployment/x", rules=EXISTS, digest=again["digest"])
    assert done["saved"]
    spec = read(live, f"{path}/x")["spec"]["template"]["spec"]
    assert spec["tolerations"] == [{"key": "maintenance", "operator": "Exists"}]
    # What was saved here is taken away here too, without asking anybody.
    gone = saved(live, secret, "", template="default/Deployment/x")
    assert gone["conflicts"] == []
    assert "-      tolerations:" in gone["diff"]
    assert "tolerations" not in read(live, f"{path}/x")["spec"]["template"]["spec"]
    live.http("DELETE", f"{path}/x")


def test_what_is_in_containers_stays_on_the_server(live: Live, secret: str) -> None:
    path = f"{APPS}/deployments"
    container = {"name": "c", "image": "i", "env": [{"name": "TOKEN", "value": "canary"}], "args": ["canary"]}
    template = {"metadata": TEMPLATE["metadata"], "spec": {"containers": [container], "nodeSelector": {"a": "b"}}}
    created(live, "Deployment", path, {"replicas": 1, "selector": SELECTOR, "template": template})
    pod = a_pod_of(live, secret, "x")
    for told in (
        asked(live, secret, "GET", f"rules?pod={pod}"),
        asked(live, secret, "GET", f"why?pod={pod}"),
        asked(live, secret, "POST", "try", pod=pod, rules=EXISTS),
        asked(live, secret, "POST", "save", pod=pod, rules=EXISTS),
        asked(live, secret, "POST", "save", pod=pod, rules="nodeSelector: {a: 1}"),
    ):
        assert "canary" not in json.dumps(told)
    live.http("DELETE", f"{path}/x")


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An API server without the gates, beside components that have them: as in attach mode."""
    more = ("--nodes", "1", "--apiserver-feature-gates", "AllAlpha=false")
    server = Live(tmp_path_factory.mktemp("stock") / "data", more=more)
    server.start()
    yield server
    server.stop()


def test_what_an_api_server_does_not_take_goes_into_annotations(stock: Live) -> None:
    secret, path = exchanged(stock), f"{APPS}/deployments"
    created(stock, "Deployment", path, {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE})
    made = saved(stock, secret, VERSION, template="default/Deployment/x")
    assert made["inAnnotations"]
    template = read(stock, f"{path}/x")["spec"]["template"]
    assert "SemverGt" in template["metadata"]["annotations"]["moorage.dev/tolerations"]
    assert template["spec"]["schedulerName"] == "moorage"
    assert "tolerations" not in template["spec"]
    assert asked(stock, secret, "GET", "rules?template=default/Deployment/x")["text"] == VERSION
    back = saved(stock, secret, EXISTS, template="default/Deployment/x")
    assert not back["inAnnotations"]
    template = read(stock, f"{path}/x")["spec"]["template"]
    assert "moorage.dev/tolerations" not in (template["metadata"].get("annotations") or {})
    assert template["spec"]["schedulerName"] == "default-scheduler"
