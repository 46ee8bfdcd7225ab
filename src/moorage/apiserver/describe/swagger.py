"""The OpenAPI 2 document, converted from the version 3 documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.apiserver.describe.models import REF

_JSON = "application/json"
_METHODS = ("get", "post", "put", "patch", "delete")


def downgraded(documents: Iterable[Mapping[str, Any]], info: Mapping[str, str]) -> dict[str, Any]:
    """One version 2 document from all version 3 documents."""
    paths: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for document in documents:
        for path, item in document["paths"].items():
            paths[path] = _path(item)
        for name, schema in document["components"]["schemas"].items():
            if name not in definitions:
                definitions[name] = _schema(schema)
    return {
        "swagger": "2.0",
        "info": info,
        "paths": paths,
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"}},
        "security": [{"BearerToken": []}],
    }


def _path(item: Mapping[str, Any]) -> dict[str, Any]:
    operations = {method: _operation(item[method]) for method in _METHODS if method in item}
    return {**operations, "parameters": [_parameter(parameter) for parameter in item.get("parameters", ())]}


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in operation.items() if name not in ("parameters", "requestBody", "responses")}
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    content = operation.get("requestBody", {}).get("content", {})
    for body in list(content.values())[:1]:
        required = operation["requestBody"].get("required", False)
        parameters.insert(0, {"name": "body", "in": "body", "required": required, "schema": _schema(body["schema"])})
    return {
        **kept,
        "consumes": list(content) or ["*/*"],
        "produces": [_JSON],
        "parameters": parameters,
        "responses": {code: _response(response) for code, response in operation["responses"].items()},
    }


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in parameter.items() if name != "schema"}, **parameter["schema"]}


def _response(response: Mapping[str, Any]) -> dict[str, Any]:
    content = response.get("content", {}).get(_JSON)
    schema = {"schema": _schema(content["schema"])} if content else {}
    return {"description": response["description"], **schema}


def _schema(schema: Any) -> Any:
    """A schema in version 2, which has no oneOf: of types it becomes a string, of objects the first one."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {name: _schema(value) for name, value in schema.items() if name not in ("$ref", "allOf", "oneOf")}
    if "$ref" in schema:
        converted["$ref"] = "#/definitions/" + schema["$ref"].removeprefix(REF)
    for choice in (*schema.get("allOf", ()), *schema.get("oneOf", ())[:1]):
        converted = {**_schema(choice), **converted}
    if "type" in schema.get("oneOf", ({},))[0]:
        converted["type"] = "string"
    return converted
