"""A stage with the blocking face: jobs run when they are waited for or told to, by the clock of the test."""

from __future__ import annotations

import asyncio
import datetime as dt
import textwrap
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from hiringhall import Hall, HallRefused, JobCancelled, JobFailed, JobTimeout, current_job
from hiringhall.testing import Stage, StageStuck, use
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator

hall = Hall("hall://127.0.0.1:1")
"""Nothing listens there: a test that reached for a real hall would fail."""
runs: list[object] = []


@dataclass
class Box:
    width: int
    height: int


@hall.job
def area(box: Box) -> int:
    runs.append(box)
    return box.width * box.height


@hall.job
def add(a: int, b: int = 1) -> int:
    runs.append((a, b))
    return a + b


@hall.job(retries=2, backoff=10)
def flaky(fails: int) -> int:
    attempt = current_job().attempt
    if attempt <= fails:
        raise OSError(f"attempt {attempt}")
    return attempt


@hall.job
def outer(n: int) -> int:
    return add.submit(n).result() + add.options(delay=5).submit(n).result()


@pytest.fixture
def stage() -> Iterator[Stage]:
    runs.clear()
    with use(hall) as stage:
        yield stage


def test_a_result_that_is_waited_for_runs_its_job_in_this_thread(stage: Stage) -> None:
    thread = threading.current_thread()
    seen = []

    @hall.job(name="where")
    def where() -> None:
        seen.append(threading.current_thread())

    assert area.submit(Box(2, 3)).result() == 6
    assert where.submit().result() is None
    assert seen == [thread]
    assert runs == [Box(2, 3)]
    assert [job.state for job in stage.jobs(area)] == ["done"]


def test_a_job_that_nobody_waits_for_runs_when_told(stage: Stage) -> None:
    first, second = add.submit(1), add.submit(2, b=3)
    assert first.state() == "queued"
    assert runs == []
    ran = stage.run_next()
    assert ran is not None
    assert (ran.id, ran.value, ran.arguments) == (first.id, 2, [1])
    assert stage.run_all() == 1
    assert stage.run_next() is None
    assert (second.result(), second.state()) == (5, "done")
    assert [(job.id, job.arguments) for job in stage.jobs()] == [(first.id, [1]), (second.id, [2, 3])]


def test_priorities_decide_the_order(stage: Stage) -> None:
    add.options(priority="low").submit(1)
    add.submit(2)
    add.options(priority="high").submit(3)
    stage.run_all()
    assert [a for a, _ in runs] == [3, 2, 1]


def test_a_failure_has_the_type_text_and_traceback(stage: Stage) -> None:
    with pytest.raises(JobFailed) as failed:
        flaky.options(retries=0).submit(9).result()
    assert (failed.value.type, failed.value.text, failed.value.code) == ("OSError", "attempt 1", 1)
    assert "in flaky" in failed.value.traceback
    assert [(job.state, job.error) for job in stage.jobs(flaky)] == [("failed", "OSError: attempt 1")]


def test_waiting_lets_the_time_of_the_backoff_pass(stage: Stage) -> None:
    began = stage.now
    with Stopwatch() as watch:
        job = flaky.submit(2)
        assert job.result() == 3
    assert (stage.now - began).total_seconds() == pytest.approx(30, abs=0.1)
    assert watch.elapsed_s < 5
    assert stage.jobs(flaky)[0].attempts == 3


def test_a_retry_is_due_after_its_backoff(stage: Stage) -> None:
    job = flaky.submit(1)
    assert stage.run_all() == 1
    assert job.state() == "delayed"
    stage.advance(9.9)
    assert stage.run_all() == 0
    stage.advance(0.2)
    assert stage.run_all() == 1
    assert job.result() == 2


def test_only_the_named_exceptions_are_retried(stage: Stage) -> None:
    @hall.job(name="picky", retries=5, retry_on=OSError)
    def picky() -> None:
        raise ValueError("no")

    with pytest.raises(JobFailed, match="ValueError"):
        picky.submit().result()
    assert stage.jobs(picky)[0].attempts == 1


def test_a_delay_and_a_moment_are_due_by_the_clock_of_the_stage(stage: Stage) -> None:
    later = add.options(delay=60).submit(1)
    at = add.options(at=stage.now + dt.timedelta(hours=1)).submit(2)
    assert stage.run_all() == 0
    assert (later.state(), at.state()) == ("delayed", "delayed")
    stage.advance(61)
    stage.run_all()
    assert (later.state(), at.state()) == ("done", "delayed")
    stage.advance(dt.timedelta(hours=1))
    assert stage.run_all() == 1


