"""What the driver counts: commits with their rows and times, failed ones, turns, and the lag of the loop."""

from __future__ import annotations

import asyncio

from engine_stage import PATIENCE_S, Stage, story

from hiringhall.core.histograms import Histogram, bucket_of
from hiringhall.engine.measures import LAG_STEP_MS, LAG_WATCHED_US, LagProbe
from hiringhall.storage.contract import StoreError


def test_commits_are_counted_with_their_rows_and_times() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        for name in ("a", "b"):
            stage.submit(ann, name)
        await wire.hears("accepted a|accepted b|")
        measures = stage.driver.measures
        assert (sum(measures.commit.counts), measures.commit_rows, measures.commit_failures) == (1, 2, 0)
        assert measures.commit.sum_us > 0
        assert measures.turns > 0

    story(tell)


def test_a_commit_that_failed_is_counted_apart() -> None:
    async def tell(stage: Stage) -> None:
        ann, _ = stage.peer("ann")
        stage.store.trouble = StoreError("disk full")
        stage.submit(ann, "a")
        await stage.trouble("disk full")
        measures = stage.driver.measures
        assert (sum(measures.commit.counts), measures.commit_failures) == (0, 1)
        stage.store.trouble = None
        await stage.trouble("disk full", "")

    story(tell)


def test_the_lag_is_measured_only_after_somebody_has_asked_and_until_the_hall_closes() -> None:
    async def tell(stage: Stage) -> None:
        probe = stage.driver._lag_probe
        stage.driver.turn()
        assert not probe.watching
        stage.driver.watch_lag()
        assert probe.watching
        await stage.stop()
        assert not probe.watching

    story(tell)


def test_the_lag_is_how_much_later_the_loop_woke_up_than_planned() -> None:
    clock = [1_000_000]
    woken = asyncio.Event()

    def now_us() -> int:
        woken.set()
        return clock[0]

    async def wakes(later_us: int) -> None:
        woken.clear()
        clock[0] += later_us
        async with asyncio.timeout(PATIENCE_S):
            await woken.wait()

    async def tell() -> None:
        lag = Histogram()
        probe = LagProbe(now_us, lag)
        loop = asyncio.get_running_loop()
        probe.watch(loop)
        probe.watch(loop)  # no second timer
        await wakes(LAG_STEP_MS * 1000 + 7000)
        assert (lag.sum_us, sum(lag.counts), lag.counts[bucket_of(7000)]) == (7000, 1, 1)
        await wakes(LAG_WATCHED_US)
        assert (sum(lag.counts), probe.watching) == (2, False)  # nobody has asked for a while

    asyncio.run(tell())
