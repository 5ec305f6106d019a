"""How many more jobs of a queue those who wait for work could be given: `spare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.waking import RESIDENT_HEARD_US

if TYPE_CHECKING:
    from hall_recorder import Hall


def spare(hall: Hall) -> int:
    return hall.core.spare(b"q")


def test_a_queue_that_nobody_has_named_has_nothing_to_spare(hall: Hall) -> None:
    assert spare(hall) == 0


def test_who_sleeps_is_spare_and_who_works_is_not(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    assert spare(hall) == 0, "nobody has said that he waits"
    bob.sleeps()
    carl.sleeps()
    assert spare(hall) == 2
    hall.submit("a")
    hall.turn()
    carl.hears("woken")
    assert spare(hall) == 1, "one is as good as at work"
    carl.takes("a")
    hall.turn()
    assert spare(hall) == 1


def test_jobs_that_wait_already_come_first(hall: Hall) -> None:
    bob = hall.worker("bob")
    for name in "abc":
        hall.submit(name)
    bob.sleeps()
    assert spare(hall) == 0
    hall.turn()
    bob.hears("woken")
    assert spare(hall) == 0


def test_offered_slots_are_spare(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.offer(bob.me, 3)
    assert spare(hall) == 3
    hall.submit("a")
    hall.turn()
    bob.hears("assigned a")
    assert spare(hall) == 2


def test_another_hall_is_not_counted(hall: Hall) -> None:
    other, bob = hall.worker("other"), hall.worker("bob")
    other.me.passes_on = True
    other.sleeps()
    assert spare(hall) == 0
    bob.sleeps()
    assert spare(hall) == 1
    hall.core.leave(bob)
    hall.turn()
    assert spare(hall) == 0


def test_a_resident_is_spare_while_it_asks_and_holds_nothing(hall: Hall) -> None:
    mill = hall.core.residents.get(b"q", b"mill")
    hall.core.beat(mill)
    assert spare(hall) == 1
    hall.submit("a")
    lease = hall.core.take(mill)
    assert lease is not None
    assert spare(hall) == 0
    hall.core.finish(lease, b"")
    assert spare(hall) == 1
    hall.after(RESIDENT_HEARD_US)
    assert spare(hall) == 0
