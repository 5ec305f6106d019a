"""The draft's result log against a server that says exactly what each story needs."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from draft_puppet import CLOSED, DraftPuppet

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import ConnectionLost, ResultLog, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    Story = Callable[[ResultLog, DraftPuppet], Coroutine[Any, Any, None]]

BACKUP = ("backup", "monday")


def play(story: Story) -> None:
    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet, ResultLog(puppet.address) as log:
            await story(log, puppet)

    asyncio.run(stage())


def test_a_start_and_a_result_on_the_wire() -> None:
    async def story(log: ResultLog, puppet: DraftPuppet) -> None:
        start = asyncio.create_task(log.register_start_task(BACKUP, 1.5))
        line = await puppet.line()
        await line.expect(("task_start", b"backup\0monday\0" + (1_500_000).to_bytes(8, "big")))
        await line.trickle(wire.pack_job_create_res(b"H:1"))
        assert await start == b"H:1"
        end = asyncio.create_task(log.register_task_result(BACKUP, 2, b"81\0GB"))
        await line.expect(("task_result", b"backup\0monday\0" + (2_000_000).to_bytes(8, "big") + b"\x0081\0GB"))
        line.say(wire.pack_job_create_res(b"H:1"))
        assert await end == b"H:1"
        failed = asyncio.create_task(log.register_task_result((b"backup", b"\xff"), 3, b"no", code=7))
        await line.expect(("task_result", b"backup\0\xff\0" + (3_000_000).to_bytes(8, "big") + b"\x07no"))
        line.say(wire.pack_job_create_res(b"H:2"))
        assert await failed == b"H:2"
        await log.close()
        await line.expect(CLOSED)

    play(story)


@pytest.mark.parametrize(
    ("moment", "time_us"),
    [
        (datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC), 1_794_830_400_123_456),
        (datetime(2026, 11, 16, 14, tzinfo=timezone(timedelta(hours=2))), 1_794_830_400_000_000),
        (1_794_830_400.25, 1_794_830_400_250_000),
        (1_794_830_400, 1_794_830_400_000_000),
    ],
)
def test_times(moment: datetime | float, time_us: int) -> None:
    async def story(log: ResultLog, puppet: DraftPuppet) -> None:
        start = asyncio.create_task(log.register_start_task(BACKUP, moment))
        line = await puppet.line()
        _, body = await line.hear()
        assert int.from_bytes(body[-8:], "big") == time_us
        line.say(wire.pack_job_create_res(b"H:1"))
        await start

    play(story)


def test_without_a_time_it_is_now() -> None:
    async def story(log: ResultLog, puppet: DraftPuppet) -> None:
        before_us = time.time_ns() // 1000
        start = asyncio.create_task(log.register_start_task(BACKUP))
        line = await puppet.line()
        _, body = await line.hear()
        assert before_us <= int.from_bytes(body[-8:], "big") <= time.time_ns() // 1000
        line.say(wire.pack_job_create_res(b"H:1"))
        await start

    play(story)


def test_what_cannot_be_logged_is_not_sent() -> None:
    async def story(log: ResultLog, puppet: DraftPuppet) -> None:
        with pytest.raises(ValueError, match="time zone"):
            await log.register_start_task(BACKUP, datetime(2026, 11, 16))  # noqa: DTZ001 - that is the point
        for moment in (0, -1, 1.7e15, datetime(1969, 1, 1, tzinfo=UTC)):
            with pytest.raises(ValueError, match="after 1970"):
                await log.register_start_task(BACKUP, moment)
        for task in (("", "key"), ("name", ""), (b"na\0me", "key")):
            with pytest.raises(ValueError, match=r"a key|NUL"):
                await log.register_start_task(task)
        with pytest.raises(ValueError, match="1 to 255"):
            await log.register_task_result(BACKUP, code=256)

    play(story)


def test_a_refusal_is_told_and_the_log_goes_on() -> None:
    async def story(log: ResultLog, puppet: DraftPuppet) -> None:
        start = asyncio.create_task(log.register_start_task(BACKUP))
        line = await puppet.line()
        line.say(wire.pack_error(wire.BUSY, "under way already"))
        with pytest.raises(ServerError, match="under way already"):
            await start
        both = asyncio.gather(log.register_task_result(BACKUP), log.register_start_task(BACKUP))
        assert [(await line.hear())[0] for _ in range(3)] == ["task_start", "task_result", "task_start"]
        line.say(wire.pack_job_create_res(b"H:1"), wire.pack_job_create_res(b"H:2"))
        assert [*await both] == [b"H:1", b"H:2"]

    play(story)


def test_a_lost_connection_is_made_anew_and_nothing_is_said_twice() -> None:
    async def story(log: ResultLog, puppet: DraftPuppet) -> None:
        start = asyncio.create_task(log.register_start_task(BACKUP))
        line = await puppet.line()
        await line.hear()
        await puppet.close()
        with pytest.raises(ConnectionLost):
            await start
        with pytest.raises(ConnectionLost):
            await log.register_start_task(BACKUP)
        await puppet.open()
        end = asyncio.create_task(log.register_task_result(BACKUP))
        line = await puppet.line()
        assert (await line.hear())[0] == "task_result"
        line.say(wire.pack_job_create_res(b"H:1"))
        assert await end == b"H:1"

    play(story)
