"""Write `deploy/`: a Helm chart and a Kustomize base with overlays, of what `moorage attach manifests` prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from moorage.api.meta import Data
from moorage.api.yamlwriting import write
from moorage.tools.attach.manifests import (
    Installation,
    core_objects,
    monitoring_objects,
    namespace_objects,
    webhook_choices,
    webhook_objects,
)

DEPLOY = Path(__file__).parent.parent / "deploy"
PLAIN = Installation()
_HELM = Installation(namespace="{{ .Release.Namespace }}", image="{{ .Values.image }}",
                     rule_namespaces="{{ .Values.ruleNamespaces }}")  # fmt: skip
_OVERLAYS = {
    "webhook": ("../../base", "../../webhook"),
    "webhook-templates": ("../../base", "../../webhook-templates"),
    "no-webhook": ("../../base",),
    "monitoring": ("../webhook", "../../monitoring"),
}


def files() -> Iterator[tuple[str, str]]:
    """Every file under `deploy/`, and its text."""
    yield from _chart()
    yield from _kustomize()


def _chart() -> Iterator[tuple[str, str]]:
    number = version("moorage")
    chart = {
        "apiVersion": "v2", "name": "moorage", "type": "application", "version": number, "appVersion": number,
        "description": "Placement rules in annotations on a cluster that you already have",
        "kubeVersion": ">=1.30.0-0",
    }  # fmt: skip
    yield "helm/moorage/Chart.yaml", write([chart])
    yield "helm/moorage/values.yaml", _VALUES.format(image=PLAIN.image)
    yield "helm/moorage/templates/NOTES.txt", _NOTES
    rewriting = replace(_HELM, templates=True)
    for name, condition, objects in (
        ("namespace", ".Values.createNamespace", namespace_objects(_HELM)),
        ("moorage", "", core_objects(_HELM)),
        ("webhook", ".Values.webhook.enabled", webhook_objects(_HELM)),
        ("webhook-pods", "and .Values.webhook.enabled (not .Values.webhook.templates)", webhook_choices(_HELM)),
        ("webhook-templates", "and .Values.webhook.enabled .Values.webhook.templates", webhook_choices(rewriting)),
        ("monitoring", ".Values.monitoring.enabled", monitoring_objects(_HELM)),
    ):
        text = write(objects)
        guarded = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text
        yield f"helm/moorage/templates/{name}.yaml", guarded


_VALUES = """\
# The image, best pinned by digest: registry.example.com/moorage@sha256:…
image: {image}
# Whether the chart makes its namespace; `helm install --create-namespace` does so too.
createNamespace: false
# Only pods in namespaces with these labels may have rules, such as team=a; empty for all.
ruleNamespaces: ""
webhook:
  enabled: true
  # Whether rules in the native fields of pod templates become annotations too, not only those of pods.
  templates: false
monitoring:
  # A PodMonitor for the Prometheus operator.
  enabled: false
"""


_NOTES = """\
When its pods run, Moorage places the pods that have rules in annotations:

  moorage attach status --namespace {{ .Release.Namespace }}

To leave; pods keep running:

  helm uninstall {{ .Release.Name }} -n {{ .Release.Namespace }}
  moorage attach remove --namespace {{ .Release.Namespace }}
"""


def _kustomize() -> Iterator[tuple[str, str]]:
    folders = {
        "base": [*namespace_objects(PLAIN), *core_objects(PLAIN)],
        "webhook": [*webhook_objects(PLAIN), *webhook_choices(PLAIN)],
        "webhook-templates": [*webhook_objects(PLAIN), *webhook_choices(replace(PLAIN, templates=True))],
        "monitoring": monitoring_objects(PLAIN),
    }
    for name, objects in folders.items():
        yield f"kustomize/{name}/objects.yaml", write(objects)
        yield f"kustomize/{name}/kustomization.yaml", _kustomization("objects.yaml")
    for name, resources in _OVERLAYS.items():
        yield f"kustomize/overlays/{name}/kustomization.yaml", _kustomization(*resources)


def _kustomization(*resources: str) -> str:
    content: Data = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return write([{**content, "resources": list(resources)}])


def main() -> None:
    """Write all files into a folder, and remove others there."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEPLOY
    texts = {folder / name: text for name, text in files()}
    for path in folder.rglob("*"):
        if path.is_file() and path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
