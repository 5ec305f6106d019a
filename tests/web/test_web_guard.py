"""The guard: no foreign host, no change for another site, no unknown token, headers on every answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from asgi_calls import Reply, call

from hiringhall.web.guard import HEADERS, LOCAL, Actor, Guard, refusal
from hiringhall.web.hosts import Hosts
from hiringhall.web.problems import Problem
from hiringhall.web.sessions import SESSION_S, Sessions

if TYPE_CHECKING:
    from hiringhall.web.guard import Message, Receive, Scope, Send

ANNA = Actor("anna", "operator", "hall_of_anna")
HOST = ("Host", "localhost:4780")
JSON = ("Content-Type", "application/json")
PROGRAM = ("X-Requested-By", "curl")
UNSAFE = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "POKE")


async def check(token: str, address: str) -> Actor:
    if address == "10.9.9.9":
        raise Problem("hall_unreachable", "no hall answers")
    if token != ANNA.token:
        raise Problem("unauthorized", "the hall does not know this token")
    return ANNA


class App:
    """Remembers who asked, and reads the whole body."""

    def __init__(self) -> None:
        self.actors: list[Actor | None] = []
        self.read = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.actors.append(scope["state"]["actor"])
        more = True
        while more:
            message = await receive()
            self.read += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
        await send({"type": "http.response.body", "body": b"done"})


class Stage:
    """A guard around an application."""

    def __init__(self, *, local: Actor | None = LOCAL, tls: bool = False) -> None:
        self.app = App()
        self.now_s = 0.0
        self.sessions = Sessions(tls=tls, sessions_max=3, clock=lambda: self.now_s)
        self.guard = Guard(
            self.app,
            Hosts("127.0.0.1"),
            self.sessions,
            check,
            local=local,
            tls=tls,
            bytes_max=lambda _, path: 100 if path == "/large" else 10,
        )

    def call(
        self, method: str = "GET", path: str = "/api/v1/jobs", *fields: tuple[str, str], **more: Any
    ) -> Reply:
        return call(self.guard, method, path, (HOST, *fields), **more)


def test_on_loopback_nobody_needs_a_token() -> None:
    stage = Stage()
    assert stage.call().status == 200
    assert stage.app.actors == [LOCAL]


def test_elsewhere_who_shows_nothing_is_nobody() -> None:
    stage = Stage(local=None)
    assert stage.call().status == 200  # Routes without a role are for all.
    assert stage.app.actors == [None]


@pytest.mark.parametrize("value", ["Bearer hall_of_anna", "bearer  hall_of_anna "])
def test_a_token_says_who_asks(value: str) -> None:
    stage = Stage(local=None)
    assert stage.call("GET", "/", ("Authorization", value)).status == 200
    assert stage.app.actors == [ANNA]


@pytest.mark.parametrize(
    "value", ["Bearer wrong", "Bearer", "Bearer ", "Basic hall_of_anna", "hall_of_anna", "Bearer " + "x" * 201]
)
def test_a_wrong_token_is_refused_also_on_loopback(value: str) -> None:
    stage = Stage()
    reply = stage.call("GET", "/", ("Authorization", value))
    assert (reply.status, reply.code) == (401, "unauthorized")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert not stage.app.actors


def test_a_token_is_not_judged_while_no_hall_answers() -> None:
    stage = Stage()
    reply = stage.call("GET", "/", ("Authorization", "Bearer hall_of_anna"), client=("10.9.9.9", 1))
    assert (reply.status, reply.code) == (502, "hall_unreachable")


def test_two_authorizations_are_refused() -> None:
    fields = [("Authorization", "Bearer hall_of_anna")] * 2
    assert Stage().call("GET", "/", *fields).status == 400


@pytest.mark.parametrize(
    "hosts", [(), ("evil.example:4780",), ("localhost", "localhost"), ("evil.example", "localhost")]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_or_missing_host_is_misdirected(method: str, hosts: tuple[str, ...]) -> None:
    stage = Stage()
    reply = call(stage.guard, method, "/", [*(("Host", host) for host in hosts), PROGRAM])
    assert (reply.status, reply.code) == (421, "wrong_host")
    assert not stage.app.actors


@pytest.mark.parametrize("method", UNSAFE)
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ((), 403),
        ((PROGRAM,), 200),
        ((("X-Requested-By", ""),), 403),
        ((("Origin", "http://localhost:4780"),), 200),
        ((("Origin", "http://localhost:3000"),), 403),
        ((("Origin", "http://evil.example"), PROGRAM), 403),
        ((("Origin", "null"), PROGRAM), 403),
        ((("Origin", "http://localhost:4780"), ("Origin", "http://evil.example")), 403),
        ((("Sec-Fetch-Site", "same-origin"),), 200),
        ((("Sec-Fetch-Site", "none"),), 200),
        ((("Sec-Fetch-Site", "same-site"), PROGRAM), 403),
        ((("Sec-Fetch-Site", "cross-site"), PROGRAM), 403),
        ((("Sec-Fetch-Site", "nonsense"), PROGRAM), 403),
        ((("Authorization", "Bearer hall_of_anna"),), 200),
        ((("Authorization", "Bearer hall_of_anna"), ("Origin", "http://evil.example")), 403),
    ],
)
def test_a_change_must_not_come_from_another_site(
    method: str, fields: tuple[tuple[str, str], ...], status: int
) -> None:
    stage = Stage()
    reply = stage.call(method, "/api/v1/jobs/1/cancel", *fields)
    assert reply.status == status
    assert len(stage.app.actors) == (status == 200)
    if status != 200:
        assert reply.code == "cross_site"


@pytest.mark.parametrize("method", UNSAFE)
def test_a_session_by_cookie_needs_the_same_proof(method: str) -> None:
    stage = Stage(local=None)
    cookie = ("Cookie", stage.sessions.open(ANNA).partition(";")[0])
    assert stage.call(method, "/x", cookie).status == 403
    assert stage.call(method, "/x", cookie, PROGRAM).status == 200
    assert stage.app.actors == [ANNA]


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_another_site_reads_nothing_of_the_api(method: str, site: str, status: int) -> None:
    assert Stage().call(method, "/api/v1/jobs", ("Sec-Fetch-Site", site)).status == status


def test_another_site_may_link_to_a_page() -> None:
    assert Stage().call("GET", "/queues/resize", ("Sec-Fetch-Site", "cross-site")).status == 200


@pytest.mark.parametrize(
    ("kind", "path", "status"),
    [
        ("application/json", "/x", 200),
        ("Application/JSON; charset=utf-8", "/x", 200),
        ("text/plain", "/x", 415),
        ("application/x-www-form-urlencoded", "/x", 415),
        ("multipart/form-data; boundary=x", "/login", 415),
        ("application/x-www-form-urlencoded", "/login", 200),
        ("", "/x", 415),
    ],
)
def test_a_body_must_be_json_and_that_of_a_login_may_be_a_form(kind: str, path: str, status: int) -> None:
    fields = (PROGRAM, ("Content-Length", "2"), ("Content-Type", kind))
    assert Stage().call("POST", path, *fields, body=[b"{}"]).status == status


def test_a_body_of_unknown_length_has_a_type_too() -> None:
    assert Stage().call("POST", "/x", PROGRAM, ("Transfer-Encoding", "chunked"), body=[b"{}"]).status == 415


@pytest.mark.parametrize(("path", "most"), [("/x", 10), ("/large", 100)])
def test_a_long_body_is_refused_before_it_is_read(path: str, most: int) -> None:
    stage = Stage()
    fields = (PROGRAM, JSON, ("Content-Length", str(most + 1)))
    reply = stage.call("POST", path, *fields, body=[b"x" * (most + 1)])
    assert (reply.status, reply.code, stage.app.read) == (413, "too_large", 0)
    assert reply.headers["connection"] == "close"


def test_a_body_that_grows_too_long_is_refused_while_it_is_read() -> None:
    stage = Stage()
    fields = (PROGRAM, JSON, ("Transfer-Encoding", "chunked"))
    reply = stage.call("POST", "/x", *fields, body=[b"x" * 6, b"x" * 5, b"x"])
    assert (reply.status, reply.code, stage.app.read) == (413, "too_large", 6)
    assert stage.call("POST", "/x", *fields, body=[b"x" * 6, b"x" * 4]).status == 200


def test_the_answer_to_a_long_body_replaces_an_error_of_the_application() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        try:
            await receive()
        except Exception:
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b"oops"})
            raise

    guard = Guard(
        app, Hosts("127.0.0.1"), Sessions(tls=False), check, local=LOCAL, tls=False, bytes_max=lambda *_: 1
    )
    reply = call(guard, "POST", "/", [HOST, PROGRAM, JSON], [b"long"])
    assert (reply.status, reply.code) == (413, "too_large")


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/"])
@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_every_answer_has_the_headers(host: str, path: str) -> None:
    reply = call(Stage().guard, "GET", path, [("Host", host)])
    for name, value in HEADERS:
        assert reply.headers[name.decode()] == value.decode()
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert ("cache-control" in reply.headers) == (path.startswith("/api/") or reply.status != 200)


def test_a_header_of_the_application_stands() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        headers = [(b"Cache-Control", b"max-age=5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    guard = Guard(app, Hosts("127.0.0.1"), Sessions(tls=False), check, local=LOCAL, tls=False)
    assert call(guard, "GET", "/api/x", [HOST]).headers["Cache-Control"] == "max-age=5"


def test_a_websocket_is_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    asyncio.run(Stage().guard({"type": "websocket", "path": "/"}, receive, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


# --- sessions


def test_a_session_ends_after_its_time() -> None:
    stage = Stage(local=None)
    cookie = stage.sessions.open(ANNA).partition(";")[0]
    stage.now_s = SESSION_S - 1
    assert stage.sessions.find(f'theme="dark; {{x}} @; {cookie}; y') == ANNA
    stage.now_s = SESSION_S
    assert stage.sessions.find(cookie) is None
    assert len(stage.sessions) == 0


def test_the_oldest_session_makes_room() -> None:
    sessions = Stage().sessions
    cookies = [sessions.open(ANNA).partition(";")[0] for _ in range(4)]
    assert [sessions.find(cookie) for cookie in cookies] == [None, ANNA, ANNA, ANNA]


def test_a_session_that_is_over_makes_room_before_the_oldest() -> None:
    stage = Stage()
    stage.sessions.open(ANNA)
    stage.now_s = SESSION_S
    stage.sessions.open(ANNA)
    assert len(stage.sessions) == 1


def test_a_session_ends_with_a_logout_and_with_its_token() -> None:
    sessions = Stage().sessions
    one, two = (sessions.open(ANNA).partition(";")[0] for _ in range(2))
    assert "Max-Age=0" in sessions.close(one)
    assert sessions.find(one) is None
    sessions.close_token(ANNA.token)
    assert sessions.find(two) is None


@pytest.mark.parametrize("tls", [False, True])
def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(tls: bool) -> None:
    cookie = Sessions(tls=tls).open(ANNA)
    name, _, rest = cookie.partition("=")
    value, *attributes = rest.split("; ")
    assert len(value) == 43
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_S}"} <= set(attributes)
    assert ("Secure" in attributes) == tls == name.startswith("__Host-")


@pytest.mark.parametrize(
    "cookies", ["", "hall_session=", "hall_session=x", "=;;=", "hall_session", '"', "a\x00b"]
)
def test_a_cookie_that_is_no_session_is_nobody(cookies: str) -> None:
    assert Stage().sessions.find(cookies) is None


# --- roles


@pytest.mark.parametrize(
    ("role", "needed", "code"),
    [
        ("viewer", "viewer", ""),
        ("viewer", "operator", "forbidden"),
        ("viewer", "admin", "forbidden"),
        ("operator", "viewer", ""),
        ("operator", "operator", ""),
        ("operator", "admin", "forbidden"),
        ("admin", "admin", ""),
        ("viewer", "", ""),
        (None, "viewer", "unauthorized"),
        (None, "", ""),
    ],
)
def test_a_route_needs_its_role(role: str | None, needed: str, code: str) -> None:
    found = refusal(Actor("x", role, "t") if role else None, needed)
    assert (found.code if found else "") == code
