"""The draft's client against servers that say exactly what each story needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from draft_puppet import CLOSED
from draft_stage import play, submitted

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import Client, ConnectionLost, Job, JobFailed, Outcome, ServerError, Status
from hiringhall.peers.gearman_draft.connection import parse_address
from hiringhall.peers.gearman_draft.conversation import Conversation

if TYPE_CHECKING:
    from draft_puppet import DraftPuppet


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":4730",
        "host:port",
        "host:-1",
        "host:0",
        "host:65536",
        "host:\N{ARABIC-INDIC DIGIT ONE}",
        "[::1]:x",
        "[::1]7003",
        "[::1",
    ],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        Client([address])


def test_addresses() -> None:
    assert parse_address("host") == ("host", 4730)
    assert parse_address("[::1]:7") == ("::1", 7)
    assert parse_address("[::1]") == ("::1", 4730)
    assert parse_address("host:65535") == ("host", 65535)
    assert Client(["a:1", "b:2", "a:1"]).servers == ("a:1", "b:2")
    with pytest.raises(ValueError, match="at least one"):
        Client([])


@pytest.mark.parametrize(("priority", "flags"), [("normal", b"\0"), ("high", b"\1"), ("low", b"\2")])
def test_each_type_and_priority_on_the_wire(priority: str, flags: bytes) -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        (puppet,) = puppets
        words = {"key": "u7", "priority": priority}
        submit = asyncio.create_task(client.submit("resize", b"x\0y", **words))  # type: ignore[arg-type]
        line = await puppet.line()
        await line.expect(("job_create_req", b"resize\0u7\0" + flags + b"\x01x\0y"))
        line.say(wire.pack_job_create_res(b"H:1"))
        job = await submit
        assert (job.name, job.key, job.type, job.args) == (b"resize", b"u7", "async+handle", b"x\0y")
        assert (job.server, job.handle, client.jobs) == (puppet.address, b"H:1", [job])

        throw = asyncio.create_task(client.throw_away("resize", b"x\0y", **words))  # type: ignore[arg-type]
        await line.expect(("job_create_req", b"resize\0u7\0" + flags + b"\x02x\0y"))
        line.say(wire.pack_job_create_res())
        assert ((await throw).handle, client.jobs) == (b"", [job])

        run = asyncio.create_task(client.run("resize", b"x\0y", **words))  # type: ignore[arg-type]
        own = await puppet.line()
        await own.expect(("job_create_req", b"resize\0u7\0" + flags + b"\x00x\0y"))
        own.say(wire.pack_job_create_res(), wire.pack_job_complete_res(1, 0, b"r\0s"))
        assert await run == b"r\0s"
        await own.expect(CLOSED)

    play(story)


def test_a_job_that_is_waited_for_streams_its_status_and_its_result() -> None:
    heard: list[Status] = []

    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        run = asyncio.create_task(client.run("f", on_status=heard.append))
        line = await puppets[0].line()
        await line.expect(("job_create_req", b"f\0\0\x00\x00"))
        await line.trickle(
            wire.pack_job_create_res(),
            wire.pack_job_status_res(1, 100, 60),
            wire.NOOP_PACKET,
            wire.pack_job_status_res(50, 100),
            wire.pack_job_complete_res(7, 0, b"done"),
        )
        assert await run == b"done"
        assert heard == [Status(1, 100, 60), Status(50, 100, 0)]

    play(story)


def test_a_failure_comes_with_its_code() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        run = asyncio.create_task(client.run("f"))
        line = await puppets[0].line()
        line.say(wire.pack_job_create_res(), wire.pack_job_complete_res(1, 255, b"boom"))
        with pytest.raises(JobFailed, match="f failed with code 255: boom") as failed:
            await run
        assert (failed.value.code, failed.value.data) == (255, b"boom")

    play(story)


@pytest.mark.parametrize("taken", [False, True])
def test_an_error_in_place_of_the_answer_or_of_the_end(taken: bool) -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        run = asyncio.create_task(client.run("f"))
        line = await puppets[0].line()
        line.say(wire.pack_job_create_res() if taken else b"", wire.pack_error(wire.CLOSING, "closing"))
        with pytest.raises(ServerError, match=r"closing \(code 13\)") as refused:
            await run
        assert refused.value.code == wire.CLOSING

    play(story)


def test_what_a_status_listener_raises_is_what_the_run_raises() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        def listen(status: Status) -> None:
            raise KeyError(status.numerator)

        run = asyncio.create_task(client.run("f", on_status=listen))
        line = await puppets[0].line()
        line.say(wire.pack_job_create_res(), wire.pack_job_status_res(3, 4))
        with pytest.raises(KeyError, match="3"):
            await run

    play(story)


@pytest.mark.parametrize(
    ("packets", "reason"),
    [
        ([wire.pack_job_status_res(1, 2)], "job_status_res was not expected here"),
        ([wire.pack_job_create_res(), wire.pack_job_create_res()], "job_create_res was not expected here"),
        ([wire.pack_job_create_res(), wire.pack_job_complete_res(0, 0)], "has not ended"),
        (
            [wire.pack_job_create_res(), wire.pack(wire.JOB_COMPLETE_RES, b"1234")],
            "malformed outcome",
        ),
        ([wire.pack_job_create_res(), wire.pack(wire.JOB_STATUS_RES, b"12")], "malformed status"),
    ],
)
def test_a_server_that_makes_no_sense(packets: list[bytes], reason: str) -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        run = asyncio.create_task(client.run("f"))
        line = await puppets[0].line()
        line.say(*packets)
        with pytest.raises(ServerError, match=reason):
            await run

    play(story)


def test_questions_are_sent_at_once_and_answered_in_order() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        one, line = await submitted(client, None, puppets[0], "one", b"H:1")
        two, _ = await submitted(client, line, puppets[0], "two", b"H:2")
        asked = asyncio.gather(client.status(one), client.result(two), client.result(one), client.status(two))
        await line.expect(
            ("job_status_req", b"H:1"),
            ("job_complete_req", b"H:2"),
            ("job_complete_req", b"H:1"),
            ("job_status_req", b"H:2"),
        )
        await line.trickle(
            wire.pack_job_status_res(3, 7, 9),
            wire.pack_job_complete_res(12, 4, b"no\0such"),
            wire.pack_job_complete_res(0, 0),
            wire.pack_job_status_res(1, 1),
        )
        assert [*await asked] == [Status(3, 7, 9), Outcome(12, 4, b"no\0such"), None, Status(1, 1, 0)]
        assert client.jobs == [one], "what has ended is forgotten"

    play(story)


def test_an_error_answers_one_question_only() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job, line = await submitted(client, None, puppets[0], "f", b"H:1")
        asked = asyncio.gather(client.status(job), client.result(job), return_exceptions=True)
        await line.expect(("job_status_req", b"H:1"), ("job_complete_req", b"H:1"))
        line.say(wire.pack_error(wire.UNKNOWN_HANDLE, "never heard of it"), wire.pack_job_complete_res(0, 0))
        error, outcome = await asked
        assert isinstance(error, ServerError)
        assert error.code == wire.UNKNOWN_HANDLE
        assert outcome is None

    play(story)


@pytest.mark.parametrize("answer", [wire.pack_job_create_res(b"H:9"), wire.NO_JOB_PACKET])
def test_an_answer_to_nothing_ends_the_connection(answer: bytes) -> None:
    """Who answers what could not be told any more; the next question goes over a new connection."""

    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job, line = await submitted(client, None, puppets[0], "f", b"H:1")
        asked = asyncio.create_task(client.status(job))
        await line.expect(("job_status_req", b"H:1"))
        line.say(wire.NOOP_PACKET, answer, wire.pack_job_status_res(1, 2))
        with pytest.raises(ConnectionLost, match="does not match the open request"):
            await asked
        again = asyncio.create_task(client.status(job))
        other = await puppets[0].line()
        await other.expect(("job_status_req", b"H:1"))
        other.say(wire.pack_job_status_res(1, 2))
        assert await again == Status(1, 2, 0)

    play(story)


def test_the_last_words_of_a_server_are_in_the_error() -> None:
    """An error that answers nothing is what it had to say before it closed."""

    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        conversation = await Conversation.open(puppets[0].address, 10)
        line = await puppets[0].line()
        error = wire.pack_error(wire.BAD_MAGIC, "what was that?")
        conversation.received(wire.JOB_COMPLETE_RES, error[wire.HEADER_BYTES :])
        asked = conversation.ask(wire.pack_job_status_req(b"H:1"), wire.JOB_STATUS_RES)
        line.drop()
        with pytest.raises(ConnectionLost) as lost:
            await asked
        assert "what was that?" in str(lost.value.__cause__)

    play(story)


def test_nonsense_in_place_of_packets() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job, line = await submitted(client, None, puppets[0], "f", b"H:1")
        asked = asyncio.create_task(client.status(job))
        await line.hear()
        line.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(ConnectionLost, match="packets must start with"):
            await asked

    play(story)


def test_waiting_asks_again_and_again_and_may_outlast_a_server() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        (puppet,) = puppets
        job, line = await submitted(client, None, puppet, "f", b"H:1")
        waiting = asyncio.create_task(client.wait(job, pause_s=0.001, pause_max_s=0.01, away_s=10))
        for _ in range(5):
            await line.expect(("job_complete_req", b"H:1"))
            line.say(wire.pack_job_complete_res(0, 0))
        await line.expect(("job_complete_req", b"H:1"))
        await puppet.close()
        await puppet.open()
        line = await puppet.line()
        await line.expect(("job_complete_req", b"H:1"))
        line.say(wire.pack_job_complete_res(5, 0, b"after all"))
        assert await waiting == Outcome(5, 0, b"after all")

    play(story)


def test_a_server_may_be_away_for_a_while_however_long_the_job_has_been_waited_for() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        job, line = await submitted(client, None, puppets[0], "f", b"H:1")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + 1.1
        waiting = asyncio.create_task(client.wait(job, pause_s=0.01, pause_max_s=0.05, away_s=1.0))
        while loop.time() < until_s:
            await line.hear()
            line.say(wire.pack_job_complete_res(0, 0))
        await line.hear()
        line.drop()
        line = await puppets[0].line()
        await line.hear()
        line.say(wire.pack_job_complete_res(2, 0, b"still there"))
        assert (await waiting).data == b"still there"

    play(story)


def test_waiting_has_an_end() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        (puppet,) = puppets
        job, line = await submitted(client, None, puppet, "f", b"H:1")
        with pytest.raises(TimeoutError):
            await client.wait(job, timeout_s=0.02)
        await line.hear()
        await puppet.close()
        with pytest.raises(ConnectionLost):
            await client.wait(job)
        assert client.jobs == [job]

    play(story)


def test_a_server_that_reads_nothing_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into the network's buffers is not waited for any longer than it takes to be sure."""
    monkeypatch.setattr("hiringhall.peers.stream.CLOSE_S", 0.05)

    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        run = asyncio.create_task(client.run("f", bytes(16 << 20)))
        line = await puppets[0].line()
        await line.begun()
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()

    play(story)


def test_what_cannot_be_said_is_not_sent() -> None:
    async def story(client: Client, puppets: list[DraftPuppet]) -> None:
        with pytest.raises(ValueError, match="NUL"):
            await client.submit("two\0words")
        with pytest.raises(ValueError, match="NUL"):
            await client.run("f", key=b"\0")
        with pytest.raises(ValueError, match="`run` it again"):
            await client.resubmit(Job(b"f", b"", type="sync+wait"))

    play(story)
