"""A worker's connection to the hall: frames in, frames out, connected again when it is lost.

Invariant: what is sent within one pass of the event loop becomes one write. What is sent while there is no
connection is dropped: the leases of a lost connection are void.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.sdk.conversation import hello_body
from hiringhall.sdk.link import tls_of
from hiringhall.worker.messages import ASSIGN_PREFIX

if TYPE_CHECKING:
    from hiringhall.sdk.addresses import Address

CONNECT_S: Final = 5.0
PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 5.0
"""Before it is tried again; doubles each time."""
SILENCE_S: Final = 30.0
"""Silence after which either side takes the other for lost."""
BEAT_S: Final = 0.3
"""How often the worker shows life while it has jobs: a job may have a short limit of silence."""
UNSENT_BYTES_MAX: Final = 4 << 20
"""Above it, children are not heard until the hall has read more."""

_ANSWER: Final = msgspec.msgpack.Decoder()
_ERROR: Final = msgspec.msgpack.Decoder(tuple[str, str])
_FLAG: Final = msgspec.msgpack.Decoder(bool)
_LEASE: Final = msgspec.msgpack.Decoder(tuple[int])


class LinkLost(Exception):
    """There is no connection to the hall."""


class Refused(Exception):
    """The hall refused: code and text."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code


class LinkOwner(Protocol):
    """Who hears what the hall says."""

    def connected(self, welcome: dict[str, Any]) -> None: ...

    def disconnected(self, reason: str) -> None: ...

    def assigned(self, frame: bytes) -> None: ...

    def revoked(self, lease: int) -> None: ...

    def lost(self) -> None: ...

    def drained(self, draining: bool) -> None:
        """The hall gives this worker no more jobs, or gives it jobs again."""

    def refused(self, code: str, text: str) -> None: ...

    def flow(self, flowing: bool) -> None:
        """The hall reads as fast as we send, or not."""

    def busy(self) -> bool: ...


