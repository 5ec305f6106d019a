"""map, starmap and amap against a real hall: order, windows, failures, and endless iterables."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from small_worker import SmallWorker

from hiringhall import Hall, JobFailed
from hiringhall.sdk.mapping import WINDOW
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator

HALL = Hall("hall://127.0.0.1:1")


@HALL.job
def square(n: int) -> int:
    if n < 0:
        raise ValueError(n)
    return n * n


passed = asyncio.Event()


@HALL.job
async def overtake(is_faster: bool) -> bool:
    """The slower one ends after the faster one, whichever is begun first."""
    if is_faster:
        passed.set()
    else:
        await passed.wait()
        passed.clear()
    return is_faster


@HALL.job
def power(base: int, exponent: int = 2) -> int:
    return int(base**exponent)


@pytest.fixture(scope="module")
def worker(server: Any) -> Iterator[SmallWorker]:
    with SmallWorker(HALL, f"hall://{server.address}", slots=500) as worker:
        yield worker


@pytest.fixture(autouse=True)
def connected(url: str, worker: SmallWorker) -> Iterator[None]:
    HALL.url = url
    yield
    HALL.close()


def test_results_come_in_order() -> None:
    count = 2 * WINDOW + 7
    assert list(square.map(range(count))) == [n * n for n in range(count)]
    assert list(square.map([])) == []


@pytest.mark.parametrize("window", [1, 2, 7])
def test_a_small_window(window: int) -> None:
    assert list(square.map(range(20), window=window)) == [n * n for n in range(20)]


def test_results_as_they_come() -> None:
    assert list(overtake.map([False, True], ordered=False)) == [True, False]
    assert list(overtake.map([False, True])) == [False, True]
    assert sorted(square.map(range(5000), ordered=False)) == [n * n for n in range(5000)]


def test_starmap() -> None:
    assert list(power.starmap([(2,), (2, 3)])) == [4, 8]


def test_on_an_event_loop() -> None:
    async def run() -> None:
        assert [n async for n in square.amap(range(3000))] == [n * n for n in range(3000)]
        assert [n async for n in power.astarmap([(2, 3)], ordered=False)] == [8]

    asyncio.run(run())


def test_an_endless_iterable_is_read_as_far_as_the_window() -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for n in itertools.count(1):
            read.append(n)
            yield n

    results = square.map(numbers(), window=50)
    assert [next(results) for _ in range(200)] == [n * n for n in range(1, 201)]
    assert len(read) <= 200 + 50
    results.close()  # type: ignore[attr-defined]
    assert square.submit(3).result(20) == 9


def test_a_slow_iterable_does_not_hold_up_the_first_results() -> None:
    def numbers() -> Iterator[int]:
        for n in range(1000):
            until_s = time.monotonic() + 0.001
            while time.monotonic() < until_s:
                pass
            yield n

    results = square.map(numbers())
    with Stopwatch() as watch:
        assert next(results) == 0
    assert watch.elapsed_s < 0.7
    results.close()  # type: ignore[attr-defined]


def test_a_failure_is_raised_at_its_place() -> None:
    results = square.map([1, 2, -1, 3])
    assert [next(results), next(results)] == [1, 4]
    with pytest.raises(JobFailed, match="ValueError: -1"):
        next(results)


def test_an_exception_of_the_iterable_reaches_the_caller() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(square.map(numbers()))


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="leave the key out"):
        square.options(key="cat").map([1])
    with pytest.raises(ValueError, match="window must be 1 or more"):
        square.map([1], window=0)


def test_a_progress_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(square.map(range(5), progress=True)) == [0, 1, 4, 9, 16]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert list(square.map(range(5), progress=True)) == [0, 1, 4, 9, 16]
    assert "5/5" in capsys.readouterr().err
