"""Workers that decline what they are given: others have it at once, and they are asked less and less often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.states import LEASED, QUEUED
from hiringhall.dialects.wmp.session import WmpOptions
from stage.hall import SECOND_US, START_US

if TYPE_CHECKING:
    from stage.wmp import Path, WmpHall

PAUSE_US = WmpOptions().decline_us
PAUSE_MAX_US = WmpOptions().decline_max_us
DECLINED = (b"status", b"declined")


def declining(hall: WmpHall) -> tuple[Path, bytes]:
    """A path with a job of the queue f that it will not do."""
    path = hall.path().is_ready(b"f").is_woken(b"f")
    return path, path.takes(b"f")


def test_a_worker_that_declines_for_ever_is_asked_ever_more_rarely(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    path, name = declining(hall)
    declines = 0
    while hall.scheduler.now_us < START_US + 2 * SECOND_US and declines < 1000:
        path.reports(name, DECLINED).is_ready(b"f")
        declines += 1
        while not path.hears():
            hall.wait(1_000)
        name = path.takes(b"f")
    assert declines == 8


def test_another_has_the_declined_job_at_once(hall: WmpHall) -> None:
    job = hall.client().submits(b"f")
    path, name = declining(hall)
    other = hall.path().is_ready(b"f")
    path.is_ready(b"f").reports(name, DECLINED).hears_nothing()
    other.is_woken(b"f").takes(b"f")
    assert job.state == LEASED


def test_a_give_during_the_rest_is_answered_with_no(hall: WmpHall) -> None:
    job = hall.client().submits(b"f")
    path, name = declining(hall)
    path.is_ready(b"f").reports(name, DECLINED)
    path.is_denied(b"f")
    assert job.state == QUEUED


def test_the_rest_ends_without_another_ready(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    path, name = declining(hall)
    path.is_ready(b"f").reports(name, DECLINED).hears_nothing()
    hall.wait(PAUSE_US - 1)
    path.hears_nothing()
    hall.wait(1)
    path.is_woken(b"f").takes(b"f")


def test_it_rests_from_the_role_it_declined_and_from_no_other(hall: WmpHall) -> None:
    client = hall.client()
    client.submits(b"f")
    path, name = declining(hall)
    path.is_ready(b"f", b"g").reports(name, DECLINED).hears_nothing()
    client.submits(b"g")
    path.is_woken(b"g").takes(b"g")


def test_who_has_done_a_job_starts_with_a_short_rest_again(hall: WmpHall) -> None:
    client = hall.client()
    client.submits(b"f")
    path, name = declining(hall)
    for declines in range(5):
        path.is_ready(b"f").reports(name, DECLINED).hears_nothing()
        hall.wait(PAUSE_US << declines)
        name = path.is_woken(b"f").takes(b"f")
    path.reports(name, payload=b"done")
    client.submits(b"f")
    name = path.is_ready(b"f").is_woken(b"f").takes(b"f")
    path.is_ready(b"f").reports(name, DECLINED).hears_nothing()
    hall.wait(PAUSE_US)
    path.is_woken(b"f")


def test_no_rest_is_longer_than_the_longest(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    path, name = declining(hall)
    for _ in range(100):
        path.is_ready(b"f").reports(name, DECLINED)
        hall.wait(PAUSE_MAX_US)
        name = path.is_woken(b"f").takes(b"f")


def test_a_worker_that_gives_back_all_it_has_at_once_rests_but_once(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    names = []
    for _ in range(100):
        client.submits(b"f")
        names.append(path.is_ready(b"f").is_woken(b"f").takes(b"f"))
    path.is_ready(b"f")
    for name in names:
        path.reports(name, DECLINED)
    path.hears_nothing()
    hall.wait(PAUSE_US)
    path.is_woken(b"f")


def test_a_role_that_is_no_longer_named_does_not_come_back_after_the_rest(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    path, name = declining(hall)
    path.is_ready(b"f").reports(name, DECLINED).is_ready(b"g")
    hall.wait(PAUSE_US)
    path.hears_nothing()
    path.is_denied(b"f")


def test_a_role_named_again_and_dropped_again_during_the_rest_does_not_come_back(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    path, name = declining(hall)
    path.is_ready(b"f").reports(name, DECLINED)
    path.is_ready(b"g").is_ready(b"f").is_ready(b"g")
    hall.wait(PAUSE_US)
    path.hears_nothing()
    path.is_denied(b"f")


def test_a_path_that_is_forgotten_during_its_rest_leaves_nothing_behind(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    path, name = declining(hall)
    path.is_ready(b"f").reports(name, DECLINED)
    path.leaves()
    hall.wait(PAUSE_US)
    assert not hall.scheduler.workers
    hall.path(path.session.caller).is_ready(b"f").is_woken(b"f")
