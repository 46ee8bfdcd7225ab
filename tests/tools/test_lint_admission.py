"""What lint says of an object is what the API server says to it: over thousands of objects with mistakes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from moorage.api import kinds, manifests
from moorage.features import ALL_ON
from moorage.registry.schema import field_table
from moorage.tools.admission import ManifestAdmission
from moorage.tools.cluster import Cluster, read_cluster
from moorage.tools.lint import lint
from mutations import changed, draw
from tests.apiserver.asked import Asked
from tests.plane import api_server

Data = dict[str, Any]
BENCH = Path(__file__).parents[2] / "bench"
LIMITS: Data = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "limits", "namespace": "default"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "9"}, "default": {"cpu": "4"}, "min": {"cpu": "10m"}}]},
}
ABSENT = ("no PriorityClass with name", 'RuntimeClass "', "namespaces ")
"""How refusals begin that are about an object which does not exist."""
COUNT = 800


def collection(obj: Data) -> str:
    kind = kinds.row(obj["apiVersion"], obj["kind"])
    base = f"/apis/{obj['apiVersion']}" if kind.group else f"/api/{obj['apiVersion']}"
    return f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"


def code_of(obj: Data) -> str:
    kind = kinds.row(obj["apiVersion"], obj["kind"])
    return str(field_table()["kinds"][f"{kind.group}/{kind.kind}"])


def objects_of(file: Path, objects: list[Data]) -> Cluster:
    file.write_text("\n".join(map(json.dumps, objects)))
    return read_cluster(manifests.read([str(file)]))


def said(file: Path, others: Cluster, body: Data, *, is_complete: bool) -> list[str]:
    """What is said of an object, beside others."""
    cluster = objects_of(file, [body])
    if cluster.problems:
        return [cluster.problems[0].message]
    trial = ManifestAdmission([*others.items, *cluster.items], ALL_ON, is_complete=is_complete).trial(cluster.items[0])
    return [str(refusal) for refusal in (*trial.refusals, *filter(None, (trial.unreadable,)))]


@pytest.mark.seeded
@pytest.mark.parametrize("seed", [1])
async def test_lint_refuses_what_the_api_server_refuses(seed: int, tmp_path: Path) -> None:
    random, outcomes = Random(seed), Counter[str]()
    stored = [*yaml.safe_load((BENCH / "differential.yaml").read_text()), LIMITS]
    async with api_server(tmp_path / "data") as server:
        ask = Asked(server.transport("tests"))
        for obj in stored:
            assert (await ask("POST", collection(obj), obj)).status == 201, obj
        default = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        others = objects_of(tmp_path / "others.json", [default, *stored])
        for number in range(COUNT):
            obj = stored[number % len(stored)]
            fresh = {**obj, "metadata": {**obj["metadata"], "name": f"{obj['metadata']['name']}-new"}}
            body = changed(fresh, changes := draw(random, code_of(obj), obj))
            code, answer = await ask.told("POST", f"{collection(obj)}?dryRun=All", body)
            assert code < 500, answer
            if code == 409:
                continue
            body["metadata"].setdefault("namespace", "default")
            outcomes["refused" if code >= 400 else "taken"] += 1
            context = (*map(str, changes), answer.get("message"))
            assert bool(said(tmp_path / "one.json", others, body, is_complete=True)) is (code >= 400), context
            partly = said(tmp_path / "one.json", others, body, is_complete=False)
            assert not partly or code >= 400, context
            assert partly or code < 400 or any(text in answer["message"] for text in ABSENT), context
    assert min(outcomes.values()) > COUNT // 5, outcomes


async def test_lint_reports_it_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: Bad_Name\nspec:\n  restartPolicy: Sometimes\n  containers:\n"
        "  - name: UP\n"
    )
    cluster = read_cluster(manifests.read([str(file)]))
    found = [(finding.line, finding.path) for finding in lint(cluster, cluster, ALL_ON)]
    container = "spec.containers[0]"
    assert found == [
        (4, "metadata.name"), (8, f"{container}.name"), (8, f"{container}.image"), (6, "spec.restartPolicy"),
    ]  # fmt: skip
