"""The ZeroMQ door: every message arrives once and in its order, whoever else speaks, and none is forgotten."""

from __future__ import annotations

import asyncio
import select
import time
from collections import Counter

import pytest
import zmq
from zmq_house import KIB, House, Toy, answer_route, story, until

from hiringhall.transports.zmq import FRAMES_MAX, MESSAGES_MAX, ZmqOptions


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
    count = 5 * MESSAGES_MAX + 1

    async def tell(house: House) -> None:
        ann = house.visit()
        said = [b"%d" % number for number in range(count)]
        ann.says(*said)
        await ann.hears(*said)
        assert [session.heard for session in house.sessions] == [said]

    story(tell)


def test_a_peer_that_reads_may_have_many_requests_wait_for_one_commit() -> None:
    """Their answers are let go all at once, more of them than ZeroMQ holds for one peer."""
    count = 3000

    async def tell(house: House) -> None:
        ann = house.visit()
        house.store.may_commit.clear()
        ann.says(*(b"pledge %d" % number for number in range(count)))
        await until(lambda: bool(house.sessions) and len(house.sessions[0].heard) == count)
        house.store.may_commit.set()
        await ann.hears(*(b"%d" % number for number in range(count)))

    assert count > ZmqOptions().send_messages_max
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
    """All of it has come before the door may look, so that without a bound one turn would take it all. Two
    looks, of which the descriptor asks for one and the door itself for the other, may fall into one turn.
    """
    count = 5 * MESSAGES_MAX

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
        assert max(arrivals.values()) <= 2 * MESSAGES_MAX

    story(tell, ZmqOptions(receive_messages_max=10 * count, send_messages_max=10 * count, close_wait_s=0.0))


def test_a_message_that_comes_while_answers_are_sent_is_not_forgotten() -> None:
    """ZeroMQ's descriptor tells of a message once, and sending swallows that sign."""

    async def tell(house: House) -> None:
        ann, bob = house.visit(), house.visit()
        for guest in (ann, bob):
            guest.says(b"hello")
            await guest.hears(b"hello")
        descriptor = house.door._descriptor
        # From here to the end of the sends the loop does not go round.
        bob.says(b"am I heard?")
        assert select.select([descriptor], [], [], 20)[0]
        news = 0
        give_up_s = time.monotonic() + 20
        while select.select([descriptor], [], [], 0)[0]:
            house.link(house.sessions[0]).write([b"news"])
            news += 1
            assert time.monotonic() < give_up_s
        await bob.hears(b"am I heard?")
        await ann.hears(*[b"news"] * news)

    story(tell, ZmqOptions(send_messages_max=1_000_000, close_wait_s=0.0))


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
        most = [b"%d" % number for number in range(FRAMES_MAX - 2)]
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
        await until(lambda: house.is_gone(house.sessions[0]) is False)
        assert [len(session.heard) for session in house.sessions] == [1, 1]

    story(tell, ZmqOptions(message_bytes_max=limit, close_wait_s=0.0))


# --- reading no more, for a while


def test_while_the_engine_holds_one_back_nobody_is_read_from() -> None:
    async def tell(house: House) -> None:
        ann, bob = house.visit(), house.visit()
        for guest in (ann, bob):
            guest.says(b"hello")
            await guest.hears(b"hello")
        link, other = (house.link(session) for session in house.sessions)
        for each in (link, link, other):
            each.pause()
        # Otherwise the look that follows every send may see it, and the descriptor has nothing to tell.
        await until(lambda: not house.door._poll_scheduled)
        bob.says(b"later")
        before_s = time.process_time()
        await asyncio.sleep(0.5)
        used_s = time.process_time() - before_s
        assert house.sessions[1].heard == [b"hello"]
        link.resume()
        link.resume()
        assert not bob.has_mail()
        other.resume()
        await bob.hears(b"later")
        # A message that may not be taken keeps nobody busy.
        assert used_s < 0.05, f"{used_s:.2f} s of CPU in half a second of waiting"

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

    story(tell, ZmqOptions(receive_messages_max=count, send_messages_max=2 * count, close_wait_s=0.0))


def test_a_peer_that_is_gone_holds_nobody_back_any_more() -> None:
    async def tell(house: House) -> None:
        ann, bob = house.visit(), house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        house.link(house.sessions[0]).pause()
        ann.leaves()
        await until(lambda: house.is_gone(house.sessions[0]))
        bob.says(b"hello")
        house.link(house.sessions[0]).write([b"are you there?"])
        await bob.hears(b"hello")
        assert [type(session) for session in house.sessions] == [Toy, Toy]
        assert list(house.door.links) == [house.sessions[1].caller.route]

    story(tell, route=answer_route)
