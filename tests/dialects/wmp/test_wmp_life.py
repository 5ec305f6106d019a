"""Who is alive: paths that fall silent, jobs nobody speaks of, answers that come by another path."""

from __future__ import annotations

import pytest

from hiringhall.core import ids
from hiringhall.core.states import FAILED, LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.session import WmpContext, WmpOptions
from stage.hall import SECOND_US, START_US
from stage.wmp import SECRET, Path, WmpHall

LEASE_US = 60 * SECOND_US


def working(hall: WmpHall) -> tuple[Path, bytes]:
    """A path with a job of the queue f."""
    path = hall.path().is_ready(b"f").is_woken(b"f")
    return path, path.takes(b"f")


@pytest.mark.parametrize("epoch", [1, 14_551_915, 14_551_916, 1 << 26, ids.EPOCH_MAX])
def test_a_job_of_any_epoch_is_done(epoch: int) -> None:
    """From 14,551,916 on a job's number has 19 digits. A hall in memory begins anywhere."""
    hall = WmpHall(epoch=epoch)
    client = hall.client()
    client.submits(b"f", b"x")
    path, name = working(hall)
    path.shows(name).hears_nothing()
    path.reports(name, payload=b"done")
    assert client.hears() == [("done 0", b"done")]
    assert hall.stale == 0


def test_a_silent_path_is_forgotten(hall: WmpHall) -> None:
    path = hall.path().is_ready(b"f")
    assert len(hall.scheduler.workers) == 1
    hall.wait(LEASE_US)
    assert path.session.idle
    hall.client().submits(b"f")
    path.hears_nothing()
    path.is_ready(b"f").is_woken(b"f")


def test_a_ready_now_and_then_keeps_it_remembered(hall: WmpHall) -> None:
    path = hall.path().is_ready(b"f")
    for _ in range(10):
        path.is_ready(b"f").hears_nothing()
        hall.wait(LEASE_US - 1)
    hall.client().submits(b"f")
    path.is_woken(b"f")


def test_a_worker_that_is_never_heard_again_loses_its_job(hall: WmpHall) -> None:
    client = hall.client()
    job = client.submits(b"f", b"x")
    path, name = working(hall)
    hall.wait(LEASE_US - 1)
    assert job.state == LEASED
    hall.wait(1)
    assert (job.state, job.losses) == (QUEUED, 1)
    assert path.hears_one(wire.CANCEL).first(b"job") == name
    assert path.session.idle
    other, _ = working(hall)
    assert client.hears() == []
    path.reports(name, payload=b"late")
    assert (job.state, hall.stale) == (LEASED, 1)
    other.hears_nothing()


def test_a_long_job_that_is_spoken_of_is_never_run_twice(hall: WmpHall) -> None:
    client = hall.client()
    job = client.submits(b"f")
    path, name = working(hall)
    for _ in range(50):
        hall.wait(LEASE_US - 1)
        path.shows(name).hears_nothing()
    path.reports(name, payload=b"at last")
    assert client.hears() == [("done 0", b"at last")]
    assert job.attempts == 1


