"""Tokens over HTTP, with a real hall and its web process: who comes in, and until when."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest
from hall_process import wait_until
from web_process import TIMEOUT_S, WebHall

from hiringhall.access.tokens import TokenList
from hiringhall.web.hall import CHECKS_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from hiringhall.access.tokens import Role


def token_of(hall: WebHall, name: str, role: Role) -> str:
    """A new token that the hall knows already."""
    token = TokenList(hall.documents).add(name, role, datetime.now(UTC), None)
    with hall.browser() as browser:
        wait_until(lambda: log_in(browser, token).status_code == 200, "the hall knows the token")
    return token


def log_in(browser: httpx.Client, token: str) -> httpx.Response:
    return browser.post("/login", json={"token": token}, headers={"Origin": str(browser.base_url).rstrip("/")})


def actor(response: httpx.Response) -> tuple[str, str]:
    assert response.status_code == 200, response.text
    said = response.json()["actor"]
    return said["name"], said["role"]


def test_whoever_is_on_this_machine_is_local(api: httpx.Client) -> None:
    assert actor(api.get("/hall")) == ("local", "admin")


def test_a_token_as_bearer_says_who_asks(hall: WebHall, api: httpx.Client) -> None:
    token = token_of(hall, "vera", "viewer")
    bearer = {"Authorization": f"Bearer {token}"}
    assert actor(api.get("/hall", headers=bearer)) == ("vera", "viewer")
    refused = api.post("/queues/q/pause", headers=bearer)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


def test_a_session_lasts_until_the_logout(hall: WebHall) -> None:
    token = token_of(hall, "otto", "operator")
    with hall.browser() as browser:
        answer = log_in(browser, token)
        assert answer.json() == {"name": "otto", "role": "operator"}
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert token not in cookie
        assert actor(browser.get("/api/v1/hall")) == ("otto", "operator")
        assert browser.post("/logout").status_code == 403  # Another site could have asked for it.
        assert browser.post("/logout", headers={"X-Requested-By": "test"}).status_code == 204
        assert actor(browser.get("/api/v1/hall")) == ("local", "admin")


def test_a_form_logs_in_and_leads_to_the_first_page(hall: WebHall) -> None:
    token = token_of(hall, "fred", "viewer")
    with hall.browser() as browser:
        origin = {"Origin": str(browser.base_url).rstrip("/")}
        wrong = browser.post("/login", data={"token": "hall_wrong"}, headers=origin)
        assert (wrong.status_code, wrong.headers["location"]) == (303, "/login?failed=1")
        right = browser.post("/login", data={"token": token}, headers=origin)
        assert (right.status_code, right.headers["location"]) == (303, "/")
        assert actor(browser.get("/api/v1/hall")) == ("fred", "viewer")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"token": "hall_wrong"}', 401),
        (b'{"token": ""}', 401),
        (b'{"token": "\\u00e4"}', 401),
        (b'{"token": "a\\nb"}', 401),
        (b'{"token": 5}', 400),
        (b"{}", 400),
        (b"", 400),
        (b"[", 400),
    ],
)
def test_a_login_that_fails_says_why_and_sets_no_cookie(hall: WebHall, body: bytes, status: int) -> None:
    with hall.browser() as browser:
        fields = {"X-Requested-By": "test", "Content-Type": "application/json"}
        answer = browser.post("/login", content=body, headers=fields)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert "set-cookie" not in answer.headers


def test_a_revoked_token_ends_its_sessions(hall: WebHall, api: httpx.Client) -> None:
    token = token_of(hall, "gone", "operator")
    with hall.browser() as browser:
        assert log_in(browser, token).status_code == 200
        assert actor(browser.get("/api/v1/hall")) == ("gone", "operator")
        TokenList(hall.documents).revoke("gone")
        bearer = {"Authorization": f"Bearer {token}"}
        wait_until(lambda: api.get("/hall", headers=bearer).status_code == 401, "the token is refused")
        # On this machine whoever has no session is local.
        wait_until(
            lambda: browser.get("/api/v1/hall").json().get("actor", {}).get("name") == "local",
            "the session ends",
        )


def test_a_change_is_in_the_audit_log_under_the_name_of_the_token(hall: WebHall, api: httpx.Client) -> None:
    token = token_of(hall, "olga", "operator")
    with hall.sdk() as sdk:
        sdk.function("q", raw=True).submit(b"")
    assert api.post("/queues/q/pause", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert api.post("/queues/q/resume").status_code == 200
    lines: list[tuple[str, str, str, str]] = []

    def read() -> bool:
        entries = [json.loads(line) for line in hall.documents.tail("audit.jsonl", 10)]
        lines[:] = [(one["who"], one["role"], one["what"], one["outcome"]) for one in entries]
        return len(lines) >= 2

    wait_until(read, "both changes are in the audit log")
    assert lines[-2:] == [("olga", "operator", "pause", "ok"), ("local", "admin", "resume", "ok")]
    assert token not in hall.errors()


def test_whoever_guesses_tokens_keeps_nobody_else_from_logging_in(tmp_path: Path) -> None:
    hall = WebHall(tmp_path)
    hall.data.mkdir(mode=0o700)
    token = TokenList(hall.documents).add("hans", "viewer", datetime.now(UTC), None)

    async def guess() -> tuple[list[int], int]:
        here, elsewhere = (
            httpx.AsyncClient(
                base_url=hall.web,
                headers={"Origin": hall.web},
                timeout=TIMEOUT_S,
                transport=httpx.AsyncHTTPTransport(local_address=address, limits=httpx.Limits()),
            )
            for address in ("127.0.0.1", "127.0.0.2")
        )
        async with here, elsewhere:
            guesses = [
                asyncio.ensure_future(here.post("/login", json={"token": f"hall_{number}"}))
                for number in range(2 * CHECKS_MAX)
            ]
            # The first answers say that the hall is being asked about all that it may be.
            await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
            right = await elsewhere.post("/login", json={"token": token})
            return [answer.status_code for answer in await asyncio.gather(*guesses)], right.status_code

    with hall:
        wrong, right = asyncio.run(guess())
    assert right == 200
    assert set(wrong) == {401, 503}


def test_a_stream_ends_with_the_logout(hall: WebHall) -> None:
    token = token_of(hall, "ida", "viewer")
    with hall.browser() as browser:
        log_in(browser, token)
        cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
        with httpx.stream("GET", f"{hall.web}/api/v1/events", headers=cookie, timeout=TIMEOUT_S) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            assert browser.post("/logout", headers={"X-Requested-By": "test"}).status_code == 204
            assert [line for line in lines if line.startswith("event: summary")][1:] == []
