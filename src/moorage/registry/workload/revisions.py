"""ControllerRevisions: the templates that a workload had."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.checks import Errors, unchanged
from moorage.registry.printing import cells
from moorage.registry.printing.cells import NONE, PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import Strategy
from moorage.validation.field import invalid, required


def _errors(new: Data, old: Data | None) -> Errors:
    if new.get("revision", 0) < 0:
        yield invalid("revision", new["revision"], "must be greater than or equal to 0")
    if old is not None:
        yield from unchanged("data", new.get("data"), old.get("data"))
    elif new.get("data") is None:
        yield required("data", "data is mandatory")
    elif not isinstance(new["data"], dict):
        yield required("data", "data must be a valid JSON object")


def _controller(row: PrintedRow) -> str:
    """The object that controls this one."""
    for owner in row.metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            group, slash, _ = owner.get("apiVersion", "").partition("/")
            kind = f"{owner['kind']}.{group}" if slash else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


CONTROLLER_REVISION = Strategy(
    kind=kinds.row("apps/v1", "ControllerRevision"),
    errors=_errors,
    columns=(
        NAME,
        column("Controller", _controller, "The workload whose template it keeps."),
        column("Revision", cells.number("revision"), "Which state of the template it is."),
        AGE,
    ),
)
