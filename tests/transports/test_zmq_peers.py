"""Peers at a ZeroMQ door who come, fall silent, vanish or take nothing: the table of sessions stays bounded,
those who work or wait stay in it, and what could not be said to somebody was never given to him.
"""

from __future__ import annotations

import asyncio
import time

from zmq_house import QUEUE, Guest, House, story, until

from hiringhall.core.states import LEASED, QUEUED
from hiringhall.transports.zmtp.options import ZmqOptions

MINUTE_S = 60.0


async def greet(*guests: Guest) -> None:
    """One after the other, so that their sessions are in this order."""
    for guest in guests:
        guest.says(b"hello")
        await guest.hears(b"hello")


def routes(house: House) -> list[bytes]:
    return [route[0] for route in house.door.links]


# --- who is forgotten


def test_a_silent_session_is_forgotten_and_nobody_misses_it() -> None:
    async def tell(house: House) -> None:
        ann, bob, eve = house.visit(b"ann"), house.visit(b"bob"), house.visit(b"eve")
        await greet(ann, bob)
        await house.later(11 * MINUTE_S)
        bob.says(b"still here")
        await bob.hears(b"still here")
        assert routes(house) == [b"ann", b"bob"]
        # The next newcomer makes the door look round.
        await greet(eve)
        assert routes(house) == [b"bob", b"eve"]
        assert [session.is_parted for session in house.sessions] == [True, False, False]
        await greet(ann)
        assert routes(house) == [b"bob", b"eve", b"ann"]
        assert house.door.dropped == 0

    story(tell, ZmqOptions(idle_s=10 * MINUTE_S, close_wait_s=0.0))


def test_those_who_work_or_wait_are_kept_however_silent() -> None:
    async def tell(house: House) -> None:
        ann, bob, eve, dan = (house.visit(name) for name in (b"ann", b"bob", b"eve", b"dan"))
        await greet(ann, bob, eve)
        ann.says(b"work 1")
        bob.says(b"submit cut")
        await ann.hears(b"job cut")
        await house.later(MINUTE_S * 60)
        await greet(dan)
        assert routes(house) == [b"ann", b"bob", b"dan"]
        house.driver.turn()
        (lease,) = next(iter(house.scheduler.workers)).leases.values()
        house.scheduler.finish(lease, b"planks")
        await bob.hears(b"end planks")

    story(tell, ZmqOptions(idle_s=1.0, close_wait_s=0.0))


def test_somebody_who_waits_for_the_disk_is_kept() -> None:
    async def tell(house: House) -> None:
        ann, bob, eve = house.visit(b"ann"), house.visit(b"bob"), house.visit(b"eve")
        await greet(bob)
        house.store.may_commit.clear()
        ann.says(b"pledge this", b"pledge that")
        await until(lambda: len(house.sessions) == 2 and len(house.sessions[1].heard) == 2)
        await house.later(MINUTE_S * 60)
        await greet(eve)
        assert routes(house) == [b"ann", b"eve"]
        house.store.may_commit.set()
        await ann.hears(b"this", b"that")

    story(tell, ZmqOptions(idle_s=1.0, close_wait_s=0.0))


def test_a_full_table_makes_room_among_the_idle_however_short_they_were_silent() -> None:
    async def tell(house: House) -> None:
        ann, bob, eve, dan = (house.visit(name) for name in (b"ann", b"bob", b"eve", b"dan"))
        await greet(ann, bob, eve)
        bob.says(b"work 1")
        await until(lambda: house.sessions[1].worker is not None)
        await house.later(2)
        await greet(dan)
        assert routes(house) == [b"bob", b"dan"]
        assert house.door.dropped == 0

    story(tell, ZmqOptions(peers_max=3, close_wait_s=0.0))


def test_a_table_full_of_workers_drops_what_comes_by_new_ways_until_one_is_idle() -> None:
    async def tell(house: House) -> None:
        ann, bob, eve = house.visit(b"ann"), house.visit(b"bob"), house.visit(b"eve")
        for guest in (ann, bob):
            guest.says(b"work 1")
        await until(lambda: len(house.scheduler.workers) == 2)
        await house.later(2)
        eve.says(b"hello?")
        await until(lambda: house.door.dropped == 1)
        assert routes(house) in ([b"ann", b"bob"], [b"bob", b"ann"])
        # Those who are in are served as ever.
        await greet(ann, bob)
        house.driver.turn()
        house.scheduler.leave(house.sessions[0])
        await house.later(2)
        await greet(eve)
        assert house.sessions[0].is_parted
        assert len(house.door.links) == 2

    story(tell, ZmqOptions(peers_max=2, close_wait_s=0.0))


def test_a_crowd_of_strangers_makes_no_more_sessions_than_the_table_holds() -> None:
    async def tell(house: House) -> None:
        crowd = [house.visit() for _ in range(60)]
        for guest in crowd:
            guest.says(b"work 1")
        await until(lambda: len(house.sessions) + house.door.dropped == 60)
        assert len(house.sessions) == len(house.door.links) == 20
        assert len(house.scheduler.workers) == 20

    story(tell, ZmqOptions(peers_max=20, close_wait_s=0.0))