def test_a_stage_can_begin_at_any_time() -> None:
    start = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    with use(hall, start=start) as stage:
        assert stage.now == start
        job = add.options(at=start + dt.timedelta(minutes=5)).submit(1)
        assert job.result() == 2
        assert stage.now - start == pytest.approx(dt.timedelta(minutes=5), abs=dt.timedelta(seconds=0.1))


def test_result_with_a_timeout_gives_up_by_the_clock_of_the_stage(stage: Stage) -> None:
    job, began = add.options(delay=60).submit(1), stage.now
    with pytest.raises(TimeoutError, match="has not ended within 10 s"):
        job.result(timeout=10)
    assert (stage.now - began).total_seconds() == pytest.approx(10, abs=0.1)
    assert job.result(timeout=55) == 2


def test_a_job_that_no_worker_takes_expires(stage: Stage) -> None:
    job = add.options(expires=30).submit(1)
    stage.advance(31)
    assert job.state() == "cancelled"
    with pytest.raises(JobCancelled):
        job.result()


def test_a_cancelled_job_does_not_run(stage: Stage) -> None:
    job = add.submit(1)
    job.cancel("not needed")
    assert stage.run_all() == 0
    with pytest.raises(JobCancelled):
        job.result()


def test_a_job_that_takes_longer_than_its_timeout_is_reported_as_such(stage: Stage) -> None:
    left = []

    @hall.job(name="slow", timeout=5)
    def slow() -> str:
        left.append(current_job().time_left())
        stage.advance(10)
        left.append(current_job().cancelled)
        return "too late"

    with pytest.raises(JobTimeout):
        slow.submit().result()
    assert left == [pytest.approx(5), True]


def test_a_worker_that_is_busy_is_not_taken_for_lost(stage: Stage) -> None:
    @hall.job(name="quiet", silence=5)
    def quiet() -> int:
        stage.advance(60)
        return 1

    assert quiet.submit().result() == 1
    assert stage.jobs(quiet)[0].losses == 0


def test_handles_as_arguments_and_parents(stage: Stage) -> None:
    total = add.submit(add.submit(1), add.submit(2))
    after = add.options(after=[total]).submit(0)
    assert after.state() == "held"
    assert after.result() == 1
    assert total.result() == 5


def test_a_failed_parent_fails_its_child(stage: Stage) -> None:
    child = add.submit(flaky.options(retries=0).submit(9))
    with pytest.raises(JobFailed) as failed:
        child.result()
    assert failed.value.code == 126


def test_a_job_may_submit_and_wait_for_jobs(stage: Stage) -> None:
    assert outer.submit(1).result() == 4
    job = outer.submit(2)
    assert stage.run_all() == 1
    assert job.state() == "done"


def test_wrong_arguments_fail_at_once(stage: Stage) -> None:
    wrong = hall.function(add.queue).submit("one")
    with pytest.raises(JobFailed, match="`a`") as failed:
        wrong.result()
    assert failed.value.code == 2
    assert runs == []


def test_a_result_that_cannot_be_sent_fails(stage: Stage) -> None:
    @hall.job(name="unsendable")
    def unsendable() -> object:
        return object()

    with pytest.raises(JobFailed) as failed:
        unsendable.submit().result()
    assert failed.value.code == 3


def test_system_exit_is_a_failure(stage: Stage) -> None:
    @hall.job(name="leaves")
    def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(JobFailed) as failed:
        leaves.submit().result()
    assert failed.value.code == 4


def test_an_interrupt_in_a_function_reaches_the_test(stage: Stage) -> None:
    @hall.job(name="interrupted")
    def interrupted() -> None:
        raise KeyboardInterrupt

    job = interrupted.submit()
    with pytest.raises(KeyboardInterrupt):
        job.result()
    assert job.state() == "queued"


def test_map_runs_the_jobs(stage: Stage) -> None:
    assert list(add.map(range(100))) == list(range(1, 101))
    assert sorted(add.starmap([(1, 1), (2, 2)], ordered=False)) == [2, 4]
    assert hall.gather(add.submit(1), add.submit(2)) == [2, 3]
    assert len(stage.jobs(add, state="done")) == 104


def test_a_key_joins(stage: Stage) -> None:
    one, two = (add.options(key="same").submit(1) for _ in range(2))
    assert one.id == two.id
    stage.run_all()
    assert len(runs) == 1


def test_progress_is_seen(stage: Stage) -> None:
    @hall.job(name="halfway")
    def halfway() -> object:
        current_job().progress(1, 2)
        progress = hall.job_of(current_job().id).progress()
        return [progress.done, progress.of]

    assert halfway.submit().result() == [1, 2]


