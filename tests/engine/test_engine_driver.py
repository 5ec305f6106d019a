"""The engine on a real event loop, with a real thread that commits: turns, timers, trouble, closing."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from engine_stage import PATIENCE_S, SlowStore, Stage, story

from hiringhall.core.errors import CLOSING, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.engine.driver import Clock
from hiringhall.engine.recovery import open_scheduler
from hiringhall.storage.contract import HistoryQuery, StoreError
from hiringhall.storage.memory import MemoryStore
from stage.talker import BACKGROUND, FOREGROUND, Talker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hiringhall.core.scheduler import Scheduler


def test_what_arrives_in_one_pass_of_the_loop_is_one_turn() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        for word in (b"a", b"b", b"c"):
            stage.driver.receive(ann, word)
        await wire.hears("echo a|echo b|echo c|")
        assert len(wire.written) == 1

    story(tell)


def test_time_stands_still_within_a_turn_and_passes_between() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.driver.receive(ann, b"a")
        first_us = stage.scheduler.now_us
        stage.driver.receive(ann, b"b")
        assert stage.scheduler.now_us == first_us
        await wire.hears("echo a|echo b|")
        stage.driver.receive(ann, b"c")
        assert stage.scheduler.now_us > first_us
        await wire.hears("echo c|")

    story(tell)


def test_the_clock_tells_the_date_and_never_goes_back() -> None:
    clock = Clock()
    times_us = [clock.now_us() for _ in range(1000)]
    assert times_us == sorted(times_us)
    assert times_us[0] > 1_700_000_000_000_000


def test_a_durable_job_is_acknowledged_once_it_is_on_disk() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.store.gate.clear()
        stage.submit(ann, "a")
        eve, eve_wire = stage.peer("eve")
        stage.driver.receive(eve, b"x")
        await eve_wire.hears("echo x|")
        assert wire.text == ""
        stage.store.gate.set()
        await wire.hears("accepted a|")
        assert stage.store.count() == (1, 0)
        assert set(stage.store.threads) == {"hall-store"}, "the loop's thread never waits for the disk"

    story(tell)


def test_what_comes_during_a_commit_shares_the_next() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.store.gate.clear()
        stage.submit(ann, "first")
        for number in range(50):
            stage.submit(ann, str(number))
            eve, eve_wire = stage.peer("eve")
            stage.driver.receive(eve, b"x")
            await eve_wire.hears("echo x|")
        stage.store.gate.set()
        await wire.hears("accepted first|" + "".join(f"accepted {number}|" for number in range(50)))
        assert stage.store.commits <= 3

    story(tell)


def test_a_deadline_opens_a_turn_by_itself() -> None:
    async def tell(stage: Stage) -> None:
        ann, _ = stage.peer("ann")
        bob, wire = stage.worker("bob")
        stage.driver.turn()
        stage.scheduler.sleep(stage.scheduler.worker(bob))
        stage.submit(ann, "soon", Terms(detached=True), due_us=stage.scheduler.now_us + 30_000)
        stage.submit(ann, "later", Terms(detached=True), due_us=stage.scheduler.now_us + 10**12)
        await wire.hears("woken|")
        assert stage.take(bob).job.payload == b"soon"

    story(tell)


def test_an_earlier_deadline_moves_the_timer() -> None:
    async def tell(stage: Stage) -> None:
        ann, _ = stage.peer("ann")
        bob, wire = stage.worker("bob")
        stage.submit(ann, "later", Terms(detached=True), due_us=stage.scheduler.now_us + 10**12)
        eve, eve_wire = stage.peer("eve")
        stage.driver.receive(eve, b"x")
        await eve_wire.hears("echo x|")
        stage.driver.turn()
        stage.scheduler.sleep(stage.scheduler.worker(bob))
        stage.submit(ann, "soon", Terms(detached=True), due_us=stage.scheduler.now_us + 20_000)
        await wire.hears("woken|")

    story(tell)


def test_something_to_run_inside_a_turn() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.driver.run_soon(lambda: ann.send(b"from outside|"))
        await wire.hears("from outside|")

    story(tell)


def test_one_who_parts_is_not_written_to_and_frees_its_work() -> None:
    async def tell(stage: Stage) -> None:
        ann, ann_wire = stage.peer("ann")
        bob, _ = stage.worker("bob")
        carl, carl_wire = stage.worker("carl")
        stage.submit(ann, "a")
        stage.take(bob)
        stage.scheduler.sleep(stage.scheduler.worker(carl))
        stage.driver.leave(ann)
        stage.driver.leave(bob)
        await carl_wire.hears("woken|")
        await stage.stop()
        assert ann_wire.text == ""
        assert stage.store.count() == (1, 0)

    story(tell)


# --- trouble


def test_the_store_fails_and_works_again() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.store.trouble = StoreError("no space left on the disk")
        stage.submit(ann, "a")
        await stage.trouble("no space left on the disk")
        await wire.hears("refused a: no space left on the disk|")
        stage.driver.turn()
        with pytest.raises(Refusal):
            stage.submit(ann, "b")
        stage.store.trouble = None
        await stage.trouble("no space left on the disk", "")
        assert stage.store.probes >= 1
        stage.submit(ann, "c")
        await wire.hears("accepted c|")

    story(tell)


def test_the_same_trouble_is_told_once() -> None:
    async def tell(stage: Stage) -> None:
        ann, _ = stage.peer("ann")
        stage.store.trouble = StoreError("first")
        stage.submit(ann, "a")
        await stage.trouble("first")
        await asyncio.get_running_loop().run_in_executor(None, stage.store.tried.wait_for_more, 2)
        assert stage.troubles == ["first"]
        stage.store.trouble = StoreError("second")
        await stage.trouble("first", "second")
        stage.store.trouble = None
        await stage.trouble("first", "second", "")

    story(tell)


def test_a_trouble_without_words_gets_some() -> None:
    async def tell(stage: Stage) -> None:
        ann, _ = stage.peer("ann")
        stage.store.trouble = StoreError()
        stage.submit(ann, "a")
        await stage.trouble("the store failed")
        stage.store.trouble = None

    story(tell)


def test_a_fault_of_our_own_in_the_store_reaches_the_loops_last_handler() -> None:
    async def run() -> None:
        heard: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: heard.set_result(context.get("exception"))
        )
        stage = Stage()
        ann, _ = stage.peer("ann")
        stage.store.trouble = ZeroDivisionError("a fault of ours")
        stage.submit(ann, "a")
        assert await asyncio.wait_for(heard, PATIENCE_S) is stage.store.trouble

    asyncio.run(run())


# --- closing


def test_stopping_commits_what_is_pending() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.store.gate.clear()
        stage.submit(ann, "a")
        eve, eve_wire = stage.peer("eve")
        stage.driver.receive(eve, b"x")
        await eve_wire.hears("echo x|")
        stage.submit(ann, "b")
        stopping = asyncio.create_task(stage.driver.stop())
        stage.store.gate.set()
        await asyncio.wait_for(stopping, PATIENCE_S)
        assert wire.text == "accepted a|accepted b|"
        assert stage.store.count() == (2, 0)
        assert stage.store.closed

    story(tell)


def test_stopping_does_not_wait_for_a_store_in_trouble() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.store.trouble = StoreError("dead")
        stage.submit(ann, "a")
        await wire.hears("refused a: dead|")
        await stage.stop()

    story(tell)


def test_draining_waits_for_what_is_being_worked_on() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        bob, _ = stage.worker("bob")
        job = stage.submit(ann, "a", FOREGROUND)
        lease = stage.take(bob)
        stage.submit(ann, "waits")
        draining = asyncio.create_task(stage.driver.drain(60_000_000))
        await wire.hears("accepted a|accepted waits|")
        assert not draining.done()
        stage.driver.turn()
        assert stage.scheduler.take(stage.scheduler.worker(bob)) is None, "nothing is handed out any more"
        with pytest.raises(Refusal, match=CLOSING):
            stage.submit(ann, "b", FOREGROUND)
        stage.scheduler.finish(lease, b"")
        await asyncio.wait_for(draining, PATIENCE_S)
        await wire.hears("ended a|")
        assert job.state == DONE
        assert job.losses == 0

    story(tell)


def test_draining_without_work_is_quick() -> None:
    async def tell(stage: Stage) -> None:
        await asyncio.wait_for(stage.driver.drain(60_000_000), PATIENCE_S)

    story(tell)


@pytest.mark.parametrize("grace_us", [0, 20_000])
def test_what_outlasts_the_grace_goes_back_without_blame(grace_us: int) -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        bob, _ = stage.worker("bob")
        jobs = [stage.submit(ann, name) for name in ("a", "b")]
        await wire.hears("accepted a|accepted b|")
        for _ in jobs:
            stage.take(bob)
        await asyncio.wait_for(stage.driver.drain(grace_us), PATIENCE_S)
        assert [(job.state, job.losses, job.failures) for job in jobs] == [(QUEUED, 0, 0)] * 2
        await stage.stop()
        assert [row.attempts for row in stage.store.live()] == [1, 1]

    story(tell)


# --- recovery


def test_a_hall_opens_again_on_what_was_committed() -> None:
    store = MemoryStore()
    ids: list[int] = []

    async def before(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        bob, _ = stage.worker("bob")
        ids.extend(stage.submit(ann, name).id for name in ("a", "b", "c"))
        stage.submit(ann, "foreground", FOREGROUND)
        stage.scheduler.finish(stage.take(bob), b"r")
        stage.take(bob)
        await wire.hears("accepted a|accepted b|accepted c|accepted foreground|")

    async def after(stage: Stage) -> None:
        assert list(stage.scheduler.jobs) == ids[1:]
        done = stage.scheduler.find(ids[0])
        assert done is not None
        assert done.state == DONE
        bob, _ = stage.worker("bob")
        assert stage.take(bob).job.payload == b"b"
        ann, _ = stage.peer("ann")
        assert stage.submit(ann, "d").id > max(ids) + (1 << 30), "ids of another boot"

    async def run(tell: Callable[[Stage], Awaitable[None]]) -> None:
        stage = Stage(SlowStore(store))
        await tell(stage)
        await stage.stop()

    asyncio.run(run(before))
    asyncio.run(run(after))
    assert store.count() == (3, 1)


def test_opening_keeps_the_collector_as_it_was() -> None:
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            open_scheduler(MemoryStore(), Limits(), 1)
            assert gc.isenabled() == enabled
        finally:
            gc.enable()


def _commit(core: Scheduler, store: MemoryStore) -> None:
    core.settle()
    batch = core.seal()
    store.commit(batch, core.now_us)
    core.committed(batch)


def test_a_dead_letter_retried_and_done_at_once_is_done_after_a_restart() -> None:
    store = MemoryStore()
    first = open_scheduler(store, Limits(), 1)
    bob = Talker("bob")
    first.can_do(first.worker(bob), b"q")
    job = first.submit(JobSpec(b"q", b"a", terms=BACKGROUND), None)
    lease = first.take(first.worker(bob))
    assert lease is not None
    first.fail(lease)
    _commit(first, store)
    first.retry(job)
    lease = first.take(first.worker(bob))
    assert lease is not None
    first.finish(lease, b"at last")
    _commit(first, store)
    again = open_scheduler(store, Limits(), 2)
    found = again.find(job.id)
    assert found is not None
    assert found.state == DONE
    assert [row.result for row in store.history(HistoryQuery())] == [b"at last"]
