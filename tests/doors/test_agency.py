"""A job of another manager, in the hall: what is to be told of it is bounded."""

from __future__ import annotations

import asyncio

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.states import DONE, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.wmp.context import PASSED_MANAGERS
from hiringhall.doors.agency import PENDING_BYTES_MAX, Agency, Bridge
from hiringhall.engine.driver import Driver
from hiringhall.peers.wmp import JobDeclined, JobFailed
from hiringhall.storage.memory import MemoryStore

MEGABYTE = b"x" * (1 << 20)


class Deaf:
    """A job of a manager that takes nothing, until it is told to."""

    payload = b"oak"
    role = "saw"
    key = b""
    manager = b"north"
    via: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        self.listens = asyncio.Event()
        self.told: list[bytes] = []

    async def send(self, data: bytes) -> None:
        await self.listens.wait()
        self.told.append(data)

    async def progress(self, numerator: int, denominator: int) -> None:
        await self.send(b"%d/%d" % (numerator, denominator))


def test_what_waits_for_a_manager_is_bounded() -> None:
    bridge = Bridge()
    hall = Scheduler(Limits())
    job = hall.submit(JobSpec(b"saw", b"oak"), bridge)
    for _ in range(1000):
        bridge.chunked(job, MEGABYTE, False)
    assert bridge.overrun
    assert bridge.updates.qsize() <= PENDING_BYTES_MAX // len(MEGABYTE) + 1
    for _ in range(1000):
        bridge.progressed(job)
    assert bridge.updates.qsize() <= PENDING_BYTES_MAX // len(MEGABYTE) + 1
    hall.cancel(job)


def test_the_largest_piece_alone_is_told() -> None:
    bridge = Bridge()
    hall = Scheduler(Limits())
    job = hall.submit(JobSpec(b"saw", b"oak"), bridge)
    bridge.chunked(job, b"x" * PENDING_BYTES_MAX, False)
    assert not bridge.overrun
    assert bridge.updates.qsize() == 1
    hall.cancel(job)


@pytest.mark.parametrize("pieces", [3, 200])
def test_a_job_whose_manager_takes_nothing_is_given_up(pieces: int) -> None:
    async def tell() -> None:
        hall = Scheduler(Limits())
        driver = Driver(hall, MemoryStore(), lambda trouble: None)
        driver.start(asyncio.get_running_loop())
        agency = Agency(driver, ["127.0.0.1:1"], ["saw"], 1, "hall", Terms())
        taken = Deaf()
        doing = asyncio.create_task(agency._do(taken))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        (job,) = hall.jobs.values()
        assert job.watchers is not None
        (bridge,) = job.watchers
        for _ in range(pieces):
            bridge.chunked(job, MEGABYTE, False)
        taken.listens.set()
        if pieces < PENDING_BYTES_MAX // len(MEGABYTE):
            driver.turn()
            bench = hall.worker(Bridge())
            hall.can_do(bench, b"saw")
            lease = hall.take(bench)
            assert lease is not None
            hall.finish(lease, b"sawn")
            assert await doing == b"sawn"
            assert taken.told == [MEGABYTE] * pieces
            assert job.state == DONE
        else:
            with pytest.raises(JobFailed, match="does not read"):
                await doing
            assert not hall.jobs, "nobody else wanted it"
        await driver.stop()

    asyncio.run(tell())


def agency_of(driver: Driver) -> Agency:
    return Agency(driver, ["127.0.0.1:1"], ["saw"], 1, "south", Terms())


@pytest.mark.parametrize(
    ("manager", "via"),
    [
        (b"south", ()),
        (b"north", (b"south",)),
        (b"north", (b"east", b"south", b"west")),
        (b"north", tuple(b"m%d" % number for number in range(8))),
    ],
    ids=["its own", "from here", "in a circle", "too far"],
)
def test_a_job_that_was_here_before_or_came_too_far_is_given_back(
    manager: bytes, via: tuple[bytes, ...]
) -> None:
    async def tell() -> None:
        hall = Scheduler(Limits())
        driver = Driver(hall, MemoryStore(), lambda trouble: None)
        driver.start(asyncio.get_running_loop())
        taken = Deaf()
        taken.manager, taken.via = manager, via
        with pytest.raises(JobDeclined):
            await agency_of(driver)._do(taken)  # type: ignore[arg-type]
        assert not hall.jobs
        await driver.stop()

    asyncio.run(tell())


def test_a_job_that_no_worker_takes_is_given_back() -> None:
    async def tell() -> None:
        hall = Scheduler(Limits())
        driver = Driver(hall, MemoryStore(), lambda trouble: None)
        driver.start(asyncio.get_running_loop())
        taken = Deaf()
        taken.via = (b"east",)
        doing = asyncio.create_task(agency_of(driver)._do(taken))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        (job,) = hall.jobs.values()
        assert job.state == QUEUED
        assert job.extras == {PASSED_MANAGERS: b"east\nnorth"}
        with pytest.raises(JobDeclined):
            await doing
        assert not hall.jobs
        await driver.stop()

    asyncio.run(tell())


def test_a_job_is_given_back_while_the_hall_is_full() -> None:
    async def tell() -> None:
        hall = Scheduler(Limits(jobs_max=1))
        hall.submit(JobSpec(b"saw", b"elm", terms=Terms(detached=True)), None)
        driver = Driver(hall, MemoryStore(), lambda trouble: None)
        driver.start(asyncio.get_running_loop())
        with pytest.raises(JobDeclined):
            await agency_of(driver)._do(Deaf())  # type: ignore[arg-type]
        await driver.stop()

    asyncio.run(tell())
