"""A client's conversation with one server, and the connection of one job that is waited for.

Invariant: a server answers requests in order, so one queue matches answers to requests, and any number can be
open at once. A job that is waited for has no handle on the wire, so it has its own connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft.connection import Connection
from hiringhall.peers.gearman_draft.errors import ConnectionLost, ServerError
from hiringhall.peers.gearman_draft.jobs import Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    StatusListener = Callable[[Status], None]


def name_of(packet_type: int) -> str:
    return wire.NAMES.get(packet_type, f"a packet of type {packet_type}")


def read_error(packet_type: int, body: bytes) -> ServerError | None:
    """The error in a packet, if it is one."""
    if packet_type != wire.JOB_COMPLETE_RES:
        return None
    fields = wire.parse_job_complete_res(body)
    if fields is None or fields[0] != wire.ERROR_STATUS:
        return None
    return ServerError(fields[1], fields[2].decode(errors="replace"))


def read_status(body: bytes) -> Status:
    fields = wire.parse_job_status(body)
    if fields is None:
        raise ServerError(wire.BAD_BODY, f"a malformed status: {body!r}")
    return Status(*fields)


def read_outcome(body: bytes) -> Outcome | None:
    """None: the job has not ended."""
    fields = wire.parse_job_complete_res(body)
    if fields is None:
        raise ServerError(wire.BAD_BODY, f"a malformed outcome: {body!r}")
    return Outcome(*fields) if fields[0] != wire.INCOMPLETE else None


class Conversation:
    """Sends requests, and passes each answer to its caller."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._connection: Connection | None = None
        self._questions: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        """The open requests: the type of the answer, and the future that waits for it."""
        self._last_error: ServerError | None = None
        """An error that answers no request: the server sends it before it closes."""

    @classmethod
    async def open(
        cls,
        server: str,
        timeout_s: float,
        packet_bytes_max: int = wire.PACKET_BYTES_MAX,
        tls: SSLContext | None = None,
    ) -> Conversation:
        """Connect, or raise ConnectionLost."""
        conversation = cls(server)
        conversation._connection = await Connection.open(server, conversation, timeout_s, packet_bytes_max, tls)
        return conversation

    @property
    def live(self) -> bool:
        return self._connection is not None and self._connection.live

    def ask(self, packet: bytes, answer_type: int) -> asyncio.Future[bytes]:
        """Send a packet. The future gets the body of the answer, a ServerError, or ConnectionLost."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._connection is None or not self._connection.live:
            _fail(answer, ConnectionLost(f"{self.server}: the connection is closed"))
        else:
            self._questions.append((answer_type, answer))
            self._connection.send(packet)
        return answer

    async def answer(self, packet: bytes, answer_type: int) -> bytes:
        """Send a packet when there is room for it, and wait for the answer."""
        await self.drain()
        return await self.ask(packet, answer_type)

    async def drain(self) -> None:
        """Wait until there is room for more requests."""
        if self._connection is not None:
            await self._connection.drain()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    # called by the connection

    def received(self, packet_type: int, body: bytes) -> None:
        error = read_error(packet_type, body)
        if error is not None:
            if self._questions:
                _fail(self._questions.popleft()[1], error)
            else:
                self._last_error = error
        elif self._questions and self._questions[0][0] == packet_type:
            answer = self._questions.popleft()[1]
            if not answer.done():
                answer.set_result(body)
        elif packet_type != wire.NOOP:
            # From here on, answers could not be matched to requests.
            assert self._connection is not None
            self._connection.abort(f"{name_of(packet_type)} does not match the open request")

    def lost(self, reason: ConnectionLost) -> None:
        self._connection = None
        reason.__cause__ = self._last_error
        while self._questions:
            _fail(self._questions.popleft()[1], reason)


class WaitedJob:
    """A job that is waited for: its acceptance, its progress and its end."""

    def __init__(self, on_status: StatusListener | None) -> None:
        self._on_status = on_status
        self._taken = False
        self._end: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    async def wait_for_end(self, connection: Connection, packet: bytes) -> Outcome:
        """Submit the job and wait for its end. Raises ServerError or ConnectionLost."""
        connection.send(packet)
        try:
            return await self._end
        finally:
            await connection.close()

    # called by the connection

    def received(self, packet_type: int, body: bytes) -> None:
        if self._end.done():
            return
        try:
            self._take_in(packet_type, body)
        except Exception as error:  # noqa: BLE001 - the caller gets what its listener raises
            _fail(self._end, error)

    def lost(self, reason: ConnectionLost) -> None:
        _fail(self._end, reason)

    def _take_in(self, packet_type: int, body: bytes) -> None:
        error = read_error(packet_type, body)
        if error is not None:
            raise error
        if packet_type == wire.JOB_CREATE_RES and not self._taken:
            self._taken = True
        elif packet_type == wire.JOB_STATUS_RES and self._taken:
            status = read_status(body)
            if self._on_status is not None:
                self._on_status(status)
        elif packet_type == wire.JOB_COMPLETE_RES and self._taken:
            outcome = read_outcome(body)
            if outcome is None:
                raise ServerError(wire.BAD_BODY, "job_complete_res says that the job has not ended")
            self._end.set_result(outcome)
        elif packet_type != wire.NOOP:
            raise ServerError(wire.UNKNOWN_TYPE, f"{name_of(packet_type)} was not expected here")


def _fail(answer: asyncio.Future[Outcome] | asyncio.Future[bytes], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        # Mark the exception as retrieved: the caller may be gone, and asyncio would log it.
        answer.exception()
