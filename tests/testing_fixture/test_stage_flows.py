"""Flows in a stage: jobs run while somebody waits for the flow, and nobody waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from hiringhall import Hall, testing
from hiringhall.testing import StageStuck

HALL = Hall("hall://127.0.0.1:1")
BROKEN: list[int] = []


@HALL.job
def half(number: int) -> int:
    if number in BROKEN:
        raise ValueError(number)
    return number // 2


@HALL.job
async def third(number: int) -> int:
    await asyncio.sleep(3600)
    return number // 3


def test_jobs_of_a_flow_run_while_somebody_waits_for_it() -> None:
    with testing.use(HALL) as stage:
        with HALL.flow("f") as flow:
            half.submit(half.submit(8))
            third.submit(9)
        assert flow.state() == "running"
        assert flow.wait() == "done"
        assert [(job.flow, job.value) for job in stage.jobs()] == [("f", 4), ("f", 2), ("f", 3)]


def test_a_flow_on_an_event_loop() -> None:
    async def main() -> None:
        async with HALL.flow("f") as flow:
            first = await half.asubmit(8)
            await half.asubmit(first)
        assert await flow == "done"
        assert (await flow.ainfo()).done == 2

    with testing.use(HALL):
        asyncio.run(main())


def test_a_flow_is_retried_and_cancelled() -> None:
    with testing.use(HALL):
        BROKEN.append(8)
        with HALL.flow("f") as flow:
            half.submit(half.submit(8))
        assert flow.wait() == "failed"
        BROKEN.clear()
        assert flow.retry() == (2, 0)
        assert flow.wait() == "done"
        with flow:
            half.options(delay=60).submit(1)
        assert flow.cancel() == 1
        assert flow.wait() == "cancelled"


def test_a_timeout_goes_by_the_clock_of_the_stage() -> None:
    with testing.use(HALL, immediate=False) as stage:
        begun = stage.now
        with HALL.flow("f") as flow:
            half.submit(1)
        with pytest.raises(TimeoutError, match="has not ended within 3600 s"):
            flow.wait(timeout=3600)
        assert 3600 <= (stage.now - begun).total_seconds() < 3700


def test_a_flow_that_nothing_can_end_is_an_error() -> None:
    with testing.use(HALL):
        BROKEN.append(8)
        try:
            with HALL.flow("f") as flow:
                half.options(on_parent_failure="hold").submit(half.submit(8))
            with pytest.raises(StageStuck):
                flow.wait()
            assert flow.state() == "stuck"
        finally:
            BROKEN.clear()
