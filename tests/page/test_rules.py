"""Rules as somebody writes them: read, located, checked, and which part of them decided."""

from __future__ import annotations

import pytest

from moorage.api.decode import convert
from moorage.api.manifests import ManifestError
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.features import ALL_ON, NONE_ON
from moorage.page.accepted import SHOWN_MAX, accepted
from moorage.page.decided import decided
from moorage.page.rules import ERRORS_MAX, WrittenRules, checked, text_of
from moorage.validation.expressions import MAX_EXPRESSIONS

CEL = "tolerations:\n- key: a\n- expression: \"taint.key == 'b' && taint.value == 'c'\"\n"


def node(*taints: str) -> Node:
    listed = [dict(zip(("key", "value", "effect"), text.split(" "), strict=True)) for text in taints]
    return convert({"metadata": {"name": "n", "labels": {"zone": "a"}}, "spec": {"taints": listed}}, Node)


def test_what_admission_refuses_has_its_line() -> None:
    text = (
        "tolerations:\n- key: a\n  operator: Gt\n  value: '0950'\n- kee: b\n  operator: Exists\nnodeSelector: {a: b}\n"
    )
    errors = WrittenRules(text).errors(ALL_ON)
    assert [error["line"] for error in errors] == [4, 5]
    assert "canonical" in errors[0]["message"]
    assert errors[1]["message"] == "spec.tolerations[1].kee: unknown field"
    refused = WrittenRules("tolerations: [{key: a, operator: Gt, value: '1'}]").errors(NONE_ON)
    assert "supported values" in refused[0]["message"]


@pytest.mark.parametrize("text", ["tolerations: [", "containers: []", "a: b", "tolerations: []\n---\na: b", "- a"])
def test_what_is_no_rules_is_said(text: str) -> None:
    with pytest.raises(ManifestError):
        WrittenRules(text)


def test_an_expression_is_found_in_its_text() -> None:
    (found,) = WrittenRules(CEL).expressions()
    assert (found.path, found.env, found.line) == ("tolerations[1].expression", "taint", 3)
    assert CEL[found.start :].startswith(found.source)
    (escaped,) = WrittenRules("tolerations: [{expression: 'taint.key == ''b'''}]").expressions()
    assert escaped.source == "taint.key == 'b'"
    assert escaped.start == -1


def test_the_part_that_decided_is_found_in_the_expression() -> None:
    told = decided(WrittenRules(CEL), node("b x NoSchedule", "other x NoExecute", "soft x PreferNoSchedule"))
    assert [(each["taint"], each["source"][slice(*each["part"])], each["matches"]) for each in told] == [
        ("b=x:NoSchedule", "taint.value == 'c'", False),
        ("other=x:NoExecute", "taint.key == 'b'", False),
    ]


def test_what_accepts_a_node_says_with_which_numbers() -> None:
    spec = {
        "nodeName": "n",
        "tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
    }
    room = {"cpu": (5500, 16000), "memory": (1 << 30, 64 << 30)}
    taints = node("sla 940 NoSchedule", "other x NoSchedule", "sla 950 PreferNoSchedule")
    told = accepted(convert({"spec": spec}, Pod), taints, room, ALL_ON)
    assert told["TaintToleration"] == ["taint sla=940:NoSchedule: tolerated by `Gt 900`"]
    assert told["NodeResourcesFit"] == ["cpu: asks for 0.5, 11 of 16 free", "memory: asks for 1Gi, 64Gi of 64Gi free"]


def test_what_decided_is_bounded() -> None:
    many = "tolerations:\n" + "- expression: taint.key == 'b'\n" * 50
    assert len(decided(WrittenRules(many), node("b x NoSchedule"))) == SHOWN_MAX


def test_an_expression_is_checked_as_cel_check_does() -> None:
    assert checked("node", "'zone' in node.labels")["type"] == "bool"
    assert checked("node", "node.labels").get("problem")
    assert "too long" in checked("taint", "a" * 20_000)["problem"]


def test_rules_are_written_as_they_are_read() -> None:
    rules = {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 30}], "nodeSelector": {"a": "1"}}
    assert WrittenRules(text_of(rules)).rules == rules


def test_the_work_for_a_huge_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = "tolerations:\n" + "".join(f"- expression: taint.kex == 'a{number}'\n" for number in range(1_000))
    written = WrittenRules(huge)
    looked: list[str] = []

    def looked_at(path: str) -> int:
        looked.append(path)
        return 1

    monkeypatch.setattr(written, "_line", looked_at)
    assert len(list(written.expressions())) == len(looked) == MAX_EXPRESSIONS
    looked.clear()
    bad = WrittenRules("tolerations:\n" + "".join(f"- {{key: '?{number}'}}\n" for number in range(2_000)))
    monkeypatch.setattr(bad, "_line", looked_at)
    assert len(bad.errors(ALL_ON)) == len(looked) == ERRORS_MAX
    with pytest.raises(ManifestError, match="more than 65,536 characters"):
        WrittenRules("#" * 70_000)
