"""Requests that the OpenAPI documents allow, and such that they do not allow, never get a 5xx and never hang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from schemathesis import Case, GenerationMode
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.schemas import BaseSchema

from moorage.api.kinds import KINDS, Kind
from moorage.apiserver.describe.discovery import group_versions, path_of
from moorage.apiserver.http.messages import Request
from moorage.apiserver.request.routes import find
from tests.live.conftest import Live
from tests.live.manifests import collection, manifest
from tests.plane import PATIENCE
from tests.seeds import FUZZING, seed

SEED = seed(4)
EXAMPLES = 5 if FUZZING else 2  # the first one is always the simplest
BOUNDED = settings(
    max_examples=EXAMPLES, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
NAME = "fuzz"
DOCUMENTS = [path_of(group, version) for group, versions in group_versions().items() for version in versions]

Data = dict[str, Any]

_TEXT = {"type": "string", "pattern": r"^[a-z=!,./() -]{0,12}$"}
_STEERED: dict[str, Data] = {
    "continue": _TEXT,
    "dryRun": {"enum": ["All"]},
    "fieldManager": {"enum": [NAME]},
    "fieldSelector": _TEXT,
    "fieldValidation": {"enum": ["Strict", "Warn", "Ignore"]},
    "labelSelector": _TEXT,
    "name": {"enum": [NAME]},
    "namespace": {"enum": ["default"]},
    "propagationPolicy": {"enum": ["Background", "Foreground", "Orphan"]},
    "resourceVersion": {"enum": ["", "0", "1", "5"]},
    "resourceVersionMatch": {"enum": ["Exact", "NotOlderThan"]},
    "timeoutSeconds": {"enum": [1]},
}
"""Schemas of parameters, narrow enough that most requests get past the first check."""


def steered(document: Data) -> Data:
    """The document, changed so that requests are about an object that exists and stays, and so that none is a watch."""
    for item in document["paths"].values():
        shared = item.get("parameters", [])
        for method, operation in item.items():
            if method == "parameters":
                continue
            parameters = (*shared, *operation.get("parameters", ()))
            operation["parameters"] = [parameter for parameter in parameters if parameter["name"] != "watch"]
            for parameter in operation["parameters"]:
                parameter["schema"] = _STEERED.get(parameter["name"], parameter["schema"])
                if method == "delete" and parameter["name"] == "dryRun":
                    parameter["required"] = True
            content = operation.get("requestBody", {}).get("content", {})
            if "*/*" in content:
                content["application/json"] = content.pop("*/*")
        item.pop("parameters", None)
    for name, schema in document["components"]["schemas"].items():
        _steer_model(name, schema)
    return document


def _steer_model(name: str, schema: Data) -> None:
    properties = schema.get("properties", {})
    if name.endswith(".ObjectMeta"):
        schema["properties"] = {**properties, "name": _STEERED["name"], "namespace": _STEERED["namespace"]}
        schema["required"] = ["name"]
        for hindrance in ("resourceVersion", "uid"):
            del schema["properties"][hindrance]
    elif "x-kubernetes-group-version-kind" in schema:
        for given_by_the_path in ("apiVersion", "kind"):
            properties.pop(given_by_the_path, None)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    live = Live(tmp_path_factory.mktemp("fuzzed"), command="apiserver")
    live.start()
    yield live
    assert live.stop() == 0


@pytest.fixture(scope="module")
def session(server: Live) -> Iterator[requests.Session]:
    with requests.Session() as opened:
        opened.headers["Authorization"] = f"Bearer {server.token}"
        opened.trust_env = False
        opened.verify = str(server.directory / "ca.crt")
        yield opened


def loaded(server: Live, path: str) -> BaseSchema:
    generation = GenerationConfig(allow_x00=False, with_security_parameters=False)
    config = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(generation=generation)))
    document = steered(server.http("GET", f"/openapi/v3{path}")[1])
    schema = schemathesis.openapi.from_dict(document, config=config)
    schema.config.update(base_url=server.url)
    return schema


def kind_of(path: str) -> Kind | None:
    """The kind of the objects at a path, if there are any."""
    route = find(Request.of("GET", path.format(namespace="default", name=NAME)))
    return route.kind if route and route.kind in KINDS else None


@pytest.mark.seeded
@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_operation_is_answered(server: Live, session: requests.Session, path: str) -> None:
    codes: Counter[int] = Counter()

    def check(case: Case[Any]) -> None:
        answer = case.call(session=session, timeout=PATIENCE, verify=session.verify)
        codes[answer.status_code] += 1
        assert answer.status_code < 500, f"{answer.text}\n{case.as_curl_command()}"

    for result in loaded(server, path).get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if kind := kind_of(operation.path):
            # An earlier operation may have deleted it.
            session.post(server.url + collection(kind), json=manifest(kind, NAME))
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            seeded(SEED)(BOUNDED(given(operation.as_strategy(generation_mode=mode))(check)))()
    print(f"seed {SEED}: {dict(codes)}")
    assert codes[200] or codes[201]
