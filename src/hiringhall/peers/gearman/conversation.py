"""A client's talk with one server.

The law: a server answers in the order in which it was asked, and tells of each job by its handle. So one
queue pairs answers with questions, one table finds jobs, and any number of both are under way at once.
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
_NEWS: Final = frozenset(
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
    """Something asked; `job` is the foreground job that a JOB_CREATED brings to life."""

    __slots__ = ("answer", "answer_type", "job")

    def __init__(self, answer_type: int, job: AsyncJob | None) -> None:
        self.answer_type = answer_type
        self.job = job
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()


class Conversation:
    """Asks, and gives each answer to whom it belongs."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._connection: Connection | None = None
        self._questions: deque[_Question] = deque()
        self._jobs: dict[bytes, deque[AsyncJob]] = {}
        """Foreground jobs that have not ended. A handle has several when a submit joined another's job."""
        self._complaint: ServerError | None = None
        """An error that answers no question: the server says it before it closes."""

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
        """Submit a foreground job and wait until the server has taken it in."""
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

    # what the connection tells

    def received(self, packet_type: int, body: bytes) -> None:
        if packet_type in _NEWS:
            handle, _, rest = body.partition(b"\0")
            self._tell_job(packet_type, handle, rest)
        elif packet_type in _ANSWERS:
            self._answer(packet_type, body)
        elif packet_type == wire.ERROR:
            code, _, text = body.partition(b"\0")
            self._refuse(ServerError(code.decode(errors="replace"), text.decode(errors="replace")))

    def lost(self, reason: ConnectionLost) -> None:
        self._connection = None
        if self._complaint is not None:
            reason.__cause__ = self._complaint
        while self._questions:
            self._fail(self._questions.popleft(), reason)
        for jobs in self._jobs.values():
            for job in jobs:
                job.finish(reason)
        self._jobs.clear()

    def _tell_job(self, packet_type: int, handle: bytes, rest: bytes) -> None:
        jobs = self._jobs.get(handle)
        if jobs is None:
            return
        # News come once for each submit that joined the job: each copy goes to the next of them. The end is an
        # end for all, and its further copies find nobody.
        if jobs[0].told(packet_type, rest):
            jobs.rotate(-1)
            return
        del self._jobs[handle]
        for job in jobs:
            job.told(packet_type, rest)

    def _answer(self, packet_type: int, body: bytes) -> None:
        if not self._questions or self._questions[0].answer_type != packet_type:
            name = wire.NAMES[packet_type]
            self._refuse(ServerError("UNEXPECTED_PACKET", f"{name} does not answer what was asked"))
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
            self._complaint = error

    def _fail(self, question: _Question, error: GearmanError) -> None:
        if not question.answer.done():
            question.answer.set_exception(error)
            # Looked at once, so that asyncio does not complain when whoever asked has gone meanwhile.
            question.answer.exception()
