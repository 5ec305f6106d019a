"""A thousand submits of one key while its job runs, in every way there is: one job, and all learn its end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from hall_process import wait_until
from testimony import audit, history, job_id

from hiringhall.peers.gearman import AsyncClient
from hiringhall.peers.gearman_draft import Client, Task, Worker

if TYPE_CHECKING:
    from hall_process import HallProcess

SUBMITS: Final = 1000
RESULT: Final = b"the one result"


def test_a_thousand_submits_of_one_key_are_one_job(hall: HallProcess) -> None:
    asyncio.run(_story(hall))
    (line,) = history(hall.place)
    assert (line.queue, line.key, line.state, line.result) == ("once", "same", "done", RESULT.decode())
    assert audit(hall) == "clean"


async def _story(hall: HallProcess) -> None:
    started: list[bytes] = []
    running, gate = asyncio.Event(), asyncio.Event()
    worker = Worker(hall.address)

    @worker.function("once")
    async def once(task: Task) -> bytes:
        started.append(task.args)
        running.set()
        await gate.wait()
        return RESULT

    async with asyncio.timeout(120), AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        client = await stack.enter_async_context(Client(hall.address))
        gearman = await stack.enter_async_context(AsyncClient(hall.address))
        group.create_task(worker.run())
        first = await client.submit("once", b"0", key="same")
        await running.wait()

        # A fifth of them wait on a socket each, a fifth each have a client to themselves, the others share two.
        fifth = SUBMITS // 5
        numbers = iter(range(1, SUBMITS))
        waiting = [
            group.create_task(client.run("once", b"%d" % next(numbers), key="same")) for _ in range(fifth)
        ]
        joined = [
            group.create_task(gearman.run("once", b"%d" % next(numbers), unique="same")) for _ in range(fifth)
        ]
        alone = [await stack.enter_async_context(Client(hall.address)) for _ in range(fifth)]
        handed_in = await asyncio.gather(
            *(each.submit("once", b"%d" % next(numbers), key="same") for each in alone),
            *(client.submit("once", b"%d" % next(numbers), key="same") for _ in range(fifth)),
        )
        rest = [await client.throw_away("once", b"%d" % number, key="same") for number in numbers]
        assert len(waiting) + len(joined) + len(handed_in) + len(rest) + 1 == SUBMITS
        assert {job.handle for job in handed_in} == {first.handle}

        everybody_waits = partial(_waiting_for, hall, len(waiting) + len(joined))
        await asyncio.to_thread(wait_until, everybody_waits, "everybody waits", 60)
        assert (await asyncio.to_thread(hall.counts, "once"))[:2] == (1, 1)
        gate.set()
        assert {await each for each in (*waiting, *joined)} == {RESULT}
        outcomes = await asyncio.gather(*(client.wait(job) for job in (first, *handed_in)))
        worker.stop()
    assert {outcome[1:] for outcome in outcomes} == {(0, RESULT)}
    assert started == [b"0"]
    assert [line.id for line in history(hall.place)] == [job_id(first.handle)]


def _waiting_for(hall: HallProcess, count: int) -> bool:
    with hall.client() as client:
        return client.status_unique("same").clients == count
