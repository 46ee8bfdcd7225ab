"""What an applied configuration sets to null is removed; the answers are those of kube-apiserver 1.36."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from moorage.apiserver.verbs import patch
from moorage.registry.schema import has_field
from tests.apiserver.asked import APPLY, Asked, Data

WEB = "/apis/apps/v1/namespaces/default/deployments/web"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
RULES: Data = {
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "nodeSelector": {"x": "y"},
    "affinity": {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}}
    },
}
NULLS: Data = {"tolerations": None, "nodeSelector": None, "affinity": {"nodeAffinity": {REQUIRED: None}}}


def deployment(spec: Data) -> Data:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def test_null_takes_what_another_manager_owns_only_by_force(ask: Asked) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}], **RULES}}
    made = deployment({"selector": {"matchLabels": labels}, "template": template})
    assert (await ask.told("POST", f"{WEB.removesuffix('/web')}?fieldManager=author", made))[0] == 201
    sent = deployment({"template": {"spec": NULLS}})
    code, answer = await ask.told("PATCH", f"{WEB}?fieldManager=me", sent, APPLY)
    assert code == 409
    assert {cause["field"].rpartition(".")[2] for cause in answer["details"]["causes"]} == {
        "tolerations", "nodeSelector", REQUIRED
    }  # fmt: skip
    code, answer = await ask.told("PATCH", f"{WEB}?fieldManager=me&force=true", sent, APPLY)
    assert code == 200
    spec = answer["spec"]["template"]["spec"]
    assert "tolerations" not in spec
    assert "nodeSelector" not in spec
    assert spec["affinity"] == {"nodeAffinity": {}}
    assert spec["containers"][0]["image"] == "i"


async def test_null_for_an_unknown_field_is_nothing(ask: Asked) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "dta": None}
    path = "/api/v1/namespaces/default/configmaps/web?fieldManager=me"
    code, answer = await ask.told("PATCH", path, config, APPLY)
    assert code == 201
    assert "f:dta" not in str(answer["metadata"].get("managedFields"))


async def test_many_nulls_are_looked_for_in_a_thread(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: list[bool] = []

    def seen(*args: Any) -> bool:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return has_field(*args)

    monkeypatch.setattr(patch, "has_field", seen)
    unknown = {f"unknown-{number}": None for number in range(5000)}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, **unknown}
    path = "/api/v1/namespaces/default/configmaps/web?fieldManager=me"
    assert (await ask.told("PATCH", path, config, APPLY))[0] == 201
    assert (len(on_loop), any(on_loop)) == (5000, False)