# --- who is gone


def test_somebody_who_is_gone_is_given_no_job() -> None:
    async def tell(house: House) -> None:
        ann, bob = house.visit(b"ann"), house.visit(b"bob")
        ann.says(b"work 1")
        await until(lambda: len(house.scheduler.workers) == 1)
        ann.leaves()
        await until(lambda: house.sessions[0].is_parted)
        assert routes(house) == []
        job = house.submit(b"cut")
        bob.says(b"work 1")
        await bob.hears(b"job cut")
        assert (job.state, job.losses, job.attempts) == (LEASED, 0, 1)


def test_a_job_that_is_given_while_the_connection_closes_is_no_loss() -> None:
    """The hall's side is closing, and its end has not been reported yet."""

    async def tell(house: House) -> None:
        ann, bob = house.visit(b"ann"), house.visit(b"bob")
        ann.says(b"work 1")
        await until(lambda: len(house.scheduler.workers) == 1)
        house.link(house.sessions[0]).side.connection.abort()
        job = house.submit(b"cut")
        await until(lambda: house.sessions[0].is_parted and job.state == QUEUED)
        assert (job.losses, job.attempts) == (0, 1)
        bob.says(b"work 1")
        await bob.hears(b"job cut")

    story(tell)


def test_what_a_vanished_worker_had_before_is_lost_and_what_it_was_given_just_now_is_not() -> None:
    async def tell(house: House) -> None:
        ann, bob = house.visit(b"ann"), house.visit(b"bob")
        ann.says(b"work 3")
        await until(lambda: len(house.scheduler.workers) == 1)
        older = house.submit(b"older")
        await ann.hears(b"job older")
        ann.leaves()
        await until(lambda: house.is_gone(house.sessions[0]))
        first, second = house.submit(b"first"), house.submit(b"second")
        await until(lambda: house.sessions[0].is_parted)
        await until(lambda: {job.state for job in (older, first, second)} == {QUEUED})
        assert [job.losses for job in (older, first, second)] == [1, 0, 0]
        house.scheduler.audit()
        bob.says(b"work 3")
        # All three go back to where they stood, the oldest first.
        await bob.hears(b"job older", b"job first", b"job second")

    story(tell)


def test_a_client_that_is_gone_takes_its_job_along() -> None:
    async def tell(house: House) -> None:
        ann, bob = house.visit(b"ann"), house.visit(b"bob")
        bob.says(b"submit cut")
        await until(lambda: len(house.scheduler.jobs) == 1)
        bob.leaves()
        await until(lambda: house.sessions[0].is_parted)
        assert house.scheduler.jobs == {}
        ann.says(b"work 1")
        await greet(ann)
        assert routes(house) == [b"ann"]

    story(tell)


def test_the_identity_of_somebody_who_is_gone_is_free_again() -> None:
    async def tell(house: House) -> None:
        ann = house.visit(b"ann")
        ann.says(b"work 1")
        await until(lambda: len(house.scheduler.workers) == 1)
        ann.leaves()
        await until(lambda: house.is_gone(house.sessions[0]))
        house.submit(b"cut")
        await until(lambda: house.sessions[0].is_parted)
        again = house.visit(b"ann")
        again.says(b"work 1")
        await again.hears(b"job cut")
        assert len(house.sessions) == 2

    story(tell)


def test_a_session_that_finishes_is_forgotten_after_its_last_words() -> None:
    async def tell(house: House) -> None:
        ann = house.visit(b"ann")
        ann.says(b"bye", b"hello?")
        await ann.hears(b"goodbye")
        await until(lambda: house.sessions[0].is_parted)
        await greet(ann)
        assert len(house.sessions) == 2

    story(tell)


# --- who takes nothing


async def flood_until_parted(house: House, lazy: Guest, busy: Guest) -> int:
    """Ask for a MiB again and again, on behalf of somebody who reads nothing; how many until he is dropped."""
    session = house.sessions[0]
    floods = 0
    while not session.is_parted:
        lazy.says(b"flood 1024")
        floods += 1
        heard = len(session.heard)
        await until(lambda heard=heard: len(session.heard) > heard or session.is_parted)  # type: ignore[misc]
        await greet(busy)
        assert floods < 200, "200 MiB are held for somebody who takes none"
    return floods


