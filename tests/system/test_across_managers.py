"""The hall as a worker of other WMP managers: their jobs are done by whoever comes in by another door, and what
there is to say of them travels both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import free_port, wait_until
from many_doors import ManyDoors, complete, steal

from hiringhall.dialects.dwork import wire as dwork
from hiringhall.peers import gearman, wmp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path
    from typing import Any

PATIENCE_S: Final = 20.0
ROLES: Final = "saw plane dwork"


class Bench:
    """A Gearman worker that notes what it gets and does as the data say."""

    def __init__(self, hall: ManyDoors, *functions: str) -> None:
        self.got: list[gearman.WorkerJob] = []
        self.may_end = asyncio.Event()
        self._worker = gearman.AsyncWorker(hall.address, client_id="bench", slots=20, on_error=lambda _: None)
        for function in functions:
            self._worker.register(function, self._do)
        self._running: asyncio.Task[None] | None = None

    async def _do(self, job: gearman.WorkerJob) -> bytes:
        self.got.append(job)
        if job.data == b"rotten":
            raise gearman.JobFailed(b"the wood is rotten")
        if job.data.startswith(b"slowly"):
            job.progress(1, 4)
            job.send_data(b"dust")
            await self.may_end.wait()
        return b"sawn " + job.data

    async def wait_for(self, count: int) -> None:
        await until(lambda: len(self.got) == count)

    async def __aenter__(self) -> Bench:
        self._running = asyncio.create_task(self._worker.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.may_end.set()
        self._worker.stop()
        assert self._running is not None
        await self._running


@contextlib.asynccontextmanager
async def hall_of(
    folder: Path, *managers: wmp.Manager, **settings: dict[str, object]
) -> AsyncIterator[ManyDoors]:
    """A hall that takes jobs of these managers."""
    agency = {"managers": " ".join(manager.address for manager in managers), "roles": ROLES}
    hall = ManyDoors(folder, wmp={**agency, **settings.pop("wmp", {})}, dwork={"keep_open": "true"}, **settings)
    await asyncio.to_thread(hall.start)
    try:
        yield hall
        if hall.running:
            await asyncio.to_thread(hall.check)
    except BaseException as error:
        error.add_note(f"the hall wrote:\n{hall.errors()}")
        raise
    finally:
        hall.stop()


def north(lease_s: float = 30.0) -> wmp.Manager:
    return wmp.Manager(f"127.0.0.1:{free_port()}", identity="north", lease_s=lease_s)


def test_a_managers_job_is_done_by_a_gearman_worker(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "saw", "plane") as bench:
            assert await manager.do("saw", b"oak", key="ann") == b"sawn oak"
            assert [(job.function, job.unique, job.data) for job in bench.got] == [("saw", b"ann", b"oak")]
            results = await asyncio.gather(*(manager.do("plane", b"%d" % number) for number in range(200)))
            assert results == [b"sawn %d" % number for number in range(200)]
            with pytest.raises(wmp.JobFailed) as failed:
                await manager.do("saw", b"rotten")
            assert failed.value.reason == b"the wood is rotten"
            assert 1 <= failed.value.code <= 255
            large = bytes(range(256)) * 40_000
            assert await manager.do("saw", large) == b"sawn " + large
            manager.state.audit()
            assert not manager.state.jobs

    run(tell())


def test_progress_and_data_reach_the_manager_as_they_come(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "saw") as bench:
            job = manager.submit("saw", b"slowly")
            updates = aiter(job)
            assert [await anext(updates), await anext(updates)] == [wmp.Progress(1, 4), wmp.Data(b"dust")]
            assert not job.ended
            bench.may_end.set()
            assert await job.result() == b"sawn slowly"

    run(tell())


def test_a_managers_job_is_done_by_a_dwork_consumer(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall:
            job = manager.submit("dwork", b"oak", key="cut")
            with hall.asker() as asker:
                task = await asyncio.to_thread(steal, asker, b"mill")
                assert (task.name, task.origin) == (b"cut", b"oak")
                assert await asyncio.to_thread(complete, asker, b"mill", b"cut", b"planks") == dwork.OK
            assert await job.result() == b"planks"

    run(tell())


def test_a_managers_job_is_done_by_a_wmp_worker_of_the_hall(tmp_path: Path) -> None:
    """The hall stands between a manager and a worker as a device would, with all its doors."""
    stopped = asyncio.Event()

    async def saw(job: wmp.Job) -> bytes:
        if job.payload == b"endless":
            try:
                await job.progress(1, 9)
                await asyncio.Event().wait()
            finally:
                stopped.set()
        return b"sawn " + job.payload

    async def tell() -> None:
        async with (
            north() as manager,
            hall_of(tmp_path, manager) as hall,
            wmp.Worker([hall.wmp], {"saw": saw}, slots=4, beat_s=0.5),
        ):
            assert await manager.do("saw", b"oak") == b"sawn oak"
            endless = manager.submit("saw", b"endless")
            assert await anext(aiter(endless)) == wmp.Progress(1, 9)
            endless.cancel()
            await stopped.wait()
            with pytest.raises(wmp.JobCancelled):
                await endless.result()

    run(tell())


def test_a_job_that_its_manager_calls_off_ends_in_the_hall(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "saw") as bench:
            running = manager.submit("saw", b"slowly")
            await bench.wait_for(1)
            assert (await asyncio.to_thread(hall.counts, "saw"))[:2] == (1, 1)
            running.cancel()
            await until(lambda: hall.counts("saw")[:2] == (0, 0))
            # The worker's result comes too late, and the worker is free for the next.
            bench.may_end.set()
            assert await manager.do("saw", b"ash") == b"sawn ash"
            assert [job.data for job in bench.got] == [b"slowly", b"ash"]

    run(tell())


def test_a_job_that_the_hall_calls_off_has_failed_for_its_manager(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "saw") as bench:
            running = manager.submit("saw", b"slowly")
            await bench.wait_for(1)
            handle = bench.got[0].handle.decode()
            assert await asyncio.to_thread(hall.admin, f"cancel job {handle}") == ["OK"]
            with pytest.raises(wmp.JobFailed, match="cancelled"):
                await running.result()

    run(tell())


# --- one key, several submitters


def test_a_manager_and_a_gearman_client_share_a_job_of_one_key(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "saw") as bench:
            async with gearman.AsyncClient(hall.address) as client:
                theirs = manager.submit("saw", b"slowly", key="cut")
                await bench.wait_for(1)
                ours = await client.submit("saw", b"slowly", unique="cut")
                assert ours.handle == bench.got[0].handle
                bench.may_end.set()
                assert await theirs.result() == await ours.result() == b"sawn slowly"
            assert len(bench.got) == 1

    run(tell())


def test_what_one_of_two_submitters_calls_off_is_done_for_the_other(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "saw") as bench:
            async with gearman.AsyncClient(hall.address) as client:
                theirs = manager.submit("saw", b"slowly 1", key="one")
                await bench.wait_for(1)
                ours = await client.submit("saw", b"slowly 1", unique="one")
                theirs.cancel()
                # Once it watches no more, the client alone does.
                await until(lambda: status_unique(hall, "one").clients == 1)
                bench.may_end.set()
                assert await ours.result() == b"sawn slowly 1"
                bench.may_end.clear()
                theirs = manager.submit("saw", b"slowly 2", key="two")
                await bench.wait_for(2)
                await client.submit("saw", b"slowly 2", unique="two")
                await until(lambda: status_unique(hall, "two").clients == 2)
            # The client has left.
            await until(lambda: status_unique(hall, "two").clients == 1)
            bench.may_end.set()
            assert await theirs.result() == b"sawn slowly 2"
            assert len(bench.got) == 2

    run(tell())


def test_two_managers_share_a_job_of_one_key_and_one_may_call_it_off(tmp_path: Path) -> None:
    async def tell() -> None:
        async with (
            north() as first,
            wmp.Manager("127.0.0.1:0", identity="south") as second,
            hall_of(tmp_path, first, second) as hall,
            Bench(hall, "saw") as bench,
        ):
            theirs = first.submit("saw", b"slowly", key="cut")
            await bench.wait_for(1)
            others = second.submit("saw", b"slowly", key="cut")
            await until(lambda: status_unique(hall, "cut").clients == 2)
            theirs.cancel()
            await until(lambda: status_unique(hall, "cut").clients == 1)
            assert (await asyncio.to_thread(hall.counts, "saw"))[:2] == (1, 1)
            bench.may_end.set()
            assert await others.result() == b"sawn slowly"
            assert len(bench.got) == 1

    run(tell())


def test_a_background_job_is_not_called_off_by_a_manager_that_joined_it(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "saw") as bench:
            async with gearman.AsyncClient(hall.address) as client:
                await client.submit_background("saw", b"slowly", unique="cut")
            await bench.wait_for(1)
            theirs = manager.submit("saw", b"slowly", key="cut")
            await until(lambda: status_unique(hall, "cut").clients == 1)
            theirs.cancel()
            await until(lambda: status_unique(hall, "cut").clients == 0)
            bench.may_end.set()
            await until(lambda: len(hall.history()) == 1)
            assert hall.history()[0].result == b"sawn slowly"

    run(tell())


# --- how much, and what when somebody ends


def test_the_hall_holds_no_more_jobs_than_its_slots(tmp_path: Path) -> None:
    async def tell() -> None:
        async with (
            north() as manager,
            hall_of(tmp_path, manager, wmp={"slots": 3}) as hall,
            Bench(hall, "saw") as bench,
        ):
            jobs = [manager.submit("saw", b"slowly %d" % number) for number in range(10)]
            await bench.wait_for(3)
            await until(lambda: hall.counts("saw")[:2] == (3, 3))
            bench.may_end.set()
            assert [await job.result() for job in jobs] == [b"sawn slowly %d" % number for number in range(10)]
            assert len(bench.got) == 10

    run(tell())


def test_a_hall_without_a_worker_for_a_role_leaves_its_jobs_to_others(tmp_path: Path) -> None:
    async def saw(job: wmp.Job) -> bytes:
        return b"elsewhere " + job.payload

    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "plane"):
            assert await manager.do("plane", b"ash") == b"sawn ash"
            jobs = [manager.submit("saw", b"%d" % number) for number in range(40)]
            async with wmp.Worker([manager.address], {"saw": saw}):
                results = await asyncio.gather(*(job.result() for job in jobs))
            assert results == [b"elsewhere %d" % number for number in range(40)]
            late = manager.submit("saw", b"late")
            async with Bench(hall, "saw"):
                assert await late.result() == b"sawn late", "and does them as soon as there is one"

    run(tell())


def test_two_halls_that_work_for_each_other_do_each_job_once(tmp_path: Path) -> None:
    """With a worker at one of them, and for a while at none."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]

    def hall(number: int) -> ManyDoors:
        folder = tmp_path / f"{number}"
        folder.mkdir()
        agency = {"managers": addresses[1 - number], "roles": ROLES, "manager": f"hall-{number}"}
        made = ManyDoors(folder, wmp=agency, dwork={"keep_open": "true"})
        made._addresses["wmp"] = addresses[number]
        return made

    async def tell(north: ManyDoors, south: ManyDoors) -> None:
        async with gearman.AsyncClient(north.address) as client:
            async with Bench(south, "saw") as bench:
                assert await client.run("saw", b"oak") == b"sawn oak"
                results = await asyncio.gather(*(client.run("saw", b"%d" % number) for number in range(30)))
                assert results == [b"sawn %d" % number for number in range(30)]
                assert len(bench.got) == 31
            waiting = asyncio.create_task(client.run("saw", b"ash"))
            await until(lambda: north.counts("saw")[0] + south.counts("saw")[0] >= 1)
            async with Bench(south, "plane"):
                for number in range(20):  # Jobs go from one to the other all the while.
                    assert await client.run("plane", b"%d" % number) == b"sawn %d" % number
            await until(lambda: north.counts("saw")[0] + south.counts("saw")[0] == 1)
            async with Bench(north, "saw") as bench:
                assert await waiting == b"sawn ash"
                assert len(bench.got) == 1
        await until(lambda: (north.counts("saw")[0], south.counts("saw")[0]) == (0, 0))

    halls = [hall(0), hall(1)]
    try:
        for one in halls:
            one.start()
        run(tell(*halls))
        for one in halls:
            one.check()
    finally:
        for one in halls:
            one.stop()


