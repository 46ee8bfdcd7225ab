"""The public Python interface: its page shows what it does, a typed program can use it, and it loads quickly."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import moorage

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)

CONSUMER = """
from collections.abc import Iterator
from typing import assert_type

import moorage
from moorage import Document, ManifestError, cel, match


def allowed(paths: list[str], rule: str) -> Iterator[tuple[Document, match.Verdict, list[str]]]:
    program = moorage.cel.NODE_ENV.compile(rule)
    assert_type(program, cel.Program)
    limit = assert_type(program.cost.max, int)
    try:
        documents = list(moorage.read_manifests(paths))
    except ManifestError as error:
        raise SystemExit(f"{error.file}:{error.line}: {error.message}, {limit}") from None
    nodes = [document.data for document in documents if document.data["kind"] == "Node"]
    for document in documents:
        for node in nodes:
            verdict = match.tolerates(document.data, node, gates=match.parse_gates("AllAlpha=true"))
            yield document, verdict, match.explain(document.data, node)


def double(number: int) -> int:
    return number * 2


env = cel.kubernetes({"x": cel.INT}, functions=[cel.define("double", (cel.INT,), cel.INT, double)])
assert_type(env.check("double(x)").type, cel.Type)
assert_type(match.selects({}, {}), match.Verdict)
"""


def test_the_page_has_examples_and_shows_what_each_prints() -> None:
    assert len(EXAMPLES) == PAGE.count("```python\n") > 4


@pytest.mark.parametrize(("program", "output"), EXAMPLES, ids=lambda text: text.splitlines()[-1])
def test_an_example_of_the_page_prints_what_stands_below_it(
    program: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "docs/python.md", "exec"), {})
    assert printed.getvalue() == output


@pytest.mark.parametrize("name", ["moorage", "moorage.cel", "moorage.match"])
def test_every_public_name_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'moorage' has no attribute 'nothing'"):
        moorage.nothing  # noqa: B018


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    script = "import sys, __future__; known = set(sys.modules); import moorage; print(sorted(set(sys.modules) - known))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['moorage']"


def test_a_typed_program_passes_mypy_strict(tmp_path: Path) -> None:
    consumer = tmp_path / "consumer.py"
    consumer.write_text(CONSUMER)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(consumer)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
