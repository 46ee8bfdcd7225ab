"""Manifests that are large, deep or hostile."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moorage.api import manifests, yamltext
from moorage.api.manifests import ManifestError, read
from tests.api.manifest_texts import load, only, refusal


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "large.yaml").open("wb") as file:
        file.truncate(manifests.MAX_FILE_SIZE + 1)
    with pytest.raises(ManifestError, match="larger than 256 MiB; give it in parts"):
        list(read([str(tmp_path)]))


@pytest.mark.parametrize("text", ["{a: [1, 2, 3, 4]}", '{"a": [1, 2, 3, 4], "b": 1}', "a: [1, 2, 3, 4]"])
def test_a_document_of_too_many_values_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (manifests, yamltext):
        monkeypatch.setattr(module, "MAX_EVENTS", 5)
    assert str(refusal(text)) == "<stdin>:1: document 1: more than 5 values in one document; give it in parts"


def test_many_values_in_many_documents_are_welcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamltext, "MAX_EVENTS", 10)
    assert len(load("a: [1, 2]\n---\n" * 50)) == 50


DEEP = {
    "flow lists": "a: " + "[" * 100_000,
    "flow maps": "{a: " * 100_000,
    "block lists": "a:\n  " + "- " * 100_000,
    "explicit keys": "? " * 100_000,
    "block maps": "".join(" " * depth + "a:\n" for depth in range(2_000)),
    "json maps": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "json lists": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    "json just too deep": '{"a":' + "[" * 100 + "]" * 100 + "}",
    "json list": '{"kind":"List","items":[' + '{"a":' * 500 + "1" + "}" * 500 + "]}",
    "aliases": "a0: &a0 []\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 500)),
}


@contextlib.contextmanager
def at_most(calls: int) -> Iterator[None]:
    """What is done inside makes no more calls than this, of Python's functions and of C's."""
    counted = 0

    def count(*_: object) -> None:
        nonlocal counted
        counted += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert counted <= 2 * calls, "each call is counted when it begins and when it ends"


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_refused_before_the_rest_is_read(name: str) -> None:
    with at_most(calls=50_000):
        error = refusal(DEEP[name])
    problem = "a key is a map" if name == "explicit keys" else "nested deeper than 100 levels"
    assert error.message.startswith(problem)


@pytest.mark.parametrize("text", ["a: " + "[" * 99 + "]" * 99, '{"a":' + "[" * 99 + "]" * 99 + "}"])
def test_a_hundred_levels_are_not_too_deep(text: str) -> None:
    assert list(only(text)) == ["a"]


BOMBS = {
    "lists": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)),
    "maps": "a0: &a0 {x: y}\n"
    + "".join(f"a{n}: &a{n} {{{', '.join(f'k{key}: *a{n - 1}' for key in range(10))}}}\n" for n in range(1, 30)),
    "long text": f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 1_000)}]\n",
    "long keys": f"a: &a\n  ? {'x' * 1_000_000}\n  : y\nb: [{', '.join(['*a'] * 1_000)}]\n",
    "merges": f"a: &a {{{', '.join(f'k{n}: v' for n in range(10_000))}}}\nb:\n" + "- <<: *a\n" * 10_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_alias_bomb_is_refused_before_it_goes_off(name: str) -> None:
    with at_most(calls=20 * len(BOMBS[name]) + 10_000):
        assert refusal(BOMBS[name]).message == "aliases repeat more than 400,000 values"


HOSTILE = {
    "digits": "a: " + "1" * 1_000_000,
    "zeros": "a: 0" + "0" * 1_000_000,
    "ones": "a: 0b" + "1" * 1_000_000,
    "decimals": "a: 1." + "1" * 1_000_000,
    "underscores": "a: 1" + "_" * 1_000_000,
    "json digits": '{"a": ' + "1" * 100_000 + "}",
    "commas": "a: [" + "," * 100_000,
    "documents": "---\n" * 20_000,
    "braces": "{" + "}" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_no_more_work_than_its_length(name: str) -> None:
    text = HOSTILE[name]
    with at_most(calls=10 * len(text)), contextlib.suppress(ManifestError):
        load(text)


NODE = """\
---
apiVersion: v1
kind: Node
metadata:
  name: node-{0}
  labels: {{zone: z{0}, kernel: "5.15.{0}"}}
spec:
  taints:
  - key: example.com/sla
    value: "{0}"
    effect: NoSchedule
status:
  allocatable: {{cpu: "16", memory: 64Gi, pods: "110"}}
"""


@pytest.mark.parametrize("nodes", [100, 3_000])
def test_each_of_many_nodes_takes_as_much_work_as_each_of_few(tmp_path: Path, nodes: int) -> None:
    (tmp_path / "nodes.yaml").write_text("".join(map(NODE.format, range(nodes))))
    with at_most(calls=500 * nodes):
        assert sum(1 for _ in read([str(tmp_path)])) == nodes


def large_documents() -> Iterator[str]:
    for number in range(100):
        yield f"---\nkind: ConfigMap\ndata:\n  c{number}: |\n" + ("    " + "x" * 95 + "\n") * 10_000


def large_json_list() -> Iterator[str]:
    item = json.dumps({"kind": "A", "data": ["x" * 40] * 200})
    yield '{"kind": "List", "items": [' + item
    for _ in range(10_000 - 1):
        yield ",\n" + item
    yield "]}"


def large_yaml_list() -> Iterator[str]:
    yield "kind: List\nitems:"
    for number in range(20_000):
        yield NODE.format(number).replace("---", "\n-").replace("\n", "\n  ").replace("\n  -\n", "\n-\n", 1)


def small_documents() -> Iterator[str]:
    yield from map(NODE.format, range(20_000))


LIMITED = """
import resource, sys
from moorage.api.manifests import read
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
print(sum(1 for _ in read(sys.argv[1:])))
"""


@pytest.mark.parametrize(
    ("parts", "count"),
    [(large_documents, 100), (large_json_list, 10_000), (large_yaml_list, 20_000), (small_documents, 20_000)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_large_files_stay_within_a_gigabyte(parts: Callable[[], Iterator[str]], count: int, tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("w") as out:
        out.writelines(parts())
    done = subprocess.run([sys.executable, "-c", LIMITED, str(file)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(count), "")
