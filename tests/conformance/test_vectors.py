"""Answers recorded from Kubernetes and its libraries; vectors/README.md says how each file is compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moorage.api.decode import convert
from moorage.api.kinds import KINDS, Kind
from moorage.api.node import Node, Taint
from moorage.api.pod import NodeAffinity, Toleration
from moorage.cel.cost.estimate import NO_BOUND
from moorage.cel.environments import NODE_ENV, TAINT_ENV
from moorage.cel.errors import CompileError, EvalError
from moorage.cel.program import Program
from moorage.cel.types import BOOL
from moorage.cel.values import Timestamp
from moorage.features import NONE_ON, Gate, Gates
from moorage.match.glob import compile_glob
from moorage.match.selector import compile_preferences, compile_selector
from moorage.match.tolerations import Tolerations
from moorage.semver import Version, VersionError, parse_constraint, parse_tolerant
from moorage.validation import admission_errors
from moorage.validation.expressions import ExpressionBudget
from moorage.validation.field import FieldError
from moorage.validation.tolerations import toleration_errors
from tests.conformance.conftest import VECTORS

Data = dict[str, Any]

TEMPLATES = [kind for kind in KINDS if kind.pod_spec not in ("", "spec")]


def _gates(case: Data) -> Gates:
    return Gates(frozenset([Gate.COMPARISON])) if case["gate"] else NONE_ON


def tolerates(case: Data) -> Data:
    tolerations = Tolerations([convert(case["toleration"], Toleration)], _gates(case))
    return {"match": tolerations.verdict(convert(case["taint"], Taint)).matched}


def validation(case: Data) -> Data:
    tolerations = [convert(toleration, Toleration) for toleration in case["tolerations"]]
    return {
        "errors": _described(toleration_errors("spec.tolerations", tolerations, _gates(case), ExpressionBudget("spec")))
    }


def _described(errors: Iterable[FieldError]) -> list[Data]:
    described = []
    for error in errors:
        described.append({"type": error.type.reason, "field": error.field, "detail": error.detail})
        if error.type.reason == "FieldValueNotSupported":
            del described[-1]["detail"]
    return described


def affinity(case: Data) -> Data:
    terms, node = convert(case["affinity"], NodeAffinity), convert(case["node"], Node)
    selector = compile_selector(terms.required_during_scheduling_ignored_during_execution, NONE_ON)
    labels, name = node.metadata.labels, node.metadata.name
    got: Data = {"match": selector.verdict(labels, name).matched}
    if selector.errors and not got["match"]:
        got["error"] = True
    if "preferredDuringSchedulingIgnoredDuringExecution" in case["affinity"]:
        preferred = terms.preferred_during_scheduling_ignored_during_execution
        preferences = compile_preferences(preferred, NONE_ON)
        if preferences.errors:
            got["preferredError"] = True
        else:
            got["score"] = preferences.score(labels, name)
    return got


def _version(text: str) -> Version | None:
    try:
        return parse_tolerant(text)
    except VersionError:
        return None


def semver(case: Data) -> Data:
    got: Data = {}
    a, b = _version(case["a"]), _version(case["b"])
    for name, version in (("a", a), ("b", b)):
        got |= {name: str(version)} if version else {f"err{name.upper()}": True}
    if a and b:
        got["cmp"] = (a > b) - (a < b)
    return got


def version_range(case: Data) -> Data:
    version, got = _version(case["a"]), dict[str, Any]()
    if version is None:
        got["errA"] = True
    try:
        constraint = parse_constraint(case["b"])
    except VersionError:
        return got | {"errB": True}
    return got if version is None else {"in": constraint(version)}


def cel(case: Data) -> Data:
    """Compile for the type and cost, and evaluate for each taint or set of labels."""
    of_taint = case["op"] == "celTaint"
    env = TAINT_ENV if of_taint else NODE_ENV
    try:
        program = env.compile(case["expr"])
    except CompileError as error:
        return {"ok": False, "error": str(error).splitlines()[0]}
    got: Data = {"ok": True, "type": str(program.type)}
    if program.type != BOOL:
        return got
    subjects = map(_taint, case["taints"]) if of_taint else (SimpleNamespace(labels=labels) for labels in case["nodes"])
    return got | {"costMax": str(program.cost.max), "evals": [_evaluated(program, subject) for subject in subjects]}


def _taint(data: Data) -> SimpleNamespace:
    added = data.get("timeAdded")
    return SimpleNamespace(**{"time_added": added and Timestamp.parse(added), **data})


def _evaluated(program: Program, subject: SimpleNamespace) -> Data:
    try:
        return {"value": str(program.evaluate(subject)).lower()}
    except EvalError:
        return {"error": True}


def comparable(want: Data, got: Data) -> tuple[Data, Data]:
    """Both answers without the parts that the rules for `cel` in vectors/README.md allow to differ."""
    want, got = dict(want), dict(got)
    if "error" in want:
        shown, mark, _ = want["error"].partition("Syntax error")
        want["error"] = shown + mark
        got["error"] = got.get("error", "")[: len(want["error"])]
    elif want.get("type") != "bool":
        want = {"ok": want["ok"], "type": want.get("type")}
    else:
        want["evals"] = [{"error": True} if "error" in result else result for result in want["evals"]]
        if int(want["costMax"]) >= NO_BOUND and int(got.get("costMax", NO_BOUND)) < NO_BOUND:
            want["costMax"] = got["costMax"]
    return want, got


def glob(case: Data) -> Data:
    return {"match": compile_glob(case["a"])(case["b"])}


ANSWERS: dict[str, Callable[[Data], Data]] = {
    "tolerates": tolerates,
    "validation": validation,
    "affinity": affinity,
    "semver": semver,
    "range": version_range,
    "glob": glob,
    "cel": cel,
}


def test_every_recorded_answer_is_ours(vector_file: Path) -> None:
    answer = ANSWERS.get(vector_file.stem)
    if answer is None:
        pytest.fail(f"{vector_file.name}: no comparison is defined for this file; known: {', '.join(ANSWERS)}")
    lines = vector_file.read_text(encoding="utf-8").splitlines()
    wrong = []
    for number, line in enumerate(lines, 1):
        recorded = json.loads(line)
        want, got = recorded["want"], answer(recorded["case"])
        if vector_file.stem == "cel":
            want, got = comparable(want, got)
        if got != want:
            wrong.append(f"line {number}: {recorded['case']}\n  want {want}\n  got  {got}")
    assert lines
    assert not wrong, f"{len(wrong)} of {len(lines)} differ:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("kind", TEMPLATES, ids=lambda kind: kind.kind)
def test_what_is_recorded_of_pods_holds_in_the_template_of_every_workload(kind: Kind) -> None:
    """The same errors, with the path of the template in front."""
    for line in (VECTORS / "validation.jsonl").read_text(encoding="utf-8").splitlines():
        recorded = json.loads(line)
        workload: Data = {"tolerations": recorded["case"]["tolerations"]}
        for name in reversed(kind.pod_spec.split(".")):
            workload = {name: workload}
        errors = _described(admission_errors(convert(workload, kind.struct), _gates(recorded["case"])))
        for error in errors:
            error["field"] = error["field"].removeprefix(kind.pod_spec.removesuffix("spec"))
        assert errors == recorded["want"]["errors"], recorded["case"]
