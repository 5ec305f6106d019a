"""A client's conversation with one server.

Invariant: a server answers requests in order, and reports on jobs by handle. So one queue matches answers to
requests, one table finds jobs, and any number of both can be open at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.dialects.gearman import wire
from hiringhall.peers.gearman.connection import Connection
from hiringhall.peers.gearman.errors import ConnectionLost, GearmanError, ServerError
from hiringhall.peers.gearman.jobs import AsyncJob

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ssl import SSLContext

_ANSWERS: Final = frozenset(
    (wire.JOB_CREATED, wire.STATUS_RES, wire.STATUS_RES_UNIQUE, wire.ECHO_RES, wire.OPTION_RES)
)
_UPDATES: Final = frozenset(
    (
        wire.WORK_COMPLETE,
        wire.WORK_FAIL,
        wire.WORK_EXCEPTION,
        wire.WORK_STATUS,
        wire.WORK_DATA,
        wire.WORK_WARNING,
    )
)


class _Question:
    """An open request; `job` is the foreground job that JOB_CREATED confirms."""

    __slots__ = ("answer", "answer_type", "job")

    def __init__(self, answer_type: int, job: AsyncJob | None) -> None:
        self.answer_type = answer_type
        self.job = job
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()


class Conversation:
    """Sends requests, and passes each answer to its caller."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._connection: Connection | None = None
        self._questions: deque[_Question] = deque()
        self._jobs: dict[bytes, deque[AsyncJob]] = {}
        """Foreground jobs that have not ended. A handle has several if submits joined the same job."""
        self._last_error: ServerError | None = None
        """An error that answers no request: the server sends it before it closes."""

    @classmethod
    async def open(
        cls, server: str, timeout_s: float, options: Iterable[str], tls: SSLContext | None = None
    ) -> Conversation:
        """Connect and set the options, or raise ConnectionLost or ServerError."""
        conversation = cls(server)
        conversation._connection = await Connection.open(server, conversation, timeout_s, tls)
        try:
            for option in options:
                await conversation.ask(wire.OPTION_REQ, wire.OPTION_RES, option.encode())
        except BaseException:
            await conversation.close()
            raise
        return conversation

    @property
    def live(self) -> bool:
        return self._connection is not None and self._connection.live

    async def ask(self, packet_type: int, answer_type: int, *args: bytes) -> bytes:
        """Send a packet and wait for the body of its answer."""
        return await self._ask(packet_type, _Question(answer_type, None), args)

    async def submit(self, packet_type: int, *args: bytes) -> AsyncJob:
        """Submit a foreground job and wait until the server has accepted it."""
        job = AsyncJob(self.server)
        await self._ask(packet_type, _Question(wire.JOB_CREATED, job), args)
        return job

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _ask(self, packet_type: int, question: _Question, args: tuple[bytes, ...]) -> bytes:
        connection = self._connection
        if connection is None or not connection.live:
            raise ConnectionLost(f"{self.server}: the connection is closed")
        self._questions.append(question)
        connection.send(wire.pack_request(packet_type, *args))
        await connection.drain()
        return await question.answer

    # called by the connection

    def received(self, packet_type: int, body: bytes) -> None:
        if packet_type in _UPDATES:
            handle, _, rest = body.partition(b"\0")
            self._update_job(packet_type, handle, rest)
        elif packet_type in _ANSWERS:
            self._answer(packet_type, body)
        elif packet_type == wire.ERROR:
            code, _, text = body.partition(b"\0")
            self._refuse(ServerError(code.decode(errors="replace"), text.decode(errors="replace")))

    def lost(self, reason: ConnectionLost) -> None:
        self._connection = None
        if self._last_error is not None:
            reason.__cause__ = self._last_error
        while self._questions:
            self._fail(self._questions.popleft(), reason)
        for jobs in self._jobs.values():
            for job in jobs:
                job.finish(reason)
        self._jobs.clear()

    def _update_job(self, packet_type: int, handle: bytes, rest: bytes) -> None:
        jobs = self._jobs.get(handle)
        if jobs is None:
            return
        # An update comes once for each submit that joined the job: each copy goes to the next of them. The
        # first end is the end for all; further copies are ignored.
        if jobs[0].received(packet_type, rest):
            jobs.rotate(-1)
            return
        del self._jobs[handle]
        for job in jobs:
            job.received(packet_type, rest)

    def _answer(self, packet_type: int, body: bytes) -> None:
        if not self._questions or self._questions[0].answer_type != packet_type:
            name = wire.NAMES[packet_type]
            self._refuse(ServerError("UNEXPECTED_PACKET", f"{name} does not match the open request"))
            return
        question = self._questions.popleft()
        if question.job is not None:
            question.job.handle = body
            self._jobs.setdefault(body, deque()).append(question.job)
        if not question.answer.done():
            question.answer.set_result(body)

    def _refuse(self, error: ServerError) -> None:
        if self._questions:
            self._fail(self._questions.popleft(), error)
        else:
            self._last_error = error

    def _fail(self, question: _Question, error: GearmanError) -> None:
        if not question.answer.done():
            question.answer.set_exception(error)
            # Mark the exception as retrieved: the caller may be gone, and asyncio would log it.
            question.answer.exception()
