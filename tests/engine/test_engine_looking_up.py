"""Looking a job up in the history: asked in one turn, answered in a later one, in order with the commits."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from engine_stage import PATIENCE_S, SlowStore, Stage, story

from hiringhall.core.errors import BrokenLaw
from hiringhall.dialects.session import Caller, Session
from hiringhall.engine.deadlines import LINGER_US, RETRY_FIRST_US
from hiringhall.storage.contract import HistoryQuery, StoreError
from stage.talker import WATCHED, TalkerHall

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import Job
    from stage.talker import Talker


def ended(hall: TalkerHall, name: str, result: bytes) -> Job:
    """A durable job whose end is in the history."""
    ann, _ = hall.peer("somebody")
    bob, _ = hall.worker("bob")
    with hall.turn():
        job = hall.submit(ann, name)
    hall.turn_that_commits()
    with hall.turn():
        hall.scheduler.finish(hall.take(bob), result)
    with hall.turn(after_us=LINGER_US):
        pass
    hall.turn_that_commits()
    return job


def test_the_answer_comes_in_a_later_turn(hall: TalkerHall) -> None:
    job = ended(hall, "a", b"result")
    assert job.result == b"", "memory has it no more"
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.engine.look_up(ann, job.id)
    assert wire.said() == []
    with hall.turn():
        hall.answer_look_up()
    assert wire.said() == ["found result|"]


def test_what_nobody_ever_heard_of(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.engine.look_up(ann, 7)
    with hall.turn():
        hall.answer_look_up()
    assert wire.said() == ["unknown 7|"]


def test_one_who_is_gone_is_not_answered(hall: TalkerHall) -> None:
    job = ended(hall, "a", b"result")
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.engine.look_up(ann, job.id)
    with hall.turn():
        hall.engine.leave(ann)
    with hall.turn():
        hall.answer_look_up()
    assert wire.said() == []
    assert ann.out == []


def test_trouble_is_said(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.engine.look_up(ann, 7)
    with hall.turn():
        hall.answer_look_up("the disk is gone")
    assert wire.said() == ["cannot look up: the disk is gone|"]


def test_an_answer_keeps_its_place_behind_a_promise(hall: TalkerHall) -> None:
    job = ended(hall, "a", b"result")
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "b")
        hall.engine.look_up(ann, job.id)
    with hall.turn():
        hall.answer_look_up()
    assert wire.said() == [], "the promise before it is not on disk yet"
    hall.turn_that_commits()
    assert "".join(wire.said()) == "accepted b|found result|"


def dead_letter(hall: TalkerHall) -> tuple[Job, Talker]:
    """A dead letter that is in the history, and a worker that can do it again."""
    ann, _ = hall.peer("somebody")
    bob, _ = hall.worker("bob")
    with hall.turn():
        job = hall.submit(ann, "a")
    hall.turn_that_commits()
    with hall.turn():
        hall.scheduler.fail(hall.take(bob), data=b"failure", retry=False)
    with hall.turn(after_us=LINGER_US):
        pass
    hall.turn_that_commits()
    return job, bob


@pytest.mark.parametrize("under_way", [False, True])
def test_a_job_that_has_ended_again_is_looked_up_when_its_end_is_stored(
    hall: TalkerHall, *, under_way: bool
) -> None:
    job, bob = dead_letter(hall)
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.scheduler.retry(job)
    if under_way:
        with hall.turn(after_us=LINGER_US):
            pass
    with hall.turn():
        hall.scheduler.finish(hall.take(bob), b"success")
        hall.engine.look_up(ann, job.id)
    assert hall.requests.look_ups == [], "the history has the first end, or none"
    with hall.turn(after_us=LINGER_US):
        pass
    hall.turn_that_commits()
    if under_way:
        assert hall.requests.look_ups == [], "the retry is stored, and the end is not"
        with hall.turn(after_us=LINGER_US):
            pass
        hall.turn_that_commits()
    with hall.turn():
        hall.answer_look_up()
    assert wire.said() == ["found success|"]


def test_a_job_that_ends_again_while_it_is_looked_up_is_looked_up_again(hall: TalkerHall) -> None:
    job, bob = dead_letter(hall)
    ann, wire = hall.peer("ann")
    eve, _ = hall.peer("eve")
    with hall.turn():
        hall.engine.look_up(ann, job.id)
        hall.engine.look_up(eve, job.id)
        hall.scheduler.retry(job)
    with hall.turn(after_us=LINGER_US):
        pass
    with hall.turn():
        hall.commit()
        hall.scheduler.finish(hall.take(bob), b"success")
        hall.answer_look_up()
        hall.answer_look_up()
        hall.engine.leave(eve)
    with hall.turn(after_us=LINGER_US):
        pass
    hall.turn_that_fails()
    assert hall.requests.look_ups == [], "its end is not stored yet"
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    hall.turn_that_commits()
    assert hall.requests.look_ups == [(ann, job.id)]
    with hall.turn():
        hall.answer_look_up()
    assert wire.said() == ["found success|"]


def test_a_session_that_never_looks_up_is_never_answered(hall: TalkerHall) -> None:
    with pytest.raises(BrokenLaw):
        Session(Caller("", -1)).looked_up(7, None, "")
    assert hall.requests.look_ups == []


# --- with a thread that does it


class ReadableStore(SlowStore):
    """A store whose history answers when the story lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: Exception | None = None
        self.asked: list[tuple[int, int]] = []
        """What was looked up, and how many commits there were before."""

    def history(self, query: HistoryQuery) -> list[EndRow]:
        assert query.id is not None
        self.asked.append((query.id, self.commits))
        self.threads.append(threading.current_thread().name)
        if self.unreadable is not None:
            raise self.unreadable
        return super().history(query)


