"""Server-sent events: what changes, as it changes.

Invariant: nothing is queued for a client. A client that reads slowly gets the latest when it reads again, and
one that does not read is dropped by the server. The number of streams is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from hiringhall.web.problems import Problem
from hiringhall.web.route import EVENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from hiringhall.web.calls import Call
    from hiringhall.web.services import Services

HEARTBEAT_S: Final = 15.0
STREAMS_MAX: Final = 500
INTERVAL_S: Final = 0.5
"""The shortest time between two summaries of one stream."""
RETRY_MS: Final = 1000
"""After how long a browser connects again."""
HEARTBEAT: Final = b": still here\n\n"


class EventStream(StreamingResponse):
    """A response that goes on. It ends with its connection, and when the process ends."""

    def __init__(self, services: Services, events: AsyncIterator[bytes]) -> None:
        if services.streams >= STREAMS_MAX:
            raise Problem("busy", f"there are {STREAMS_MAX} streams of events already; close some")
        super().__init__(events, media_type=EVENTS, headers={"x-accel-buffering": "no"})
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            # There is nothing to wait for, and the connection may be used for the next request.
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body"})
            return
        self._services.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._services.streams -= 1


def event(name: str, data: bytes, number: str = "") -> bytes:
    """One event. JSON has no line ends, so it is one line."""
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {name}\ndata: ".encode() + data + b"\n\n"


def goes_on(call: Call) -> bool:
    """Whether a stream may: it ends with the process, with the actor's token and with the session."""
    services = call.services
    if services.closing.is_set() or not services.halls.knows(call.actor):
        return False
    headers = call.request.headers
    by_cookie = bool(call.actor.token) and "authorization" not in headers
    return not by_cookie or services.sessions.find(headers.get("cookie", "")) is not None


async def rest(call: Call, time_s: float) -> None:
    """Wait for some time, or until the process ends."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(time_s):
            await call.services.closing.wait()


async def summaries(call: Call) -> Response:
    return EventStream(call.services, _summaries(call))


async def _summaries(call: Call) -> AsyncIterator[bytes]:
    hub = call.services.summary
    connected: bool | None = None
    sent: object = None
    with hub.looking():
        yield f"retry: {RETRY_MS}\n\n".encode()
        while goes_on(call):
            version = hub.version
            if hub.connected != connected:
                connected = hub.connected
                yield event("hall", b'{"connected":true}' if connected else b'{"connected":false}')
            if connected and hub.latest is not None and hub.latest is not sent:
                sent = hub.latest
                yield event("summary", hub.encoded)
            await rest(call, INTERVAL_S)
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await hub.wait(version)
            except TimeoutError:
                yield HEARTBEAT
