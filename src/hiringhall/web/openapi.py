"""The OpenAPI document, made from the table of routes and the types of the answers."""

from __future__ import annotations

import functools
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall import __version__
from hiringhall.web.bodies import RULES
from hiringhall.web.problems import MEDIA, ProblemDocument
from hiringhall.web.route import ALWAYS, JSON
from hiringhall.web.steps import BASE64
from hiringhall.web.values import ID_PATTERN

if TYPE_CHECKING:
    from hiringhall.web.route import Route

PREFIX: Final = "/api/v1"
_SCHEMAS: Final = "components", "schemas"
_REFS: Final = "/".join(("#", *_SCHEMAS, "{name}"))
_STEP: Final = re.compile(r"\{(\w+)\}")
STEPS: Final = {
    "id": {"schema": {"type": "string", "pattern": ID_PATTERN}},
    "number": {"schema": {"type": "string", "pattern": "^[0-9]{1,18}$"}},
}
"""Variable parts of paths that are not names."""
NAME: Final = {
    "schema": {"type": "string", "minLength": 1},
    "description": f"The bytes of the name, percent-encoded; or `{BASE64}` and the name in base64url.",
}


@functools.cache
def encoded(routes: tuple[Route, ...]) -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(made(routes))


def made(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The document."""
    types: list[Any] = [ProblemDocument]
    for route in routes:
        types += [kind for kind in (route.answer, route.body, *(kind for _, kind in route.also)) if kind]
    unique = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REFS)
    for name, rules in RULES.items():
        if name in components:
            components[name] |= rules
    by_type = dict(zip(unique, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hiringhall",
            "version": __version__,
            "description": "The HTTP API of a hall: jobs, queues, workers, flows, schedules and the history.",
        },
        "servers": [{"url": PREFIX}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: Route, by_type: dict[Any, Any]) -> dict[str, Any]:
    name = _STEP.sub(r"by_\1", route.path).strip("/").replace("/", "_").replace(".", "_")
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{name}",
        "summary": route.summary,
        "description": f"Needs the role {route.role}.",
        "parameters": [*_steps(route), *_parameters(route)],
        "responses": _responses(route, by_type),
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": route.body_required,
            "content": {JSON: {"schema": by_type[route.body]}},
        }
    return operation


def _steps(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": step,
            "in": "path",
            "required": True,
            **STEPS.get(step, NAME),
        }
        for step in _STEP.findall(route.path)
    ]


def _parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    parameters = []
    for field in msgspec.structs.fields(route.query):
        schema = dict(msgspec.json.schema(field.type))
        description = schema.pop("description", "")
        parameter = {"name": field.encode_name, "in": "query", "required": field.required, "schema": schema}
        parameters.append({**parameter, "description": description} if description else parameter)
    return parameters


def _responses(route: Route, by_type: dict[Any, Any]) -> dict[str, Any]:
    answered = _response(route.status, route.media, by_type.get(route.answer))
    if route.download:
        # With `format=json` the answer is an array of the items alone.
        answered["content"] = {JSON: {}, "text/csv": {}}
        answered["content"][JSON] = {"schema": {"anyOf": [by_type[route.answer], {"type": "array"}]}}
    responses = {str(route.status): answered}
    for status, kind in route.also:
        responses[str(status)] = _response(status, JSON, by_type[kind])
    more = (408, 413, 415) if route.method != "GET" else ()
    for status in sorted({*ALWAYS, *route.errors, *more}):
        responses[str(status)] = _response(status, MEDIA, by_type[ProblemDocument])
    return responses


def _response(status: int, media: str, schema: Any) -> dict[str, Any]:
    content = {media: {"schema": schema} if schema is not None else {}}
    return {"description": HTTPStatus(status).phrase, "content": content}
