"""Who may read what monitoring asks for: metrics need a role, health does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from hiringhall.web.app import pages_of
from hiringhall.web.guard import LOCAL, Actor
from hiringhall.web.options import WebOptions
from hiringhall.web.services import Services

if TYPE_CHECKING:
    from starlette.responses import Response

NO_HALL = "hall://127.0.0.1:9"
"""Nothing listens on the port of the discard service."""


def ask(path: str, actor: Actor | None) -> Response:
    async def serve() -> Response:
        services = Services(WebOptions(hall=NO_HALL))
        (page,) = [page for page in pages_of(services) if page.path == path]
        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "state": {"actor": actor}}
        try:
            return await page.serve(Request(scope))
        finally:
            await services.close()

    return asyncio.run(serve())


def test_metrics_are_refused_to_nobody() -> None:
    response = ask("/metrics", None)
    assert (response.status_code, response.media_type) == (401, "application/problem+json")


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_metrics_are_for_every_role(role: str) -> None:
    response = ask("/metrics", Actor("ann", role, LOCAL.token))
    assert (response.status_code, b"hall_up 0.0" in bytes(response.body)) == (200, True)


def test_health_needs_no_role_and_readiness_names_what_is_missing() -> None:
    assert ask("/healthz", None).status_code == 200
    response = ask("/readyz", None)
    assert (response.status_code, b"127.0.0.1:9" in bytes(response.body)) == (503, True)
