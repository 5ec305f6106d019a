"""The dwork door and locations that fall silent: what they hold is ready again, if the door has a lease."""

from __future__ import annotations

import pytest

from hiringhall.core.limits import SECOND_US
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions
from stage.dwork import DETACHED, EXIT, NOT_FOUND, OK, DworkGuest, DworkHall, hall_with_a_held_task, task
from stage.dwork_said import Said, SaidTask


def silent_hall(losses_max: int = 3) -> tuple[DworkHall, DworkGuest]:
    hall = DworkHall(DworkOptions(lease_us=10 * SECOND_US, losses_max=losses_max))
    guest = hall.guest()
    guest.creates(b"a", b"b")
    assert guest.steals(b"w", 2) == [b"a", b"b"]
    return hall, guest


def test_a_silent_locations_tasks_are_ready_again() -> None:
    hall, guest = silent_hall()
    hall.wait(9 * SECOND_US)
    assert guest.asks(Said(wire.STEAL, location=b"v")) == NOT_FOUND
    hall.wait(2 * SECOND_US)
    assert guest.completes(b"w", b"a").type == wire.NOT_FOUND
    assert sorted(guest.steals(b"v", 9)) == [b"a", b"b"]


@pytest.mark.parametrize(
    "sign",
    [
        Said(wire.STEAL, location=b"w"),
        Said(wire.COMPLETE, (SaidTask(b"nobody", b""),), location=b"w"),
        Said(wire.TRANSFER, (SaidTask(b"nobody", b""),), location=b"w"),
    ],
)
def test_whatever_a_location_says_is_a_sign_of_life(sign: Said) -> None:
    hall, guest = silent_hall()
    for _ in range(4):
        hall.wait(6 * SECOND_US)
        assert guest.asks(sign).type == wire.NOT_FOUND
    assert guest.completes(b"w", b"a", b"b") == OK


def test_a_task_that_costs_too_many_locations_has_failed() -> None:
    hall, guest = silent_hall(losses_max=2)
    guest.creates(task(b"next", b"a"))
    hall.wait(11 * SECOND_US)
    guest.steals(b"w", 2)
    hall.wait(11 * SECOND_US)
    assert not hall.scheduler.jobs, "failed, and the one that waits for it with it"
    assert guest.asks(Said(wire.STEAL, location=b"w")) == EXIT


def test_silence_means_nothing_without_a_lease() -> None:
    hall = hall_with_a_held_task()
    hall.wait(1_000_000 * SECOND_US)
    assert hall.guest().completes(b"bench-1", b"held") == OK


def test_a_job_of_another_door_is_ready_again_when_its_location_is_silent() -> None:
    hall = DworkHall(DworkOptions(lease_us=10 * SECOND_US))
    guest = hall.guest()
    hall.submit_elsewhere(b"oak", b"cut", DETACHED)
    assert guest.steals(b"w") == [b"cut"]
    for _ in range(4):
        hall.wait(6 * SECOND_US)
        assert guest.asks(Said(wire.STEAL, location=b"w")) == NOT_FOUND
    hall.wait(9 * SECOND_US)
    assert guest.asks(Said(wire.STEAL, location=b"v")) == NOT_FOUND
    hall.wait(2 * SECOND_US)
    assert guest.completes(b"w", b"cut").type == wire.NOT_FOUND
    assert guest.steals(b"v") == [b"cut"]
    assert hall.get_task(b"cut").losses == 1


def test_a_job_of_another_door_keeps_the_lease_that_it_came_with() -> None:
    hall = DworkHall(DworkOptions(lease_us=10 * SECOND_US))
    guest = hall.guest()
    hall.submit_elsewhere(b"oak", b"cut", Terms(detached=True, lease_us=30 * SECOND_US))
    assert guest.steals(b"w") == [b"cut"]
    hall.wait(29 * SECOND_US)
    assert guest.asks(Said(wire.STEAL, location=b"v")) == NOT_FOUND
    hall.wait(2 * SECOND_US)
    assert guest.steals(b"v") == [b"cut"]
