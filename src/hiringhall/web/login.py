"""Logging in with a token, and out again. The browser keeps a cookie that no script can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

import msgspec
from starlette.responses import RedirectResponse, Response

from hiringhall.web.guard import TOKEN_CHARACTERS_MAX
from hiringhall.web.problems import Problem, respond

if TYPE_CHECKING:
    from starlette.requests import Request

    from hiringhall.web.services import Services

_FORM: Final = "application/x-www-form-urlencoded"


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a login."""

    token: str


class LoggedIn(msgspec.Struct):
    """Who is logged in now."""

    name: str
    role: str


async def login(services: Services, request: Request) -> Response:
    """Begin a session: a JSON body is answered with the actor, a form with the first page."""
    form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM
    try:
        token = _token(await request.body(), form=form)
        actor = await services.halls.check_token(token, request.client.host if request.client else "")
    except Problem as problem:
        return RedirectResponse("/login?failed=1", 303) if form else respond(problem)
    response = (
        RedirectResponse("/", 303)
        if form
        else Response(msgspec.json.encode(LoggedIn(actor.name, actor.role)), media_type="application/json")
    )
    services.sessions.close(request.headers.get("cookie", ""))
    response.headers["set-cookie"] = services.sessions.open(actor)
    response.headers["cache-control"] = "no-store"
    return response


async def logout(services: Services, request: Request) -> Response:
    """End the session."""
    response = Response(status_code=204)
    response.headers["set-cookie"] = services.end_session(request.headers.get("cookie", ""))
    return response


def _token(body: bytes, *, form: bool) -> str:
    """The token in a body. Raises Problem."""
    try:
        if form:
            token = parse_qs(body.decode(), max_num_fields=10).get("token", [""])[0]
        else:
            token = msgspec.json.decode(body, type=Login).token
    except (msgspec.MsgspecError, ValueError) as error:
        raise Problem("bad_request", f"the body must have a token: {error}") from error
    token = token.strip()
    if not 0 < len(token) <= TOKEN_CHARACTERS_MAX or not token.isascii() or not token.isprintable():
        raise Problem("unauthorized", "this is not a token")
    return token
