"""A pause of the hall is noticed, is told from a busy hall, and what was sent meanwhile is read first."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from engine_stage import LeapingClock, Stage, story

from hiringhall.core.errors import Refusal
from hiringhall.core.states import DONE, LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.session import Reporter
from hiringhall.engine.pauses import PAUSE_US, READING_US, TICK_US, Pauses
from stage.talker import Talker

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease

NOW_US: Final = 1_700_000_000_000_000
HOUR_US: Final = 3_600_000_000


# --- noticing


def test_a_wake_up_that_is_late_ends_a_pause() -> None:
    pauses = Pauses(NOW_US)
    planned_us = NOW_US + TICK_US
    pauses.plan(planned_us)
    assert pauses.late_us == planned_us + PAUSE_US
    assert pauses.end(planned_us + HOUR_US) == HOUR_US + READING_US


def test_a_hall_with_nothing_to_wait_for_is_never_late() -> None:
    pauses = Pauses(NOW_US)
    pauses.plan(NOW_US)
    pauses.unplan()
    assert pauses.late_us > NOW_US + 10**6 * HOUR_US


def test_a_pause_is_counted_once() -> None:
    pauses = Pauses(NOW_US)
    pauses.plan(NOW_US + TICK_US)
    pauses.end(NOW_US + HOUR_US)
    assert pauses.late_us > NOW_US + 10**6 * HOUR_US


def test_deadlines_act_in_the_end_even_if_every_wake_up_is_late() -> None:
    """At least half of the time that was planned counts, however short it is and however late each wake-up."""
    pauses = Pauses(NOW_US)
    now_us = NOW_US
    planned = counted = 0
    for step_us in (TICK_US, 1000, 1000, TICK_US, 10) * 20:
        began_us = now_us
        planned += step_us
        pauses.plan(now_us + step_us)
        now_us += step_us + 10 * PAUSE_US
        counted += now_us - began_us - pauses.end(now_us)
    assert counted >= planned // 2


# --- a driver whose clock leaps, as after a sleep of the machine


class Log(Reporter):
    """The pauses that are told."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses_us: list[int] = []

    def paused(self, paused_us: int) -> None:
        self.pauses_us.append(paused_us)


class Sleeper(Stage):
    """A driver on a machine that sleeps when the story says so."""

    def __init__(self) -> None:
        self.leaping = LeapingClock()
        self.log = Log()
        super().__init__(clock=self.leaping, reporter=self.log)

    async def sleep(self, slept_us: int) -> None:
        """The machine sleeps; then the hall takes turns again."""
        self.leaping.leap_us += slept_us
        await self.passed(1)

    async def passed(self, turns: int) -> None:
        """So many turns, each opened by a peer, have ended."""
        for _ in range(turns):
            peer, wire = self.peer("passer-by")
            self.driver.receive(peer, b"x")
            await wire.hears("echo x|")


def test_a_lease_outlives_a_sleep_of_the_machine() -> None:
    async def tell() -> None:
        stage = Sleeper()
        ann, wire = stage.peer("ann")
        bob, _ = stage.worker("bob")
        job = stage.submit(ann, "a", Terms(lease_us=60_000_000))
        lease = stage.take(bob)
        await wire.hears("accepted a|")
        await stage.sleep(HOUR_US)
        assert HOUR_US - TICK_US <= stage.scheduler.table.paused_us <= HOUR_US + READING_US
        assert stage.log.pauses_us == [stage.scheduler.table.paused_us]
        await stage.passed(10)
        assert (job.state, job.losses) == (LEASED, 0)
        stage.driver.turn()
        stage.scheduler.finish(lease, b"")
        assert job.state == DONE
        await stage.stop()

    asyncio.run(tell())


