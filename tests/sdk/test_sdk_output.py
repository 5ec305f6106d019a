"""What a job says while it runs, read by its handle: chunks, warnings, log lines and progress."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from small_worker import SmallWorker

from hiringhall import Hall, current_job
from hiringhall.sdk.information import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hall_process import HallProcess

HALL = Hall("hall://127.0.0.1:1")
MAY_GO_ON = threading.Event()


@HALL.job
async def talk(count: int) -> int:
    job = current_job()
    for n in range(count):
        job.chunk(f"chunk {n}")
        job.log(f"line {n}")
    job.chunk("careful", warning=True)
    job.progress(1, 2)
    assert await asyncio.to_thread(MAY_GO_ON.wait, 20)
    job.chunk(b"last")
    return count


@pytest.fixture(scope="module")
def worker(server: HallProcess) -> Iterator[SmallWorker]:
    with SmallWorker(HALL, f"hall://{server.address}") as worker:
        yield worker


@pytest.fixture(autouse=True)
def connected(url: str, worker: SmallWorker) -> Iterator[None]:
    HALL.url = url
    MAY_GO_ON.clear()
    yield
    HALL.close()


def test_chunks_come_while_the_job_runs_and_stay_after_its_end() -> None:
    job = talk.submit(3)
    chunks = job.chunks()
    assert [next(chunks) for _ in range(3)] == [b"chunk 0", b"chunk 1", b"chunk 2"]
    MAY_GO_ON.set()
    assert list(chunks) == [b"last"]
    assert job.result(20) == 3
    assert list(job.chunks()) == [b"chunk 0", b"chunk 1", b"chunk 2", b"last"]
    assert [(line.kind, line.text) for line in job.log()] == [
        ("log", "line 0"),
        ("log", "line 1"),
        ("log", "line 2"),
        ("warning", "careful"),
    ]


def test_chunks_on_an_event_loop() -> None:
    async def run() -> list[bytes]:
        job = await talk.asubmit(1)
        found = []
        async for chunk in job.achunks():
            found.append(chunk)
            MAY_GO_ON.set()
        assert len(await job.alog()) == 2
        return found

    assert asyncio.run(run()) == [b"chunk 0", b"last"]


def test_a_reader_that_stops_early_leaves_the_job_alone() -> None:
    job = talk.submit(2)
    for chunk in job.chunks():
        assert chunk == b"chunk 0"
        break
    assert job.progress() == Progress(1, 2)
    assert Progress(1, 2).fraction == 0.5
    MAY_GO_ON.set()
    assert job.result(20) == 2


def test_a_job_that_says_nothing() -> None:
    job = HALL.function("nobody.has.this").submit()
    assert job.log() == []
    assert job.progress() is None
    job.cancel()
    assert list(job.chunks()) == []
