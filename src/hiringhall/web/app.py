"""The ASGI application of the web process, put together.

Invariant: every path outside the API is in one table, with the role that it needs. It is checked before its
handler is called.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from hiringhall.config.quantities import Address
from hiringhall.web import pages
from hiringhall.web.api import Api
from hiringhall.web.guard import LOCAL, Guard, refusal
from hiringhall.web.hosts import Hosts, is_loopback
from hiringhall.web.login import login, logout
from hiringhall.web.monitoring import Monitoring
from hiringhall.web.problems import respond

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hiringhall.web.services import Services


_API: Final = b"api"
"""Everything below this is for programs, which must not get a page instead of an error."""


class Page(NamedTuple):
    """A path that is not of the API."""

    method: str
    path: str
    role: str
    """The least role that may ask; empty: it tells nothing that needs one."""
    handler: Callable[[Request], Awaitable[Response]]

    async def serve(self, request: Request) -> Response:
        """Check the role, and answer."""
        fault = refusal(request.scope["state"].get("actor"), self.role)
        return respond(fault) if fault is not None else await self.handler(request)


def pages_of(services: Services) -> tuple[Page, ...]:
    """All paths outside the API, but for the files of the dashboard."""
    monitoring = Monitoring(services)
    return (
        Page("GET", "/metrics", "viewer", monitoring.metrics),
        Page("GET", "/healthz", "", monitoring.healthz),
        Page("GET", "/readyz", "", monitoring.readyz),
        Page("POST", "/login", "", functools.partial(login, services)),
        Page("POST", "/logout", "", functools.partial(logout, services)),
        Page("GET", "/{path:path}", "", pages.index),
    )


def build(services: Services) -> ASGIApp:
    """The application for one hall."""
    options = services.options

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        await services.close()

    pages_app = Starlette(
        routes=[
            Mount("/assets", pages.Assets(directory=pages.ASSETS)),
            *(Route(page.path, page.serve, methods=[page.method]) for page in pages_of(services)),
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