def test_a_drained_hall_finishes_what_it_took_and_leaves_the_rest_to_others(tmp_path: Path) -> None:
    async def saw(job: wmp.Job) -> bytes:
        return b"elsewhere " + job.payload

    async def tell() -> None:
        async with (
            north() as manager,
            hall_of(tmp_path, manager, wmp={"slots": 1}) as hall,
            Bench(hall, "saw") as bench,
        ):
            taken = manager.submit("saw", b"slowly")
            await bench.wait_for(1)
            left = manager.submit("saw", b"oak")
            hall.drain()
            await until(lambda: "draining" in hall.errors())
            async with wmp.Worker([manager.address], {"saw": saw}):
                assert await left.result() == b"elsewhere oak"
            bench.may_end.set()
            assert await taken.result() == b"sawn slowly"
            assert await asyncio.to_thread(hall.wait) == 0
            assert len(bench.got) == 1

    run(tell())


def test_what_a_hall_holds_when_its_grace_is_over_goes_back_to_the_manager_at_once(tmp_path: Path) -> None:
    async def saw(job: wmp.Job) -> bytes:
        return b"elsewhere " + job.payload

    async def tell() -> None:
        async with (
            north(lease_s=600.0) as manager,
            hall_of(tmp_path, manager, hall={"drain_grace_s": 0.3}) as hall,
            Bench(hall, "saw") as bench,
        ):
            taken = manager.submit("saw", b"slowly")
            await bench.wait_for(1)
            hall.drain()
            assert await asyncio.to_thread(hall.wait) == 0
            # Long before the lease of the manager is over.
            async with wmp.Worker([manager.address], {"saw": saw}):
                assert await taken.result() == b"elsewhere slowly"

    run(tell())


