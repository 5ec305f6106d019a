"""READY says how good a worker is at its roles, and how long it stays."""

from __future__ import annotations

import pytest

from hiringhall.core.limits import Limits
from hiringhall.core.needs import SKILL_MAX
from hiringhall.core.ratings import Rating, Ratings
from hiringhall.core.reasons import why
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.session import WmpOptions
from stage.hall import SECOND_US
from stage.wmp import Path, WmpHall

ROLE = (b"role", b"f")


def ready(path: Path, *headers: tuple[bytes, bytes]) -> Path:
    return path.says(wire.READY, ROLE, *headers)


def test_the_highest_skill_is_that_of_the_core() -> None:
    assert wire.SKILL_MAX == SKILL_MAX


def test_a_job_of_60_s_is_not_for_a_worker_with_30_s_left(hall: WmpHall) -> None:
    hall.scheduler.needs.need(b"f", 0, 60 * SECOND_US)
    job = hall.client().submits(b"f")
    short = ready(hall.path(), (b"time-left", b"30"))
    short.hears_nothing()
    short.is_denied(b"f")
    short.hears_nothing()
    assert why(hall.scheduler, job) == "it takes 60 s, and none of 1 workers has that much time left"
    long = ready(hall.path(), (b"time-left", b"60.5"))
    long.is_woken(b"f").takes(b"f")
    short.hears_nothing()


def test_time_left_is_counted_from_the_latest_ready(hall: WmpHall) -> None:
    hall.scheduler.needs.need(b"f", 0, 60 * SECOND_US)
    path = ready(hall.path(), (b"time-left", b"90"))
    hall.wait(31 * SECOND_US)
    hall.client().submits(b"f")
    path.hears_nothing()
    ready(path, (b"time-left", b"60")).is_woken(b"f")
    # It is called away before it asks.
    ready(path, (b"time-left", b"10")).hears_nothing()
    path.is_denied(b"f")
    # It says nothing of it any more: it stays.
    ready(path).is_woken(b"f").takes(b"f")


def test_a_skill_is_for_its_role(hall: WmpHall) -> None:
    hall.scheduler.needs.need(b"f", 5, 0)
    hall.scheduler.needs.need(b"g", 5, 0)
    client = hall.client()
    path = hall.path().says(wire.READY, ROLE, (b"role", b"g"), (b"skill", b"4 f"), (b"skill", b"5 g"))
    client.submits(b"f")
    path.hears_nothing()
    client.submits(b"g")
    path.is_woken(b"g")
    no, wake = path.says(wire.GIVE, ROLE).hears()
    assert (no.command, no.first(b"role")) == (wire.NO, b"f")
    assert (wake.command, wake.first(b"role")) == (wire.WAKE, b"g")
    path.takes(b"g")


def test_each_ready_says_all_of_it_anew(hall: WmpHall) -> None:
    hall.scheduler.needs.need(b"f", 5, 0)
    path = ready(hall.path(), (b"skill", b"5 f"))
    ready(path).hears_nothing()
    hall.client().submits(b"f")
    path.hears_nothing()
    ready(path, (b"skill", b"9 f")).is_woken(b"f").takes(b"f")


def test_what_was_said_is_said_again_when_the_path_was_forgotten(hall: WmpHall) -> None:
    hall.scheduler.needs.need(b"f", 5, 60 * SECOND_US)
    path = ready(hall.path(), (b"skill", b"5 f"), (b"time-left", b"500"))
    hall.wait(WmpOptions().expire_us)
    assert path.session.worker is None
    ready(path, (b"skill", b"5 f")).hears_nothing()
    hall.client().submits(b"f")
    path.is_woken(b"f").takes(b"f")


def test_its_own_word_counts_before_what_is_known_by_its_name(hall: WmpHall) -> None:
    hall.scheduler.needs.set_ratings(Ratings([(b"gpu", Rating({b"f": 5}, 0))]))
    path = ready(hall.path(), (b"worker", b"gpu"))
    worker = path.session.worker
    assert worker is not None
    assert worker.skills == {b"f": 5}
    ready(path, (b"worker", b"gpu"), (b"skill", b"3 f"), (b"skill", b"1 h"))
    assert worker.skills == {b"f": 3, b"h": 1}
    ready(path, (b"worker", b"gpu"))
    assert worker.skills == {b"f": 5}
    # A text command's word stays while the worker says what it said.
    hall.scheduler.needs.rate(worker, b"f", 7)
    hall.scheduler.needs.stay(worker, SECOND_US)
    ready(path, (b"worker", b"gpu"))
    assert worker.skills == {b"f": 7}
    assert worker.until_us
    ready(path, (b"worker", b"cpu"))
    assert not worker.skills
    assert worker.until_us == 0


@pytest.mark.parametrize(
    "header",
    [
        (b"skill", b""),
        (b"skill", b"9"),
        (b"skill", b"9 "),
        (b"skill", b"f 9"),
        (b"skill", b"-1 f"),
        (b"skill", b"1000001 f"),
        (b"skill", b"1 " + b"f" * 600),
        (b"time-left", b"soon"),
        (b"time-left", b"-1"),
        (b"time-left", b"1."),
    ],
)
def test_a_skill_or_a_time_that_is_none_makes_no_ready(hall: WmpHall, header: tuple[bytes, bytes]) -> None:
    ready(hall.path(), header).hears_nothing()
    assert hall.context.dropped == 1
    assert not hall.scheduler.workers


def test_skills_are_counted() -> None:
    hall = WmpHall(WmpOptions(roles_max=2), Limits(abilities_max=1))
    ready(hall.path(), *[(b"skill", b"1 r%d" % number) for number in range(3)])
    assert (hall.context.dropped, len(hall.scheduler.workers)) == (1, 0)
    # More than the hall keeps: what it kept counts.
    path = ready(hall.path(), *[(b"skill", b"1 r%d" % number) for number in range(2)])
    assert path.session.worker is not None
    assert path.session.worker.skills == {b"r0": 1}
    assert hall.context.dropped == 2
