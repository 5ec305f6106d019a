"""The draft's worker against servers that say exactly what each story needs."""

from __future__ import annotations

import asyncio
import threading

import pytest
from draft_puppet import CLOSED, DraftPuppet
from draft_worker_stage import ASK, ECHO, GOODBYE, HELLO, NO, NOOP, SLEEP, lines_of, play

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import ServerError, Task, TaskError, Worker


def test_the_best_case_conversation() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        await line.expect(("job_complete_announce", b"\0x\0y"), ASK)
        line.say(NO)
        await line.expect(SLEEP)
        worker.stop()
        await line.expect(GOODBYE, CLOSED)

    play(story)


def test_the_worse_case_conversation() -> None:
    """Each server in turn says no; the worker sleeps on all, and whoever wakes it is asked first."""

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        one, two, three = await lines_of(puppets)
        two.say(NOOP)
        for line in (two, three, one):
            await line.expect(ASK)
            line.say(NO)
        for line in (one, two, three):
            await line.expect(SLEEP)
        # A task in the middle of a round begins another: those that said no before it are asked again.
        two.say(NOOP)
        await two.expect(ASK)
        two.say(NO)
        await three.expect(ASK)
        three.say(ECHO)
        await three.expect(("job_complete_announce", b"\0x\0y"))
        for line in (one, two, three):
            await line.expect(ASK)
            line.say(NO)
        for line in (one, two, three):
            await line.expect(SLEEP)
        worker.stop()
        for line in (one, two, three):
            await line.expect(GOODBYE, CLOSED)

    play(story, 3)


def test_it_wakes_by_itself_after_a_while() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        one, two = await lines_of(puppets)
        for _ in range(2):
            for line in (one, two):
                await line.expect(ASK)
                line.say(NO)
            for line in (one, two):
                await line.expect(SLEEP)

    play(story, 2, sleep_s=0.3)


def test_a_wake_up_that_crosses_a_question_is_not_slept_over() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        one, two = await lines_of(puppets)
        one.say(NOOP)
        await one.expect(ASK)
        one.say(NO)
        await two.expect(ASK)
        one.say(NOOP)
        two.say(NO)
        await one.expect(ASK)
        one.say(NO)
        for line in (one, two):
            await line.expect(SLEEP)

    play(story, 2)


def test_one_task_at_a_time_over_all_servers() -> None:
    """A wake-up that comes while it works is remembered; nobody is asked before the task is done."""
    gate = threading.Event()

    def prepare(worker: Worker) -> None:
        worker.can_do("echo", lambda task: b"opened" if gate.wait(10) else b"nobody came")

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        one, two = await lines_of(puppets)
        one.say(NOOP)
        await one.expect(ASK)
        one.say(ECHO)
        two.say(NOOP, NOOP)
        heard = asyncio.create_task(two.hear())
        done, _ = await asyncio.wait([heard], timeout=0.1)
        assert not done, "it has its hands full"
        gate.set()
        await one.expect(("job_complete_announce", b"\0opened"))
        assert await heard == ASK
        two.say(ECHO)
        await two.expect(("job_complete_announce", b"\0opened"))
        for line in (one, two):
            await line.expect(ASK)
            line.say(NO)

    play(story, 2, prepare=prepare)


@pytest.mark.parametrize("threaded", [True, False])
def test_a_task_tells_how_far_it_is(threaded: bool) -> None:
    def count(task: Task) -> bytes:
        task.status(1, 100, 59.2)
        task.status(2, 100)
        with pytest.raises(ValueError, match="each number"):
            task.status(-1, 100)
        return f"{task.name} at {task.server}: {task.args!r}".encode()

    async def count_in_loop(task: Task) -> bytes:
        return count(task)

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        await line.trickle(ECHO)
        await line.expect(
            ("job_status_announce", b"\0\0\0\x01\0\0\0\x64\0\0\0\x3c"),
            ("job_status_announce", b"\0\0\0\x02\0\0\0\x64\0\0\0\0"),
            ("job_complete_announce", f"\0echo at {puppets[0].address}: b'x\\x00y'".encode()),
            ASK,
        )
        await line.trickle(NO)
        await line.expect(SLEEP)

    play(story, prepare=lambda worker: worker.can_do("echo", count if threaded else count_in_loop))


