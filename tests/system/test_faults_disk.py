"""The disk fills up, or its fsync fails: durable submits are refused in clear words, nothing is acknowledged
that is not there after kill -9, jobs that need no disk go on, and all is well again when the disk is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from broken_disk import Disk, FaintDisk, SmallDisk
from hall_process import HallProcess, wait_until
from raw_link import RawLink, complete_one
from testimony import audit, history, job_id

from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.sqlite
PAYLOAD: Final = bytes(64 << 10)
HEALED_S_MAX: Final = 10.0
SUBMITS_MAX: Final = 500
TROUBLE: Final = "the store is in trouble"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "data")
    yield disk
    disk.unmount()


@pytest.fixture(params=["a full disk", "a failing fsync"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "a full disk":
        small: SmallDisk = request.getfixturevalue("small_disk")
        return small
    return FaintDisk(tmp_path)


@pytest.fixture
def hall(disk: Disk, tmp_path: Path) -> Iterator[HallProcess]:
    with HallProcess(tmp_path, environment=disk.environment()) as hall:
        yield hall


class Submitter:
    """A client that keeps the numbers of the jobs it was promised."""

    def __init__(self, link: RawLink) -> None:
        self.link = link
        self.promised: list[int] = []

    async def submit(self, payload: bytes = b"") -> str:
        """Submit one durable job; the words of the refusal, or nothing."""
        kind, body = await self.link.ask(wire.SUBMIT_JOB_BG, b"keep", b"", payload)
        return self.answer(kind, body)

    def answer(self, kind: int, body: bytes) -> str:
        if kind == wire.JOB_CREATED:
            self.promised.append(job_id(body))
            return ""
        assert kind == wire.ERROR, wire.NAMES[kind]
        code, words = body.split(b"\0", 1)
        assert code == b"QUEUE_ERROR"
        return words.decode()

    async def submit_until_refused(self) -> str:
        for _ in range(SUBMITS_MAX):
            refusal = await self.submit(PAYLOAD)
            if refusal:
                return refusal
        raise AssertionError(f"{SUBMITS_MAX} jobs were taken in by a disk that fails")

    async def meet_the_failure(self, hall: HallProcess, disk: Disk) -> str:
        """Let the disk fail, and submit until the hall knows; the words of the refusal."""
        disk.fail()
        if disk.leaves_doubt:
            self.link.send(wire.SUBMIT_JOB_BG, b"keep", b"", PAYLOAD)
            await asyncio.to_thread(wait_until, lambda: TROUBLE in hall.errors(), "the hall knows")
            async with await RawLink.open(hall.port) as link:
                return await Submitter(link).submit()
        return await self.submit_until_refused()

    async def hear_the_outcome(self, disk: Disk) -> None:
        """The disk works again: the submit that waited is answered before any other."""
        if disk.leaves_doubt:
            self.answer(*await self.link.receive())

    async def submit_until_taken(self) -> None:
        """The hall tries the store again by itself; ask until it has."""
        async with asyncio.timeout(HEALED_S_MAX):
            while await self.submit():  # noqa: ASYNC110 (only an answer tells)
                await asyncio.sleep(0.05)


async def run_foreground(hall: HallProcess, count: int) -> None:
    """Jobs that need no disk."""
    async with await RawLink.open(hall.port) as client, await RawLink.open(hall.port) as worker:
        worker.send(wire.CAN_DO, b"upside-down")
        for number in range(count):
            assert (await client.ask(wire.SUBMIT_JOB, b"upside-down", b"", b"%d" % number))[
                0
            ] == wire.JOB_CREATED
            assert await complete_one(worker) == b"%d" % number
            assert (await client.receive())[0] == wire.WORK_COMPLETE


async def work_all(hall: HallProcess) -> None:
    """Do every job of `keep` that there is."""
    async with await RawLink.open(hall.port) as worker:
        worker.send(wire.CAN_DO, b"keep")
        while True:
            kind, body = await worker.ask(wire.GRAB_JOB)
            if kind == wire.NO_JOB:
                return
            worker.send(wire.WORK_COMPLETE, body.split(b"\0", 1)[0], b"kept")


def expect_all_kept(hall: HallProcess, promised: list[int]) -> None:
    """After a restart: do all there is; every promised job is in the history, once, as done."""
    assert audit(hall) == "clean"
    asyncio.run(work_all(hall))
    wait_until(lambda: hall.counts("keep")[0] == 0, "all jobs have ended")
    hall.drain()
    assert hall.wait() == 0, hall.errors()
    ends = Counter(end.id for end in history(hall.place) if end.state == "done")
    missing = [number for number in promised if ends[number] != 1]
    assert not missing, f"{len(missing)} of {len(promised)} promised jobs are not there once: {missing[:5]}"


def test_service_is_refused_while_the_disk_fails_and_comes_back_with_it(hall: HallProcess, disk: Disk) -> None:
    async def story() -> list[int]:
        async with await RawLink.open(hall.port) as link:
            client = Submitter(link)
            for _ in range(20):
                assert not await client.submit(b"before")
            refusal = await client.meet_the_failure(hall, disk)
            assert disk.complaint in refusal, refusal
            assert str(hall.data) in refusal, f"which disk? {refusal}"
            async with await RawLink.open(hall.port) as second:
                other = Submitter(second)
                assert await other.submit(), "a second submit is refused as well"
                await run_foreground(hall, 20)
                assert await other.submit(), "and a third, after the hall has had time to try"
            disk.heal()
            await client.hear_the_outcome(disk)
            await client.submit_until_taken()
            for _ in range(20):
                assert not await client.submit(b"after")
            return client.promised

    promised = asyncio.run(story())
    assert audit(hall) == "clean"
    hall.kill()
    hall.start()
    expect_all_kept(hall, promised)
    assert "the store works again" in hall.errors()


def test_what_ended_while_the_disk_failed_is_in_the_history_when_it_is_back(
    hall: HallProcess, disk: Disk
) -> None:
    async def story() -> list[int]:
        async with await RawLink.open(hall.port) as link:
            client = Submitter(link)
            for _ in range(20):
                assert not await client.submit(b"before")
            await client.meet_the_failure(hall, disk)
            # The ends cannot be written now. They are not forgotten.
            await work_all(hall)
            await run_foreground(hall, 5)
            disk.heal()
            await client.hear_the_outcome(disk)
            await client.submit_until_taken()
            return client.promised

    promised = asyncio.run(story())
    hall.kill()
    hall.start()
    expect_all_kept(hall, promised)


def test_kill_while_the_disk_fails_loses_no_promise(hall: HallProcess, disk: Disk) -> None:
    async def story() -> list[int]:
        async with await RawLink.open(hall.port) as link:
            client = Submitter(link)
            for _ in range(20):
                assert not await client.submit(b"before")
            await client.meet_the_failure(hall, disk)
            hall.kill()
            return client.promised

    promised = asyncio.run(story())
    disk.heal()
    hall.start()
    expect_all_kept(hall, promised)


def test_many_clients_fill_the_disk_and_each_answer_is_true(small_disk: SmallDisk, tmp_path: Path) -> None:
    """Submits in flight when the disk is full: each gets its own answer, in its order, and each is true."""
    early, window = 5, 200

    async def fill(hall: HallProcess) -> tuple[list[int], int]:
        async with await RawLink.open(hall.port) as link:
            client = Submitter(link)
            for _ in range(early):  # One batch may take all the rest, and be refused as a whole.
                assert not await client.submit(b"before")
            refused = 0
            for number in range(window):
                link.send(wire.SUBMIT_JOB_BG, b"keep", b"", b"%04d" % number + bytes(20_000))
            for _ in range(window):
                refused += bool(client.answer(*await link.receive()))
            return client.promised, refused

    async def story(hall: HallProcess) -> list[int]:
        outcomes = await asyncio.gather(*(fill(hall) for _ in range(4)))
        assert all(len(promised) + refused == early + window for promised, refused in outcomes)
        assert sum(refused for _, refused in outcomes) > 0, "the disk was not too small"
        await run_foreground(hall, 5)
        return [number for promised, _ in outcomes for number in promised]

    with HallProcess(tmp_path) as hall:
        promised = asyncio.run(story(hall))
        assert promised, "the disk was too small for anything"
        assert audit(hall) == "clean"
        hall.kill()
        small_disk.widen()
        hall.start()
        expect_all_kept(hall, promised)
