"""Who may come in by HTTP: an ASGI middleware around the whole application.

Invariant: nothing behind it sees a request with a foreign Host, a change that another site may have asked for,
or a token that the hall does not know. `scope["state"]["actor"]` is who asks; None: nobody that is known.
Every answer has the headers that bound what a browser does with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

from hiringhall.dialects.native.roles import ROLES
from hiringhall.web.hosts import same_origin
from hiringhall.web.problems import Problem, respond
from hiringhall.web.sessions import Actor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from hiringhall.web.hosts import Hosts
    from hiringhall.web.sessions import Sessions

    Scope: TypeAlias = MutableMapping[str, Any]
    Message: TypeAlias = MutableMapping[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[Message]]
    Send: TypeAlias = Callable[[Message], Awaitable[None]]
    App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

__all__ = ["LOCAL", "Actor", "Guard", "TokenCheck", "body_bytes_max", "refusal"]

LOCAL: Final = Actor("local", "admin", "")
"""Somebody on this machine, without a token."""
RANKS: Final = {name: rank for rank, name in enumerate(ROLES, 1)}
SUBMIT_BYTES_MAX: Final = 64 << 20
BODY_BYTES_MAX: Final = 1 << 20
TOKEN_CHARACTERS_MAX: Final = 200
LOGIN: Final = "/login"
BODY_S: Final = 120.0
"""How long a client may take to send a body."""
_SAFE: Final = ("GET", "HEAD")
_UNREAD: Final = (400, 408, 413)
"""After these, what is left of the body is not read."""
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NO_STORE: Final = (b"cache-control", b"no-store")


class TokenCheck(Protocol):
    """Asks the hall whose token it is. `address` is that of the peer. Raises Problem: `unauthorized`, or
    `hall_unreachable` if the hall could not be asked.
    """

    async def __call__(self, token: str, address: str) -> Actor: ...


class _Unread(Exception):
    """The body of a request is longer than it may be, or comes too slowly."""


def body_bytes_max(method: str, path: str) -> int:
    """How long the body of a request may be."""
    return SUBMIT_BYTES_MAX if method == "POST" and path == "/api/v1/jobs" else BODY_BYTES_MAX


def refusal(actor: Actor | None, role: str) -> Problem | None:
    """Why an actor may not use a route that needs a role (empty: none); None: it may."""
    if not role or (actor is not None and RANKS[actor.role] >= RANKS[role]):
        return None
    if actor is None:
        return Problem("unauthorized", "a token is needed: log in, or send Authorization: Bearer TOKEN")
    return Problem("forbidden", f"{actor.name} has the role {actor.role}; this needs the role {role}")


class Guard:
    """Goes around the application. `local` is who comes without a token; None: nobody may."""

    def __init__(
        self,
        app: App,
        hosts: Hosts,
        sessions: Sessions,
        check_token: TokenCheck,
        *,
        local: Actor | None,
        tls: bool,
        bytes_max: Callable[[str, str], int] = body_bytes_max,
        body_s: float = BODY_S,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._sessions = sessions
        self._check_token = check_token
        self._local = local
        self._tls = tls
        self._bytes_max = bytes_max
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, _Answer(send, str(scope["path"])))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        request = _Request(scope)
        fault = self._fault(request)
        actor: Actor | None = None
        if fault is None:
            try:
                actor = await self._actor(request)
            except Problem as problem:
                fault = problem
        if fault is not None:
            await answer.refuse(scope, receive, fault)
            return
        scope.setdefault("state", {})["actor"] = actor
        body = _Body(receive, self._bytes_max(request.method, request.path), self._body_s)
        answer.body = body
        try:
            body.expect(request.length)
            await self._app(scope, body.receive, answer.send)
        except _Unread:
            pass
        if body.fault is not None and not answer.started:
            await answer.refuse(scope, receive, body.fault)

    def _fault(self, request: _Request) -> Problem | None:
        """What is wrong with a request, whoever makes it."""
        hosts = request.all(b"host")
        if len(hosts) != 1 or not self._hosts.knows(hosts[0]):
            named = ascii(hosts[0][:100]) if len(hosts) == 1 else f"{len(hosts)} Host fields"
            text = f"{named}: not a name of this server; add it to hosts in [web] if it is one"
            return Problem("wrong_host", text, 421)
        if request.one(b"transfer-encoding") and request.one(b"content-length"):
            # A proxy in front might take the other one for the length, and another request for the body.
            return Problem("bad_request", "give Content-Length or Transfer-Encoding, not both")
        if len(request.all(b"authorization")) > 1:
            return Problem("bad_request", "a request may have one Authorization field")
        site = request.one(b"sec-fetch-site")
        foreign = site not in ("", "same-origin", "none")
        if request.method in _SAFE:
            # Pages may be linked to; data may not be read from other sites.
            if foreign and request.path.startswith("/api/"):
                return _cross_site("this was asked for by a page of another site")
            return None
        return self._cross_site_fault(request, hosts[0], foreign=foreign) or self._type_fault(request)

    def _cross_site_fault(self, request: _Request, host: str, *, foreign: bool) -> Problem | None:
        """A change must come from a page of ours, or from a program. A browser says where a page is from."""
        origins = request.all(b"origin")
        if foreign or (origins and not all(same_origin(origin, host, tls=self._tls) for origin in origins)):
            return _cross_site("this was asked for by a page of another site")
        if origins or request.one(b"sec-fetch-site") or request.one(b"authorization"):
            return None
        # A page of another site cannot send this field without asking first, and is always told no.
        if request.one(b"x-requested-by"):
            return None
        return _cross_site(
            "a program must send the header X-Requested-By, with any value, or a token as Bearer"
        )

    def _type_fault(self, request: _Request) -> Problem | None:
        if not request.has_body:
            return None
        kind = request.one(b"content-type").partition(";")[0].strip().lower()
        if kind == _JSON or (kind == _FORM and request.path == LOGIN):
            return None
        return Problem("unsupported_type", f"the body must be {_JSON}", 415)

    async def _actor(self, request: _Request) -> Actor | None:
        """Who makes the request; None: it shows nothing. Raises Problem."""
        authorization = request.one(b"authorization")
        if authorization:
            scheme, _, token = authorization.partition(" ")
            token = token.strip()
            if scheme.lower() != "bearer" or not 0 < len(token) <= TOKEN_CHARACTERS_MAX or not token.isascii():
                raise Problem("unauthorized", "write Authorization: Bearer TOKEN")
            return await self._check_token(token, request.address)
        cookies = "; ".join(request.all(b"cookie"))
        if cookies:
            actor = self._sessions.find(cookies)
            if actor is not None:
                return actor
        return self._local


def _cross_site(text: str) -> Problem:
    return Problem("cross_site", text, 403)


class _Request:
    """What the guard reads of a request."""

    __slots__ = ("_headers", "address", "method", "path")

    def __init__(self, scope: Scope) -> None:
        self.method = str(scope["method"])
        self.path = str(scope["path"])
        client = scope.get("client")
        self.address = str(client[0]) if client else ""
        self._headers: list[tuple[bytes, bytes]] = [
            (bytes(name), bytes(value)) for name, value in scope["headers"]
        ]

    def all(self, name: bytes) -> list[str]:
        """The values of a header field, in order."""
        return [value.decode("latin-1") for other, value in self._headers if other.lower() == name]

    def one(self, name: bytes) -> str:
        """The first value of a header field; empty: there is none."""
        return next(iter(self.all(name)), "")

    @property
    def has_body(self) -> bool:
        return bool(self.one(b"transfer-encoding")) or self.one(b"content-length") not in ("", "0")

    @property
    def length(self) -> int:
        """The stated length of the body; 0: none, or none that can be read."""
        stated = self.one(b"content-length")
        return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 20 else 0


class _Body:
    """The body of a request, up to its limits."""

    __slots__ = ("_complete", "_limit_s", "_most", "_read", "_receive", "_until_s", "fault")

    def __init__(self, receive: Receive, most: int, limit_s: float) -> None:
        self._receive = receive
        self._most = most
        self._limit_s = limit_s
        self._until_s = 0.0
        """When it must be there; 0: nobody has read it yet."""
        self._read = 0
        self._complete = False
        self.fault: Problem | None = None
        """Why it is not read to its end."""

    def expect(self, length: int) -> None:
        """It has this length now, or will have."""
        if length > self._most:
            self._fail(Problem("too_large", f"the body of this request may have {self._most} bytes"))

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()  # That the client has gone: it may stay for as long as it likes.
        self._until_s = self._until_s or asyncio.get_running_loop().time() + self._limit_s
        try:
            async with asyncio.timeout_at(self._until_s):
                message = await self._receive()
        except TimeoutError:
            text = f"the body of this request was not complete after {self._limit_s:g} s"
            self._fail(Problem("timeout", text, 408))
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            self.expect(self._read)
        self._complete = not message.get("more_body", False)
        return message

    def _fail(self, fault: Problem) -> NoReturn:
        self.fault = fault
        raise _Unread


class _Answer:
    """Sends an answer with the headers that all have."""

    __slots__ = ("_path", "_send", "body", "started")

    def __init__(self, send: Send, path: str) -> None:
        self._send = send
        self._path = path
        self.body: _Body | None = None
        self.started = False

    async def send(self, message: Message) -> None:
        if self.body is not None and self.body.fault is not None and not self.started:
            return  # The application answers its own error: the reason is the body.
        if message["type"] == "http.response.start":
            self.started = True
            headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            present = {name.lower() for name, _ in headers}
            headers += [header for header in HEADERS if header[0] not in present]
            if self._path.startswith("/api/") and _NO_STORE[0] not in present:
                headers.append(_NO_STORE)
            message = {**message, "headers": headers}
        await self._send(message)

    async def refuse(self, scope: Scope, receive: Receive, fault: Problem) -> None:
        """Answer in the place of the application."""
        self.body = None
        response = respond(fault)
        response.headers["cache-control"] = "no-store"
        if fault.status == 401:
            response.headers["www-authenticate"] = "Bearer"
        if fault.status in _UNREAD:
            response.headers["connection"] = "close"  # What is left of the body is not read.
        await response(scope, receive, self.send)
