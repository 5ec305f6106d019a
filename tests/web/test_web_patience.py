"""Clients that do not do their part: half a request, a slow body, an answer that is not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from hiringhall.web.guard import LOCAL, Guard
from hiringhall.web.hosts import Hosts
from hiringhall.web.patience import PatientProtocol
from hiringhall.web.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hiringhall.web.guard import Actor, Receive, Scope, Send

LIMIT_S: Final = 0.3
"""A test waits for the end of this one."""
LONG_S: Final = 3600.0
TIMEOUT_S: Final = 20.0
HOST: Final = b"Host: localhost\r\nX-Requested-By: tests\r\n"
HEAD: Final = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"


class Hasty(PatientProtocol):
    """Limits that a test sets."""

    ended: asyncio.Event
    """A connection has ended."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.ended.set()


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body; then answers GET without end, everything else with `done`."""
    del scope["state"]
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    gone = asyncio.ensure_future(receive())
    while scope["method"] == "GET" and not gone.done():
        await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
        await asyncio.sleep(0)
    gone.cancel()
    await send({"type": "http.response.body", "body": b"done"})


async def _nobody(token: str, address: str) -> Actor:
    raise AssertionError((token, address))


@contextlib.asynccontextmanager
async def _served(head_s: float, body_s: float, slow_s: float) -> AsyncIterator[int]:
    Hasty.head_s = head_s
    Hasty.slow_s = slow_s
    Hasty.ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await guard(scope, receive, send)

    guard = Guard(
        _answer, Hosts("127.0.0.1"), Sessions(tls=False), _nobody, local=LOCAL, tls=False, body_s=body_s
    )
    config = uvicorn.Config(app, http=Hasty, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task


def _say(*parts: bytes, head_s: float = LONG_S, body_s: float = LONG_S) -> bytes:
    """What the server answers to these bytes, until it closes the connection."""

    async def say() -> bytes:
        async with _served(head_s, body_s, LONG_S) as port, asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.writelines(parts)
            heard = b""
            with contextlib.suppress(ConnectionError):
                heard = await reader.read()
            writer.close()
            return heard

    return asyncio.run(say())


def test_a_connection_on_which_nothing_is_sent_is_closed() -> None:
    assert _say(head_s=LIMIT_S) == b""


def test_half_a_head_is_not_waited_for() -> None:
    assert _say(b"GET / HT", head_s=LIMIT_S) == b""


def test_half_a_head_after_a_whole_request_is_not_waited_for() -> None:
    heard = _say(HEAD, b"Content-Length: 2\r\n\r\n{}", b"GET / HT", head_s=1.0)
    assert heard.startswith(b"HTTP/1.1 200")
    assert heard.count(b"HTTP/1.1") == 1


def test_a_body_that_does_not_come_is_answered_with_408() -> None:
    heard = _say(HEAD, b'Content-Length: 100\r\n\r\n{"queue"', body_s=LIMIT_S)
    assert heard.startswith(b"HTTP/1.1 408")
    assert b'"code":"timeout"' in heard


def test_a_body_with_two_lengths_is_refused_and_what_follows_it_is_not_read() -> None:
    heard = _say(HEAD, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", HEAD, b"\r\n")
    assert heard.startswith(b"HTTP/1.1 400")
    assert heard.count(b"HTTP/1.1") == 1


def test_a_client_that_does_not_read_is_disconnected() -> None:
    async def ignore() -> None:
        async with _served(LONG_S, LONG_S, LIMIT_S) as port, asyncio.timeout(TIMEOUT_S):
            loop = asyncio.get_running_loop()
            with socket.socket() as client:
                client.setblocking(False)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                await loop.sock_connect(client, ("127.0.0.1", port))
                await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await Hasty.ended.wait()

    asyncio.run(ignore())
