"""A stage with the asyncio face: jobs run on the event loop of the test, while it waits for them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hiringhall import Hall, JobFailed, JobTimeout, current_job
from hiringhall.testing import StageStuck, use
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hiringhall.testing import Stage

hall = Hall("hall://127.0.0.1:1")
loops: list[asyncio.AbstractEventLoop] = []


@hall.job
def plain(n: int) -> int:
    return n + 1


@hall.job
async def double(n: int) -> int:
    loops.append(asyncio.get_running_loop())
    await asyncio.sleep(0)
    return 2 * n


@hall.job(retries=3, backoff=60)
async def flaky() -> int:
    if current_job().attempt < 3:
        raise OSError("not yet")
    return current_job().attempt


@hall.job
async def outer(n: int) -> int:
    later = await plain.options(delay=60).asubmit(n)
    inner = await double.asubmit(n)
    return await later + await inner


def on_stage(body: Callable[[Stage], Coroutine[Any, Any, None]], **options: bool) -> None:
    async def run() -> None:
        with use(hall, **options) as stage:
            await body(stage)

    loops.clear()
    asyncio.run(run())


def test_a_job_runs_on_the_loop_of_who_waits() -> None:
    async def body(stage: Stage) -> None:
        job = await double.asubmit(4)
        assert await job.astate() == "queued"
        assert await job == 8
        assert await (await plain.asubmit(1)) == 2
        assert loops == [asyncio.get_running_loop()]
        assert [found.state for found in stage.jobs()] == ["done", "done"]

    on_stage(body)


def test_waiting_costs_no_time() -> None:
    async def body(stage: Stage) -> None:
        began = stage.now
        assert await (await flaky.asubmit()) == 3
        assert (stage.now - began).total_seconds() == pytest.approx(180, abs=0.1)
        assert await (await outer.asubmit(1)) == 4

    with Stopwatch() as watch:
        on_stage(body)
    assert watch.elapsed_s < 5


def test_jobs_run_when_told_on_this_loop() -> None:
    async def body(stage: Stage) -> None:
        jobs = [await double.asubmit(n) for n in range(3)]
        done = await stage.arun_next()
        assert done is not None
        assert (done.id, done.value) == (jobs[0].id, 0)
        assert await stage.arun_all() == 2
        assert await stage.arun_next() is None
        assert await hall.agather(*jobs) == [0, 2, 4]
        assert set(loops) == {asyncio.get_running_loop()}

    on_stage(body, immediate=False)


def test_run_all_from_a_coroutine_runs_coroutine_functions_elsewhere() -> None:
    async def body(stage: Stage) -> None:
        job = await double.asubmit(1)
        assert stage.run_all() == 1
        assert await job == 2
        assert asyncio.get_running_loop() not in loops

    on_stage(body)


def test_a_task_that_waits_is_woken_when_jobs_run_later() -> None:
    async def body(stage: Stage) -> None:
        waiter = asyncio.create_task((await plain.asubmit(1)).aresult())
        await asyncio.sleep(0)
        assert stage.run_all() == 1
        assert await waiter == 2

    on_stage(body, immediate=False)


def test_a_timeout_is_by_the_clock_of_the_stage() -> None:
    async def body(stage: Stage) -> None:
        began = stage.now
        job = await plain.options(delay=3600).asubmit(1)
        with pytest.raises(TimeoutError, match="within 60 s"):
            await job.aresult(timeout=60)
        assert (stage.now - began).total_seconds() == pytest.approx(60, abs=0.1)
        results = await asyncio.gather(job.aresult(timeout=10), job.aresult(), return_exceptions=True)
        assert isinstance(results[0], TimeoutError)
        assert results[1] == 2

    on_stage(body)


def test_map_and_failures() -> None:
    async def body(stage: Stage) -> None:
        assert [n async for n in double.amap(range(50))] == [2 * n for n in range(50)]
        with pytest.raises(JobFailed, match="OSError"):
            await (await flaky.options(retries=0).asubmit())
        assert len(stage.jobs(flaky, state="failed")) == 1

    on_stage(body)


def test_a_coroutine_over_its_timeout_is_cancelled() -> None:
    ended = []

    async def body(stage: Stage) -> None:
        @hall.job(name="forever", timeout=5)
        async def forever() -> None:
            try:
                stage.advance(10)
                await asyncio.Event().wait()
            finally:
                ended.append(current_job().cancelled)

        with pytest.raises(JobTimeout):
            await (await forever.asubmit())
        await asyncio.sleep(0)
        assert ended == [True]

    on_stage(body)


@pytest.mark.parametrize("immediate", [True, False])
def test_nobody_waits_for_ever(immediate: bool) -> None:
    async def body(_: Stage) -> None:
        job = await hall.function("nowhere").asubmit()
        with pytest.raises(StageStuck, match="nowhere is queued"):
            await job

    on_stage(body, immediate=immediate)


def test_both_faces_in_one_test() -> None:
    async def body(_: Stage) -> None:
        job = plain.submit(1)
        assert await job == 2
        assert (await double.asubmit(2)).result() == 4

    on_stage(body)


def test_a_plain_function_may_use_the_blocking_face_on_an_event_loop() -> None:
    @hall.job(name="nested")
    def nested(n: int) -> int:
        return double.submit(n).result() + plain.submit(n).result()

    async def body(_: Stage) -> None:
        assert await (await nested.asubmit(1)) == 4

    on_stage(body)


def test_a_stage_around_several_event_loops() -> None:
    async def ask(n: int) -> int:
        return await (await outer.asubmit(n))

    with use(hall) as stage:
        assert [asyncio.run(ask(n)) for n in range(3)] == [1, 4, 7]
        results: list[int] = []
        threads = [threading.Thread(target=lambda n=n: results.append(asyncio.run(ask(n)))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [1, 4, 7, 10]
        assert len(stage.jobs(outer, state="done")) == 7
