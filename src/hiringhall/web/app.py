"""The ASGI application of the web process, put together."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from hiringhall.config.quantities import Address
from hiringhall.web import pages
from hiringhall.web.api import Api
from hiringhall.web.guard import LOCAL, Guard
from hiringhall.web.hosts import Hosts, is_loopback
from hiringhall.web.login import login, logout
from hiringhall.web.monitoring import Monitoring

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hiringhall.web.services import Services


_API: Final = b"api"
"""Everything below this is for programs, which must not get a page instead of an error."""


def _page(
    handler: Callable[[Services, Request], Awaitable[Response]], services: Services
) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        return await handler(services, request)

    return serve


def build(services: Services) -> ASGIApp:
    """The application for one hall."""
    options = services.options
    monitoring = Monitoring(services)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        await services.close()

    pages_app = Starlette(
        routes=[
            Route("/metrics", monitoring.metrics),
            Route("/healthz", monitoring.healthz),
            Route("/readyz", monitoring.readyz),
            Mount("/assets", pages.Assets(directory=pages.ASSETS)),
            Route("/login", _page(login, services), methods=["POST"]),
            Route("/logout", _page(logout, services), methods=["POST"]),
            Route("/{path:path}", pages.index),
        ],
        lifespan=lifespan,
    )
    pages_app.state.services = services
    api = Api(services)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # Not a route of Starlette's, whose patterns do not match every byte that a name may have.
        is_api = scope["type"] == "http" and scope["raw_path"].split(b"/", 2)[1:2] == [_API]
        await (api if is_api else pages_app)(scope, receive, send)

    host = Address(options.address).host
    return Guard(
        app,
        Hosts(host, options.hosts),
        services.sessions,
        services.halls.check_token,
        local=LOCAL if is_loopback(host) else None,
        tls=bool(options.certificate),
    )
