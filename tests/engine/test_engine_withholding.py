"""A hall that may have been replaced hands out nothing: it is looked at as a turn begins, and as it ends."""

from __future__ import annotations

import asyncio

from engine_stage import LeapingClock, Stage, story

from hiringhall.core.limits import SECOND_US
from hiringhall.engine.deadlines import NEVER


def test_after_its_time_the_hall_hands_out_nothing_until_it_may_again() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        bob, bob_wire = stage.worker("bob")
        stage.driver.may_hand_out(stage.driver.clock.now_us() - 1)
        job = stage.submit(ann, "a")
        stage.scheduler.sleep(stage.scheduler.worker(bob))
        await wire.hears("accepted a|")
        assert stage.scheduler.withholding
        assert stage.scheduler.take(stage.scheduler.worker(bob)) is None
        stage.scheduler.sleep(stage.scheduler.worker(bob))
        stage.driver.may_hand_out(NEVER)
        await bob_wire.hears("woken|")
        assert stage.take(bob).job is job

    story(tell)


def test_what_runs_goes_on_meanwhile() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        bob, _ = stage.worker("bob")
        stage.scheduler.watch(stage.submit(ann, "a"), ann)
        await wire.hears("accepted a|")
        lease = stage.take(bob)
        stage.driver.may_hand_out(0)
        stage.driver.turn()
        stage.scheduler.finish(lease, b"done")
        await wire.hears("ended a|")

    story(tell)


def test_a_hall_that_closes_does_not_hand_out_again() -> None:
    async def tell(stage: Stage) -> None:
        stage.driver.stop_handing_out()
        stage.driver.may_hand_out(NEVER)
        stage.driver.turn()
        assert stage.scheduler.withholding

    story(tell)


def test_what_a_turn_gave_out_before_the_process_was_stopped_is_sent_only_if_the_hall_still_may() -> None:
    async def tell(stage: Stage) -> None:
        for may in (False, True):
            bob, wire = stage.worker("bob")
            stage.driver.may_hand_out(clock.now_us() + SECOND_US)
            ann, ann_wire = stage.peer("ann")
            stage.submit(ann, "a")
            await ann_wire.hears("accepted a|")
            lease = stage.take(bob)
            bob.assigned(lease)
            clock.leap_us += 5 * SECOND_US  # the process is stopped in the middle of the turn
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert wire.text == ""
            stage.driver.may_hand_out(clock.now_us() + SECOND_US if may else 0)
            if may:
                await wire.hears("assigned a|")
                assert not wire.closed
            else:
                await stage.driver.when(lambda: True)
                assert wire.text == ""
                assert wire.closed
                stage.driver.leave(bob)

    clock = LeapingClock()
    story(tell, clock=clock)


def test_a_hall_that_is_replaced_in_the_middle_of_a_turn_ends_the_turn() -> None:
    async def tell(stage: Stage) -> None:
        stage.driver.may_hand_out(stage.driver.clock.now_us() + 60 * SECOND_US)
        stage.driver.turn()
        stage.driver.may_hand_out(0)
        await stage.driver.when(lambda: stage.scheduler.withholding)

    story(tell)
