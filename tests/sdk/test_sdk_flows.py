"""Flows in the SDK, against a real hall: both faces, the context, waiting, cancelling, retrying."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from small_worker import SmallWorker

from hiringhall import Hall, HallRefused, JobFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

HALL = Hall("hall://127.0.0.1:1")
BROKEN: set[int] = set()


@HALL.job
def half(number: int) -> int:
    if number in BROKEN:
        raise ValueError(number)
    return number // 2


UNSERVED = HALL.function("nobody serves this")


@pytest.fixture(scope="module")
def worker(server: Any) -> Iterator[SmallWorker]:
    HALL.url = f"hall://{server.address}"
    with SmallWorker(HALL, HALL.url) as worker:
        yield worker
    HALL.close()


@pytest.mark.usefixtures("worker")
def test_jobs_submitted_inside_belong_to_the_flow() -> None:
    with HALL.flow("inside") as flow:
        first = half.submit(8)
        second = half.submit(first)
        list(half.map(range(5)))
    outside = half.submit(1)
    assert flow.wait(20) == "done"
    assert (first.info().flow, second.info().flow, outside.info().flow) == ("inside", "inside", "")
    info = flow.info()
    assert (info.state, info.jobs, info.done, info.failed) == ("done", 7, 7, 0)
    assert info.ended is not None
    assert info.ended >= info.created
    assert second.result() == 2


@pytest.mark.usefixtures("worker")
def test_an_option_names_a_flow_and_goes_before_the_context() -> None:
    with HALL.flow("context"):
        job = half.options(flow="option").submit(4)
        job.result()
        assert job.info().flow == "option"
    assert HALL.flow_of("option").wait(20) == "done"
    with pytest.raises(HallRefused, match="unknown_flow"):
        HALL.flow_of("context").state()


@pytest.mark.usefixtures("worker")
def test_flows_can_be_nested_and_belong_to_their_hall() -> None:
    with HALL.flow("outer"), Hall(HALL.url) as other, other.flow("elsewhere"):
        assert half.submit(4).info().flow == ""
        with HALL.flow("inner"):
            assert half.submit(4).info().flow == "inner"
    with HALL.flow("outer"):
        assert half.submit(4).info().flow == "outer"


@pytest.mark.usefixtures("worker")
def test_a_failed_flow_is_retried_with_what_hangs_on_it() -> None:
    BROKEN.add(100)
    with HALL.flow("mended") as flow:
        first = half.submit(100)
        second = half.submit(first)
    assert flow.wait(20) == "failed"
    with pytest.raises(JobFailed):
        second.result()
    BROKEN.clear()
    assert flow.retry() == (2, 0)
    assert flow.wait(20) == "done"
    assert HALL.job_of(second.id, int).result() == 25


@pytest.mark.usefixtures("worker")
def test_a_flow_is_cancelled_as_a_whole() -> None:
    with HALL.flow("dropped") as flow:
        jobs = UNSERVED.submit_many([(number,) for number in range(10)])
    assert flow.state() == "running"
    with pytest.raises(TimeoutError, match=r"flow 'dropped' has not ended within 0\.05 s"):
        flow.wait(0.05)
    assert flow.cancel("enough") == 10
    assert flow.wait() == "cancelled"
    assert jobs[0].info().result == b"enough"


@pytest.mark.usefixtures("worker")
def test_a_flow_on_an_event_loop() -> None:
    async def main() -> None:
        async with HALL.flow("async") as flow:
            jobs = await asyncio.gather(*[half.asubmit(number) for number in range(4)])
            task = asyncio.create_task(half.asubmit(9))
        late = await half.asubmit(2)
        assert await flow == "done"
        assert [await job for job in jobs] == [0, 0, 1, 1]
        assert (await (await task).ainfo()).flow == "async"
        assert (await late.ainfo()).flow == ""
        assert await flow.await_end(1) == "done"
        assert (await flow.aretry(), await flow.acancel()) == ((0, 0), 0)
        assert (await flow.ainfo()).jobs == 5
        assert await flow.astate() == "done"
        await HALL.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("name", ["", "x" * 201, "ö" * 101])
def test_a_name_that_the_hall_would_refuse_is_refused_here(name: str) -> None:
    with pytest.raises(ValueError, match="flow must be a text of 1 to 200 bytes"):
        HALL.flow(name)
    with pytest.raises(ValueError, match="flow must be a text"):
        half.options(flow=name)


@pytest.mark.usefixtures("worker")
def test_a_job_that_is_not_durable_cannot_belong_to_a_flow() -> None:
    with HALL.flow("memory"), pytest.raises(ValueError, match="not durable"):
        half.options(durable=False).submit(1)


def test_a_schedule_cannot_have_a_flow() -> None:
    with pytest.raises(ValueError, match="without a key, parents or a flow"):
        HALL.schedule("nightly", half.options(flow="f"), 1, every=60)


def test_a_flow_shows_its_name() -> None:
    assert repr(HALL.flow("nightly")) == "<Flow 'nightly'>"
