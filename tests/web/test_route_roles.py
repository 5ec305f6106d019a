"""Every route of the table, with every role, and with tokens that are missing, wrong, expired or revoked."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from asgi_calls import call
from hall_process import wait_until
from web_process import REQUESTED, TIMEOUT_S

from hiringhall.access.tokens import TokenList
from hiringhall.dialects.native.roles import ROLES
from hiringhall.web.api import Api
from hiringhall.web.guard import Actor
from hiringhall.web.options import WebOptions
from hiringhall.web.routes import API, PREFIX
from hiringhall.web.services import Services

if TYPE_CHECKING:
    from web_process import WebHall

    from hiringhall.web.guard import App, Receive, Scope, Send
    from hiringhall.web.route import Route

NAMES: Final = [f"{route.method} {route.path}" for route in API]
NOBODY: Final = "hall://127.0.0.1:1"
"""A hall that is not asked: the role is checked before."""
AT_ONCE: Final = 24
WRONG: Final = "hall_" + "A" * 43


def path_of(route: Route) -> str:
    return PREFIX + re.sub(r"\{\w+\}", "1", route.path)


def api_for(actor: Actor | None) -> App:
    """The API as the guard calls it for this actor."""
    api = Api(Services(WebOptions(hall=NOBODY)))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"actor": actor}
        await api(scope, receive, send)

    return app


@pytest.mark.parametrize("route", API, ids=NAMES)
def test_no_route_answers_without_an_actor(route: Route) -> None:
    answer = call(api_for(None), route.method, path_of(route))
    assert (answer.status, answer.code) == (401, "unauthorized")


@pytest.mark.parametrize("route", API, ids=NAMES)
def test_a_lesser_role_is_refused_before_anything_is_read(route: Route) -> None:
    for role in ROLES[: ROLES.index(route.role)]:
        answer = call(api_for(Actor("eve", role, "")), route.method, path_of(route), body=[b"not JSON"])
        assert (answer.status, answer.code) == (403, "forbidden")


@pytest.fixture(scope="module")
def tokens(hall: WebHall) -> dict[str, str]:
    """A token of each role; and `expired`, `revoked` and `wrong` ones."""
    now = datetime.now(UTC)
    file = TokenList(hall.documents)
    made = {"revoked": file.add("ruth", "admin", now, None)}
    file.revoke("ruth")
    made["expired"] = file.add("ed", "admin", now - timedelta(days=2), now - timedelta(days=1))
    made |= {role: file.add(f"a-{role}", role, now, None) for role in ROLES}
    made["wrong"] = WRONG
    with hall.api() as api:
        bearer = {"Authorization": f"Bearer {made['admin']}"}
        wait_until(lambda: api.get("/hall", headers=bearer).status_code == 200, "the hall knows the tokens")
    return made


def ask(hall: WebHall, route: Route, token: str, address: str = "127.0.0.1") -> dict[str, Any]:
    """The problem document of the answer, or its status."""
    headers = {**REQUESTED, "Authorization": f"Bearer {token}"}
    transport = httpx.HTTPTransport(local_address=address)
    with httpx.Client(base_url=hall.web, timeout=TIMEOUT_S, headers=headers, transport=transport) as client:
        answer = client.request(route.method, path_of(route))
        problem: dict[str, Any] = answer.json() if answer.status_code >= 400 else {"status": answer.status_code}
        return problem


@pytest.mark.parametrize("kind", ["wrong", "expired", "revoked"])
def test_a_token_that_the_hall_does_not_take_opens_no_route(
    hall: WebHall, tokens: dict[str, str], kind: str
) -> None:
    """Many at once, each from an address of its own: wrong tokens are answered late."""

    def problem_of(place: int) -> dict[str, Any]:
        return ask(hall, API[place], tokens[kind], f"127.0.1.{place}")

    with ThreadPoolExecutor(AT_ONCE) as threads:
        problems = list(threads.map(problem_of, range(len(API))))
    for route, problem in zip(API, problems, strict=True):
        assert (problem["status"], problem.get("code")) == (401, "unauthorized"), route.path


@pytest.mark.parametrize("role", ROLES)
def test_a_token_opens_the_routes_of_its_role_and_no_others(
    hall: WebHall, tokens: dict[str, str], role: str
) -> None:
    for route in API:
        if route.media == "text/event-stream" and "{" not in route.path:
            continue  # it would not end
        problem = ask(hall, route, tokens[role])
        is_enough = ROLES.index(role) >= ROLES.index(route.role)
        assert (problem["status"] == 403) is not is_enough, (route.path, problem)
        assert problem.get("code") != "unauthorized"
