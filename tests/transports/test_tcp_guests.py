"""Several dialects at one TCP door, told apart by the first bytes; nobody is kept waiting for more of them."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from echo_door import LOOPS, PATIENCE_S, Echo, Guest, House, Shout, story, until

from hiringhall.transports.tcp import Connection, TcpOptions

MAGIC = b"\0JOB"
OTHER = b"\0JAM"


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def dribble(house: House, guest: Guest, data: bytes) -> None:
    """One byte at a time; the next when the door has taken in the one before."""
    await until(lambda: len(house.door.connections) == 1)
    (connection,) = house.door.connections
    for number in range(len(data)):
        guest.writer.write(data[number : number + 1])
        if connection._opening is not None:
            await until(partial(_is_taken_in, connection, data[: number + 1]))


def _is_taken_in(connection: Connection, opening: bytes) -> bool:
    return connection._opening in (None, opening)


def held_back(house: House, number: int) -> bytes | None:
    return house.connection(house.sessions[number])._opening


def test_a_guest_is_known_by_its_magic(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(MAGIC + b"hello", b"world")
        await ann.hears(b"HELLO", b"WORLD")
        own, guest = house.sessions
        assert type(own) is Echo
        assert type(guest) is Shout
        assert own.is_parted
        assert own.link is None
        assert own.lines == 0
        assert guest.caller is own.caller
        assert len(house.door.connections) == 1
        await ann.leaves()
        await until(lambda: guest.is_parted)
        assert house.door.connections == {}

    story(loop, tell, guests=(MAGIC,))


def test_everybody_else_speaks_the_doors_own_dialect(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        ann.says(MAGIC + b"is only told in the beginning")
        await ann.hears(MAGIC + b"is only told in the beginning")
        assert [type(session) for session in house.sessions] == [Echo]
        await ann.leaves()

    story(loop, tell, guests=(MAGIC,))


def test_a_magic_in_single_bytes(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        await dribble(house, ann, MAGIC + b"slowly\n")
        await ann.hears(b"SLOWLY")
        assert [type(session) for session in house.sessions] == [Echo, Shout]
        await ann.leaves()

    story(loop, tell, guests=(MAGIC,))


@pytest.mark.parametrize("opening", [b"\0REQ", b"\0JOG", b"\0", b"\0J\0JOB", b"J", b"\n"])
def test_an_opening_that_turns_out_to_be_no_magic(loop: str, opening: bytes) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        await dribble(house, ann, opening + b"!\n")
        await ann.hears(*(opening + b"!").split(b"\n"))
        assert [type(session) for session in house.sessions] == [Echo]
        await ann.leaves()

    story(loop, tell, guests=(MAGIC,))


def test_what_could_be_a_magic_is_kept_back_and_nothing_else(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.writer.write(MAGIC[:2])
        await until(lambda: bool(house.sessions) and held_back(house, 0) == MAGIC[:2])
        assert house.sessions[0].lines == 0
        ann.writer.write(b"x\ny\n")
        await ann.hears(MAGIC[:2] + b"x", b"y")
        assert held_back(house, 0) is None
        await ann.leaves()

    story(loop, tell, guests=(MAGIC,))


def test_several_guests_with_a_common_beginning(loop: str) -> None:
    async def tell(house: House) -> None:
        for magic in (OTHER, MAGIC):
            ann = await house.visit()
            await dribble(house, ann, magic + b"hello\n")
            await ann.hears(b"HELLO")
            newest = house.sessions[-1]
            assert isinstance(newest, Shout)
            assert newest.magic == magic
            await ann.leaves()
            await until(lambda: not house.door.connections)

    story(loop, tell, guests=(MAGIC, OTHER))


def test_the_silent_are_connections_too(loop: str) -> None:
    async def tell(house: House) -> None:
        silent, half = await house.visit(), await house.visit()
        half.writer.write(MAGIC[:3])
        await until(lambda: len(house.sessions) == 2 and held_back(house, 1) == MAGIC[:3])
        ann = await house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        assert len(house.door.connections) == 3
        assert not any(session.is_parted for session in house.sessions)
        for guest in (silent, half, ann):
            await guest.leaves()
        await until(lambda: not house.door.connections)
        assert all(session.is_parted for session in house.sessions)

    story(loop, tell, guests=(MAGIC,))


def test_an_end_in_the_middle_of_the_magic(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.writer.write(MAGIC[:3])
        ann.writer.write_eof()
        assert await ann.hears_the_end() == 0
        await until(lambda: house.sessions[0].is_parted)
        assert [type(session) for session in house.sessions] == [Echo]
        await ann.leaves()

    story(loop, tell, guests=(MAGIC,))


def test_an_end_right_behind_the_magic(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(MAGIC + b"last words")
        ann.writer.write_eof()
        await ann.hears(b"LAST WORDS")
        assert await ann.hears_the_end() == 0
        await ann.leaves()

    story(loop, tell, guests=(MAGIC,))


def test_a_guest_counts_as_one_connection(loop: str) -> None:
    async def tell(house: House) -> None:
        first, second = await house.visit(), await house.visit()
        first.says(MAGIC + b"hello")
        await first.hears(b"HELLO")
        second.says(MAGIC + b"hello")
        await second.hears(b"HELLO")
        third = await house.visit()
        third.writer.write(MAGIC + b"let me in\n")
        assert await third.hears_the_end() == 0
        assert house.door.refused == 1
        assert len(house.sessions) == 4
        await first.leaves()
        await until(lambda: len(house.door.connections) == 1)
        fourth = await house.visit()
        fourth.says(MAGIC + b"hello")
        await fourth.hears(b"HELLO")
        for guest in (second, third, fourth):
            await guest.leaves()

    story(loop, tell, TcpOptions(connections_max=2), guests=(MAGIC,))


def test_what_a_refused_connection_still_says_reaches_nobody(loop: str) -> None:
    async def tell(house: House) -> None:
        connection = Connection(house.door)
        connection.data_received(MAGIC + b"hello\n")
        connection.data_received(b"hello\n")
        assert house.sessions == []

    story(loop, tell, TcpOptions(connections_max=0), guests=(MAGIC,))


def test_back_pressure_is_the_same_for_guests(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(MAGIC + b"hello")
        await ann.hears(b"HELLO")
        link = house.sessions[1].link
        assert link is not None
        link.pause()
        ann.says(b"later")
        eve = await house.visit()
        eve.says(b"1", b"2", b"3")
        await eve.hears(b"1", b"2", b"3")
        assert house.sessions[1].lines == 1
        link.resume()
        await ann.hears(b"LATER")
        assert house.sessions[1].out_bytes_max == house.door.options.output_hard_bytes
        await ann.leaves()
        await eve.leaves()

    story(loop, tell, guests=(MAGIC,))


def test_the_door_closes_on_those_who_have_not_said_what_they_speak(loop: str) -> None:
    async def tell(house: House) -> None:
        half = await house.visit()
        half.writer.write(MAGIC[:2])
        await until(lambda: bool(house.sessions) and held_back(house, 0) == MAGIC[:2])
        await asyncio.wait_for(house.door.close(), PATIENCE_S)
        assert await half.hears_the_end() == 0
        await half.leaves()

    story(loop, tell, guests=(MAGIC,))


def test_a_door_without_guests_keeps_nothing_back(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"\0")
        await ann.hears(b"\0")
        assert held_back(house, 0) is None
        await ann.leaves()

    story(loop, tell)
