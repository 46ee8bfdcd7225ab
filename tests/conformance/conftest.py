"""Runs every recorded case of every `*.jsonl` in a folder: `pytest tests/conformance --vectors DIR`."""

from __future__ import annotations

from pathlib import Path

import pytest

VECTORS = Path(__file__).parent / "vectors"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vectors", type=Path, default=VECTORS, help="folder of recorded cases (*.jsonl)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vector_file" in metafunc.fixturenames:
        files = sorted(metafunc.config.getoption("--vectors").glob("*.jsonl"))
        metafunc.parametrize("vector_file", files, ids=[file.stem for file in files])
