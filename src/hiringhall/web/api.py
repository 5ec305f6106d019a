"""The ASGI application below /api/v1: finds the route, checks the call, encodes the answer.

Invariant: paths are compared as they were sent, before percent-decoding, so that a name may contain any byte.
Whatever a handler raises becomes a problem document.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from hiringhall.sdk.errors import HallError
from hiringhall.web.calls import Call, read_body, read_path, read_query
from hiringhall.web.guard import refusal
from hiringhall.web.problems import Problem, of_hall, respond
from hiringhall.web.route import JSON
from hiringhall.web.routes import API, PREFIX

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from hiringhall.web.guard import Actor
    from hiringhall.web.route import Route
    from hiringhall.web.services import Services

_BELOW: Final = f"{PREFIX}/".encode()
_VARIABLE: Final = b"{}"
_encode: Final = msgspec.json.Encoder().encode
_log = logging.getLogger("hiringhall")


class Api:
    """Answers requests by the table of routes."""

    def __init__(self, services: Services, routes: tuple[Route, ...] = API) -> None:
        self._services = services
        self._routes: dict[tuple[bytes, ...], dict[str, Route]] = {}
        for route in routes:
            steps = tuple(
                _VARIABLE if step.startswith("{") else step.encode() for step in route.path[1:].split("/")
            )
            self._routes.setdefault(steps, {})[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Problem as problem:
            response = respond(problem)
        except HallError as error:
            response = respond(of_hall(error))
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            if not self._services.closing.is_set():
                raise
            # The time for answers that are under way is over.
            response = respond(Problem("closing", "the web process ends, and the hall has not answered yet"))
        except Exception:  # noqa: BLE001 (a bug in one handler must not end the connection silently)
            _log.exception("%s %s could not be answered", request.method, request.url.path)
            response = respond(Problem("internal", "this is a bug of the web process; its log says more", 500))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path: bytes = request.scope["raw_path"].partition(b"?")[0]
        route = self._find(request.method, path)
        actor: Actor | None = request.scope["state"].get("actor")
        fault = refusal(actor, route.role)
        if fault is not None:
            raise fault
        assert actor is not None, "a route has a role"
        below = path[len(PREFIX) :]
        call = Call(
            self._services,
            self._services.halls.of(actor, request.client.host if request.client else ""),
            actor,
            read_path(route.path, below),
            read_query(route.query, request.scope["query_string"]),
            await read_body(request, route.body, required=route.body_required)
            if request.method != "GET"
            else None,
            request,
        )
        answer = await route.handler(call)
        if isinstance(answer, Response):
            return answer
        return Response(_encode(answer), route.status, media_type=JSON)

    def _find(self, method: str, path: bytes) -> Route:
        """The route of a path. Raises Problem."""
        steps = path[len(_BELOW) :].split(b"/") if path.startswith(_BELOW) else []
        found = self._routes.get(tuple(steps)) if _VARIABLE not in steps else None
        for shape, by_method in self._routes.items():
            if found is None and len(shape) == len(steps) and _fits(shape, steps):
                found = by_method
        if found is None:
            raise Problem("not_found", f"there is nothing at {path.decode(errors='replace')[:200]}")
        wanted = "GET" if method == "HEAD" else method
        if wanted not in found:
            methods = ", ".join(found)
            text = f"{method} is not possible here; {methods} is"
            raise Problem("method_not_allowed", text, 405, {"allow": methods})
        return found[wanted]


def _fits(shape: tuple[bytes, ...], steps: list[bytes]) -> bool:
    """Whether a path has the shape of a route. A variable step is not empty."""
    return all(
        step != b"" if part == _VARIABLE else part == step for part, step in zip(shape, steps, strict=True)
    )