@pytest.mark.parametrize(
    ("error", "body"),
    [
        (TaskError(255, b"over"), b"\xffover"),
        (TaskError(7), b"\x07"),
        (ZeroDivisionError("by hand"), b"\x01ZeroDivisionError: by hand"),
        (ValueError("no such user: \ud800"), b"\x01ValueError: no such user: \\ud800"),
        (asyncio.CancelledError(), b"\x01cancelled"),
    ],
)
def test_what_a_function_raises_is_the_code_of_its_task(error: BaseException, body: bytes) -> None:
    async def fail(task: Task) -> bytes:
        raise error

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        heard, said = await line.hear()
        first, _, trace = said.partition(b"\n")
        assert (heard, first) == ("job_complete_announce", body)
        assert (b", in fail\n" in trace) == isinstance(error, ArithmeticError | ValueError)
        await line.expect(ASK)
        line.say(NO)

    play(story, prepare=lambda worker: worker.can_do("echo", fail))


def test_what_is_no_result_is_a_failure_and_none_is_an_empty_one() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(("worker_connect", b"echo\0text\0none"), ASK)
        line.say(wire.pack_job_assign_res(b"text", b""))
        heard, body = await line.hear()
        said = b"\x01TypeError: a handler must return bytes or None, not str"
        assert (heard, body.partition(b"\n")[0]) == ("job_complete_announce", said)
        await line.expect(ASK)
        line.say(wire.pack_job_assign_res(b"none", b""))
        await line.expect(("job_complete_announce", b"\0"), ASK)
        line.say(wire.pack_job_assign_res(b"other", b""))
        await line.expect(("job_complete_announce", b"\x01this worker does not have the function other"), ASK)
        line.say(NO)

    def prepare(worker: Worker) -> None:
        worker.can_do("text", lambda task: "text")  # type: ignore[arg-type,return-value]
        worker.can_do("none", lambda task: None)

    play(story, prepare=prepare)


@pytest.mark.parametrize("code", [0, -1, 256])
def test_codes_that_are_none(code: int) -> None:
    with pytest.raises(ValueError, match="1 to 255"):
        TaskError(code)


def test_it_learns_and_forgets_while_it_works() -> None:
    """What it says it can do replaces what it said before, and it asks again: there may be such work."""

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        (line,) = await lines_of(puppets)
        worker.function("shout")(lambda task: task.args.upper())
        await line.expect(("worker_connect", b"echo\0shout"), ASK)
        line.say(wire.pack_job_assign_res(b"shout", b"hello"))
        await line.expect(("job_complete_announce", b"\0HELLO"), ASK)
        line.say(NO)
        await line.expect(SLEEP)
        worker.cant_do("shout")
        worker.cant_do("never heard of")
        await line.expect(HELLO, ASK)
        line.say(NO)
        await line.expect(SLEEP)
        with pytest.raises(ValueError, match="the name of a task"):
            worker.can_do("", lambda task: None)

    play(story)


def test_a_lost_server_is_tried_again_while_the_others_are_served() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        one, two = await lines_of(puppets)
        await puppets[0].close()
        two.say(NOOP)
        await two.expect(ASK)
        two.say(ECHO)
        await two.expect(("job_complete_announce", b"\0x\0y"), ASK)
        two.say(NO)
        await two.expect(SLEEP)
        await puppets[0].open()
        one = await puppets[0].line()
        await one.expect(HELLO, ASK)
        one.say(ECHO)
        await one.expect(("job_complete_announce", b"\0x\0y"))
        await two.expect(ASK)
        two.say(NO)
        await one.expect(ASK)
        one.say(NO)
        for line in (one, two):
            await line.expect(SLEEP)

    play(story, 2)


