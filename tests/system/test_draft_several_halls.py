"""Several halls, as the draft draws it: the application picks one at random and remembers, the worker asks
each in turn and sleeps on all; a lost hall takes its jobs with it until the application hands them in again.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Final

import pytest
from draft_link import DraftLink
from hall_process import HallProcess, wait_until

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import Client, ConnectionLost, Task, Worker, blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOBS: Final = 60
NO: Final = ("job_assign_res", b"")


@pytest.fixture
def halls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[HallProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(HallProcess(tmp_path_factory.mktemp("hall"))) for _ in range(3)]


def addresses(halls: list[HallProcess]) -> list[str]:
    return [hall.address for hall in halls]


def test_the_conversations_of_the_draft_word_for_word(halls: list[HallProcess]) -> None:
    async def story() -> None:
        async with asyncio.timeout(60), AsyncExitStack() as stack:
            links = [await stack.enter_async_context(await DraftLink.open(hall.address)) for hall in halls]
            one, two, three = links
            application = await stack.enter_async_context(await DraftLink.open(halls[1].address))
            for link in links:
                link.send(wire.pack_worker_connect([b"resize", b"mail"]))

            # The best case: there is a job for whoever asks.
            create = wire.pack_job_create_req(b"mail", b"", 0, wire.ASYNC_HANDLE, b"to: ann")
            _, handle = await application.ask(create)
            assert await two.ask(wire.JOB_ASSIGN_REQ_PACKET) == ("job_assign_res", b"mail\0to: ann")
            two.send(wire.pack_job_complete_announce(0, b"sent"))
            assert await two.ask(wire.JOB_ASSIGN_REQ_PACKET) == NO
            _, outcome = await application.ask(wire.pack_job_complete_req(handle))
            assert wire.parse_job_complete_res(outcome) == (1, 0, b"sent")

            # The worse case: nobody has one, so it sleeps on all, and is woken by the one that gets a job.
            for link in links:
                assert await link.ask(wire.JOB_ASSIGN_REQ_PACKET) == NO
                link.send(wire.WORKER_SLEEP_PACKET)
            await asyncio.to_thread(wait_until, lambda: all(map(_idle, halls)), "they know of the worker")
            create = wire.pack_job_create_req(b"resize", b"7", 0, wire.ASYNC_HANDLE, b"100x80")
            _, handle = await application.ask(create)
            assert await two.receive() == ("noop", b"")
            # It resumes its loop. That the others say "no" first shows that they had sent no noop before.
            assert [await link.ask(wire.JOB_ASSIGN_REQ_PACKET) for link in (one, three)] == [NO, NO]
            assert await two.ask(wire.JOB_ASSIGN_REQ_PACKET) == ("job_assign_res", b"resize\x00100x80")
            two.send(wire.pack_job_status_announce(1, 100, 60))
            two.send(wire.pack_job_complete_announce(4, b"no such picture"))
            assert await two.ask(wire.JOB_ASSIGN_REQ_PACKET) == NO
            _, outcome = await application.ask(wire.pack_job_complete_req(handle))
            assert wire.parse_job_complete_res(outcome) == (1, 4, b"no such picture")
            for link in links:
                link.send(wire.WORKER_DISCONNECT_PACKET)

    asyncio.run(story())
    for hall in halls:
        hall.wait_for_workers("resize", 0)


def _idle(hall: HallProcess) -> bool:
    return hall.counts("resize") == (0, 0, 1)


def test_one_worker_serves_three_halls_one_task_at_a_time(halls: list[HallProcess]) -> None:
    async def story() -> None:
        busy: list[bytes] = []
        most = 0
        worker = Worker(addresses(halls))

        @worker.function("f")
        async def work(task: Task) -> bytes:
            nonlocal most
            busy.append(task.args)
            most = max(most, len(busy))
            await asyncio.sleep(0)
            busy.remove(task.args)
            return task.server.encode()

        async with asyncio.timeout(60), Client(addresses(halls)) as client, asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            # Time and again everything is done and the worker sleeps on all of them.
            for _ in range(3):
                jobs = [await client.submit("f", b"%d" % number) for number in range(JOBS // 3)]
                outcomes = [await client.wait(job, pause_s=0.01) for job in jobs]
                assert [outcome.data for outcome in outcomes] == [job.server.encode() for job in jobs]
            worker.stop()
        assert most == 1

    asyncio.run(story())


def test_a_hall_is_killed_and_its_jobs_are_resubmitted(halls: list[HallProcess]) -> None:
    gone, *others = halls
    with blocking.Client(addresses(halls), timeout_s=30) as client:
        jobs = [client.submit("f", b"%d" % number) for number in range(JOBS)]
        assert {job.server for job in jobs} == set(addresses(halls))
        assert client.lost() == []
        there = [job for job in jobs if job.server == gone.address]
        gone.kill()
        assert client.lost() == there
        with pytest.raises(ConnectionLost, match=gone.address):
            client.status(there[0])
        for job in there:
            client.resubmit(job)
        assert client.lost() == []
        assert {job.server for job in jobs} == set(addresses(others))
        assert client.jobs == jobs

        done: list[bytes] = []
        worker = blocking.Worker(addresses(halls))
        worker.can_do("f", lambda task: done.append(task.args))
        with worker:
            for job in jobs:
                assert client.wait(job).code == 0
            assert sorted(done) == sorted(job.args for job in jobs), "each was done once"
            # What was lost is on its disk: once it is back, its jobs run too. That is why the application
            # decides what is resubmitted.
            gone.start()
            wait_until(lambda: len(done) == JOBS + len(there), "the old ones run too", 30)
        assert sorted(done[JOBS:]) == sorted(job.args for job in there)


@pytest.mark.sqlite  # its data folder is deleted
def test_a_hall_comes_back_without_its_memory(halls: list[HallProcess]) -> None:
    """Then it can be reached, and yet its jobs are lost."""
    gone = halls[0]
    with blocking.Client(addresses(halls[:2]), timeout_s=30) as client:
        jobs = [client.submit("f", b"%d" % number) for number in range(JOBS)]
        there = [job for job in jobs if job.server == gone.address]
        assert 0 < len(there) < JOBS
        gone.kill()
        shutil.rmtree(gone.data)
        gone.start()
        assert client.lost() == there
        assert client.resubmit(there[0]).server == halls[1].address
        assert client.lost() == there[1:]


def test_a_job_that_is_waited_for_is_lost_with_its_hall(halls: list[HallProcess]) -> None:
    async def story() -> None:
        async with asyncio.timeout(60), Client(halls[0].address) as client:
            run = asyncio.create_task(client.run("nobody-does-this"))
            await asyncio.to_thread(
                wait_until, lambda: halls[0].counts("nobody-does-this")[0] == 1, "it is there"
            )
            halls[0].kill()
            with pytest.raises(ConnectionLost, match=halls[0].address):
                await run

    asyncio.run(story())


def test_finished_work_in_memory_is_not_taken_for_lost(tmp_path: Path) -> None:
    with (
        HallProcess(tmp_path, door={"background": "memory"}) as hall,
        blocking.Client(hall.address, timeout_s=20) as client,
    ):
        job = client.submit("resize")
        worker = blocking.Worker(hall.address)
        worker.can_do("resize", lambda task: task.args)
        with worker:
            wait_until(lambda: hall.counts("resize")[0] == 0, "the job has ended")
        assert client.jobs == [job]
        assert client.lost() == []
