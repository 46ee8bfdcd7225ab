"""PodTemplates."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.meta import Data
from moorage.registry.checks import Errors
from moorage.registry.merging import shape
from moorage.registry.pod.merging import TEMPLATE_SHAPE
from moorage.registry.pod.spec import template_errors
from moorage.registry.printing import cells
from moorage.registry.printing.columns import NAME, column
from moorage.registry.strategy import Strategy
from moorage.registry.workload.templates import default_template


def _defaults(obj: Data, _: str) -> None:
    default_template(obj, "template.spec")


def _errors(new: Data, _: Data | None) -> Errors:
    yield from template_errors("template", new.get("template", {}))


_labels_of_pods = cells.at("template.metadata.labels")


POD_TEMPLATE = Strategy(
    kind=kinds.row("v1", "PodTemplate"),
    prefix_checked=("create",),
    defaults=_defaults,
    errors=_errors,
    first_generation=1,
    counted=(("template",),),
    merge=shape(template=TEMPLATE_SHAPE),
    columns=(
        NAME,
        column("Containers", cells.items("template.spec.containers", "name"), "The names of the containers."),
        column("Images", cells.items("template.spec.containers", "image"), "The images of the containers."),
        column("Pod Labels", lambda row: cells.label_text(_labels_of_pods(row)), "The labels that its pods get."),
    ),
)
