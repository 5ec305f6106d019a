"""The draft's worker when its functions, its results or its servers give it trouble."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from draft_puppet import CLOSED, DraftPuppet
from draft_worker_stage import ASK, ECHO, GOODBYE, HELLO, NO, NOOP, SLEEP, lines_of, play

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import ServerError, Task, Worker

if TYPE_CHECKING:
    from draft_puppet import DraftLine

LARGE = b"x" * (8 << 20)
DONE = ("job_complete_announce", b"\0x\0y")


class Broken(BaseException):
    """Nothing that a worker could go on after."""


def test_a_function_that_raises_stop_iteration_fails_its_task() -> None:
    """A future could not carry it out of the thread."""

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        heard, body = await line.hear()
        said = b"\x01RuntimeError: the function raised StopIteration"
        assert (heard, body.partition(b"\n")[0]) == ("job_complete_announce", said)
        await line.expect(ASK)
        line.say(NO)

    play(story, prepare=lambda worker: worker.can_do("echo", lambda task: next(iter([]))))


def test_a_worker_that_breaks_in_the_middle_of_a_task_says_no_goodbye() -> None:
    """So that the server counts the loss, and the task does not break worker after worker."""

    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet, DraftPuppet() as idle:

            async def fall(task: Task) -> bytes:
                raise Broken

            worker = Worker([puppet.address, idle.address])
            worker.can_do("echo", fall)
            running = asyncio.create_task(worker.run())
            line, other = await puppet.line(), await idle.line()
            await line.expect(HELLO, ASK)
            await other.expect(HELLO)
            line.say(ECHO)
            await line.expect(CLOSED)
            while (heard := await other.hear()) != GOODBYE:
                assert heard != CLOSED, "whose task it is not hears a goodbye"
            with pytest.raises(BaseExceptionGroup):
                await running

    asyncio.run(stage())


def test_a_task_that_came_while_it_was_given_up_is_given_back() -> None:
    """To fail it would be for good, although others may do it."""

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        worker.cant_do("echo")
        await line.expect("worker_connect")
        line.say(ECHO)
        await line.expect(GOODBYE, "worker_connect", ASK)
        line.say(NO)
        await line.expect(SLEEP)
        # What it never said is the server's mistake: given back, it would come again and again.
        line.say(NOOP)
        await line.expect(ASK)
        line.say(ECHO)
        await line.expect(("job_complete_announce", b"\x01this worker does not have the function echo"), ASK)

    play(story)


def test_a_function_that_was_given_up_while_it_runs_goes_on() -> None:
    async def work(task: Task) -> bytes:
        giving_up.set()
        await given_up.wait()
        return b"done"

    giving_up, given_up = asyncio.Event(), asyncio.Event()

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        await giving_up.wait()
        worker.cant_do("echo")
        given_up.set()
        await line.expect("worker_connect", ("job_complete_announce", b"\0done"), ASK)

    play(story, prepare=lambda worker: worker.can_do("echo", work))


def test_a_result_over_its_own_limit_is_a_failure() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(wire.pack_job_assign_res(b"echo", bytes(99)))
        await line.expect(("job_complete_announce", bytes(100)), ASK)
        line.say(wire.pack_job_assign_res(b"echo", bytes(95)))
        await line.expect(("job_complete_announce", bytes(96)), ASK)
        worker.can_do("echo", lambda task: bytes(100))
        await line.expect(HELLO)
        line.say(ECHO)
        text = b"the result of 100 bytes is too large for a packet: the worker's packet_bytes_max is 100"
        await line.expect(("job_complete_announce", b"\x01" + text), ASK)

    play(story, packet_bytes_max=100)


def test_a_task_over_its_own_limit_is_not_read() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(wire.pack_job_assign_res(b"echo", bytes(100)))
        await line.expect(CLOSED)

    play(story, packet_bytes_max=100)


def test_a_result_that_its_server_refused_is_a_failure_at_the_next_attempt() -> None:
    heard: list[ServerError] = []
    text = b"the result of 3 bytes is too large for a packet: the server refused a packet of 4 bytes"

    async def meet(puppets: list[DraftPuppet]) -> DraftLine:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        return line

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await meet(puppets)
        await line.expect(DONE)
        line.say(wire.pack_error(wire.PACKET_TOO_LARGE, "4 bytes are too much"))
        line.drop()
        line = await meet(puppets)
        await line.expect(("job_complete_announce", b"\x01" + text), ASK)
        # What is smaller is said.
        line.say(wire.pack_job_assign_res(b"echo", b"ok"))
        await line.expect(("job_complete_announce", b"\0ok"), ASK)
        line.say(ECHO)
        await line.expect(("job_complete_announce", b"\x01" + text), ASK)
        line.drop()
        # Whoever is there now may take more.
        line = await meet(puppets)
        await line.expect(DONE)

    play(story, on_error=heard.append)
    assert [error.code for error in heard] == [wire.PACKET_TOO_LARGE]


def test_a_large_result_over_a_slow_line_is_not_too_long_without_an_answer() -> None:
    """The time for an answer begins when the server has taken what stands before the question."""

    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        line = await puppets[0].line()
        await line.expect(HELLO, ASK)
        line.say(ECHO)
        name, body = await line.hear_slowly(0.03)
        assert (name, len(body)) == ("job_complete_announce", 1 + len(LARGE))
        await line.expect(ASK)
        line.say(NO)
        await line.expect(SLEEP)

    play(
        story,
        answer_s=2.0,
        receive_bytes=65536,
        prepare=lambda worker: worker.can_do("echo", lambda task: LARGE),
    )


def test_a_server_that_takes_no_result_does_not_hold_up_the_others() -> None:
    async def story(worker: Worker, puppets: list[DraftPuppet]) -> None:
        stopped, other = await lines_of(puppets)
        stopped.say(NOOP)
        await stopped.expect(ASK)
        stopped.say(ECHO)
        for _ in range(3):
            await other.expect(ASK)
            other.say(wire.pack_job_assign_res(b"echo", b""))
            await other.expect(("job_complete_announce", b"\0"))
        assert await stopped.hear_slowly(0) == CLOSED, "it was left in the middle of the result"

    def prepare(worker: Worker) -> None:
        worker.can_do("echo", lambda task: LARGE if task.args else b"")

    play(story, 2, answer_s=1.0, receive_bytes=65536, prepare=prepare)
