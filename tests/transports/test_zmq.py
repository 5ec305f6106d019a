"""The ZeroMQ door: every message arrives once and in its order, whoever else speaks, and none is forgotten."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest
import zmq
from zmq_house import KIB, House, story, until

from hiringhall.transports.zmtp.frames import FRAMES_MAX
from hiringhall.transports.zmtp.options import ZmqOptions

TURN_MESSAGES_MAX = ZmqOptions().receive_messages_max


def test_what_is_said_is_answered() -> None:
    async def tell(house: House) -> None:
        ann = house.visit()
        ann.says(b"hello", b"", b"world")
        await ann.hears(b"hello", b"", b"world")
        assert len(house.sessions) == 1
        assert house.door.dropped == 0

    story(tell)


def test_the_session_knows_who_calls() -> None:
    async def tell(house: House) -> None:
        ann = house.visit(b"ann")
        ann.says(b"hello")
        await ann.hears(b"hello")
        caller = house.sessions[0].caller
        assert (caller.address, caller.descriptor, caller.route) == ("127.0.0.1", -1, (b"ann",))

    story(tell)


def test_messages_of_one_peer_keep_their_order_in_both_directions() -> None:
    count = 25 * TURN_MESSAGES_MAX + 1

    async def tell(house: House) -> None:
        ann = house.visit()
        said = [b"%d" % number for number in range(count)]
        ann.says(*said)
        await ann.hears(*said)
        assert [session.heard for session in house.sessions] == [said]

    story(tell)


def test_a_peer_that_reads_may_have_many_requests_wait_for_one_commit() -> None:
    """Their answers are let go all at once."""
    count = 3000

    async def tell(house: House) -> None:
        ann = house.visit()
        house.store.may_commit.clear()
        ann.says(*(b"pledge %d" % number for number in range(count)))
        await until(lambda: bool(house.sessions) and len(house.sessions[0].heard) == count)
        house.store.may_commit.set()
        await ann.hears(*(b"%d" % number for number in range(count)))

    story(tell)


def test_many_peers_at_once() -> None:
    async def tell(house: House) -> None:
        guests = [house.visit() for _ in range(100)]
        for number, guest in enumerate(guests):
            guest.says(*(b"%d-%d" % (number, word) for word in range(20)))
        for number, guest in enumerate(guests):
            await guest.hears(*(b"%d-%d" % (number, word) for word in range(20)))
        assert len(house.door.links) == len(guests)
        assert len({session.caller.route for session in house.sessions}) == len(guests)

    story(tell)


def test_one_turn_takes_in_no_more_than_its_share() -> None:
    """All of it has come before the door may read, so that without a bound one turn would take it all."""
    count = 25 * TURN_MESSAGES_MAX

    async def tell(house: House) -> None:
        ann = house.visit()
        ann.says(b"first")
        await ann.hears(b"first")
        link = house.link(house.sessions[0])
        link.pause()
        ann.says(*(b"%d" % number for number in range(count)), b"last")
        link.resume()
        for number in range(count):
            await ann.hears(b"%d" % number)
        await ann.hears(b"last")
        arrivals = Counter(house.sessions[0].heard_us)
        # At most twice in a turn: the last of what waited, and what is read when nothing waits any more.
        assert max(arrivals.values()) <= 2 * TURN_MESSAGES_MAX

    story(tell)


def test_question_and_answer_between_many_never_stalls() -> None:
    async def tell(house: House) -> None:
        guests = [house.visit() for _ in range(8)]

        async def chat(number: int) -> None:
            for word in range(300):
                guests[number].says(b"%d" % word)
                await guests[number].hears(b"%d" % word)

        async with asyncio.TaskGroup() as group:
            for number in range(len(guests)):
                group.create_task(chat(number))

    story(tell)


# --- envelopes


def test_an_envelope_is_a_session_and_goes_before_each_answer() -> None:
    async def tell(house: House) -> None:
        ann = house.visit(b"ann")
        ann.says_frames(b"", b"as a REQ")
        assert await ann.next() == [b"", b"as a REQ"]
        ann.says_frames(b"as a DEALER")
        assert await ann.next() == [b"as a DEALER"]
        assert [session.caller.route for session in house.sessions] == [(b"ann", b""), (b"ann",)]

    story(tell)


@pytest.mark.parametrize("frames", [(b"x", b"body"), (b"", b"", b"body"), (b"", b"x", b"body")])
def test_a_message_with_an_envelope_of_nobody_is_dropped_and_counted(frames: tuple[bytes, ...]) -> None:
    async def tell(house: House) -> None:
        ann = house.visit()
        ann.says_frames(*frames)
        ann.says(b"and now in earnest")
        await ann.hears(b"and now in earnest")
        assert house.door.dropped == 1
        assert len(house.sessions) == len(house.door.links) == 1

    story(tell)


def test_a_session_may_have_as_many_frames_as_a_message_may() -> None:
    def any_route(envelope: list[bytes]) -> list[bytes] | None:
        return envelope

    async def tell(house: House) -> None:
        ann = house.visit()
        most = [b"%d" % number for number in range(FRAMES_MAX - 1)]
        ann.says_frames(*most, b"body")
        assert await ann.next() == [*most, b"body"]
        for more in (1, 2, 50_000):
            ann.says_frames(*most, *[b"more"] * more, b"body")
        ann.says_frames(*most, b"still here")
        assert await ann.next() == [*most, b"still here"]
        assert house.door.dropped == 3
        assert len(house.sessions) == 1

    story(tell, route=any_route)


# --- messages of any size


def test_a_frame_of_the_longest_length_passes_and_one_byte_more_costs_the_connection() -> None:
    limit = 64 * KIB

    async def tell(house: House) -> None:
        ann = house.visit(b"ann")
        ann.says(b"m" * limit)
        await ann.hears(b"m" * limit)
        with ann.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED) as monitor:
            ann.says(b"m" * (limit + 1))
            await until(lambda: bool(monitor.poll(0)))
            ann.socket.disable_monitor()
        bob = house.visit()
        bob.says(b"hello")
        await bob.hears(b"hello")
        # ZeroMQ connects anew by itself.
        await until(lambda: not house.is_gone(house.sessions[0]))
        assert [len(session.heard) for session in house.sessions] == [1, 1]

    story(tell, ZmqOptions(message_bytes_max=limit, close_wait_s=0.0))


# --- reading no more, for a while


def test_while_the_engine_holds_one_back_all_others_are_read_from() -> None:
    async def tell(house: House) -> None:
        ann, bob = house.visit(), house.visit()
        for guest in (ann, bob):
            guest.says(b"hello")
            await guest.hears(b"hello")
        link = house.link(house.sessions[0])
        link.pause()
        link.pause()
        ann.says(b"later")
        before_s = time.process_time()
        await asyncio.sleep(0.5)
        used_s = time.process_time() - before_s
        bob.says(b"and I?")
        await bob.hears(b"and I?")
        assert house.sessions[0].heard == [b"hello"]
        link.resume()
        link.resume()
        await ann.hears(b"later")
        # A message that may not be taken keeps nobody busy.
        assert used_s < 0.05, f"{used_s:.2f} s of CPU in half a second of waiting"

    story(tell)


def test_several_sessions_behind_one_connection_are_held_back_together() -> None:
    async def tell(house: House) -> None:
        ann = house.visit()
        ann.says(b"as a DEALER")
        await ann.hears(b"as a DEALER")
        ann.says_frames(b"", b"as a REQ")
        assert await ann.next() == [b"", b"as a REQ"]
        one, two = (house.link(session) for session in house.sessions)
        for each in (one, two, one):
            each.pause()
        ann.says(b"later")
        two.resume()
        two.resume()
        await asyncio.sleep(0.05)
        assert not ann.has_mail()
        one.resume()
        await ann.hears(b"later")

    story(tell)


def test_a_peer_with_much_to_be_put_on_disk_is_held_back_until_it_is_there() -> None:
    count = 25_000

    async def tell(house: House) -> None:
        ann, bob = house.visit(), house.visit()
        bob.says(b"hello")
        await bob.hears(b"hello")
        house.store.may_commit.clear()
        ann.says(*(b"pledge %d" % number for number in range(count)))
        await until(lambda: len(house.sessions) == 2 and house.link(house.sessions[1]).held)
        taken_in = len(house.sessions[1].heard)
        assert 20_000 < taken_in < count
        bob.says(b"and I?")
        house.store.may_commit.set()
        await ann.hears(*(b"%d" % number for number in range(count)))
        await bob.hears(b"and I?")
        assert not any(link.held for link in house.door.links.values())

    story(tell)


def test_a_peer_that_goes_while_it_is_held_back_is_known_to_be_gone_after_that() -> None:
    async def tell(house: House) -> None:
        ann, bob = house.visit(), house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        link = house.link(house.sessions[0])
        link.pause()
        ann.says(b"my last word")
        ann.leaves()
        bob.says(b"hello")
        await bob.hears(b"hello")
        link.resume()
        await until(lambda: house.sessions[0].is_parted)
        assert house.sessions[0].heard == [b"hello", b"my last word"]
        assert list(house.door.links) == [house.sessions[1].caller.route]

    story(tell)