def test_a_job_that_became_due_while_the_machine_slept_starts_at_once() -> None:
    async def tell() -> None:
        stage = Sleeper()
        ann, _ = stage.peer("ann")
        bob, wire = stage.worker("bob")
        stage.driver.turn()
        stage.scheduler.sleep(stage.scheduler.worker(bob))
        stage.submit(ann, "a", Terms(detached=True), due_us=stage.scheduler.now_us + HOUR_US)
        await stage.passed(1)
        assert wire.text == ""
        stage.leaping.leap_us += HOUR_US
        await wire.hears("woken|")
        await stage.stop()

    asyncio.run(tell())


def test_a_lease_ends_in_its_time_if_there_is_no_pause() -> None:
    async def tell(stage: Stage) -> None:
        ann, _ = stage.peer("ann")
        bob, _ = stage.worker("bob")
        carl, wire = stage.worker("carl")
        stage.scheduler.sleep(stage.scheduler.worker(carl))
        stage.submit(ann, "a", Terms(lease_us=50_000, losses_max=0))
        lease = stage.take(bob)
        await wire.hears("woken|")
        assert lease.job.state == QUEUED

    story(tell)


def test_deadlines_act_in_a_hall_that_is_never_idle() -> None:
    """Each pass of the loop has a turn that something opened by arriving."""

    async def tell(stage: Stage) -> None:
        ann, _ = stage.peer("ann")
        bob, _ = stage.worker("bob")
        carl, wire = stage.worker("carl")
        stage.scheduler.sleep(stage.scheduler.worker(carl))
        stage.submit(ann, "a", Terms(lease_us=20_000, losses_max=0))
        stage.take(bob)
        eve, _ = stage.peer("eve")
        loop = asyncio.get_running_loop()
        busy = True

        def arrive() -> None:
            stage.driver.receive(eve, b"x")
            if busy:
                loop.call_soon(arrive)

        arrive()
        await wire.hears("woken|")
        busy = False

    story(tell)


# --- the sockets come first


class Finisher(Talker):
    """A worker that has a lease, and whose message says that its work is done."""

    lease: Lease
    refused = False

    def __init__(self, stage: Stage) -> None:
        super().__init__("finisher")
        self._core = stage.scheduler

    def receive(self, data: bytes) -> None:
        try:
            self._core.finish(self.lease, data)
        except Refusal:
            self.refused = True


def test_what_came_in_time_counts_though_the_loop_was_held_up_until_after_the_deadline() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        finisher = Finisher(stage)
        stage.driver.join(finisher, wire)
        stage.scheduler.can_do(stage.scheduler.worker(finisher), b"q")
        here, there = socket.socketpair()
        with here, there:
            loop = asyncio.get_running_loop()
            loop.add_reader(here, lambda: stage.driver.receive(finisher, here.recv(100)))
            job = stage.submit(ann, "a", Terms(lease_us=PAUSE_US // 5, losses_max=1))
            finisher.lease = stage.take(finisher)
            there.sendall(b"done in time")
            until_us = finisher.lease.started_us + PAUSE_US // 4
            while stage.driver.clock.now_us() < until_us:
                pass  # the loop does not come to its sockets
            await wire.hears("accepted a|ended a|")
            loop.remove_reader(here)
        assert not finisher.refused
        assert (job.state, job.result) == (DONE, b"done in time")

    story(tell)


def test_a_pause_during_the_last_moments_of_a_drain_does_not_cut_it_short() -> None:
    async def tell() -> None:
        stage = Sleeper()
        ann, wire = stage.peer("ann")
        bob, _ = stage.worker("bob")
        job = stage.submit(ann, "a", Terms())
        lease = stage.take(bob)
        await wire.hears("accepted a|")
        draining = asyncio.create_task(stage.driver.drain(TICK_US))
        await stage.passed(1)
        stage.leaping.leap_us += HOUR_US
        loop = asyncio.get_running_loop()
        loop.call_later(TICK_US * 1.2 / 1e6, lambda: (stage.driver.turn(), stage.scheduler.finish(lease, b"")))
        await draining
        assert job.state == DONE
        await stage.stop()

    asyncio.run(tell())
