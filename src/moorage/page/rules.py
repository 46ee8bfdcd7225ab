"""The rules of a pod as somebody writes them on the page: as YAML, with the lines of what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import Any, NamedTuple

from moorage.api import kinds
from moorage.api.manifests import Document, ManifestError, read
from moorage.api.meta import Data
from moorage.api.yamlwriting import write
from moorage.features import Gates
from moorage.match.expressions import MAX_BYTES, MAX_COST, Expression, NodeExpression, TaintExpression
from moorage.registry.state import State
from moorage.registry.trial import try_create
from moorage.validation.expressions import MAX_EXPRESSIONS

RULES = ("tolerations", "nodeSelector", "affinity", "topologySpreadConstraints")
"""What of a pod decides where it may run, and can be tried out."""
_HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: tried}\nspec:\n  containers: [{name: tried, image: tried}]\n"
"""What is put before rules, so that they are read as those of a manifest."""
_INDENT = "  "
TEXT_MAX = 64 << 10
"""Characters of a text of rules: more would take seconds to read."""
ERRORS_MAX = 20
"""So many errors are told: to find the line of each, the text is read again."""
_POD = kinds.row("v1", "Pod")
ENVIRONMENTS: dict[str, type[TaintExpression | NodeExpression]] = {"taint": TaintExpression, "node": NodeExpression}


def rules_of(spec: Data) -> Data:
    """The rules in a pod specification, as it is written."""
    return {name: spec[name] for name in RULES if spec.get(name)}


def text_of(rules: Data) -> str:
    """Rules as YAML."""
    return write([rules]) if rules else ""


class WrittenExpression(NamedTuple):
    """An expression in a text of rules."""

    path: str
    """`tolerations[0].expression`."""
    env: str
    source: str
    line: int
    start: int
    """Where it begins in the text; -1 when it is spelt differently there, with escapes or line breaks."""


class WrittenRules:
    """Rules that were read from a text. Raises ManifestError."""

    def __init__(self, text: str) -> None:
        if len(text) > TEXT_MAX:
            raise ManifestError(f"rules of more than {TEXT_MAX:,} characters cannot be tried here", "rules")
        self._text = text
        self._document = _document(text)
        spec = self._document.data["spec"]
        self.rules: Data = {name: value for name, value in spec.items() if name != "containers"}
        for name in self.rules:
            if name not in RULES:
                message = f"{name} cannot be changed here: {', '.join(RULES)} can"
                raise ManifestError(message, "rules", line=self._line(f"spec.{name}"))

    def errors(self, gates: Gates) -> list[Data]:
        """What the API server would refuse a pod with these rules for."""
        trial = try_create(_POD, self._document.data, State({}, is_complete=False), gates)
        refusals = [trial.unreadable] if trial.unreadable else trial.refusals
        found = [(str(each), each.path) for each in refusals]
        found += [(f"{path}: unknown field", path) for path in trial.unknown]
        return [error_data(message, self._line(path)) for message, path in found[:ERRORS_MAX]]

    def expressions(self) -> Iterator[WrittenExpression]:
        """The expressions in these rules, from the first to the last; as many as a pod may have."""
        for path, source in islice(_expressions("", self.rules), MAX_EXPRESSIONS):
            line = self._line(f"spec.{path}") - _HEAD.count("\n")
            env = "taint" if path.startswith("tolerations") else "node"
            yield WrittenExpression(path, env, source, line, self._start(source, line))

    def _line(self, field: str) -> int:
        return self._document.line_of(field)

    def _start(self, source: str, line: int) -> int:
        before = sum(map(len, self._text.splitlines(keepends=True)[: line - 1]))
        found = self._text.find(source, before)
        between = self._text[before:found]
        return found if found >= 0 and between.count("\n") <= 1 else -1


def _document(text: str) -> Document:
    manifest = _HEAD + "".join(f"{_INDENT}{line}\n" for line in text.splitlines())
    documents = list(read(["-"], BytesIO(manifest.encode())))
    if len(documents) != 1:
        raise ManifestError("one document is enough", "rules", line=documents[1].line if documents else 0)
    return documents[0]


def error_data(message: str, line: int) -> Data:
    """An error at a line of what was put around the rules."""
    return {"message": message, "line": max(line - _HEAD.count("\n"), 0)}


def _expressions(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, held in value.items():
            yield from _expressions(f"{path}.{name}".removeprefix("."), held)
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from _expressions(f"{path}[{index}]", held)
    elif isinstance(value, str) and (path.endswith(".expression") or "matchCELExpressions[" in path):
        yield path, value


def checked(env: str, source: str) -> Data:
    """What admission says of an expression, as `moorage cel check` does: its problem, or its type and cost."""
    if len(source.encode(errors="replace")) > MAX_BYTES:
        return {"problem": f"too long: may not be more than {MAX_BYTES} bytes"}
    compiled: Expression = ENVIRONMENTS[env](source)
    if compiled.problem:
        return {"problem": compiled.problem}
    over = "too complex, exceeds cost limit" if compiled.cost > MAX_COST else ""
    return {"problem": over, "type": str(compiled.type), "cost": compiled.cost, "limit": MAX_COST}


def with_rules(spec: Data, rules: Data) -> Data:
    """A pod specification with other rules."""
    return {**{name: value for name, value in spec.items() if name not in RULES}, **rules}
