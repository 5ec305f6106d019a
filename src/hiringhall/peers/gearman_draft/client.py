"""The client: it submits each job to a random server, and remembers which job is at which server."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft.connection import Connection, parse_servers
from hiringhall.peers.gearman_draft.conversation import Conversation, WaitedJob, read_outcome, read_status
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
"""A server that could not be reached is tried last for this long."""
_PAUSE_GROWTH: Final = 1.5


class _Submission(NamedTuple):
    """The state of a job before a submit, which is restored if the server refuses it."""

    server: str
    handle: bytes
    doubtful: bool
    remembered: bool


class Client:
    """Submits jobs and asks for their status; any number at once.

        async with Client(["10.0.0.1:4730", "10.0.0.2:4730"]) as client:
            print(await client.run("reverse", b"hello"))
            job = await client.submit("resize", photo, key="7-1-100-80")
            outcome = await client.wait(job)

    A job goes to a server picked at random by `choose`; unreachable servers are skipped. Requests to a server
    share one connection, in order; a job that is waited for has its own connection.

    A job with a handle is remembered until its outcome has been read, or until `forget`. If a server is gone,
    `lost` lists its jobs, and `resubmit` submits a job to another server. The draft leaves that to the
    application, because only it knows whether a job may run twice.

    `packet_bytes_max` is that of the servers' doors: the largest packet that is read, such as a result. `tls`
    is for servers with TLS: any client SSLContext, such as that of `hiringhall.peers.tls.client_tls`.
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
        self._pending: dict[Job, _Submission] = {}
        """Jobs that were submitted and have no answer yet, with their latest submission."""
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
        """Disconnect from all servers. The jobs stay remembered."""
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
        """Submit a job, wait, and return its result (sync+wait). `on_status` gets its progress.

        Raises JobFailed, or ConnectionLost if the end will never be known.
        """
        packet = _packet(Job(as_bytes(name), args, as_bytes(key), "sync+wait", priority))
        waited = WaitedJob(on_status)
        connection = await self._reach(
            lambda server: Connection.open(
                server, waited, self._connect_timeout_s, self._packet_bytes_max, self._tls
            )
        )
        outcome = await waited.wait_for_end(connection, packet)
        if not outcome.ok:
            raise JobFailed(as_bytes(name).decode(errors="replace"), outcome.code, outcome.data)
        return outcome.data

    async def submit(
        self, name: str | bytes, args: bytes = b"", *, key: str | bytes = b"", priority: Priority = "normal"
    ) -> Job:
        """Submit a job without waiting for it (async+handle). It joins a live job with its name and key."""
        return await self._submit("async+handle", name, args, key, priority)

    async def throw_away(
        self, name: str | bytes, args: bytes = b"", *, key: str | bytes = b"", priority: Priority = "normal"
    ) -> Job:
        """Submit a job without a handle (async+throw-away).

        It is not remembered once a server has accepted it. The application may keep it, to `resubmit` it if
        that server is lost.
        """
        return await self._submit("async+throw-away", name, args, key, priority)

    async def status(self, job: Job) -> Status:
        """The progress of a job."""
        packet = wire.pack_job_status_req(_handle(job))
        conversation = await self._conversation(job.server)
        return read_status(await conversation.answer(packet, wire.JOB_STATUS_RES))

    async def result(self, job: Job) -> Outcome | None:
        """How a job ended; None: it has not ended. When the outcome is known, the job is forgotten here."""
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
        """Poll until the job has ended, with pauses that grow from `pause_s` to `pause_max_s`.

        Raises TimeoutError after `timeout_s`, and ConnectionLost if its server was unreachable for `away_s`.
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

    # remembered jobs

    @property
    def jobs(self) -> list[Job]:
        """The remembered jobs, oldest first."""
        return list(self._jobs)

    def remember(self, job: Job) -> None:
        """Remember a job from an earlier run of the application."""
        self._jobs[job] = None

    def forget(self, job: Job) -> None:
        self._jobs.pop(job, None)

    async def lost(self, *, timeout_s: float = 5.0) -> list[Job]:
        """The remembered jobs that must be resubmitted to be done, oldest first.

        These are the jobs whose server cannot be reached, does not answer within `timeout_s`, or does not know
        the job; and those whose server was lost before it accepted them.
        """
        at: dict[str, list[Job]] = {}
        for job in self._jobs:
            at.setdefault(job.server, []).append(job)
        lists = await asyncio.gather(*(self._lost_at(*there, timeout_s) for there in at.items()))
        lost = {job for each in lists for job in each}
        return [job for job in self._jobs if job in lost]

    async def resubmit(self, job: Job) -> Job:
        """Submit a job again, to another server if one can be reached. It gets a new handle."""
        if job.type == "sync+wait":
            raise ValueError("a sync+wait job cannot be resubmitted: `run` it again")
        await self._submit_job(job)
        return job

    async def _submit(
        self, job_type: JobType, name: str | bytes, args: bytes, key: str | bytes, priority: Priority
    ) -> Job:
        job = Job(as_bytes(name), args, as_bytes(key), job_type, priority)
        await self._submit_job(job)
        return job

    async def _submit_job(self, job: Job) -> None:
        packet = _packet(job)
        conversation = await self._reach(self._conversation, last=job.server)
        await conversation.drain()
        # An earlier answer that has not come yet is ignored: that server may have the job or not.
        doubtful = job.doubtful or job in self._pending
        submission = _Submission(job.server, job.handle, doubtful, job in self._jobs)
        self._pending[job] = submission
        # Remembered before it is sent, so that the job is known whatever happens.
        job.server, job.handle, job.doubtful = conversation.server, b"", False
        self.remember(job)
        answer = conversation.ask(packet, wire.JOB_CREATE_RES)
        answer.add_done_callback(partial(self._answered, job, submission))
        # The answer is processed even if the caller no longer waits for it.
        await asyncio.shield(answer)

    def _answered(self, job: Job, submission: _Submission, answer: asyncio.Future[bytes]) -> None:
        error = answer.exception()
        if self._pending.get(job) is not submission:
            return  # it was submitted again since
        del self._pending[job]
        if error is None:
            job.handle = answer.result()
            if job.type == "async+throw-away":
                self.forget(job)
        elif isinstance(error, ServerError):
            job.server, job.handle, job.doubtful = submission.server, submission.handle, submission.doubtful
            if not submission.remembered:
                self.forget(job)
        else:
            job.doubtful = True

    async def _lost_at(self, server: str, jobs: list[Job], timeout_s: float) -> list[Job]:
        """The lost jobs of one server."""
        asked = [job for job in jobs if job.handle]
        handles = [job.handle for job in asked]
        if any(job in self._pending for job in jobs):
            # An empty handle is unknown; but its answer means that all earlier requests were answered.
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
        """Connect to a random server: first those that seem to be up, then the others, then `last`."""
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
        raise ValueError(f"{job}: the job has no handle, so its status cannot be asked for")
    return job.handle
