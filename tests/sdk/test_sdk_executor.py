"""`hall.executor()`: other people's code that uses `concurrent.futures`, on a hall."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import operator
import os.path
from typing import TYPE_CHECKING

import pytest
from hall_process import wait_until
from small_worker import SmallWorker

from hiringhall import Hall, JobFailed
from hiringhall.sdk.executor import find, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hall_process import HallProcess

HALL = Hall("hall://127.0.0.1:1")
EXECUTOR = HALL.executor()


@pytest.fixture(scope="module")
def worker(server: HallProcess) -> Iterator[SmallWorker]:
    with SmallWorker(HALL, f"hall://{server.address}") as worker:
        yield worker


@pytest.fixture(autouse=True)
def connected(url: str, worker: SmallWorker) -> Iterator[None]:
    HALL.url = url
    yield
    HALL.close()


def test_a_future_of_a_call() -> None:
    assert EXECUTOR.submit(math.comb, 5, 2).result(20) == 10
    assert EXECUTOR.submit(os.path.join, "a", "b").result(20) == "a/b"
    with pytest.raises(JobFailed, match="ZeroDivisionError"):
        EXECUTOR.submit(operator.truediv, 1, 0).result(20)


def test_map_and_as_completed() -> None:
    assert list(EXECUTOR.map(math.factorial, range(5), timeout=20)) == [1, 1, 2, 6, 24]
    futures = {EXECUTOR.submit(math.sqrt, n * n): n for n in range(5)}
    for future in concurrent.futures.as_completed(futures, timeout=20):
        assert future.result() == futures[future]


def test_run_in_executor() -> None:
    async def run() -> int:
        return await asyncio.get_running_loop().run_in_executor(EXECUTOR, math.gcd, 12, 18)

    assert asyncio.run(run()) == 6


def test_shutdown_waits_and_then_refuses() -> None:
    executor = HALL.executor(priority="high")
    with executor:
        future = executor.submit(math.gcd, 12, 18)
    assert future.done()
    assert future.result() == 6
    with pytest.raises(RuntimeError, match="was shut down"):
        executor.submit(math.gcd, 1, 1)


def test_a_cancelled_future_cancels_its_job() -> None:
    executor = HALL.executor(delay=3600)
    future = executor.submit(math.gcd, 12, 18)
    wait_until(lambda: not HALL.unanswered, "the job is submitted")
    assert future.cancel()
    executor.shutdown(cancel_futures=True)
    assert future.cancelled()


@pytest.mark.parametrize("function", [lambda: 1, [].append, print, HALL.close])
def test_what_cannot_be_imported_is_refused(function: object) -> None:
    if function is print:
        assert name_of(print) == "builtins:print"
        return
    with pytest.raises(ValueError, match="cannot be imported by a worker"):
        EXECUTOR.submit(function)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["nowhere:f", "math:nothing", "math:pi", "", "math"])
def test_a_name_that_is_no_function(target: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be imported here|is not a function"):
        find(target)
