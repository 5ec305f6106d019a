"""The table of routes: each has what it needs, and the OpenAPI document has each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from hiringhall.dialects.native.roles import ROLES
from hiringhall.web import openapi
from hiringhall.web.route import Route
from hiringhall.web.routes import API

if TYPE_CHECKING:
    import httpx

NAMES = [f"{route.method} {route.path}" for route in API]
CHANGES = [route for route in API if route.method != "GET"]


def test_no_route_stands_twice_in_the_table() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_a_route_without_a_role_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="has no role"):
        Route("GET", "/open", "", "Open to all", API[0].handler, None)
    with pytest.raises(TypeError):
        Route("GET", "/open", summary="Open to all", handler=API[0].handler, answer=None)  # type: ignore[call-arg]


@pytest.mark.parametrize("route", API, ids=NAMES)
def test_a_route_that_changes_something_is_not_for_viewers(route: Route) -> None:
    assert route.role in ROLES
    assert route.summary
    if route.method != "GET":
        assert route.role != "viewer"


@pytest.mark.parametrize("route", API, ids=NAMES)
def test_the_openapi_document_describes_each_route(route: Route) -> None:
    document = openapi.made(API)
    operation = document["paths"][route.path][route.method.lower()]
    assert f"role {route.role}" in operation["description"]
    assert str(route.status) in operation["responses"]
    named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
    assert named == set(re.findall(r"\{(\w+)\}", route.path))
    asked = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"}
    fields = msgspec.structs.fields(route.query) if route.query is not None else ()
    assert asked == {field.encode_name for field in fields}


def test_operation_ids_are_unique() -> None:
    operations = [
        operation["operationId"] for path in openapi.made(API)["paths"].values() for operation in path.values()
    ]
    assert len(set(operations)) == len(operations)


def test_every_route_is_there_and_every_change_needs_a_sign_of_a_program(api: httpx.Client) -> None:
    for route in API:
        path = re.sub(r"\{\w+\}", "1", route.path)
        if route.media == "text/event-stream" and "{" not in route.path:
            continue
        answer = api.request(route.method, path)
        problem = answer.json() if answer.status_code >= 400 else {}
        assert problem.get("code") not in ("not_found", "method_not_allowed", "internal"), (path, answer.text)
    del api.headers["X-Requested-By"]
    for route in CHANGES:
        answer = api.request(route.method, re.sub(r"\{\w+\}", "1", route.path))
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_site"), route.path
