"""The client: it hands each job to a server picked at random, and remembers which job is where."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft.connection import Connection, parse_servers
from hiringhall.peers.gearman_draft.conversation import Attendance, Conversation, read_outcome, read_status
from hiringhall.peers.gearman_draft.errors import ConnectionLost, JobFailed, ServerError
from hiringhall.peers.gearman_draft.jobs import Job, JobType, Outcome, Priority, Status, as_bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from ssl import SSLContext
    from types import TracebackType

    from hiringhall.peers.gearman_draft.conversation import StatusListener

    Opened = TypeVar("Opened")

_FLAGS: Final = {"normal": wire.FLAG_NORMAL, "high": wire.FLAG_HIGH, "low": wire.FLAG_LOW}
_TYPES: Final = {
    "sync+wait": wire.SYNC_WAIT,
    "async+handle": wire.ASYNC_HANDLE,
    "async+throw-away": wire.ASYNC_THROW_AWAY,
}
_AVOID_S: Final = 1.0
"""A server that could not be reached is tried last for so long."""
_PAUSE_GROWTH: Final = 1.5


class _HandIn(NamedTuple):
    """A job on its way to a server, and what holds for it again when it is refused there."""

    server: str
    handle: bytes
    doubtful: bool
    remembered: bool


class Client:
    """Submits jobs and asks about them; any number at once.

        async with Client(["10.0.0.1:4730", "10.0.0.2:4730"]) as client:
            print(await client.run("reverse", b"hello"))
            job = await client.submit("resize", photo, key="7-1-100-80")
            outcome = await client.wait(job)

    A job goes to a server picked at random by `choose`; one that cannot be reached is passed over. What is
    asked of a server goes over one connection to it, in order; a job that is waited for has a connection of
    its own.

    A job with a handle is remembered until its outcome has been read, or it is forgotten. When a server is
    gone, `lost` lists what was there, and `resubmit` hands a job in elsewhere: the draft leaves that to the
    application, for only it knows whether a job may run twice.

    `packet_bytes_max` is that of the servers' doors: the largest packet that is read, such as a result. `tls`
    is for servers that speak TLS: any SSLContext of a client, such as `hiringhall.peers.tls.client_tls` makes.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        connect_timeout_s: float = 5.0,
        packet_bytes_max: int = wire.PACKET_BYTES_MAX,
        choose: Callable[[Sequence[str]], str] = secrets.choice,
        tls: SSLContext | None = None,
    ) -> None:
        self.servers = parse_servers(servers)
        self._connect_timeout_s = connect_timeout_s
        self._packet_bytes_max = packet_bytes_max
        self._choose = choose
        self._tls = tls
        self._jobs: dict[Job, None] = {}
        self._under_way: dict[Job, _HandIn] = {}
        """Jobs that were handed in and have no answer, with their latest way."""
        self._conversations: dict[str, Conversation] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._avoid_until_s: dict[str, float] = {}

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave all servers; what is remembered stays so."""
        conversations = list(self._conversations.values())
        self._conversations.clear()
        for conversation in conversations:
            await conversation.close()

    async def run(
        self,
        name: str | bytes,
        args: bytes = b"",
        *,
        key: str | bytes = b"",
        priority: Priority = "normal",
        on_status: StatusListener | None = None,
    ) -> bytes:
        """Have a job done and return its result (sync+wait); `on_status` hears how far it is.

        Raises JobFailed; and ConnectionLost when the end will not be heard of.
        """
        packet = _packet(Job(as_bytes(name), args, as_bytes(key), "sync+wait", priority))
        attendance = Attendance(on_status)
        connection = await self._reach(
            lambda server: Connection.open(
                server, attendance, self._connect_timeout_s, self._packet_bytes_max, self._tls
            )
        )
        outcome = await attendance.attend(connection, packet)
        if not outcome.ok:
            raise JobFailed(as_bytes(name).decode(errors="replace"), outcome.code, outcome.data)
        return outcome.data

    async def submit(
        self, name: str | bytes, args: bytes = b"", *, key: str | bytes = b"", priority: Priority = "normal"
    ) -> Job:
        """Submit a job and go on (async+handle). A live job with this name and key at that server is joined."""
        return await self._submit("async+handle", name, args, key, priority)

    async def throw_away(
        self, name: str | bytes, args: bytes = b"", *, key: str | bytes = b"", priority: Priority = "normal"
    ) -> Job:
        """Submit a job that nobody will ask about (async+throw-away).

        It is not remembered once a server has it; the application may, to `resubmit` it when that server is
        gone.
        """
        return await self._submit("async+throw-away", name, args, key, priority)

    async def status(self, job: Job) -> Status:
        """How far a job is."""
        packet = wire.pack_job_status_req(_handle(job))
        conversation = await self._conversation(job.server)
        return read_status(await conversation.answer(packet, wire.JOB_STATUS_RES))

    async def result(self, job: Job) -> Outcome | None:
        """How a job ended, or None while it has not. Once that is known the job is forgotten here."""
        packet = wire.pack_job_complete_req(_handle(job))
        conversation = await self._conversation(job.server)
        outcome = read_outcome(await conversation.answer(packet, wire.JOB_COMPLETE_RES))
        if outcome is not None:
            self.forget(job)
        return outcome

    async def wait(
        self,
        job: Job,
        *,
        timeout_s: float | None = None,
        away_s: float = 0.0,
        pause_s: float = 0.05,
        pause_max_s: float = 2.0,
    ) -> Outcome:
        """Ask for a job's end until it has one, after pauses that grow from `pause_s` to `pause_max_s`.

        Raises TimeoutError after `timeout_s`; and ConnectionLost, when its server has been away for `away_s`.
        """
        loop = asyncio.get_running_loop()
        there_s = loop.time()
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    outcome = await self.result(job)
                except ConnectionLost:
                    if loop.time() - there_s >= away_s:
                        raise
                else:
                    if outcome is not None:
                        return outcome
                    there_s = loop.time()
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * _PAUSE_GROWTH, pause_max_s)

    # what is remembered

    @property
    def jobs(self) -> list[Job]:
        """The jobs that are remembered, the oldest first."""
        return list(self._jobs)

    def remember(self, job: Job) -> None:
        """Remember a job from an earlier life of the application."""
        self._jobs[job] = None

    def forget(self, job: Job) -> None:
        self._jobs.pop(job, None)

    async def lost(self, *, timeout_s: float = 5.0) -> list[Job]:
        """The remembered jobs that have to be resubmitted if they are to be done, the oldest first.

        Those are the jobs whose server cannot be reached, does not answer within `timeout_s`, or does not know
        the job (any more); and those whose server was lost before it said that it has them.
        """
        at: dict[str, list[Job]] = {}
        for job in self._jobs:
            at.setdefault(job.server, []).append(job)
        lists = await asyncio.gather(*(self._lost_at(*there, timeout_s) for there in at.items()))
        lost = {job for each in lists for job in each}
        return [job for job in self._jobs if job in lost]

    async def resubmit(self, job: Job) -> Job:
        """Hand a job in again: at another server, if one can be reached; the same job, with another handle."""
        if job.type == "sync+wait":
            raise ValueError("a job that is waited for is not resubmitted: `run` it again")
        await self._hand_in(job)
        return job

    async def _submit(
        self, job_type: JobType, name: str | bytes, args: bytes, key: str | bytes, priority: Priority
    ) -> Job:
        job = Job(as_bytes(name), args, as_bytes(key), job_type, priority)
        await self._hand_in(job)
        return job

    async def _hand_in(self, job: Job) -> None:
        packet = _packet(job)
        conversation = await self._reach(self._conversation, last=job.server)
        await conversation.drain()
        # An earlier answer that is still to come counts no more: the server may have the job or not.
        doubtful = job.doubtful or job in self._under_way
        hand_in = _HandIn(job.server, job.handle, doubtful, job in self._jobs)
        self._under_way[job] = hand_in
        # Noted before it is sent: whatever happens from here on, the job is known.
        job.server, job.handle, job.doubtful = conversation.server, b"", False
        self.remember(job)
        answer = conversation.ask(packet, wire.JOB_CREATE_RES)
        answer.add_done_callback(partial(self._answered, job, hand_in))
        # The answer counts, even if whoever asked no longer waits for it.
        await asyncio.shield(answer)

    def _answered(self, job: Job, hand_in: _HandIn, answer: asyncio.Future[bytes]) -> None:
        error = answer.exception()
        if self._under_way.get(job) is not hand_in:
            return  # it was handed in elsewhere since
        del self._under_way[job]
        if error is None:
            job.handle = answer.result()
            if job.type == "async+throw-away":
                self.forget(job)
        elif isinstance(error, ServerError):
            job.server, job.handle, job.doubtful = hand_in.server, hand_in.handle, hand_in.doubtful
            if not hand_in.remembered:
                self.forget(job)
        else:
            job.doubtful = True

    async def _lost_at(self, server: str, jobs: list[Job], timeout_s: float) -> list[Job]:
        """Those of one server's jobs that are lost."""
        asked = [job for job in jobs if job.handle]
        handles = [job.handle for job in asked]
        if any(job in self._under_way for job in jobs):
            # No handle and no job; but what answers it has answered all that was asked before.
            handles.append(b"")
        try:
            async with asyncio.timeout(timeout_s):
                conversation = await self._conversation(server)
                packets = map(wire.pack_job_status_req, handles)
                answers = [conversation.ask(packet, wire.JOB_STATUS_RES) for packet in packets]
                if answers:
                    await asyncio.wait(answers)
        except (ConnectionLost, TimeoutError):
            return jobs
        lost = [job for job in jobs if job.doubtful and job.server == server]
        for job, answer in zip(asked, answers, strict=False):
            error = answer.exception()
            if isinstance(error, ConnectionLost) or (
                isinstance(error, ServerError) and error.code == wire.UNKNOWN_HANDLE
            ):
                lost.append(job)
        return lost

    # servers

    async def _reach(self, open_: Callable[[str], Awaitable[Opened]], last: str = "") -> Opened:
        """Open something at a server: at random one that is thought to be there, then the rest, then `last`."""
        failures: list[str] = []
        now_s = asyncio.get_running_loop().time()
        away = [each for each in self.servers if self._avoid_until_s.get(each, 0.0) > now_s and each != last]
        there = [each for each in self.servers if each not in away and each != last]
        for group in (there, away, [each for each in self.servers if each == last]):
            while group:
                server = self._choose(group)
                group.remove(server)
                try:
                    return await open_(server)
                except ConnectionLost as loss:
                    self._avoid_until_s[server] = asyncio.get_running_loop().time() + _AVOID_S
                    failures.append(str(loss))
        raise ConnectionLost("no server can be reached: " + "; ".join(failures))

    async def _conversation(self, server: str) -> Conversation:
        async with self._locks.setdefault(server, asyncio.Lock()):
            conversation = self._conversations.get(server)
            if conversation is None or not conversation.live:
                conversation = await Conversation.open(
                    server, self._connect_timeout_s, self._packet_bytes_max, self._tls
                )
                self._conversations[server] = conversation
            return conversation


def _packet(job: Job) -> bytes:
    return wire.pack_job_create_req(job.name, job.key, _FLAGS[job.priority], _TYPES[job.type], job.args)


def _handle(job: Job) -> bytes:
    if not job.handle:
        raise ValueError(f"{job}: there is nothing to ask about a job without a handle")
    return job.handle
