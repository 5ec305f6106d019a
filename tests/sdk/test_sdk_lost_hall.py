"""A hall that is killed and started again while it is used: nothing is doubled, nothing is lost."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from hall_process import HallProcess, wait_until
from small_worker import SmallWorker

from hiringhall import Hall, HallError, HallUnreachable
from hiringhall.sdk import connection
from hiringhall.storage.contract import HistoryQuery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HALL = Hall("hall://127.0.0.1:1")
KILLS = 2


@HALL.job
def echo(n: int) -> int:
    return n


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HallProcess]:
    with HallProcess(tmp_path, door={"dialect": "native"}) as server:
        HALL.url = f"hall://{server.address}"
        yield server
        HALL.close()


def kill_and_start(server: HallProcess, done: list[int], step: int) -> None:
    """Kill the hall each time so many results have come."""
    for kill in range(1, KILLS + 1):
        wait_until(lambda: len(done) >= kill * step, "results come", 60)  # noqa: B023
        server.kill()
        server.start()


def count_ends(server: HallProcess) -> int:
    """Jobs in the history: each must be there once."""
    return len(server.history(HistoryQuery(limit=100_000)))


def test_submits_one_by_one_while_the_hall_is_killed(server: HallProcess) -> None:
    done: list[int] = []
    count, at_once = 900, 32

    async def submit_some(numbers: Iterator[int]) -> None:
        for n in numbers:
            job = await echo.asubmit(n)
            assert await job == n
            done.append(n)

    async def submit_all() -> None:
        numbers = iter(range(count))
        await asyncio.gather(*(submit_some(numbers) for _ in range(at_once)))

    with SmallWorker(HALL, HALL.url or ""):
        killer = threading.Thread(target=kill_and_start, args=(server, done, 200))
        killer.start()
        asyncio.run(submit_all())
        killer.join()
    assert sorted(done) == list(range(count))
    assert count_ends(server) == count


def test_a_map_while_the_hall_is_killed(server: HallProcess) -> None:
    done: list[int] = []
    count = 6000
    with SmallWorker(HALL, HALL.url or ""):
        killer = threading.Thread(target=kill_and_start, args=(server, done, 1000))
        killer.start()
        for n in echo.map(range(count), window=500):
            done.append(n)  # noqa: PERF402 (the killer counts them)
        killer.join()
    assert done == list(range(count))
    assert count_ends(server) == count


def test_a_result_that_came_while_nobody_was_connected(server: HallProcess) -> None:
    job = echo.submit(7)
    server.kill()
    server.start()
    with SmallWorker(HALL, HALL.url or ""):
        assert job.result(30) == 7


def test_a_key_of_the_user_is_not_taken_for_its_namesake_of_yesterday(server: HallProcess) -> None:
    daily = echo.options(key="daily")
    with SmallWorker(HALL, HALL.url or ""):
        assert daily.submit(1).result(20) == 1
        server.signal(signal.SIGSTOP)
        answers: list[int] = []
        caller = threading.Thread(target=lambda: answers.append(daily.submit(2).result(60)))
        caller.start()
        wait_until(lambda: HALL.unanswered, "the submit is under way")
        server.kill()
        server.start()
        caller.join()
    assert answers == [2]
    assert count_ends(server) == 2


def test_a_hall_that_stays_away_is_given_up(server: HallProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 0.2)
    hall = Hall(HALL.url)
    job = hall.function("nobody.has.this").submit()
    server.kill()
    with pytest.raises(HallUnreachable, match="start one with `hall serve`"):
        hall.function("nobody.has.this").submit()
    with pytest.raises(TimeoutError):
        job.result(0.3)
    hall.close()


def test_the_next_url_takes_over(server: HallProcess, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with (
        HallProcess(tmp_path / "second", door={"dialect": "native"}, hall={"name": "second"}) as second,
        Hall(f"hall://{server.address},hall://{second.address}") as hall,
    ):
        waiting = hall.function("nobody.has.this").submit()
        server.kill()
        with pytest.raises(HallError, match="which does not answer any more"):
            waiting.result(30)
        assert hall.function("nobody.has.this").submit().state() == "queued"
