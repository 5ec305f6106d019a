"""Nonsense at the Gearman door: it is answered where the protocol has an answer, it costs its sender the
connection where nothing else can be done, and nobody else notices.

A client and a worker of ours do round trips through all of it, the hall's memory stays flat, and its audit
is clean after each test.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import HallProcess
from mutations import Mutator
from neighbours import Neighbours
from raw_link import Closed, RawLink, complete_one
from testimony import audit

from hiringhall.dialects.gearman import wire
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB: Final = 1 << 20
CROWD: Final = 300
"""Connections of the tests that need many."""


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HallProcess, Neighbours]]:
    folder = tmp_path_factory.mktemp("besieged")
    with HallProcess(folder, door={"packet_bytes_max": MIB}) as hall, Neighbours(hall) as neighbours:
        yield hall, neighbours


@pytest.fixture
def hall(besieged: tuple[HallProcess, Neighbours]) -> Iterator[HallProcess]:
    """The hall, checked after each test: the neighbours are served, every cross-reference holds."""
    hall, neighbours = besieged
    neighbours.expect_service()
    yield hall
    assert hall.running, f"the hall is gone:\n{hall.errors()}"
    neighbours.expect_service()
    assert audit(hall) == "clean"
    assert "Traceback" not in hall.errors()


async def refusal(link: RawLink) -> str:
    """The code of the ERROR that comes next."""
    kind, body = await link.receive()
    assert kind == wire.ERROR, f"{wire.NAMES.get(kind, kind)}: {body!r}"
    code, text = body.split(b"\0", 1)
    assert text, "an ERROR says in words what was wrong"
    return code.decode()


async def still_talks(link: RawLink) -> None:
    assert await link.ask(wire.ECHO_REQ, b"still here") == (wire.ECHO_RES, b"still here")


MISTAKES: Final[dict[str, tuple[bytes, str]]] = {
    "no such type": (wire.REQUEST + b"\0\0\0\x2b\0\0\0\0", "INVALID_COMMAND"),
    "type 0": (wire.REQUEST + b"\0\0\0\0\0\0\0\0", "INVALID_COMMAND"),
    "the highest type": (wire.REQUEST + b"\xff\xff\xff\xff\0\0\0\0", "INVALID_COMMAND"),
    "what only a server says": (wire.pack_request(wire.JOB_CREATED, b"H:hall:1"), "INVALID_COMMAND"),
    "a submit without unique": (wire.pack_request(wire.SUBMIT_JOB, b"resize"), "INVALID_ARGUMENT"),
    "a submit without data": (wire.pack_request(wire.SUBMIT_JOB_BG, b"resize", b"u"), "INVALID_ARGUMENT"),
    "an empty submit": (wire.pack_request(wire.SUBMIT_JOB_HIGH), "INVALID_ARGUMENT"),
    "a submit of no function": (wire.pack_request(wire.SUBMIT_JOB_BG, b"", b"", b"x"), "INVALID_ARGUMENT"),
    "a time without data": (
        wire.pack_request(wire.SUBMIT_JOB_EPOCH, b"resize", b"", b"1"),
        "INVALID_ARGUMENT",
    ),
    "a time that is none": (
        wire.pack_request(wire.SUBMIT_JOB_EPOCH, b"resize", b"", b"soon", b"x"),
        "INVALID_ARGUMENT",
    ),
    "half a schedule": (
        wire.pack_request(wire.SUBMIT_JOB_SCHED, b"resize", b"", b"1", b"2", b"x"),
        "INVALID_ARGUMENT",
    ),
    "no reducer": (wire.pack_request(wire.SUBMIT_REDUCE_JOB, b"resize", b"", b"x"), "INVALID_ARGUMENT"),
    "no timeout": (wire.pack_request(wire.CAN_DO_TIMEOUT, b"resize"), "INVALID_ARGUMENT"),
    "a timeout that is none": (
        wire.pack_request(wire.CAN_DO_TIMEOUT, b"resize", b"-1"),
        "INVALID_ARGUMENT",
    ),
    "a result of nothing": (wire.pack_request(wire.WORK_COMPLETE, b"H:hall:1"), "JOB_NOT_FOUND"),
    "progress without numbers": (wire.pack_request(wire.WORK_STATUS, b"H:hall:1", b"1"), "INVALID_ARGUMENT"),
    "an unknown handle": (wire.pack_request(wire.WORK_COMPLETE, b"H:hall:1", b"x"), "JOB_NOT_FOUND"),
    "no handle at all": (wire.pack_request(wire.WORK_FAIL, b"\xff" * 300), "JOB_NOT_FOUND"),
    "an unknown option": (wire.pack_request(wire.OPTION_REQ, b"telepathy"), "UNKNOWN_OPTION"),
    "a function with too long a name": (
        wire.pack_request(wire.SUBMIT_JOB, b"f" * 4096, b"", b"x"),
        "ARGUMENT_TOO_LARGE",
    ),
    "a unique too long": (
        wire.pack_request(wire.SUBMIT_JOB, b"resize", b"u" * 4096, b"x"),
        "ARGUMENT_TOO_LARGE",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_and_the_conversation_goes_on(hall: HallProcess, mistake: str) -> None:
    async def story() -> None:
        packet, code = MISTAKES[mistake]
        async with await RawLink.open(hall.port) as link:
            link.write(packet)
            assert await refusal(link) == code
            await still_talks(link)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (b"\0BAD\0\0\0\x10\0\0\0\0", "INVALID_MAGIC"),
        (b"\0RES\0\0\0\x10\0\0\0\0", "INVALID_MAGIC"),
        (b"\0\0\0\0\0\0\0\0\0\0\0\0", "INVALID_MAGIC"),
        (b"\0REQ\0\0\0\x07\xff\xff\xff\xff", "ARGUMENT_TOO_LARGE"),
        (b"\0REQ\0\0\0\x07\0\x10\0\x01", "ARGUMENT_TOO_LARGE"),
        (b"\0REQ\xff\xff\xff\xff\xff\xff\xff\xff", "ARGUMENT_TOO_LARGE"),
    ],
)
def test_a_stream_that_cannot_be_read_further_is_told_so_and_closed(
    hall: HallProcess, packet: bytes, code: str
) -> None:
    async def story() -> None:
        async with await RawLink.open(hall.port) as link:
            # What came before the bad packet counts.
            link.write(wire.pack_request(wire.ECHO_REQ, b"before") + packet + b"whatever follows")
            assert await link.receive() == (wire.ECHO_RES, b"before")
            assert await refusal(link) == code
            assert await link.until_end() == []

    asyncio.run(story())


def test_announced_bytes_cost_nothing_until_they_come(hall: HallProcess) -> None:
    async def story() -> None:
        before_bytes = hall.rss_bytes()
        async with AsyncExitStack() as stack:
            for _ in range(CROWD):
                link = await stack.enter_async_context(await RawLink.open(hall.port))
                # A megabyte is announced each time, and one byte comes.
                link.write(b"\0REQ\0\0\0\x07\0\x10\0\0x")
                await link.drained()
            async with await RawLink.open(hall.port) as link:
                await still_talks(link)
            assert hall.rss_bytes() - before_bytes < 32 * MIB

    asyncio.run(story())


def test_a_packet_that_breaks_off_was_never_said(hall: HallProcess) -> None:
    packet = wire.pack_request(wire.SUBMIT_JOB_BG, b"broken-off", b"", b"payload")

    async def story() -> None:
        for cut in range(1, len(packet)):
            async with await RawLink.open(hall.port) as link:
                link.write(packet[:cut])
                link.half_close()
                assert await link.until_end() == []

    asyncio.run(story())
    assert hall.counts("broken-off")[0] == 0


def test_somebody_elses_job_is_out_of_reach(hall: HallProcess) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            client, worker, thief = [
                await stack.enter_async_context(await RawLink.open(hall.port)) for _ in range(3)
            ]
            worker.send(wire.CAN_DO, b"guarded")
            client.send(wire.SUBMIT_JOB, b"guarded", b"", b"treasure")
            kind, handle = await client.receive()
            assert kind == wire.JOB_CREATED
            kind, body = await worker.ask(wire.GRAB_JOB)
            assert (kind, body) == (wire.JOB_ASSIGN, handle + b"\0guarded\0treasure")

            thief.send(wire.CAN_DO, b"guarded")
            for packet in (
                wire.pack_request(wire.WORK_COMPLETE, handle, b"stolen"),
                wire.pack_request(wire.WORK_FAIL, handle),
                wire.pack_request(wire.WORK_EXCEPTION, handle, b"stolen"),
                wire.pack_request(wire.WORK_DATA, handle, b"stolen"),
                wire.pack_request(wire.WORK_WARNING, handle, b"stolen"),
                wire.pack_request(wire.WORK_STATUS, handle, b"9", b"9"),
            ):
                thief.write(packet)
                assert await refusal(thief) == "JOB_NOT_FOUND"
            await still_talks(thief)

            worker.send(wire.WORK_COMPLETE, handle, b"honest")
            assert await client.receive() == (wire.WORK_COMPLETE, handle + b"\0honest")
            worker.send(wire.WORK_COMPLETE, handle, b"twice")
            assert await refusal(worker) == "JOB_NOT_FOUND"

    asyncio.run(story())


def test_a_byte_at_a_time_is_a_packet_in_the_end(hall: HallProcess) -> None:
    packet = wire.pack_request(wire.SUBMIT_JOB, b"trickled", b"", b"slowly")

    async def story() -> None:
        async with await RawLink.open(hall.port) as client, await RawLink.open(hall.port) as worker:
            worker.send(wire.CAN_DO, b"trickled")
            for byte in packet:
                client.write(bytes((byte,)))
                await client.drained()
                await still_talks(worker)  # the hall has turned meanwhile
            assert (await client.receive())[0] == wire.JOB_CREATED
            assert await complete_one(worker) == b"slowly"
            kind, body = await client.receive()
            assert (kind, body.rpartition(b"\0")[2]) == (wire.WORK_COMPLETE, b"ylwols")

    asyncio.run(story())


def test_those_who_say_one_byte_and_wait_are_no_burden(hall: HallProcess) -> None:
    async def story() -> None:
        before_bytes = hall.rss_bytes()
        async with AsyncExitStack() as stack:
            links = [await stack.enter_async_context(await RawLink.open(hall.port)) for _ in range(CROWD)]
            for step in range(3):
                for link in links:
                    link.write(b"\0RE"[step : step + 1])
                    await link.drained()
                async with await RawLink.open(hall.port) as witness:
                    await still_talks(witness)
            assert hall.rss_bytes() - before_bytes < 32 * MIB
            for link in links:
                link.write(b"Q" + wire.pack_request(wire.ECHO_REQ, b"late")[4:])
                assert await link.receive() == (wire.ECHO_RES, b"late")

    asyncio.run(story())


def test_a_line_without_end_is_cut_off(hall: HallProcess) -> None:
    async def story() -> None:
        async with await RawLink.open(hall.port) as link:
            link.write(b"status" * 20_000)
            assert (await link.receive_bytes()).startswith(b"ERR ")
            with suppress(Closed):  # closed with bytes of ours unread: a reset is as good
                assert await link.receive_bytes() == b""

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_are_survived(hall: HallProcess, seed: int) -> None:
    dice = random.Random(seed)

    async def story() -> None:
        for _ in range(100):
            async with await RawLink.open(hall.port) as link:
                noise = dice.randbytes(dice.choice((1, 11, 12, 13, 100, 4096, 100_000)))
                link.write(noise if dice.randrange(2) else b"\0REQ" + noise)
                with suppress(Closed):
                    link.half_close()
                    while await link.receive_bytes():
                        pass

    asyncio.run(story())


MUTATED: Final = 1_000_000
BATCH: Final = 2_500
LINKS: Final = 4
MUTATED_S_MAX: Final = 60.0


def test_a_million_mutated_packets_leave_no_trace(hall: HallProcess) -> None:
    """Each batch ends with a magic that is none, so the hall says when it has read all of it: by closing."""
    batches = iter(range(MUTATED // BATCH))
    mutator = Mutator(seed=MUTATED)
    refusals = 0

    async def hammer() -> None:
        nonlocal refusals
        for _ in batches:
            async with await RawLink.open(hall.port) as link:
                link.write(mutator.batch(BATCH))
                answers = await link.until_end()
                assert any(body.startswith(b"INVALID_MAGIC\0") for _, body in answers), (
                    "it was not read to its end"
                )
                refusals += sum(kind == wire.ERROR for kind, _ in answers)

    async def story() -> None:
        await asyncio.gather(*(hammer() for _ in range(LINKS)))

    before_bytes = hall.rss_bytes()
    with Stopwatch() as watch:
        asyncio.run(story())
    assert watch.elapsed_s < MUTATED_S_MAX
    assert refusals > MUTATED // 4, "the mutations hardly hurt"
    assert hall.rss_bytes() - before_bytes < 128 * MIB
