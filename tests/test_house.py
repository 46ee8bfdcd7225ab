"""The house stays one that can be seen: small files, small rooms, one name for one type, a map that is true."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "moorage"
MODULES = sorted(SOURCE.rglob("*.py"))
PYTHON = [*MODULES, *(path for each in ("tests", "bench", "scripts") for path in sorted((ROOT / each).rglob("*.py")))]


def test_no_file_is_past_500_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in PYTHON}
    assert {path: lines for path, lines in lengths.items() if lines > 500} == {}


def test_no_room_has_more_than_25_modules_at_one_level() -> None:
    rooms = Counter(path.parent.relative_to(ROOT) for path in MODULES if path.name != "__init__.py")
    assert {str(room): size for room, size in rooms.items() if size > 25} == {}


def test_no_room_holds_a_single_module() -> None:
    rooms = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    outer = {path.parent.parent for path in MODULES}
    assert [str(room) for room, size in rooms.items() if size == 1 and room not in outer] == []


def _types(path: Path) -> list[str]:
    """The public types that a module defines: its classes and type aliases."""
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            names.append(target.id)
    return [name for name in names if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)]


def test_a_name_of_a_type_is_defined_in_one_module() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        # Plugins have the names that Kubernetes gives them.
        for name in _types(path) if path.parent.name != "plugins" else ():
            homes[name].append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_the_map_of_the_house_names_files_that_are_there() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    named = set(re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]*)*(?:\.py|/))`", page))
    assert len(named) > 40
    assert sorted(path for path in named if not (SOURCE / path).exists()) == []


def test_the_map_of_the_house_names_every_room() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    rooms = {str(path.parent.relative_to(SOURCE)) + "/" for path in MODULES if path.parent != SOURCE}
    assert sorted(room for room in rooms if f"`{room}`" not in page) == []
