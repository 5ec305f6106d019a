"""Which server the draft's client picks, what it remembers, and what becomes of a lost server's jobs."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from draft_puppet import DraftPuppet
from draft_stage import play, submitted

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import Client, ConnectionLost, Job, Outcome, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from draft_puppet import DraftLine


def test_each_job_goes_to_a_server_picked_at_random() -> None:
    """Two hundred jobs and three servers: each has its part (by chance one may miss out once in 10^34 runs)."""

    async def serve(puppet: DraftPuppet, taken: list[str]) -> None:
        line = await puppet.line()
        while (await line.hear())[0] == "job_create_req":
            taken.append(puppet.address)
            line.say(wire.pack_job_create_res(b"H:%d" % len(taken)))

    async def stage() -> None:
        taken: list[str] = []
        async with asyncio.timeout(20), AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            puppets = [await stack.enter_async_context(DraftPuppet()) for _ in range(3)]
            for puppet in puppets:
                group.create_task(serve(puppet, taken))
            async with Client([puppet.address for puppet in puppets]) as client:
                jobs = [await client.submit("f") for _ in range(200)]
                assert [job.server for job in jobs] == taken
                assert client.jobs == jobs
        assert {taken.count(puppet.address) > 10 for puppet in puppets} == {True}

    asyncio.run(stage())


def test_a_server_that_cannot_be_reached_is_passed_over() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        away, there = puppets
        await away.close()
        job, line = await submitted(client, None, there, "f", b"H:1")
        assert job.server == there.address
        # For a while it is not even tried: it could take long to find out.
        await away.open()
        job, _ = await submitted(client, line, there, "f", b"H:2")
        assert job.server == there.address

    play(story, 2)


def test_when_no_server_can_be_reached_all_reasons_are_told() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        for puppet in puppets:
            await puppet.close()
        calls: list[Callable[[str], Awaitable[object]]] = [client.submit, client.throw_away, client.run]
        for call in calls:
            with pytest.raises(ConnectionLost) as lost:
                await call("f")
            assert all(puppet.address in str(lost.value) for puppet in puppets)
        assert client.jobs == [], "nobody can have taken what was never sent"

    play(story, 2)


def test_the_jobs_of_a_lost_server_are_listed_and_resubmitted_elsewhere() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        one, two = puppets
        away, _ = await submitted(client, None, one, "away", b"H:1")
        await one.close()
        with pytest.raises(ConnectionLost):
            await client.status(away)
        stays, other = await submitted(client, None, two, "stays", b"H:1")
        assert (away.server, stays.server) == (one.address, two.address)

        listed = asyncio.create_task(client.lost())
        await other.expect(("job_status_req", b"H:1"))
        other.say(wire.pack_job_status_res(0, 0))
        assert await listed == [away]

        # Even when the lost one is back, the job goes to another.
        await one.open()
        resubmit = asyncio.create_task(client.resubmit(away))
        await other.expect(("job_create_req", b"away\0\0\x00\x01"))
        other.say(wire.pack_job_create_res(b"H:2"))
        assert await resubmit is away
        assert (away.server, away.handle, client.jobs) == (two.address, b"H:2", [away, stays])

    play(story, 2)


def test_a_job_that_its_server_no_longer_knows_is_lost() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        known, line = await submitted(client, None, puppets[0], "known", b"H:1")
        unknown, _ = await submitted(client, line, puppets[0], "unknown", b"H:2")
        listed = asyncio.create_task(client.lost())
        await line.expect(("job_status_req", b"H:1"), ("job_status_req", b"H:2"))
        line.say(wire.pack_error(wire.STORE_DOWN, "later"), wire.pack_error(wire.UNKNOWN_HANDLE, "what?"))
        assert await listed == [unknown]
        client.forget(unknown)
        assert client.jobs == [known]

    play(story)


def test_a_server_that_does_not_answer_is_lost_too() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job, line = await submitted(client, None, puppets[0], "f", b"H:1")
        listed = asyncio.create_task(client.lost(timeout_s=0.05))
        await line.expect(("job_status_req", b"H:1"))
        assert await listed == [job]

    play(story)


@pytest.mark.parametrize("kind", ["submit", "throw_away"])
def test_a_job_whose_server_was_lost_before_it_answered_is_in_doubt(kind: str) -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        one, two = puppets
        submit = asyncio.create_task(getattr(client, kind)("f"))
        line = await one.line()
        await line.hear()
        line.drop()
        with pytest.raises(ConnectionLost):
            await submit
        (job,) = client.jobs
        assert (job.doubtful, job.handle, job.server) == (True, b"", one.address)
        with pytest.raises(ValueError, match="has no handle"):
            await client.status(job)
        assert await client.lost() == [job]
        resubmit = asyncio.create_task(client.resubmit(job))
        line = await two.line()
        await line.hear()
        line.say(wire.pack_job_create_res(b"H:1" if kind == "submit" else b""))
        await resubmit
        assert (job.doubtful, job.server) == (False, two.address)
        assert client.jobs == ([job] if kind == "submit" else [])

    play(story, 2)


async def unanswered(client: Client, puppet: DraftPuppet) -> tuple[Job, DraftLine]:
    """A job that a puppet has heard of and not answered, and that its submitter no longer waits for."""
    submit = asyncio.create_task(client.submit("f"))
    line = await puppet.line()
    await line.expect(("job_create_req", b"f\0\0\x00\x01"))
    submit.cancel()
    await asyncio.wait([submit])
    (job,) = client.jobs
    return job, line


def test_a_job_that_a_hung_server_never_answered_is_lost() -> None:
    """It has no handle to ask for: the server is asked for anything."""

    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job, line = await unanswered(client, puppets[0])
        listed = asyncio.create_task(client.lost(timeout_s=0.05))
        await line.expect("job_status_req")
        assert await listed == [job]

    play(story)


def test_a_job_that_a_slow_server_answers_at_last_is_not_lost() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job, line = await unanswered(client, puppets[0])
        listed = asyncio.create_task(client.lost())
        await line.expect("job_status_req")
        line.say(wire.pack_job_create_res(b"H:1"), wire.pack_error(wire.UNKNOWN_HANDLE, "no handle"))
        assert await listed == []
        assert (client.jobs, job.handle) == ([job], b"H:1")

    play(story)


def test_a_job_whose_server_is_lost_while_it_is_asked_is_lost() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job, line = await unanswered(client, puppets[0])
        listed = asyncio.create_task(client.lost())
        await line.expect("job_status_req")
        line.drop()
        assert await listed == [job]
        assert job.doubtful

    play(story)


@pytest.mark.parametrize("refused", [False, True])
def test_an_answer_that_comes_after_the_job_was_handed_in_elsewhere_counts_no_more(refused: bool) -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        slow, other = puppets
        job, line = await unanswered(client, slow)
        resubmit = asyncio.create_task(client.resubmit(job))
        there = await other.line()
        await there.expect(("job_create_req", b"f\0\0\x00\x01"))
        line.say(wire.pack_job_create_res(b"H:1"))
        asked = asyncio.create_task(client.status(Job(b"f", b"", server=slow.address, handle=b"H:0")))
        await line.expect(("job_status_req", b"H:0"))
        line.say(wire.pack_job_status_res(0, 0))
        await asked
        assert (job.server, job.handle) == (other.address, b"")
        if refused:
            there.say(wire.pack_error(wire.FULL, "full"))
            with pytest.raises(ServerError, match="full"):
                await resubmit
            assert (job.server, job.handle, job.doubtful) == (slow.address, b"", True)
        else:
            there.say(wire.pack_job_create_res(b"H:2"))
            await resubmit
            assert (job.server, job.handle, job.doubtful) == (other.address, b"H:2", False)
        assert client.jobs == [job]

    play(story, 2)


def test_a_refused_submit_is_not_remembered_and_a_refused_resubmit_changes_nothing() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        submit = asyncio.create_task(client.submit("f"))
        line = await puppets[0].line()
        await line.hear()
        line.say(wire.pack_error(wire.FULL, "full"))
        with pytest.raises(ServerError, match="full"):
            await submit
        assert client.jobs == []
        job, _ = await submitted(client, line, puppets[0], "f", b"H:1")
        resubmit = asyncio.create_task(client.resubmit(job))
        await line.hear()
        line.say(wire.pack_error(wire.FULL, "full"))
        with pytest.raises(ServerError, match="full"):
            await resubmit
        assert (client.jobs, job.handle) == ([job], b"H:1")

    play(story)


def test_a_submit_that_nobody_waits_for_any_more_is_remembered_as_it_was_answered() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        submit = asyncio.create_task(client.submit("f"))
        line = await puppets[0].line()
        await line.hear()
        submit.cancel()
        await asyncio.wait([submit])
        line.say(wire.pack_job_create_res(b"H:1"))
        (job,) = client.jobs
        waiting = asyncio.create_task(client.throw_away("after"))
        await line.hear()
        line.say(wire.pack_job_create_res())
        await waiting
        assert (job.handle, job.doubtful) == (b"H:1", False)

    play(story)


def test_a_job_of_an_earlier_life_can_be_asked_for() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job = Job(b"f", b"", server=puppets[0].address, handle=b"H:7")
        client.remember(job)
        assert client.jobs == [job]
        asked = asyncio.create_task(client.result(job))
        line = await puppets[0].line()
        await line.expect(("job_complete_req", b"H:7"))
        line.say(wire.pack_job_complete_res(3, 0, b"found"))
        assert await asked == Outcome(3, 0, b"found")
        assert client.jobs == []

    play(story)