async def done(stage: Stage, name: str) -> Job:
    """A durable job that ended, and whose end is in the history."""
    bob, _ = stage.worker("bob")
    ann, wire = stage.peer("somebody")
    job = stage.submit(ann, name, WATCHED)
    await wire.hears(f"accepted {name}|")
    stage.scheduler.finish(stage.take(bob), b"result of " + name.encode())
    await wire.hears(f"ended {name}|")
    return job


def test_the_thread_of_the_store_looks_up() -> None:
    async def tell(stage: Stage) -> None:
        job = await done(stage, "a")
        ann, wire = stage.peer("ann")
        stage.driver.look_up(ann, job.id)
        await wire.hears("found result of a|")
        stage.driver.look_up(ann, 7)
        await wire.hears("unknown 7|")
        assert isinstance(stage.store, ReadableStore)
        assert {*stage.store.threads} == {"hall-store"}

    story(tell, ReadableStore())


def test_a_question_is_answered_after_the_commits_before_it() -> None:
    async def tell(stage: Stage) -> None:
        store = stage.store
        assert isinstance(store, ReadableStore)
        bob, _ = stage.worker("bob")
        ann, wire = stage.peer("ann")
        eve, eve_wire = stage.peer("eve")
        job = stage.submit(ann, "a", WATCHED)
        await wire.hears("accepted a|")
        store.gate.clear()
        stage.scheduler.finish(stage.take(bob), b"fresh")
        await asyncio.to_thread(store.tried.wait_for, 2)
        stage.driver.look_up(eve, job.id)
        store.gate.set()
        await eve_wire.hears("found fresh|")
        assert store.asked == [(job.id, 2)]
        await wire.hears("ended a|")

    story(tell, ReadableStore())


def test_many_questions_are_answered_in_order() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        for number in range(1, 101):
            stage.driver.look_up(ann, number)
        await wire.hears("".join(f"unknown {number}|" for number in range(1, 101)))

    story(tell, ReadableStore())


def test_a_store_that_cannot_be_read_is_no_reason_to_stop() -> None:
    async def tell(stage: Stage) -> None:
        store = stage.store
        assert isinstance(store, ReadableStore)
        job = await done(stage, "a")
        ann, wire = stage.peer("ann")
        store.unreadable = StoreError("the disk is gone")
        stage.driver.look_up(ann, job.id)
        await wire.hears("cannot look up: the disk is gone|")
        assert stage.troubles == [], "that something could not be read is no trouble with writing"
        store.unreadable = StoreError("")
        stage.driver.look_up(ann, job.id)
        await wire.hears("cannot look up: the store failed|")
        store.unreadable = None
        stage.driver.look_up(ann, job.id)
        await wire.hears("found result of a|")
        stage.submit(ann, "b")
        await wire.hears("accepted b|")

    story(tell, ReadableStore())


def test_one_who_left_before_the_answer() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        eve, eve_wire = stage.peer("eve")
        stage.driver.look_up(ann, 7)
        stage.driver.leave(ann)
        stage.driver.look_up(eve, 8)
        await eve_wire.hears("unknown 8|")
        assert wire.text == ""

    story(tell, ReadableStore())


def test_questions_are_answered_before_the_store_is_closed() -> None:
    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.driver.look_up(ann, 7)
        await stage.stop()
        await wire.hears("unknown 7|")

    story(tell, ReadableStore())


def test_a_fault_of_ours_in_looking_up_is_loud() -> None:
    async def tell() -> None:
        faults: list[BaseException | None] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context.get("exception")))
        store = ReadableStore()
        stage = Stage(store)
        ann, wire = stage.peer("ann")
        store.unreadable = ZeroDivisionError("ours")
        stage.driver.look_up(ann, 7)
        async with asyncio.timeout(PATIENCE_S):
            while not faults:  # noqa: ASYNC110 (the loop's handler has no event)
                await asyncio.sleep(0)
        assert isinstance(faults[0], ZeroDivisionError)
        assert wire.text == ""

    asyncio.run(tell())