def test_the_pauses_before_a_new_connection_begin_anew_when_one_was_of_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each would be twice as long as the one before, so the last of them would take minutes."""
    monkeypatch.setattr("hiringhall.peers.gearman_draft.session._RETRY_FIRST_S", 0.01)

    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet, asyncio.TaskGroup() as group:
            worker = Worker(puppet.address, retry_max_s=3600)
            worker.can_do("echo", lambda task: task.args)
            group.create_task(worker.run())
            for _ in range(14):
                line = await puppet.line()
                await line.expect(HELLO, ASK)
                line.say(NO)
                await line.expect(SLEEP)
                line.drop()
            worker.stop()

    asyncio.run(stage())


def test_the_task_of_a_lost_server_is_given_up() -> None:
    """An asynchronous function is cancelled; nobody hears of its task, and the worker goes on."""
    begun: list[Task] = []
    cancelled: list[bool] = []

    async def forever(task: Task) -> bytes:
        begun.append(task)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(task.lost)
        return b"never"

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        one, two = await lines_of(puppets)
        one.say(NOOP)
        await one.expect(ASK)
        one.say(ECHO)
        one.drop()
        await two.expect(ASK)
        two.say(NO)
        assert (len(begun), cancelled) == (1, [True])
        again = await puppets[0].line()
        await again.expect(HELLO)

    play(story, 2, prepare=lambda worker: worker.can_do("echo", forever))


def test_a_task_that_was_taken_back_is_known_to_be_lost() -> None:
    heard: list[ServerError] = []
    told = asyncio.Event()

    async def work(task: Task) -> bytes:
        task.status(1, 2)
        await told.wait()
        assert task.lost
        task.status(2, 2)
        return b"too late"

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        assert (await line.hear())[0] == "job_status_announce"
        line.say(wire.pack_error(wire.NO_TASK, "it was taken back"))
        await line.expect(ASK)
        line.say(NO)
        await line.expect(SLEEP)

    def listen(error: ServerError) -> None:
        heard.append(error)
        told.set()

    play(story, prepare=lambda worker: worker.can_do("echo", work), on_error=listen)
    assert [error.code for error in heard] == [wire.NO_TASK]


def test_a_result_that_came_too_late_is_not_the_answer_to_the_next_question() -> None:
    heard: list[ServerError] = []

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        await line.expect(("job_complete_announce", b"\0x\0y"), ASK)
        line.say(wire.pack_error(wire.NO_TASK, "too late"), ECHO)
        await line.expect(("job_complete_announce", b"\0x\0y"), ASK)
        line.say(NO)

    play(story, on_error=heard.append)
    assert [error.text for error in heard] == ["too late"]


@pytest.mark.parametrize(
    "answer",
    [
        wire.pack_error(wire.BUSY, "you have one"),
        wire.pack(wire.JOB_ASSIGN_RES, b"no NUL in it"),
        wire.pack_job_status_res(1, 2),
        NO + NO,
        b"nonsense",
    ],
    ids=["error", "misshapen", "unasked", "twice", "nonsense"],
)
def test_a_server_that_makes_no_sense_is_left_and_met_anew(answer: bytes) -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(answer)
        while await line.hear() != CLOSED:
            pass
        again = await puppets[0].line()
        await again.expect(HELLO, ASK)
        again.say(ECHO)
        await again.expect(("job_complete_announce", b"\0x\0y"))

    play(story)


def test_a_server_that_says_nothing_does_not_hold_up_the_others() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        silent, other = [await puppet.line() for puppet in puppets]
        await silent.expect(HELLO, ASK)
        await other.expect(HELLO, ASK)
        other.say(ECHO)
        await other.expect(("job_complete_announce", b"\0x\0y"))
        await silent.expect(CLOSED)

    play(story, 2, answer_s=0.2)


def test_stopping_waits_for_the_task_under_way(caplog: pytest.LogCaptureFixture) -> None:
    """And a goodbye is no loss to complain of."""
    gate = asyncio.Event()

    async def wait(task: Task) -> bytes:
        await gate.wait()
        return b"done"

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        worker.stop()
        gate.set()
        await line.expect(("job_complete_announce", b"\0done"), GOODBYE, CLOSED)

    play(story, prepare=lambda worker: worker.can_do("echo", wait))
    assert caplog.messages == []


def test_a_cancelled_worker_leaves_at_once() -> None:
    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet:
            worker = Worker(puppet.address)
            begun, gate = threading.Event(), threading.Event()

            def work(task: Task) -> bytes:
                begun.set()
                gate.wait(10)
                return b"nobody wants it"

            worker.can_do("echo", work)
            running = asyncio.create_task(worker.run())
            line = await puppet.line()
            await line.expect(HELLO, ASK)
            line.say(ECHO)
            assert await asyncio.to_thread(begun.wait, 10)
            running.cancel()
            await line.expect(CLOSED)
            assert not running.done(), "the thread is waited for"
            gate.set()
            await asyncio.wait([running])
            assert running.cancelled()

    asyncio.run(stage())