def test_a_peer_for_whom_too_much_is_kept_is_dropped_and_nobody_else_notices() -> None:
    async def tell(house: House) -> None:
        lazy = house.visit(b"lazy", rcvhwm=1, rcvbuf=4096)
        bob, eve = house.visit(b"bob"), house.visit(b"eve")
        lazy.says(b"work 1")
        await until(lambda: len(house.scheduler.workers) == 1)
        job = house.submit(b"cut")
        await until(lambda: job.state == LEASED)
        await greet(bob)
        # What ZeroMQ and the system hold for it goes away first.
        assert 8 <= await flood_until_parted(house, lazy, bob) < 60
        assert b"lazy" not in routes(house)
        # It had the job for a while, and who knows what it did with it.
        await until(lambda: job.state == QUEUED)
        assert job.losses == 1
        eve.says(b"work 1")
        await eve.hears(b"job cut")
        assert house.scheduler.queue(QUEUE).leased == 1

    story(tell, ZmqOptions(unsent_bytes_max=8 << 20, close_wait_s=0.0))


def test_a_peer_that_takes_nothing_for_long_is_dropped_however_little_is_kept_for_it() -> None:
    async def tell(house: House) -> None:
        lazy, bob = house.visit(b"lazy", rcvhwm=1, rcvbuf=4096), house.visit(b"bob")
        lazy.says(*[b"flood 1024"] * 40)
        await until(lambda: bool(house.sessions) and len(house.sessions[0].heard) == 40)
        link = house.link(house.sessions[0])
        await until(lambda: bool(link.unsent))
        await greet(bob)
        await until(lambda: house.sessions[0].is_parted)
        await greet(bob)
        assert routes(house) == [b"bob"]

    story(tell, ZmqOptions(stall_s=0.2, close_wait_s=0.0))


def test_a_peer_that_reads_late_has_missed_nothing() -> None:
    count = 3000

    async def tell(house: House) -> None:
        late, bob = house.visit(b"late", rcvhwm=1, rcvbuf=4096), house.visit(b"bob")
        late.says(*(b"%d-" % number + bytes(5000) for number in range(count)))
        await until(lambda: bool(house.sessions) and len(house.sessions[0].heard) == count)
        link = house.link(house.sessions[0])
        assert link.unsent
        await greet(bob)
        await late.hears(*(b"%d-" % number + bytes(5000) for number in range(count)))
        assert (link.unsent, link.unsent_bytes) == ([], 0)

    story(tell)


def test_those_who_take_nothing_keep_nobody_busy() -> None:
    async def tell(house: House) -> None:
        crowd = [house.visit(rcvhwm=1, rcvbuf=4096) for _ in range(50)]
        await greet(*crowd)
        links = list(house.door.links.values())
        for link in links:
            link.write([b"news" * 500] * 2500)
        # Until the system's buffers are full.
        await until(lambda: all(link.side.connection.blocked_s > 0.25 for link in links))
        assert all(link.unsent for link in links)
        before_s = time.process_time()
        await asyncio.sleep(1)
        used_s = time.process_time() - before_s
        # Whoever looks over and over uses all of a core that it can get; on a busy machine that is half of one.
        assert used_s < 0.4, f"{used_s:.2f} s of CPU in a second of waiting"
        assert len(house.door.links) == len(crowd)

    story(tell, ZmqOptions(stall_s=60.0, close_wait_s=0.0))


# --- two of one name


def test_without_takeover_the_first_of_a_name_keeps_it() -> None:
    async def tell(house: House) -> None:
        first = house.visit(b"ann")
        await greet(first)
        second, bob = house.visit(b"ann"), house.visit(b"bob")
        second.says(b"I am ann")
        await greet(bob, first)
        house.link(house.sessions[0]).write([b"for ann"])
        await first.hears(b"for ann")
        assert house.sessions[0].heard == [b"hello", b"hello"]
        assert not second.has_mail()

    story(tell)


def test_with_takeover_the_last_of_a_name_has_it() -> None:
    async def tell(house: House) -> None:
        first = house.visit(b"ann", reconnect_ivl=-1)
        first.says(b"work 1")
        await until(lambda: len(house.scheduler.workers) == 1)
        second = house.visit(b"ann")
        second.says(b"hello")
        await second.hears(b"hello")
        # To the door it is the same peer, at another place.
        assert len(house.sessions) == 1
        house.submit(b"cut")
        await second.hears(b"job cut")
        assert not first.has_mail()

    story(tell, ZmqOptions(takeover=True, close_wait_s=0.0))


def test_with_takeover_a_session_that_has_missed_a_message_ends_and_its_job_is_no_loss() -> None:
    async def tell(house: House) -> None:
        first = house.visit(b"ann", reconnect_ivl=-1)
        first.says(b"work 1")
        await until(lambda: len(house.scheduler.workers) == 1)
        job = house.submit(b"cut")
        await first.hears(b"job cut")
        # As if the job had been written in the moment in which the connection was closing.
        assert job.lease is not None
        house.link(house.sessions[0]).failed_us = job.lease.started_us
        second = house.visit(b"ann")
        second.says(b"work 1")
        await second.hears(b"job cut")
        assert len(house.sessions) == 2
        assert job.losses == 0

    story(tell, ZmqOptions(takeover=True, close_wait_s=0.0))
