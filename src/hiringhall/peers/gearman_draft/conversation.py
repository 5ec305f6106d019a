"""A client's talk with one server, and the talk about one job that is waited for.

The law: a server answers in the order in which it was asked, so one queue pairs answers with questions and any
number are under way at once. A job that is waited for has no handle on the wire: it has a connection to itself.
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
    """The error that a packet is, if it is one."""
    if packet_type != wire.JOB_COMPLETE_RES:
        return None
    fields = wire.parse_job_complete_res(body)
    if fields is None or fields[0] != wire.ERROR_STATUS:
        return None
    return ServerError(fields[1], fields[2].decode(errors="replace"))


def read_status(body: bytes) -> Status:
    fields = wire.parse_job_status(body)
    if fields is None:
        raise ServerError(wire.BAD_BODY, f"a status of a form not known: {body!r}")
    return Status(*fields)


def read_outcome(body: bytes) -> Outcome | None:
    """None: the job has not ended."""
    fields = wire.parse_job_complete_res(body)
    if fields is None:
        raise ServerError(wire.BAD_BODY, f"an outcome of a form not known: {body!r}")
    return Outcome(*fields) if fields[0] != wire.INCOMPLETE else None


class Conversation:
    """Asks, and gives each answer to whom it belongs."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._connection: Connection | None = None
        self._questions: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        """What was asked and not answered: the type of the answer, and who waits for it."""
        self._complaint: ServerError | None = None
        """An error that answers no question: the server says it before it closes."""

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
        """Send a packet; the future is the body of its answer, a ServerError, or ConnectionLost."""
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
        """Wait until there is room for more questions."""
        if self._connection is not None:
            await self._connection.drain()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    # what the connection tells

    def received(self, packet_type: int, body: bytes) -> None:
        error = read_error(packet_type, body)
        if error is not None:
            if self._questions:
                _fail(self._questions.popleft()[1], error)
            else:
                self._complaint = error
        elif self._questions and self._questions[0][0] == packet_type:
            answer = self._questions.popleft()[1]
            if not answer.done():
                answer.set_result(body)
        elif packet_type != wire.NOOP:
            # From here on nobody could tell which answer belongs to which question.
            assert self._connection is not None
            self._connection.abort(f"{name_of(packet_type)} does not answer what was asked")

    def lost(self, reason: ConnectionLost) -> None:
        self._connection = None
        reason.__cause__ = self._complaint
        while self._questions:
            _fail(self._questions.popleft()[1], reason)


class Attendance:
    """A job that somebody waits for: its answer, its statuses as they come, its end."""

    def __init__(self, on_status: StatusListener | None) -> None:
        self._on_status = on_status
        self._taken = False
        self._end: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    async def attend(self, connection: Connection, packet: bytes) -> Outcome:
        """Hand the job in and stay to its end; raises ServerError or ConnectionLost."""
        connection.send(packet)
        try:
            return await self._end
        finally:
            await connection.close()

    # what the connection tells

    def received(self, packet_type: int, body: bytes) -> None:
        if self._end.done():
            return
        try:
            self._take_in(packet_type, body)
        except Exception as error:  # noqa: BLE001 - what the caller's listener raises, the caller gets
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
                raise ServerError(wire.BAD_BODY, "the job is said to end and to go on")
            self._end.set_result(outcome)
        elif packet_type != wire.NOOP:
            raise ServerError(wire.UNKNOWN_TYPE, f"{name_of(packet_type)} has no place here")


def _fail(answer: asyncio.Future[Outcome] | asyncio.Future[bytes], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        # Looked at once, so that asyncio does not complain when whoever asked has gone meanwhile.
        answer.exception()
