"""Job functions against a real hall: submit, results, failures, options, handles, gather, both faces."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import threading
from typing import TYPE_CHECKING, Any

import pytest
from small_worker import SmallWorker

from hiringhall import Hall, HallRefused, HallUnreachable, Job, JobCancelled, JobFailed, JobTimeout, current_job

if TYPE_CHECKING:
    from collections.abc import Iterator

HALL = Hall("hall://127.0.0.1:1")
ATTEMPTS: list[int] = []


@HALL.job
def add(a: int, b: int = 2) -> int:
    return a + b


@HALL.job
async def double(a: int) -> int:
    await asyncio.sleep(0)
    return 2 * a


@HALL.job
def total(numbers: list[int], plus: int = 0) -> int:
    return sum(numbers) + plus


@HALL.job
def fail(text: str) -> None:
    raise ValueError(text)


@HALL.job(retries=5, backoff=0.001, retry_on=OSError)
def fragile(kind: str) -> int:
    ATTEMPTS.append(current_job().attempt)
    if len(ATTEMPTS) < 3:
        raise ConnectionError("not yet") if kind == "os" else KeyError(kind)
    return len(ATTEMPTS)


@HALL.job
def telling(times: int) -> str:
    job = current_job()
    job.progress(1, times)
    return f"{job.id} {job.queue} {job.key} {job.attempt} {job.time_left()} {job.cancelled}"


@pytest.fixture(scope="module")
def worker(server: Any) -> Iterator[SmallWorker]:
    with SmallWorker(HALL, f"hall://{server.address}") as worker:
        yield worker


@pytest.fixture(autouse=True)
def connected(url: str, worker: SmallWorker) -> Iterator[None]:
    HALL.url = url
    yield
    HALL.close()


def test_a_job_function_is_a_function() -> None:
    assert add(1, b=3) == 4
    assert asyncio.run(double(3)) == 6
    assert add.__name__ == "add"
    assert add.queue == "test_sdk_calls.add"
    assert HALL.functions["test_sdk_calls.add"] is add


def test_submit_and_result() -> None:
    job = add.submit(1, b=3)
    assert job.result(timeout=20) == 4
    assert job.result() == 4
    assert job.state() == "done"
    assert double.submit(4).result(20) == 8


@pytest.mark.parametrize("option", ["debounce", "throttle"])
def test_debounce_and_throttle_without_a_key_are_refused(url: str, option: str) -> None:
    with Hall(url) as hall:
        function = hall.function("nobody.has.this").options(**{option: 60})
        with pytest.raises(ValueError, match=f"nobody.has.this: a job with {option} must have a key"):
            function.submit()
        assert function.options(key="k").submit().id == function.options(key="k").submit().id


def test_the_same_on_an_event_loop() -> None:
    async def run() -> None:
        job = await add.asubmit(1, b=3)
        assert await job == 4
        assert await job.aresult(dt.timedelta(seconds=20)) == 4
        assert await job.astate() == "done"
        assert await asyncio.gather(*[await double.asubmit(n) for n in range(5)]) == [0, 2, 4, 6, 8]

    asyncio.run(run())


def test_a_handle_goes_from_one_face_to_the_other() -> None:
    job = asyncio.run(add.asubmit(1))
    assert job.result(20) == 3

    async def wait(job: Job[int]) -> int:
        return await job

    assert asyncio.run(wait(add.submit(5))) == 7


def test_a_handle_from_an_id() -> None:
    job = add.submit(3)
    assert HALL.job_of(job.id, int).result(20) == 5
    assert HALL.job_of(job.id).result(20) == 5
    assert HALL.job_of(job.id) == job
    with pytest.raises(HallRefused, match="unknown_job"):
        HALL.job_of((1 << 62) + 1).result(20)


def test_a_failure_has_the_type_text_and_traceback_of_the_worker() -> None:
    with pytest.raises(JobFailed, match=r"\(test_sdk_calls.fail\) failed \(code 1\): ValueError: no") as raised:
        fail.submit("no").result(20)
    error = raised.value
    assert (error.code, error.type, error.text, error.queue) == (1, "ValueError", "no", "test_sdk_calls.fail")
    assert "raise ValueError(text)" in error.traceback
    assert "On the worker:" in error.__notes__[0]
    again = copy.copy(error)
    assert (type(again), again.args) == (JobFailed, error.args)


def test_a_wrong_payload_fails_at_once_and_names_the_field(url: str) -> None:
    job = HALL.function("test_sdk_calls.add", retries=3).submit("one")
    with pytest.raises(JobFailed, match="Expected `int`, got `str` - at `a`") as raised:
        job.result(20)
    assert raised.value.code == 2
    assert job.info().attempts == 1


def test_only_some_exceptions_are_retried() -> None:
    ATTEMPTS.clear()
    assert fragile.submit("os").result(20) == 3
    assert ATTEMPTS == [1, 2, 3]
    ATTEMPTS.clear()
    with pytest.raises(JobFailed, match="KeyError"):
        fragile.submit("key").result(20)
    assert ATTEMPTS == [1]


def test_a_handle_as_an_argument_gives_the_result() -> None:
    parts = [add.submit(n) for n in range(3)]
    assert total.submit(parts, double.submit(5)).result(20) == 2 + 3 + 4 + 10
    assert total.submit([], double.submit(5).argument()).result(20) == 10


def test_a_child_of_a_failed_job_fails() -> None:
    with pytest.raises(JobFailed, match="a job that it depends on failed") as raised:
        double.submit(fail.submit("no")).result(20)  # type: ignore[arg-type]
    assert raised.value.code == 126


def test_after_waits_for_other_jobs() -> None:
    held = HALL.function("nobody.has.this").submit()
    job = add.options(after=[held, add.submit(1).id]).submit(1)
    assert job.state() == "held"
    held.cancel()
    with pytest.raises(JobFailed):
        job.result(20)


def test_gather() -> None:
    assert HALL.gather(*[add.submit(n) for n in range(20)]) == [n + 2 for n in range(20)]
    with pytest.raises(JobFailed):
        HALL.gather(add.submit(1), fail.submit("no"), HALL.function("nobody.has.this").submit())


def test_a_key_joins_a_live_job() -> None:
    waiting = HALL.function("nobody.has.this", key="cat")
    first, second = waiting.submit(), waiting.submit()
    assert first.id == second.id
    assert first.info().key == "cat"
    first.cancel("enough")
    with pytest.raises(JobCancelled):
        second.result(20)


def test_cancelled_and_expired_jobs() -> None:
    job = HALL.function("nobody.has.this").submit(1)
    assert job.state() == "queued"
    assert job.info().why
    job.cancel("not needed")
    with pytest.raises(JobCancelled, match="was cancelled") as raised:
        job.result(20)
    assert raised.value.code == 130
    with pytest.raises(HallRefused):
        job.cancel()
    with pytest.raises(JobCancelled):
        HALL.function("nobody.has.this", expires=0.01).submit().result(20)


def test_a_dead_letter_is_retried() -> None:
    ATTEMPTS.clear()
    job = fragile.options(retries=0).submit("os")
    with pytest.raises(JobFailed):
        job.result(20)
    ATTEMPTS.append(0)
    job.retry()
    assert job.result(20) == 3
    assert ATTEMPTS[-1] == 2


def test_delay_and_at() -> None:
    job = add.options(delay=3600).submit(1)
    assert job.state() == "delayed"
    job.cancel()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    job = add.options(delay=5, priority="high").options(at=later).submit(1)
    assert job.state() == "delayed"
    job.cancel()
    assert add.options(at=dt.datetime(2020, 1, 1)).submit(1).result(20) == 3  # noqa: DTZ001 (local time)


def test_result_within_a_time_limit() -> None:
    job = HALL.function("nobody.has.this").submit()
    with pytest.raises(TimeoutError, match=rf"job {job.id} has not ended within 0.05 s"):
        job.result(0.05)
    assert not isinstance(TimeoutError(), JobTimeout)
    job.cancel()


def test_a_job_that_is_not_durable() -> None:
    assert add.options(durable=False).submit(1).result(20) == 3


def test_what_the_hall_knows_of_a_job() -> None:
    job = telling.submit(4)
    said = job.result(20)
    info = job.info()
    assert said == f"{job.id} test_sdk_calls.telling {info.key} 1 None False"
    assert (info.id, info.state, info.attempts, info.worker, info.code) == (
        job.id,
        "done",
        1,
        "small worker",
        0,
    )
    assert info.created <= info.started <= info.ended  # type: ignore[operator]
    with pytest.raises(RuntimeError, match="is for functions that a worker runs"):
        current_job()


def test_raw_bytes_in_and_out() -> None:
    raw = HALL.function("test_sdk_calls.add", raw=True)
    assert raw.submit(b"[1,5]").result(20) == b"6"


def test_submit_many() -> None:
    jobs = add.submit_many([(1,), (1, 5)])
    assert [job.result(20) for job in jobs] == [3, 6]
    assert add.submit_many([]) == []


def test_one_bad_job_does_not_refuse_those_that_share_its_frame() -> None:
    async def run() -> list[int | BaseException]:
        unknown = add.options(after=[(1 << 62) + 5])
        jobs = await asyncio.gather(add.asubmit(1), unknown.asubmit(1), add.asubmit(2), return_exceptions=True)
        return [job if isinstance(job, BaseException) else await job for job in jobs]

    first, second, third = asyncio.run(run())
    assert (first, third) == (3, 4)
    assert isinstance(second, HallRefused)


def test_many_threads_use_one_hall() -> None:
    results: list[int] = []

    def use(number: int) -> None:
        results.extend(add.submit(number, n).result(20) for n in range(10))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(number + n for number in range(8) for n in range(10))


def test_a_hall_that_is_not_there_says_what_to_do() -> None:
    with Hall("hall://127.0.0.1:1, hall+unix:///nowhere.sock") as hall:
        with pytest.raises(HallUnreachable) as raised:
            hall.function("f").submit()
        assert str(raised.value) == (
            "no hall answers at hall://127.0.0.1:1 or hall+unix:///nowhere.sock (hall://127.0.0.1:1: Connection"
            " refused; hall+unix:///nowhere.sock: No such file or directory): start one with `hall serve`,"
            " or set HALL_URL"
        )
        with pytest.raises(HallUnreachable):
            asyncio.run(hall.function("f").asubmit())
        with pytest.raises(HallUnreachable):
            list(hall.function("f").map([1]))
        with pytest.raises(HallUnreachable):
            hall.job_of(5).result()


def test_the_first_url_that_answers_is_used(url: str) -> None:
    with Hall(f"hall://127.0.0.1:1,{url}") as hall:
        assert hall.function("test_sdk_calls.add").submit(1, 1).result(20) == 2


def test_the_url_of_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALL_URL", url)
    with Hall() as hall:
        assert url in repr(hall)
        assert hall.function("test_sdk_calls.add").submit(1, 1).result(20) == 2


def test_two_functions_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two functions have the name 'test_sdk_calls.add'.*name="):

        @HALL.job(name="test_sdk_calls.add")
        def other() -> None: ...
