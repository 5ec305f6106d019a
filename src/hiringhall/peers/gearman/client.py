"""The client, for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from hiringhall.dialects.gearman import wire
from hiringhall.peers.gearman.admin import ask_admin
from hiringhall.peers.gearman.connection import DEFAULT_SERVER, as_bytes, parse_address
from hiringhall.peers.gearman.conversation import Conversation
from hiringhall.peers.gearman.errors import ConnectionLost, GearmanError, ServerError
from hiringhall.peers.gearman.jobs import AsyncJob, End, Receipt, Status, parse_status, read_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from ssl import SSLContext
    from types import TracebackType

    Answer = TypeVar("Answer")

Priority = Literal["high", "normal", "low"]

_FOREGROUND: Final = {
    "high": wire.SUBMIT_JOB_HIGH,
    "normal": wire.SUBMIT_JOB,
    "low": wire.SUBMIT_JOB_LOW,
    "reduce": wire.SUBMIT_REDUCE_JOB,
}
_BACKGROUND: Final = {
    "high": wire.SUBMIT_JOB_HIGH_BG,
    "normal": wire.SUBMIT_JOB_BG,
    "low": wire.SUBMIT_JOB_LOW_BG,
    "reduce": wire.SUBMIT_REDUCE_JOB_BACKGROUND,
}
_AVOID_S: Final = 1.0
"""A server that could not be reached is tried last for this long."""


class AsyncClient:
    """Submits jobs and asks for their status; any number at once, over one connection to each server.

        async with AsyncClient("127.0.0.1:4730") as client:
            print(await client.run("reverse", b"hello"))

    With several servers a job goes to the first one, in the given order, that can be reached. Connections are
    opened when they are needed, and again after a loss; jobs that wait at that moment raise ConnectionLost.
    Limit a call with `asyncio.timeout`.

    `tls` is for servers with TLS: any client SSLContext, such as that of `hiringhall.peers.tls.client_tls`.
    """

    def __init__(
        self,
        *servers: str,
        exceptions: bool = True,
        connect_timeout_s: float = 5.0,
        tls: SSLContext | None = None,
    ) -> None:
        self.servers = servers or (DEFAULT_SERVER,)
        for server in self.servers:
            parse_address(server)
        self._options = ("exceptions",) if exceptions else ()
        """With "exceptions" the server passes on the error of a failing worker."""
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self._conversations: dict[str, Conversation] = {}
        self._locks = {server: asyncio.Lock() for server in self.servers}
        self._avoid_until_s: dict[str, float] = {}

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect from all servers. Unfinished foreground jobs raise ConnectionLost."""
        for conversation in self._conversations.values():
            await conversation.close()
        self._conversations.clear()

    async def run(
        self,
        function: str | bytes,
        data: bytes = b"",
        *,
        unique: str | bytes = b"",
        priority: Priority = "normal",
    ) -> bytes:
        """Submit a job, wait, and return its result. Raises JobFailed."""
        job = await self.submit(function, data, unique=unique, priority=priority)
        return await job.result()

    async def submit(
        self,
        function: str | bytes,
        data: bytes = b"",
        *,
        unique: str | bytes = b"",
        priority: Priority = "normal",
        reducer: str | bytes = b"",
    ) -> AsyncJob:
        """Submit a foreground job: it exists as long as a client waits for it.

        A submit with the `unique` of a live job of this function joins that job; "-" uses the data as unique.
        """
        packet_type = _submit_type(_FOREGROUND, priority, reducer)
        args = [as_bytes(function), as_bytes(unique), *_present(reducer), data]
        return await self._with_server(lambda conversation: conversation.submit(packet_type, *args))

    async def submit_background(
        self,
        function: str | bytes,
        data: bytes = b"",
        *,
        unique: str | bytes = b"",
        priority: Priority = "normal",
        reducer: str | bytes = b"",
    ) -> Receipt:
        """Submit a job that continues when the client disconnects. Its result is not sent to anybody."""
        packet_type = _submit_type(_BACKGROUND, priority, reducer)
        return await self._receipt(packet_type, as_bytes(function), as_bytes(unique), *_present(reducer), data)

    async def submit_at(
        self, function: str | bytes, data: bytes = b"", *, epoch_s: int, unique: str | bytes = b""
    ) -> Receipt:
        """Submit a background job that does not start before `epoch_s`, in seconds since 1970."""
        when = str(epoch_s).encode()
        return await self._receipt(wire.SUBMIT_JOB_EPOCH, as_bytes(function), as_bytes(unique), when, data)

    async def submit_schedule(
        self,
        function: str | bytes,
        data: bytes = b"",
        *,
        minute: str = "*",
        hour: str = "*",
        day: str = "*",
        month: str = "*",
        weekday: str = "*",
        unique: str | bytes = b"",
    ) -> Receipt:
        """Submit a background job for the next time that matches all five fields; "*" matches always."""
        fields = [field.encode() for field in (minute, hour, day, month, weekday)]
        return await self._receipt(wire.SUBMIT_JOB_SCHED, as_bytes(function), as_bytes(unique), *fields, data)

    async def status(self, job: Receipt | AsyncJob | bytes) -> Status:
        """The status of a job, or how it ended. With a handle, each server is asked until one knows it.

        Only a hall tells how a job ended, as long as it has it in memory; gearmand forgets ended jobs.
        """
        if isinstance(job, bytes):
            return await self._first_known(wire.GET_STATUS, wire.STATUS_RES, job)
        return await self._status_at(job.server, wire.GET_STATUS, wire.STATUS_RES, job.handle)

    async def status_unique(self, unique: str | bytes) -> Status:
        """The status of the job with this unique."""
        return await self._first_known(wire.GET_STATUS_UNIQUE, wire.STATUS_RES_UNIQUE, as_bytes(unique))

    async def echo(self, data: bytes) -> bytes:
        """Send bytes to the server and return its echo: a check that it answers."""
        return await self._with_server(lambda each: each.ask(wire.ECHO_REQ, wire.ECHO_RES, data))

    async def set_option(self, option: str) -> None:
        """Set an option of all open connections and of future ones."""
        for conversation in self._conversations.values():
            if conversation.live:
                await conversation.ask(wire.OPTION_REQ, wire.OPTION_RES, option.encode())
        if option not in self._options:
            self._options = (*self._options, option)

    async def admin(self, command: str, server: str = "") -> list[str]:
        """The answer to a command of the text admin protocol, such as "status" or "show jobs", by line."""
        return await ask_admin(server or self.servers[0], command, self._connect_timeout_s, self._tls)

    async def _receipt(self, packet_type: int, *args: bytes) -> Receipt:
        async def submit(conversation: Conversation) -> Receipt:
            return Receipt(await conversation.ask(packet_type, wire.JOB_CREATED, *args), conversation.server)

        return await self._with_server(submit)

    async def _with_server(self, use: Callable[[Conversation], Awaitable[Answer]]) -> Answer:
        """Use the first server that can be reached. A later error of that server is final."""
        now_s = asyncio.get_running_loop().time()
        failures: list[GearmanError] = []
        for server in sorted(self.servers, key=lambda each: self._avoid_until_s.get(each, 0.0) > now_s):
            try:
                conversation = await self._conversation(server)
            except ConnectionLost as error:
                failures.append(error)
                continue
            return await use(conversation)
        raise _all_lost(failures)

    async def _first_known(self, packet_type: int, answer_type: int, name: bytes) -> Status:
        status: Status | None = None
        failures: list[GearmanError] = []
        for server in self.servers:
            try:
                await self._conversation(server)
            except ConnectionLost as error:
                failures.append(error)
                continue
            status = await self._status_at(server, packet_type, answer_type, name)
            if status.known or status.end:
                break
        if status is None:
            raise _all_lost(failures)
        return status

    async def _status_at(self, server: str, packet_type: int, answer_type: int, name: bytes) -> Status:
        conversation = await self._conversation(server)
        status = _status(await conversation.ask(packet_type, answer_type, name))
        if packet_type == wire.GET_STATUS and not status.known:
            return status._replace(end=await self._end(server, name))
        return status

    async def _end(self, server: str, handle: bytes) -> End:
        """How a job ended. The protocol has no packet for it, but a hall has an admin command."""
        try:
            (line,) = await ask_admin(server, f"outcome {handle.decode()}", self._connect_timeout_s, self._tls)
        except (GearmanError, ValueError):
            return ""
        return read_end(line)

    async def _conversation(self, server: str) -> Conversation:
        conversation = self._conversations.get(server)
        if conversation is not None and conversation.live:
            return conversation
        async with self._locks[server]:
            conversation = self._conversations.get(server)
            if conversation is None or not conversation.live:
                try:
                    conversation = await Conversation.open(
                        server, self._connect_timeout_s, self._options, self._tls
                    )
                except ConnectionLost:
                    self._avoid_until_s[server] = asyncio.get_running_loop().time() + _AVOID_S
                    raise
                self._conversations[server] = conversation
            return conversation


def _status(body: bytes) -> Status:
    status = parse_status(body)
    if status is None:
        raise ServerError("UNEXPECTED_PACKET", f"a malformed status: {body!r}")
    return status


def _submit_type(types: dict[str, int], priority: Priority, reducer: str | bytes) -> int:
    if not reducer:
        return types[priority]
    if priority != "normal":
        raise ValueError(f"the protocol has no {priority} priority for a job with a reducer")
    return types["reduce"]


def _present(reducer: str | bytes) -> list[bytes]:
    """The reducer, followed by the empty argument that existing servers expect."""
    return [as_bytes(reducer), b""] if reducer else []


def _all_lost(failures: list[GearmanError]) -> ConnectionLost:
    return ConnectionLost("; ".join(str(failure) for failure in failures))