def test_a_worker_that_lives_and_never_speaks_of_its_job_loses_it(hall: WmpHall) -> None:
    """TAKE was lost on the way, or DONE was: its other signs of life do not keep the job."""
    client = hall.client()
    job = client.submits(b"f")
    spoken = client.submits(b"f")
    path, name = working(hall)
    path.is_ready(b"f").is_woken(b"f")
    other = path.takes(b"f")
    for _ in range(6):
        hall.wait(LEASE_US // 6)
        path.is_ready(b"g").shows(other)
    assert path.hears_one(wire.CANCEL).first(b"job") == name
    assert (job.state, job.losses) == (QUEUED, 1)
    assert (spoken.state, spoken.attempts) == (LEASED, 1)


def test_a_job_that_costs_its_workers_has_failed_in_the_end(hall: WmpHall) -> None:
    client = hall.client()
    job = client.submits(b"f", terms=Terms(losses_max=3))
    for _ in range(3):
        working(hall)
        hall.wait(LEASE_US)
    assert client.hears() == [("failed 125", b"its workers were lost 3 times")]
    assert job.state == FAILED


@pytest.mark.parametrize(
    ("door_us", "job_us", "header"),
    [
        (60_000_000, 0, b"60"),
        (60_000_000, 10_000_000, b"10"),
        (60_000_000, 90_000_000, b"60"),
        (1_500_000, 0, b"1.5"),
        (1, 0, b"0.000001"),
    ],
)
def test_take_says_how_often_to_show_life(door_us: int, job_us: int, header: bytes) -> None:
    hall = WmpHall(WmpOptions(lease_us=door_us))
    job = hall.client().submits(b"f", terms=Terms(lease_us=job_us))
    path = hall.path().is_ready(b"f").is_woken(b"f")
    take = path.says(wire.GIVE, (b"role", b"f")).hears_one(wire.TAKE)
    assert take.first(b"lease") == header
    hall.wait(wire.parse_seconds(header))
    assert job.state == QUEUED


def test_a_short_lease_and_a_long_memory() -> None:
    hall = WmpHall(WmpOptions(lease_us=SECOND_US, expire_us=100 * SECOND_US))
    job = hall.client().submits(b"f")
    path, _ = working(hall)
    path.is_ready(b"f")
    hall.wait(SECOND_US)
    assert job.state == QUEUED
    assert [message.command for message in path.hears()] == [wire.CANCEL, wire.WAKE]


def test_a_long_lease_and_a_short_memory() -> None:
    """A worker that knows no STATUS, at a door that gives it an hour."""
    hall = WmpHall(WmpOptions(lease_us=3600 * SECOND_US, expire_us=SECOND_US))
    client = hall.client()
    client.submits(b"f")
    path, name = working(hall)
    hall.wait(3599 * SECOND_US)
    path.reports(name, payload=b"done")
    assert client.hears() == [("done 0", b"done")]


def test_an_answer_by_another_path(hall: WmpHall) -> None:
    """A device was started again, or a manager in the middle passed the job on: the job's name is the proof."""
    client = hall.client()
    job = client.submits(b"f")
    old, name = working(hall)
    new = hall.path()
    for _ in range(5):
        hall.wait(LEASE_US - 1)
        new.shows(name, (b"progress", b"1/2")).hears_nothing()
    assert job.attempts == 1
    new.reports(name, payload=b"done")
    assert client.hears() == [("progress", b"1/2")] * 5 + [("done 0", b"done")]
    old.hears_nothing()
    assert hall.stale == 0


def test_a_job_is_called_off_where_it_was_last_spoken_of(hall: WmpHall) -> None:
    job = hall.client().submits(b"f")
    old, name = working(hall)
    new = hall.path().shows(name)
    hall.scheduler.cancel(job)
    assert new.hears_one(wire.CANCEL).first(b"job") == name
    old.hears_nothing()


def test_a_path_that_is_cut_keeps_its_job_for_a_while(hall: WmpHall) -> None:
    job = hall.client().submits(b"f")
    path, name = working(hall)
    hall.wait(SECOND_US)
    path.is_ready(b"f")
    hall.client().submits(b"f")
    path.is_woken(b"f").leaves()
    assert (job.state, job.losses) == (LEASED, 0)
    hall.path().shows(name).hears_nothing()
    hall.wait(LEASE_US)
    assert (job.state, job.losses) == (QUEUED, 1)


def cut_off(hall: WmpHall, path: Path, delivered: int) -> None:
    """The connection is lost after so many messages."""
    hall.begin()
    path.session.delivered = delivered
    path.session.undelivered()
    hall.end()
    path.leaves()


def test_a_job_that_could_not_be_sent_is_next_again_without_blame(hall: WmpHall) -> None:
    client = hall.client()
    job, later = client.submits(b"f", b"1"), client.submits(b"f", b"2")
    path, _ = working(hall)
    path.is_ready(b"f").is_woken(b"f")
    path.takes(b"f")
    cut_off(hall, path, delivered=1)  # a WAKE; not TAKE, WAKE, TAKE
    assert [(each.state, each.losses) for each in (job, later)] == [(QUEUED, 0)] * 2
    assert hall.path().is_ready(b"f").is_woken(b"f").says(wire.GIVE).hears_one(wire.TAKE).payload == b"1"


def test_what_was_said_before_was_sent(hall: WmpHall) -> None:
    client = hall.client()
    earlier = client.submits(b"f")
    path, _ = working(hall)
    hall.wait(1)
    later = client.submits(b"f")
    path.is_ready(b"f").is_woken(b"f").takes(b"f")
    cut_off(hall, path, delivered=3)
    assert (earlier.state, later.state) == (LEASED, QUEUED)


def test_a_worker_whose_connection_is_lost_keeps_what_it_was_sent(hall: WmpHall) -> None:
    job = hall.client().submits(b"f")
    path, name = working(hall)
    cut_off(hall, path, delivered=2)
    assert job.state == LEASED
    hall.path().reports(name, payload=b"done elsewhere")
    assert job.result == b"done elsewhere"


def test_a_path_that_was_only_forgotten_was_told_everything(hall: WmpHall) -> None:
    hall = WmpHall(WmpOptions(expire_us=SECOND_US))
    job = hall.client().submits(b"f")
    path, _ = working(hall)
    hall.wait(SECOND_US)
    assert path.session.idle
    path.leaves()
    assert job.state == LEASED


def test_a_job_that_was_spoken_of_did_arrive(hall: WmpHall) -> None:
    job = hall.client().submits(b"f")
    path, name = working(hall)
    hall.wait(1)
    path.shows(name).leaves()
    assert job.state == LEASED


def test_the_answer_of_an_earlier_attempt_is_told_apart(hall: WmpHall) -> None:
    client = hall.client()
    job = client.submits(b"f")
    path, first = working(hall)
    path.reports(first, (b"status", b"declined")).is_ready(b"f")
    hall.wait(hall.context.options.decline_us)
    second = path.is_woken(b"f").takes(b"f")
    assert second != first
    path.reports(first, payload=b"late")
    assert (job.state, hall.stale) == (LEASED, 1)
    path.reports(second, payload=b"right").reports(second, payload=b"twice")
    assert client.hears() == [("done 0", b"right")]
    assert hall.stale == 2


def test_who_works_for_nothing_is_told_to_stop(hall: WmpHall) -> None:
    """As after a restart of the hall, when nobody knows the job under that name any more."""
    path = hall.path().shows(b"68719476737-5-17")
    assert path.hears_one(wire.CANCEL).first(b"job") == b"68719476737-5-17"
    assert path.session.idle
    assert (hall.stale, hall.context.dropped) == (1, 0)


@pytest.mark.parametrize(
    "name", [b"x", b"-", b"9" * 99 + b"-1-1", b"68719476737", b"68719476737-1-1", b"\xff\0"]
)
def test_reports_on_jobs_that_never_were(hall: WmpHall, name: bytes) -> None:
    job = hall.client().submits(b"f")
    path, _ = working(hall)
    path.reports(name, payload=b"forged").hears_nothing()
    assert (job.state, hall.stale) == (LEASED, 1)


def test_who_was_not_given_a_job_cannot_guess_its_name(hall: WmpHall) -> None:
    """Not from the job's number, the number of the attempt and the time, and not from another job's name."""
    client = hall.client()
    mine, job = client.submits(b"f"), client.submits(b"f")
    path, known = working(hall)
    working(hall)
    guesses = [b"%d-%d-%d" % (job.id, attempt, START_US) for attempt in range(5)]
    guesses += [known.replace(b"%d" % mine.id, b"%d" % job.id), b"%d-" % job.id, b"%d-%s" % (job.id, b"0" * 32)]
    for guess in guesses:
        path.reports(guess, payload=b"forged").hears_nothing()
    assert (job.state, hall.stale) == (LEASED, len(guesses))


def test_a_hall_with_another_secret_has_other_names() -> None:
    names = []
    for secret in (b"s" * 32, b"t" * 32):
        hall = WmpHall()
        hall.client().submits(b"f")
        path = hall.path(context=WmpContext(hall.scheduler, WmpOptions(), secret)).is_ready(b"f").is_woken(b"f")
        names.append(path.takes(b"f"))
    one, other = (name.partition(b"-") for name in names)
    assert one[0] == other[0]
    assert one[2] != other[2]
    assert len(one[2]) == len(other[2]) == 32


@pytest.mark.parametrize("secret", [b"", b"s" * 31, b"s" * 33])
def test_a_door_without_a_secret_does_not_open(hall: WmpHall, secret: bytes) -> None:
    with pytest.raises(ValueError, match="secret"):
        WmpContext(hall.scheduler, WmpOptions(), secret)


def test_a_job_of_another_door_is_not_ours_to_end(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    _, name = working(hall)
    stranger = hall.path(context=WmpContext(hall.scheduler, WmpOptions(), SECRET))
    stranger.reports(name)
    assert hall.stale == 1


def test_ten_thousand_paths_nobody_knows_are_forgotten_in_time(hall: WmpHall) -> None:
    paths = [hall.path() for _ in range(10_000)]
    for path in paths:
        path.is_ready(b"f", b"g")
    assert len(hall.scheduler.workers) == 10_000
    hall.wait(LEASE_US)
    assert len(hall.scheduler.workers) == 0
    assert all(path.session.idle for path in paths)
    job = hall.client().submits(b"f")
    working(hall)
    assert job.state == LEASED