class Link(asyncio.Protocol):
    """The connection of a pool."""

    def __init__(self, addresses: list[Address], owner: LinkOwner, name: str, token: str = "") -> None:
        self._addresses = addresses
        self._owner = owner
        self._name = name
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = wire.Reader()
        self._out: list[bytes] = []
        self._number = 0
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._closed: asyncio.Future[str] = self._loop.create_future()
        self._closing = False
        self._heard_at = 0.0
        self._beat_at = 0.0
        self._wake = asyncio.Event()
        self._gone = asyncio.Event()
        """Set while there is no transport, also none that is about to end."""
        self._gone.set()
        self.address: Address = addresses[0]
        self.up = False

    # --- life

    async def run(self) -> None:
        """Connect, and connect again, until `close`."""
        pause = PAUSE_S_MIN
        told = ""
        while not self._closing:
            reason = ""
            for address in self._addresses:
                try:
                    await self._connect(address)
                except (OSError, LinkLost, Refused, ssl.SSLError, TimeoutError) as error:
                    reason = f"{address}: {_words(error)}"
                    self._drop(reason)
                    continue
                pause = PAUSE_S_MIN
                told = ""
                beating = self._loop.create_task(self._beat())
                reason = await self._closed
                beating.cancel()
                self.up = False
                self._fail_asked(reason)
                if not self._closing:
                    self._owner.disconnected(reason)
                    # Also a hall that greets and then hangs up is not called without a pause.
                    await self._pause(PAUSE_S_MIN)
                break
            else:
                if reason != told:
                    told = reason
                    self._owner.disconnected(reason)
                await self._pause(pause)
                pause = min(2 * pause, PAUSE_S_MAX)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _connect(self, address: Address) -> None:
        # The end of the last connection must not be taken for the end of this one.
        await self._gone.wait()
        self._reader = wire.Reader()
        self._out.clear()
        self._closed = self._loop.create_future()
        self.address = address
        async with asyncio.timeout(CONNECT_S):
            if address.path:
                await self._loop.create_unix_connection(lambda: self, address.path)
            else:
                context = tls_of(address)
                await self._loop.create_connection(lambda: self, address.host, address.port, ssl=context)
            self.up = True
            welcome = await self.ask(wire.HELLO, hello_body(self._name, self._token))
        self._owner.connected(welcome)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            now = self._loop.time()
            if now - self._heard_at > SILENCE_S:
                self._drop(f"{self.address}: the hall has not answered for {SILENCE_S:.0f} seconds")
                return
            if now - self._beat_at >= SILENCE_S / 3:
                # With a number: the answer shows that the hall lives.
                self._beat_at = now
                self._forget(self.ask(wire.BEAT, None))
            elif self._owner.busy():
                self.send(_BEAT)

    def _forget(self, answer: asyncio.Future[Any]) -> None:
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _drop(self, reason: str) -> None:
        self.up = False
        self._fail_asked(reason)
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        if not self._closed.done():
            self._closed.set_result(reason)

    def close(self) -> None:
        """Send what is to be sent, and end."""
        self._closing = True
        self._wake.set()
        self._flush()
        self.up = False
        if self._transport is not None:
            self._transport.close()
        elif not self._closed.done():
            self._closed.set_result("closed")

    # --- output

    def send(self, frame: bytes) -> None:
        """Send a frame with its length."""
        out = self._out
        if not out and self.up:
            self._loop.call_soon(self._flush)
        if self.up:
            out.append(frame)

    def tell(self, kind: str, body: object) -> None:
        """Send a request that wants no answer."""
        self.send(wire.encode(kind, 0, body))

    def ask(self, kind: str, body: object) -> asyncio.Future[Any]:
        """The answer of the hall. Raises Refused or LinkLost."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if not self.up:
            answer.set_exception(LinkLost("no connection to the hall"))
            return answer
        self._number += 1
        self._asked[self._number] = answer
        self.send(wire.encode(kind, self._number, body))
        return answer

    def _flush(self) -> None:
        out = self._out
        if out and self._transport is not None:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()

    # --- input

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._gone.clear()
        self._transport.set_write_buffer_limits(UNSENT_BYTES_MAX)
        self._heard_at = self._beat_at = self._loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._gone.set()
        self.up = False
        if not self._closed.done():
            reason = _words(exc) if exc is not None else "the hall has closed the connection"
            self._closed.set_result(f"{self.address}: {reason}")
        self._fail_asked("the connection was lost")

    def pause_writing(self) -> None:
        self._owner.flow(False)

    def resume_writing(self) -> None:
        self._owner.flow(True)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        assigned = self._owner.assigned
        try:
            for frame in self._reader.feed(data):
                if frame.startswith(ASSIGN_PREFIX):
                    assigned(frame)
                else:
                    self._take_in(frame)
        except (wire.BadFrame, msgspec.MsgspecError) as error:
            self._drop(f"{self.address}: it does not speak the native protocol: {error}")
        if self._reader.error:
            self._drop(f"{self.address}: {self._reader.error}")

    def _take_in(self, frame: bytes) -> None:
        kind, number, body = wire.decode_frame(frame)
        if number:
            answer = self._asked.pop(number, None)
            if answer is None or answer.done():
                return
            if kind == wire.ERROR:
                answer.set_exception(Refused(*_ERROR.decode(body)))
            else:
                answer.set_result(_ANSWER.decode(body))
        elif kind == wire.REVOKE:
            self._owner.revoked(_LEASE.decode(body)[0])
        elif kind == wire.DRAIN:
            self._owner.drained(_FLAG.decode(body))
        elif kind == wire.LOST:
            self._owner.lost()
        elif kind == wire.ERROR:
            self._owner.refused(*_ERROR.decode(body))

    def _fail_asked(self, reason: str) -> None:
        asked = list(self._asked.values())
        self._asked.clear()
        for answer in asked:
            if not answer.done():
                answer.set_exception(LinkLost(reason))


_BEAT: Final = wire.encode(wire.BEAT, 0, None)


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, FileNotFoundError):
        return "no such socket"
    return str(error) or type(error).__name__
