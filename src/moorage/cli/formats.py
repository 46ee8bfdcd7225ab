"""Findings in the forms that people, scripts and code review tools read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import click
import msgspec

from moorage.tools.lint import RULES, LintFinding
from moorage.validation.rules import Severity

FindingsFormat = Callable[[list[LintFinding], int], str]
"""Takes the findings and how many objects were looked at."""

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}


def text(findings: list[LintFinding], objects: int) -> str:
    """A few lines a finding: where, what, and what to do about it."""
    lines = []
    for finding in findings:
        severity = click.style(finding.severity.word, fg=_COLOURS[finding.severity])
        lines.append(f"{finding.file}:{finding.line}: {severity} {finding.rule.id}: {finding.subject}".rstrip(": "))
        lines.append(f"    {_message(finding)}")
        if finding.severity is not Severity.NOTE:
            lines.append(f"    fix: {finding.rule.fix}")
    counts = Counter(finding.severity for finding in findings)
    summary = ", ".join(f"{counts[each]} {each.word}{'' if counts[each] == 1 else 's'}" for each in Severity)
    lines.append(click.style(f"{objects} object{'' if objects == 1 else 's'}: {summary}", bold=True))
    return "\n".join(lines)


def json(findings: list[LintFinding], objects: int) -> str:
    """An object with every finding as an object."""
    data = {"objects": objects, "findings": [_data(finding) for finding in findings]}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def sarif(findings: list[LintFinding], _: int) -> str:
    """SARIF 2.1.0, which code review tools show beside the lines."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.reason},
            "help": {"text": rule.fix},
            "defaultConfiguration": {"level": rule.severity.word},
        }
        for rule in RULES.values()
    ]
    results = [
        {
            "ruleId": finding.rule.id,
            "level": finding.severity.word,
            "message": {"text": f"{finding.subject}: {_message(finding)}".removeprefix(": ")},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": finding.file},
                        "region": {"startLine": finding.line},
                    }
                }
            ],
        }
        for finding in findings
    ]
    run = {"tool": {"driver": {"name": "moorage", "rules": rules}}, "results": results}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode()


def junit(findings: list[LintFinding], objects: int) -> str:
    """JUnit XML: a test case a finding; errors and warnings are failures, notes pass."""
    failures = [finding for finding in findings if finding.severity < Severity.NOTE]
    suite = ElementTree.Element(
        "testsuite", name="moorage lint", tests=str(max(len(findings), objects)), failures=str(len(failures))
    )
    for finding in findings:
        name = f"{finding.rule.id} {finding.subject}".rstrip()
        case = ElementTree.SubElement(suite, "testcase", classname=finding.file, name=_printable(name))
        if finding.severity < Severity.NOTE:
            failure = ElementTree.SubElement(case, "failure", message=_printable(_message(finding)))
            failure.text = _printable(f"{finding.file}:{finding.line}: {finding.rule.fix}")
        else:
            ElementTree.SubElement(case, "system-out").text = _printable(_message(finding))
    if not findings:
        ElementTree.SubElement(suite, "testcase", classname="moorage lint", name=f"{objects} objects")
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")


def github(findings: list[LintFinding], _: int) -> str:
    """Workflow commands that annotate a change on GitHub."""
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
    return "\n".join(
        f"::{words[finding.severity]} file={_property(finding.file)},line={finding.line},"
        f"title={_property(finding.rule.id)}::{_command(f'{finding.subject}: {_message(finding)}'.removeprefix(': '))}"
        for finding in findings
    )


FORMATS: dict[str, FindingsFormat] = {"text": text, "json": json, "sarif": sarif, "junit": junit, "github": github}


def _message(finding: LintFinding) -> str:
    return f"{finding.path}: {finding.message}" if finding.path else finding.message


def _data(finding: LintFinding) -> dict[str, Any]:
    return {
        "rule": finding.rule.id,
        "severity": finding.severity.word,
        "file": finding.file,
        "line": finding.line,
        "object": finding.subject,
        "field": finding.path,
        "message": finding.message,
        "fix": finding.rule.fix,
    }


def _printable(text: str) -> str:
    """XML has no way to say most control characters."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def _command(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _command(text).replace(":", "%3A").replace(",", "%2C")
