"""A worker of the draft among puppets, and the first steps that many stories begin with."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from draft_puppet import DraftPuppet

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import ServerError, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from draft_puppet import DraftLine

    Story = Callable[[Worker, list[DraftPuppet]], Coroutine[Any, Any, None]]

ECHO = wire.pack_job_assign_res(b"echo", b"x\0y")
HELLO = ("worker_connect", b"echo")
ASK = ("job_assign_req", b"")
SLEEP = ("worker_sleep", b"")
GOODBYE = ("worker_disconnect", b"")
NO = wire.NO_JOB_PACKET
NOOP = wire.NOOP_PACKET


def play(
    story: Story,
    servers: int = 1,
    *,
    sleep_s: float = 30.0,
    answer_s: float = 10.0,
    packet_bytes_max: int = wire.PACKET_BYTES_MAX,
    receive_bytes: int = 0,
    prepare: Callable[[Worker], None] | None = None,
    on_error: Callable[[ServerError], None] | None = None,
) -> None:
    """A worker that can do "echo", at so many servers; it is stopped at the story's end."""

    async def stage() -> None:
        async with asyncio.timeout(20), AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            puppets = [await stack.enter_async_context(DraftPuppet(receive_bytes)) for _ in range(servers)]
            worker = Worker(
                [puppet.address for puppet in puppets],
                sleep_s=sleep_s,
                answer_s=answer_s,
                packet_bytes_max=packet_bytes_max,
                on_error=on_error,
            )
            worker.can_do("echo", lambda task: task.args)
            if prepare is not None:
                prepare(worker)
            group.create_task(worker.run())
            await story(worker, puppets)
            worker.stop()
            for puppet in puppets:
                await puppet.close()

    asyncio.run(stage())


async def lines_of(puppets: list[DraftPuppet]) -> list[DraftLine]:
    """A connection to each; the worker is introduced to all of them, has heard "no, sorry" and sleeps on all.

    While the connections come, the first of them may be asked and slept on more often. The last to come is
    slept on once: then the worker sleeps on all.
    """
    lines = [await puppet.line() for puppet in puppets]
    for line in lines:
        await line.expect(HELLO)
    last: list[tuple[str, bytes] | None] = [None for _ in lines]
    all_asleep = asyncio.Event()

    async def refuse(number: int, line: DraftLine) -> None:
        while True:
            last[number] = await line.hear()
            if last[number] == ASK:
                line.say(NO)
            elif all(heard == SLEEP for heard in last):
                all_asleep.set()

    refusing = [asyncio.create_task(refuse(*each)) for each in enumerate(lines)]
    await all_asleep.wait()
    for each in refusing:
        each.cancel()
    await asyncio.wait(refusing)
    return lines
