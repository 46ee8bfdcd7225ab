from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.registry.schema import field_table

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "kubernetes_fields.py"))
VERSION: str = field_table()["kubernetes"]["version"]
KUBERNETES = os.environ.get("KUBERNETES_SOURCE")

with_kubernetes = pytest.mark.skipif(
    KUBERNETES is None, reason=f"KUBERNETES_SOURCE names no checkout of Kubernetes {VERSION}"
)


@with_kubernetes
def test_the_tables_are_what_their_generator_makes_of_kubernetes() -> None:
    made = SCRIPT["generate"](Path(KUBERNETES or ""), VERSION)
    assert len(made) == 2
    for path, content in made.items():
        assert path.read_bytes() == content, f"{path.name}: run scripts/kubernetes_fields.py {KUBERNETES} {VERSION}"


@with_kubernetes
def test_every_kind_has_the_fields_that_kubernetes_publishes() -> None:
    published = msgspec.json.decode(Path(KUBERNETES or "", "api/openapi-spec/swagger.json").read_bytes())
    definitions = published["definitions"]
    kinds = {
        f"{each['group']}/{each['kind']}": name
        for name, definition in definitions.items()
        for each in definition.get("x-kubernetes-group-version-kind", ())
        if each["version"] == "v1" or (each["kind"], each["version"]) == ("DeviceTaintRule", "v1beta2")
    }
    pending = [(code, kinds[kind]) for kind, code in field_table()["kinds"].items()]
    seen = set()
    while pending:
        code, name = pending.pop()
        if code not in seen:
            seen.add(code)
            properties = definitions[name].get("properties", {})
            fields = field_table()["types"][code]
            assert set(fields) - set(SCRIPT["OWN_FIELDS"].get(code, ())) == set(properties), code
            assert field_table()["required"].get(code, []) == sorted(definitions[name].get("required", ())), code
            pending += [(fields[field].lstrip("?[{"), inner) for field, each in properties.items()
                        if "properties" in definitions.get(inner := referred(each), {})]  # fmt: skip
    assert seen == set(field_table()["types"])


def referred(schema: dict[str, Any]) -> str:
    """The definition that a field, its items or the values of its map refer to."""
    while "$ref" not in schema:
        schema = schema.get("items") or schema.get("additionalProperties") or {"$ref": ""}
    return str(schema["$ref"]).removeprefix("#/definitions/")


def test_a_checkout_of_another_version_is_refused(tmp_path: Path) -> None:
    base = tmp_path / "staging/src/k8s.io/component-base/version/base.go"
    base.parent.mkdir(parents=True)
    base.write_text('DefaultKubeBinaryVersion = "1.2"\n')
    with pytest.raises(ValueError, match=r"is Kubernetes v1\.2, not v1\.36\.4: name its version"):
        SCRIPT["generate"](tmp_path, "v1.36.4")
