"""The columns of printed tables, and those that many kinds have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from moorage.registry.printing import cells
from moorage.registry.printing.cells import Getter


@dataclass(frozen=True, slots=True)
class PrintColumn:
    """A column: its name, and the cell that it shows of an object."""

    name: str
    cell: Getter
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always shown, 1 in wide output."""

    def definition(self) -> dict[str, Any]:
        """The column as a Table describes it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


Columns = tuple[PrintColumn, ...]
column = PrintColumn
wide = partial(PrintColumn, priority=1)
integer = partial(PrintColumn, type="integer")
boolean = partial(PrintColumn, type="boolean")

NAME_TEXT, _AGE_TEXT = "What tells the object from others of its kind and namespace.", "How long ago it was created."
NAME = column("Name", cells.name, NAME_TEXT, format="name")
AGE = column("Age", cells.age, _AGE_TEXT)
PLAIN: Columns = (NAME, AGE)
CREATED: Columns = (NAME, column("Created At", cells.created_at, "When it was created.", type="date"))
