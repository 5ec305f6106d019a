"""The result log: one place that records when tasks started and how they ended, wherever they ran."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from time import time_ns
from typing import TYPE_CHECKING, Final

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft.connection import parse_servers
from hiringhall.peers.gearman_draft.conversation import Conversation
from hiringhall.peers.gearman_draft.jobs import as_bytes

if TYPE_CHECKING:
    from ssl import SSLContext
    from types import TracebackType

    TaskName = tuple[str | bytes, str | bytes]
    """The name of a task, and a key that is unique for that name; neither is empty."""
    Moment = datetime | float | None
    """An aware datetime, seconds since 1970, or None: now."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ResultLog:
    """Reports tasks to a hall that ran elsewhere: in cron, in another queue, by hand.

        async with ResultLog("127.0.0.1:4730") as log:
            await log.register_start_task(("backup", "2026-11-16"))
            ...
            await log.register_task_result(("backup", "2026-11-16"), result=b"81 GB")

    Each call returns the task's handle when the report is on the hall's disk: `hall history` shows it, and any
    client may ask for it by that handle. A result without a start is a task that started and ended at that
    time. Nothing is sent twice: after ConnectionLost the caller decides whether to report again.
    """

    def __init__(self, server: str, *, connect_timeout_s: float = 5.0, tls: SSLContext | None = None) -> None:
        (self.server,) = parse_servers(server)
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self._conversation: Conversation | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> ResultLog:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._conversation is not None:
            await self._conversation.close()

    async def register_start_task(self, task: TaskName, time: Moment = None) -> bytes:
        """Report that a task has started. Raises ServerError if one with its name and key is running."""
        name, key = _names(task)
        return await self._report(wire.pack_task_start(name, key, _microseconds(time)))

    async def register_task_result(
        self, task: TaskName, time: Moment = None, result: bytes = b"", *, code: int = 0
    ) -> bytes:
        """Report that a task has ended: with this result, or with a failure code 1 to 255 and this reason."""
        name, key = _names(task)
        if not 0 <= code < 256:
            raise ValueError(f"the code must be 0 for success, or 1 to 255, not {code}")
        return await self._report(wire.pack_task_result(name, key, _microseconds(time), code, result))

    async def _report(self, packet: bytes) -> bytes:
        async with self._lock:
            if self._conversation is None or not self._conversation.live:
                self._conversation = await Conversation.open(
                    self.server, self._connect_timeout_s, tls=self._tls
                )
            conversation = self._conversation
        return await conversation.answer(packet, wire.JOB_CREATE_RES)


def _names(task: TaskName) -> tuple[bytes, bytes]:
    name, key = (as_bytes(each) for each in task)
    if not name or not key:
        raise ValueError(f"a task in the result log must have a name and a key: {task!r}")
    return name, key


def _microseconds(time: Moment) -> int:
    if time is None:
        return time_ns() // 1000
    if not isinstance(time, datetime):
        time_us = round(time * 1_000_000)
    elif time.tzinfo is None:
        raise ValueError(f"{time} has no time zone: pass an aware datetime")
    else:
        time_us = (time - _EPOCH) // timedelta(microseconds=1)
    if not 0 < time_us < 1 << 64:
        raise ValueError(f"{time} is not valid: a time must be after 1970, in seconds")
    return time_us