def test_async_functions_run_and_their_sleeps_cost_no_time(stage: Stage) -> None:
    @hall.job(name="patient")
    async def patient(n: int) -> int:
        await asyncio.sleep(3600)
        return n

    with Stopwatch() as watch:
        assert patient.submit(1).result() == 1
        assert list(patient.map(range(5))) == list(range(5))
    assert watch.elapsed_s < 5


def test_async_functions_wait_for_other_jobs(stage: Stage) -> None:
    @hall.job(name="asking")
    async def asking(n: int) -> int:
        return await (await add.asubmit(n)) + add.submit(n).result() + await (await asleep.asubmit(n))

    @hall.job(name="asleep")
    async def asleep(n: int) -> int:
        await asyncio.sleep(5)
        return n

    assert asking.submit(1).result() == 5


def test_an_async_function_over_its_timeout_is_cancelled(stage: Stage) -> None:
    @hall.job(name="endless", timeout=5)
    async def endless() -> None:
        await asyncio.sleep(3600)

    with pytest.raises(JobTimeout):
        endless.submit().result()


def test_functions_of_other_workers_can_be_provided(stage: Stage) -> None:
    stage.provide("resize", lambda path, width: f"{path}@{width}")
    stage.provide("reverse", lambda data: data[::-1], raw=True)
    assert hall.function("resize", returns=str).submit("cat.jpg", 100).result() == "cat.jpg@100"
    assert hall.function("reverse", raw=True).submit(b"abc").result() == b"cba"
    assert stage.jobs("reverse")[0].arguments == b"abc"


def test_nobody_waits_for_ever(stage: Stage) -> None:
    job = hall.function("nowhere").submit()
    with pytest.raises(StageStuck, match=f"job {job.id} of nowhere is queued"):
        job.result()
    with pytest.raises(TimeoutError):
        job.result(timeout=5)


def test_a_stage_that_is_not_immediate_runs_jobs_only_when_told() -> None:
    with use(hall, immediate=False) as stage:
        job = outer.submit(1)
        with pytest.raises(StageStuck, match="run_all"):
            job.result()
        with pytest.raises(TimeoutError):
            job.result(timeout=1)
        stage.advance(1)
        assert stage.run_next() is not None
        assert job.result() == 4


def test_jobs_that_submit_each_other_for_ever_do_not_hang_a_test(stage: Stage) -> None:
    @hall.job(name="again")
    def again() -> None:
        again.submit()

    again.submit()
    with pytest.raises(StageStuck, match="after 50 jobs"):
        stage.run_all(most=50)


def test_a_stage_is_a_hall_of_its_own(stage: Stage) -> None:
    add.submit(1)
    with use(hall) as inner:
        assert inner.jobs() == []
        assert add.submit(2).result() == 3
    assert [job.arguments for job in stage.jobs()] == [[1]]


def test_jobs_that_are_not_durable_are_listed_too(stage: Stage) -> None:
    assert add.options(durable=False).submit(1).result() == 2
    assert [job.state for job in stage.jobs(add)] == ["done"]


def test_threads_may_share_a_stage(stage: Stage) -> None:
    results: list[int] = []
    threads = [threading.Thread(target=lambda n=n: results.append(outer.submit(n).result())) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [2 * n + 2 for n in range(8)]


def test_schedules_fire_by_the_clock_of_the_stage(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hiringhall.testing.stage.MOVES_MAX", 100)
    hall.schedule("minutely", add, 1, every=60)
    assert stage.run_all() == 0
    stage.advance(600)
    assert stage.run_all() == 10
    lost = hall.function("nowhere").submit()
    with pytest.raises(StageStuck, match="nowhere"):
        lost.result()


def test_what_a_job_says_is_kept(stage: Stage) -> None:
    @hall.job(name="talking")
    def talking() -> None:
        current_job().chunk("first")
        current_job().log("a line")
        current_job().chunk("second")

    job = talking.submit()
    assert list(job.chunks()) == [b"first", b"second"]
    assert [line.text for line in job.log()] == ["a line"]


def test_a_result_is_kept_as_long_as_its_job_says_by_the_clock_of_the_stage(stage: Stage) -> None:
    job = add.options(keep=60).submit(1)
    assert job.result() == 2
    stage.advance(59)
    assert job.info().result is not None
    stage.advance(2)
    with pytest.raises(HallRefused, match="nothing of it is kept"):
        job.info()


def test_the_executor_runs_its_calls_at_once(stage: Stage) -> None:
    with hall.executor() as executor:
        assert executor.submit(textwrap.dedent, "  text").result() == "text"
        assert list(executor.map(textwrap.dedent, [" a", " b"])) == ["a", "b"]
        with pytest.raises(JobFailed, match="TypeError"):
            executor.submit(textwrap.dedent, 1).result()
    assert len(stage.jobs("hiringhall.call")) == 4
