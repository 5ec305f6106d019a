"""A hall that may have been replaced hands out nothing: it is looked at as a turn begins."""

from __future__ import annotations

from engine_stage import Stage, story

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
