"""Of a request as much is written as the first rule says that matches it, as in Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.apiserver.audit.policy import METADATA_OF_ALL, AuditPolicy, PolicyError, read_policy
from moorage.apiserver.base.users import User
from moorage.apiserver.http.messages import Request
from moorage.apiserver.request.routes import find

ALICE = User("alice", ("devs", "system:authenticated"))


def level(rules: list[dict[str, Any]], method: str, path: str, user: User = ALICE) -> str:
    policy = msgspec.convert({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}, AuditPolicy)
    return policy.treatment(user, find(Request.of(method, path))).level.text


POD, SCALE = "/api/v1/namespaces/shop/pods/web", "/apis/apps/v1/namespaces/shop/deployments/web/scale"
SECRETS, NODE = "/api/v1/namespaces/shop/secrets", "/api/v1/nodes/a"


@pytest.mark.parametrize(
    ("rule", "matched", "others"),
    [
        ({"users": ["alice"]}, [("GET", POD), ("GET", "/healthz")], []),
        ({"users": ["bob"]}, [], [("GET", POD)]),
        ({"userGroups": ["ops", "devs"]}, [("GET", POD)], []),
        ({"verbs": ["list", "watch"]}, [("GET", SECRETS), ("GET", f"{SECRETS}?watch=1")], [("GET", POD)]),
        ({"namespaces": ["shop"]}, [("GET", POD)], [("GET", NODE), ("GET", "/healthz")]),
        ({"namespaces": [""]}, [("GET", NODE)], [("GET", POD)]),
        ({"resources": [{"group": ""}]}, [("GET", POD), ("GET", NODE)], [("GET", SCALE)]),
        ({"resources": [{"resources": ["pods"]}]}, [("GET", POD)], [("GET", f"{POD}/status"), ("GET", NODE)]),
        ({"resources": [{"resources": ["pods/*"]}]}, [("GET", POD), ("PUT", f"{POD}/status")], [("GET", NODE)]),
        ({"resources": [{"resources": ["pods/status"]}]}, [("PUT", f"{POD}/status")], [("GET", POD)]),
        ({"resources": [{"group": "*", "resources": ["*/scale"]}]}, [("GET", SCALE)], [("PUT", f"{POD}/status")]),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["db"]}]}, [], [("GET", POD)]),
        ({"nonResourceURLs": ["/api*", "/version"]}, [("GET", "/apis"), ("GET", "/version")], [("GET", POD)]),
    ],
)
def test_a_rule_matches_as_in_kubernetes(
    rule: dict[str, Any], matched: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    rules: list[dict[str, Any]] = [{"level": "Request", **rule}]
    assert {level(rules, *each) for each in matched} <= {"Request"}
    assert {level(rules, *each) for each in others} <= {"None"}


def test_the_first_rule_that_matches_counts() -> None:
    rules: list[dict[str, Any]] = [
        {"level": "Metadata", "resources": [{"resources": ["secrets"]}]},
        {"level": "RequestResponse"},
    ]
    assert level(rules, "GET", SECRETS) == "Metadata"
    assert level(rules, "GET", POD) == "RequestResponse"


def test_stages_are_left_out_by_the_policy_and_by_the_rule() -> None:
    policy = msgspec.convert(
        {
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "omitStages": ["ResponseStarted"]}],
        },
        AuditPolicy,
    )  # fmt: skip
    assert policy.treatment(ALICE, find(Request.of("GET", POD))).omitted == {"RequestReceived", "ResponseStarted"}


def test_without_a_policy_the_metadata_of_everything_is_written() -> None:
    assert METADATA_OF_ALL.treatment(ALICE, find(Request.of("GET", "/healthz"))).level.text == "Metadata"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("apiVersion: v1\nkind: Pod\nrules: []\n", "is no audit policy of audit.k8s.io/v1: "),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\n", "missing required field `rules`"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []\n", "has no rules, so that nothing would be written"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]\n", "Invalid enum value 'All'"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, user: [a]}]\n", "unknown field `user`"),
        ("a: [\n", "is no audit policy"),
        ("", "holds 0 documents, and a policy is one"),
    ],
)
def test_what_is_no_policy_is_refused_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        read_policy(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert sentence in str(caught.value)


def test_a_common_policy_is_read(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("""\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  users: ["system:kube-scheduler"]
  verbs: [watch]
- level: Metadata
  resources:
  - group: ""
    resources: [secrets, configmaps]
- level: RequestResponse
  namespaces: [kube-system]
  omitManagedFields: false
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: Request
""")
    policy = read_policy(file)
    assert [rule.level for rule in policy.rules] == ["None", "Metadata", "RequestResponse", "None", "Request"]
