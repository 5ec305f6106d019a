"""A job handed in at one door is done by a worker who came in by another: what the submitter's dialect can tell
of it reaches the submitter, what the worker's can say is taken from the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import wait_until
from many_doors import ManyDoors, complete, create, steal

from hiringhall.core.states import DONE, FAILED
from hiringhall.dialects.dwork import wire as dwork
from hiringhall.peers import gearman, pingpong, wmp
from hiringhall.storage.opening import open_history

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path
    from typing import Any

PATIENCE_S: Final = 20.0
PING_S: Final = 0.2


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[ManyDoors]:
    with ManyDoors(tmp_path, dwork={"keep_open": "true"}) as hall:
        yield hall
        if hall.running:
            hall.check()


class Bench:
    """A Gearman worker for some functions, which notes what it gets and does it when it may."""

    def __init__(self, hall: ManyDoors, *functions: str, waits: bool = False) -> None:
        self.got: list[gearman.WorkerJob] = []
        self.may_end = threading.Semaphore(0 if waits else 1_000_000)
        self.worker = gearman.Worker(hall.address, client_id="bench", slots=4)
        for function in functions:
            self.worker.register(function, self._do)

    def _do(self, job: gearman.WorkerJob) -> bytes:
        self.got.append(job)
        assert self.may_end.acquire(timeout=PATIENCE_S)
        if job.data.startswith(b"rotten"):
            raise gearman.JobFailed(b"the wood is rotten")
        return b"sawn " + job.data

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.got) == count, f"the worker has {count} jobs", PATIENCE_S)

    def __enter__(self) -> Bench:
        self.worker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_end.release(1000)
        self.worker.__exit__(None, None, None)


# --- Gearman clients, other workers


def test_a_gearman_clients_job_is_done_by_a_dwork_consumer(hall: ManyDoors) -> None:
    with hall.client() as client, hall.asker() as asker:
        named = client.submit("dwork", b"oak", unique="cut")
        task = steal(asker, b"mill")
        assert (task.name, task.origin) == (b"cut", b"oak")
        assert client.status_unique("cut").running
        assert asker.lookup(b"cut") == b"mill"
        assert complete(asker, b"mill", b"cut", b"planks") == dwork.OK
        assert named.result(PATIENCE_S) == b"planks"
        # Without a unique it is called by its number.
        nameless = client.submit("dwork", b"ash")
        task = steal(asker, b"mill")
        assert task.name.startswith(b"#")
        assert complete(asker, b"mill", task.name, b"boards") == dwork.OK
        assert nameless.result(PATIENCE_S) == b"boards"
        assert complete(asker, b"mill", task.name, b"twice") == dwork.NOT_FOUND
    assert hall.counts("dwork")[:2] == (0, 0)


def test_a_gearman_clients_background_job_done_by_a_dwork_consumer_is_in_the_history(hall: ManyDoors) -> None:
    with hall.client() as client, hall.asker() as asker:
        client.submit_background("dwork", b"oak", unique="cut")
        steal(asker, b"mill")
        assert complete(asker, b"mill", b"cut", b"planks") == dwork.OK
    # The answer was a promise: it is on disk.
    (end,) = hall.history()
    assert (end.queue, end.key, end.state, end.result, end.worker) == (
        b"dwork",
        b"cut",
        DONE,
        b"planks",
        b"mill",
    )


def test_a_gearman_clients_job_is_done_by_a_pingpong_worker(hall: ManyDoors) -> None:
    def handle(payload: bytes) -> bytes:
        if payload == b"rotten":
            raise pingpong.JobFailed(b"the wood is rotten", 7)
        return b"sawn " + payload

    with pingpong.Worker(hall.backend, handle, ping_s=PING_S), hall.client() as client:
        assert client.run("pingpong", b"oak") == b"sawn oak"
        assert client.run("pingpong", b"") == b"sawn "
        large = bytes(range(256)) * 40_000
        assert client.run("pingpong", large) == b"sawn " + large
        with pytest.raises(gearman.JobFailed) as failed:
            client.run("pingpong", b"rotten")
        assert failed.value.exception == b"the wood is rotten"
        with pytest.raises(gearman.JobFailed) as failed:
            client.run("pingpong", b"PONG")
        assert b"PONG" in failed.value.exception
        jobs = [client.submit("pingpong", b"%d" % number) for number in range(50)]
        assert [job.result(PATIENCE_S) for job in jobs] == [b"sawn %d" % number for number in range(50)]


def test_a_gearman_clients_job_is_done_by_a_wmp_worker(hall: ManyDoors) -> None:
    cancelled = asyncio.Event()

    async def saw(job: wmp.Job) -> bytes:
        if job.payload == b"rotten":
            raise wmp.JobFailed(b"the wood is rotten", 7)
        if job.payload == b"endless":
            try:
                await job.progress(1, 9)
                await asyncio.Event().wait()
            finally:
                cancelled.set()
        await job.progress(1, 2)
        await job.send(b"dust")
        return b"sawn " + job.payload + b" for " + job.key

    async def tell() -> None:
        async with wmp.Worker([hall.wmp], {"saw": saw}, slots=2), gearman.AsyncClient(hall.address) as client:
            job = await client.submit("saw", b"oak", unique="ann")
            assert [update async for update in job] == [gearman.Progress(1, 2), gearman.Data(b"dust")]
            assert await job.result() == b"sawn oak for ann"
            with pytest.raises(gearman.JobFailed) as failed:
                await client.run("saw", b"rotten")
            assert failed.value.exception == b"the wood is rotten"
            results = await asyncio.gather(*(client.run("saw", b"%d" % number) for number in range(50)))
            assert results == [b"sawn %d for " % number for number in range(50)]
            # What is called off at the Gearman door is stopped at the worker.
            endless = await client.submit("saw", b"endless")
            assert await anext(aiter(endless)) == gearman.Progress(1, 9)
            assert await client.admin(f"cancel job {endless.handle.decode()}") == ["OK"]
            await cancelled.wait()
            with pytest.raises(gearman.JobFailed):
                await endless.result()
            assert await client.run("saw", b"last") == b"sawn last for "

    run(tell())


# --- other clients, Gearman workers


def test_a_dwork_task_is_done_by_a_gearman_worker_and_its_successors_are_released(hall: ManyDoors) -> None:
    with hall.asker() as asker, Bench(hall, "dwork", waits=True) as bench:
        for name, predecessors in ((b"cut", ()), (b"plane", (b"cut",)), (b"oil", (b"plane", b"cut"))):
            assert create(asker, name, b"mill", *predecessors) == dwork.OK
        bench.wait_for(1)
        assert asker.status() == (0, 2, 1)
        assert asker.lookup(b"cut") == b"bench"
        bench.may_end.release(3)
        wait_until(lambda: asker.status() == (0, 0, 0), "all tasks are done")
        assert [(job.unique, job.data) for job in bench.got] == [
            (b"cut", b"cut"),
            (b"plane", b"plane"),
            (b"oil", b"oil"),
        ]
    wait_until(lambda: len(hall.history()) == 3, "their ends are on disk")
    assert {(end.key, end.state, end.result) for end in hall.history()} == {
        (b"cut", DONE, b"sawn cut"),
        (b"plane", DONE, b"sawn plane"),
        (b"oil", DONE, b"sawn oil"),
    }


def test_a_dwork_task_that_a_gearman_worker_fails_takes_its_successors_along(hall: ManyDoors) -> None:
    with hall.asker() as asker, Bench(hall, "dwork") as bench:
        assert create(asker, b"oil", b"mill", b"rotten cut") == dwork.OK
        assert create(asker, b"rotten cut", b"mill") == dwork.OK
        wait_until(lambda: asker.status() == (0, 0, 0), "nothing is left")
        assert [job.unique for job in bench.got] == [b"rotten cut"]
        assert asker.ask(dwork.encode(dwork.OK)).name == b"0 ready, 0 waiting, 0 assigned, 2 failed"
        refused = asker.ask(dwork.encode(dwork.CREATE, [dwork.encode_task(b"wax", b"mill", [b"oil"])]))
        assert refused.type == dwork.ERROR
        assert refused.name == b"'wax': its predecessor 'oil' has failed: create that one again first"
    wait_until(lambda: len(hall.history()) == 2, "their ends are on disk")
    assert {(end.key, end.state) for end in hall.history()} == {(b"rotten cut", FAILED), (b"oil", FAILED)}


def test_a_dwork_consumer_and_a_gearman_worker_never_have_the_same_task(hall: ManyDoors) -> None:
    count = 200
    stolen: list[bytes] = []
    with hall.asker() as asker:
        for number in range(count):
            assert create(asker, b"%d" % number, b"oak") == dwork.OK
        with Bench(hall, "dwork") as bench:
            while len(stolen) < count // 4:
                answer, names = asker.steal(b"mill")
                if answer == dwork.TRANSFER:
                    stolen += names
                    assert asker.complete(b"mill", names) == []
                elif asker.status() == (0, 0, 0):
                    break
            wait_until(lambda: asker.status() == (0, 0, 0), "all tasks are done")
            done = [job.unique for job in bench.got] + stolen
        assert sorted(done) == sorted(b"%d" % number for number in range(count))


def test_a_pingpong_clients_job_is_done_by_a_gearman_worker(hall: ManyDoors) -> None:
    with Bench(hall, "pingpong") as bench, hall.pingpong_client() as client:
        assert client.submit(b"oak") == b"sawn oak"
        assert list(client.map(b"%d" % number for number in range(50))) == [
            b"sawn %d" % number for number in range(50)
        ]
        with pytest.raises(pingpong.JobFailed) as failed:
            client.submit(b"rotten")
        assert (failed.value.reason, failed.value.code) == (b"the wood is rotten", 1)
        assert {job.unique for job in bench.got} == {b""}


def test_workers_of_three_dialects_share_one_queue(tmp_path: Path) -> None:
    """The queue of the dwork and the PING/PONG door is a role of WMP workers, and a function of Gearman."""
    count = 300
    shared = {"queue": "saw"}

    async def saw(job: wmp.Job) -> bytes:
        return b"wmp " + job.payload

    async def tell(hall: ManyDoors) -> None:
        with pingpong.Worker(hall.backend, lambda payload: b"pingpong " + payload, ping_s=PING_S):
            async with wmp.Worker([hall.wmp], {"saw": saw}), gearman.AsyncClient(hall.address) as client:
                await until(lambda: hall.counts("saw")[2] == 2)
                jobs = [await client.submit("saw", b"%d" % number) for number in range(count)]
                results = [(await job.result()).split() for job in jobs]
        assert [payload for _, payload in results] == [b"%d" % number for number in range(count)]
        assert {who for who, _ in results} == {b"wmp", b"pingpong"}

    with ManyDoors(tmp_path, dwork={**shared, "keep_open": "true"}, pingpong=shared) as hall:
        run(tell(hall))
        with hall.pingpong_client() as client, hall.asker() as asker:
            request = client.start(b"oak")
            task = steal(asker, b"mill")
            assert task.origin == b"oak"
            assert complete(asker, b"mill", task.name, b"dwork planks") == dwork.OK
            assert request.result() == b"dwork planks"
        hall.check()


# --- over the end of the hall


def test_a_gearman_job_in_the_hands_of_a_dwork_location_stays_there_when_the_hall_is_killed(
    hall: ManyDoors,
) -> None:
    with hall.client() as client, hall.asker() as asker:
        client.submit_background("dwork", b"oak", unique="cut")
        steal(asker, b"mill")
        assert create(asker, b"next", b"ash") == dwork.OK
        wait_until(lambda: holders(hall) == {b"cut": b"mill", b"next": b""}, "the assignment is on disk")
        hall.kill()
        hall.start()
        with Bench(hall, "dwork") as bench:
            bench.wait_for(1)
            assert bench.got[0].unique == b"next"
            assert asker.lookup(b"cut") == b"mill"
            assert complete(asker, b"mill", b"cut", b"planks") == dwork.OK
    wait_until(lambda: len(hall.history()) == 2, "both ends are on disk")
    assert {(end.key, end.state, end.losses) for end in hall.history()} == {
        (b"cut", DONE, 0),
        (b"next", DONE, 0),
    }


def test_tasks_that_were_created_outlive_the_hall_and_are_done_by_a_gearman_worker(hall: ManyDoors) -> None:
    with hall.asker() as asker:
        assert create(asker, b"plane", b"ash", b"cut") == dwork.OK
        assert create(asker, b"cut", b"oak") == dwork.OK
        hall.kill()
        hall.start()
        assert asker.status() == (1, 1, 0)
        with Bench(hall, "dwork") as bench:
            bench.wait_for(2)
            assert [job.unique for job in bench.got] == [b"cut", b"plane"]
            wait_until(lambda: asker.status() == (0, 0, 0), "both are done")


def test_durable_pingpong_jobs_outlive_client_and_hall(tmp_path: Path) -> None:
    with ManyDoors(tmp_path, pingpong={"durable": "true"}) as hall:
        with hall.pingpong_client() as client:
            client.start(b"oak")
            wait_until(lambda: hall.counts("pingpong")[0] == 1, "the job is taken in")
            # A durable job of another door: what came before it is committed with it or before.
            with hall.client() as other:
                other.submit_background("later", b"")
        hall.kill()
        hall.start()
        with Bench(hall, "pingpong") as bench:
            bench.wait_for(1)
            assert bench.got[0].data == b"oak"
            wait_until(hall.history, "it is done")
        hall.check()


def test_a_gearman_job_that_a_wmp_worker_has_when_the_hall_is_killed_is_done_after_all(hall: ManyDoors) -> None:
    begun: list[bytes] = []
    may_end = asyncio.Event()

    async def saw(job: wmp.Job) -> bytes:
        begun.append(job.id)
        await may_end.wait()
        return b"planks"

    async def tell() -> None:
        async with wmp.Worker([hall.wmp], {"saw": saw}, slots=2, ready_max_s=0.5, beat_s=0.2):
            async with gearman.AsyncClient(hall.address) as client:
                await client.submit_background("saw", b"oak", unique="cut")
            await until(lambda: len(begun) == 1)
            hall.kill()
            await asyncio.to_thread(hall.start)
            # The new hall does not know the old attempt: it stops it, or refuses its end, and begins another.
            await until(lambda: len(begun) == 2)
            may_end.set()
            await until(lambda: bool(hall.history()))

    run(tell())
    (end,) = hall.history()
    assert (end.key, end.state, end.result) == (b"cut", DONE, b"planks")
    assert len(set(begun)) == 2


# --- closing time


def test_while_the_hall_drains_each_worker_may_finish_and_nobody_gets_more(hall: ManyDoors) -> None:
    may_end, wmp_may_end = threading.Event(), asyncio.Event()
    begun: list[bytes] = []

    def saw(payload: bytes) -> bytes:
        begun.append(payload)
        assert may_end.wait(PATIENCE_S)
        return b"sawn " + payload

    async def plane(job: wmp.Job) -> bytes:
        begun.append(job.payload)
        await wmp_may_end.wait()
        return b"planed " + job.payload

    async def tell() -> None:
        with pingpong.Worker(hall.backend, saw, ping_s=PING_S), hall.asker() as asker:
            async with wmp.Worker([hall.wmp], {"plane": plane}), gearman.AsyncClient(hall.address) as client:
                assert await asyncio.to_thread(create, asker, b"cut", b"oak") == dwork.OK
                await asyncio.to_thread(steal, asker, b"mill")
                sawing = await client.submit("pingpong", b"oak")
                planing = await client.submit("plane", b"ash")
                await until(lambda: len(begun) == 2)
                await client.submit_background("plane", b"tomorrow")
                await client.submit_background("pingpong", b"tomorrow")
                hall.drain()
                await until(lambda: "draining" in hall.errors())
                # A client of the frontend is told why, dwork clients hear Exit; what was done counts.
                with pytest.raises(pingpong.Refused, match="closing"):
                    await asyncio.to_thread(submit_pingpong, hall)
                assert await asyncio.to_thread(create, asker, b"more", b"oak") == dwork.EXIT
                assert (await asyncio.to_thread(asker.steal, b"mill"))[0] == dwork.EXIT
                assert await asyncio.to_thread(complete, asker, b"mill", b"cut", b"") == dwork.EXIT
                may_end.set()
                assert await sawing.result() == b"sawn oak"
                assert not planing.ended
                wmp_may_end.set()
                assert await planing.result() == b"planed ash"
                assert await asyncio.to_thread(hall.wait) == 0
        assert sorted(begun) == [b"ash", b"oak"]

    run(tell())
    assert {(end.key, end.state) for end in hall.history()} == {(b"cut", DONE)}
    hall.start()
    assert hall.counts("plane")[0] == hall.counts("pingpong")[0] == 1


def test_jobs_that_outlast_the_grace_time_go_back_without_a_loss(tmp_path: Path) -> None:
    may_end = threading.Event()

    async def plane(job: wmp.Job) -> bytes:
        await job.progress(1, 2)
        await asyncio.Event().wait()
        return b"never"

    async def tell(hall: ManyDoors) -> None:
        async with gearman.AsyncClient(hall.address) as client:
            await client.submit_background("plane", b"ash", unique="wmp")
            await client.submit_background("pingpong", b"oak", unique="pingpong")
        working = asyncio.create_task(wmp.Worker([hall.wmp], {"plane": plane}).run())
        with pingpong.Worker(hall.backend, lambda _: b"late" if may_end.wait(20) else b"", ping_s=PING_S):
            await until(lambda: hall.counts("pingpong")[1] == 1 and hall.counts("plane")[1] == 1)
            hall.drain()
            assert await asyncio.to_thread(hall.wait) == 0
            may_end.set()
        working.cancel()
        await asyncio.wait([working])

    with ManyDoors(tmp_path, hall={"drain_grace_s": 0.3}) as hall:
        run(tell(hall))
        hall.start()
        with Bench(hall, "plane", "pingpong") as bench:
            bench.wait_for(2)
            wait_until(lambda: len(hall.history()) == 2, "both are done after all")
        assert {(end.key, end.state, end.losses) for end in hall.history()} == {
            (b"wmp", DONE, 0),
            (b"pingpong", DONE, 0),
        }


def holders(hall: ManyDoors) -> dict[bytes, bytes]:
    """Who holds each live job, as it stands on disk."""
    with contextlib.closing(open_history(hall.place)) as reader:
        return {row.key: row.holder for row in reader.live()}


def submit_pingpong(hall: ManyDoors) -> bytes:
    with hall.pingpong_client() as client:
        return client.submit(b"too late")


async def until(holds: Callable[[], bool]) -> None:
    """Ask again and again, beside the loop."""
    await asyncio.to_thread(wait_until, holds, "it is so", PATIENCE_S)


def run(story: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(in_time())