def test_a_managers_job_is_taken_again_after_the_hall_was_killed(tmp_path: Path) -> None:
    async def tell() -> None:
        async with (
            north(lease_s=2.5) as manager,
            hall_of(tmp_path, manager) as hall,
            Bench(hall, "saw") as bench,
        ):
            job = manager.submit("saw", b"slowly")
            await bench.wait_for(1)
            hall.kill()
            bench.may_end.set()
            await asyncio.to_thread(hall.start)
            assert await job.result() == b"sawn slowly"
            assert len(bench.got) == 2

    run(tell())


def test_a_manager_that_is_gone_and_comes_back_is_served_again(tmp_path: Path) -> None:
    async def tell() -> None:
        async with north() as manager, hall_of(tmp_path, manager) as hall, Bench(hall, "saw") as bench:
            assert await manager.do("saw", b"oak") == b"sawn oak"
            running = manager.submit("saw", b"slowly")
            await bench.wait_for(2)
            await manager.close()
            with pytest.raises(wmp.JobCancelled):
                await running.result()
            # It has told the hall before it left.
            await until(lambda: hall.counts("saw")[:2] == (0, 0))
            async with wmp.Manager(manager.address, identity="north") as again:
                assert await again.do("saw", b"ash") == b"sawn ash"

    run(tell())


def status_unique(hall: ManyDoors, unique: str) -> gearman.Status:
    with hall.client() as client:
        return client.status_unique(unique)


async def until(holds: Callable[[], bool]) -> None:
    """Ask again and again, beside the loop."""
    await asyncio.to_thread(wait_until, holds, "it is so", PATIENCE_S)


def run(story: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(in_time())
