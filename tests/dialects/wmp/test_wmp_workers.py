"""Who comes in to work: ready, woken, given a job or none, done."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE, FAILED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.context import PASSED_MANAGERS
from stage.hall import SECOND_US, START_US
from stage.wmp import SECRET, WmpHall


def test_a_job_from_ready_to_done(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    path.is_ready(b"resize").hears_nothing()
    job = client.submits(b"resize", b"pixels", b"image-7")
    path.is_woken(b"resize")
    take = path.says(wire.GIVE, (b"role", b"resize")).hears_one(wire.TAKE)
    assert take.payload == b"pixels"
    digest = blake2b(b"%d-1-%d" % (job.id, START_US), digest_size=16, key=SECRET).hexdigest()
    assert take.headers == [
        (b"manager", b"hall"),
        (b"job", b"%d-%s" % (job.id, digest.encode())),
        (b"role", b"resize"),
        (b"key", b"image-7"),
        (b"lease", b"60"),
    ]
    path.reports(take.first(b"job"), payload=b"fewer pixels").hears_nothing()
    assert client.hears() == [("done 0", b"fewer pixels")]
    assert job.state == DONE
    assert hall.context.dropped == hall.stale == 0
    assert list(hall.scheduler.workers) == [path.session.worker]


def test_a_worker_who_is_ready_beside_work_is_woken_at_once(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    hall.path().is_ready(b"f").is_woken(b"f")


@pytest.mark.parametrize("key", [b"", b"two\nlines", b"k" * 2000])
def test_a_key_that_is_none_or_cannot_be_written_is_left_out(key: bytes) -> None:
    hall = WmpHall(limits=Limits(key_bytes_max=4000))
    hall.client().submits(b"f", b"", key)
    path = hall.path().is_ready(b"f").is_woken(b"f")
    assert b"key" not in dict(path.says(wire.GIVE, (b"role", b"f")).hears_one(wire.TAKE).headers)


def test_a_ready_that_is_repeated_counts_once(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    for _ in range(5):
        path.is_ready(b"f")
    for _ in range(3):
        client.submits(b"f")
    path.is_woken(b"f")
    for _ in range(5):
        path.is_ready(b"f").hears_nothing()
    path.takes(b"f")
    path.hears_nothing()


def test_several_jobs_at_once_each_for_a_ready_of_its_own(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    for number in range(3):
        client.submits(b"f", b"%d" % number)
    jobs = []
    for _ in range(3):
        path.is_ready(b"f").is_woken(b"f")
        jobs.append(path.takes(b"f"))
    path.is_ready(b"f").hears_nothing()
    for job in reversed(jobs):
        path.reports(job, payload=job)
    assert client.hears() == [("done 0", job) for job in reversed(jobs)]


def test_no_more_are_woken_than_there_are_jobs(hall: WmpHall) -> None:
    client = hall.client()
    paths = [hall.path().is_ready(b"f") for _ in range(20)]
    others = [hall.path().is_ready(b"g") for _ in range(20)]
    for _ in range(3):
        client.submits(b"f")
    assert sum(len(path.hears()) for path in paths) == 3
    assert sum(len(path.hears()) for path in others) == 0
    assert sum(len(path.hears()) for path in paths) == 0


def test_who_comes_too_late_hears_no_and_is_woken_again(hall: WmpHall) -> None:
    client, slow, quick = hall.client(), hall.path(), hall.path()
    slow.is_ready(b"f")
    client.submits(b"f")
    slow.is_woken(b"f")
    quick.is_ready(b"f").takes(b"f")
    slow.is_denied(b"f")
    slow.hears_nothing()
    client.submits(b"f")
    slow.is_woken(b"f").takes(b"f")


def test_after_no_there_may_be_work_of_another_role(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    job = client.submits(b"f")
    path.is_ready(b"f", b"g").is_woken(b"f")
    client.submits(b"g")
    hall.scheduler.cancel(job)
    path.says(wire.GIVE, (b"role", b"f"))
    assert [(message.command, message.first(b"role")) for message in path.hears()] == [
        (wire.NO, b"f"),
        (wire.WAKE, b"g"),
    ]


def test_give_without_a_role_takes_what_goes_first(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    client.submits(b"g", b"first")
    client.submits(b"f", b"second")
    path.is_ready(b"f", b"g").hears()
    take = path.says(wire.GIVE).hears_one(wire.TAKE)
    assert (take.first(b"role"), take.payload) == (b"g", b"first")
    assert path.is_ready(b"f", b"g").is_woken(b"f").says(wire.GIVE).hears_one(wire.TAKE).payload == b"second"
    assert path.says(wire.GIVE).hears_one(wire.NO).every(b"role") == []


def test_give_takes_only_the_role_it_names(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    client.submits(b"f")
    client.submits(b"g")
    path.is_ready(b"f", b"g").hears()
    assert path.says(wire.GIVE, (b"role", b"g")).hears_one(wire.TAKE).first(b"role") == b"g"


@pytest.mark.parametrize("role", [b"f", b"g", b"never heard of"])
def test_give_by_a_path_that_was_never_ready(hall: WmpHall, role: bytes) -> None:
    hall.client().submits(b"f")
    path = hall.path()
    path.is_denied(role)
    assert path.session.idle
    assert hall.context.dropped == 0


def test_give_of_a_role_that_ready_did_not_name(hall: WmpHall) -> None:
    hall.client().submits(b"g")
    path = hall.path().is_ready(b"f")
    path.is_denied(b"g")


def test_roles_are_those_of_the_latest_ready(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    path.is_ready(b"f", b"g").is_ready(b"g", b"h", b"g")
    client.submits(b"f")
    path.hears_nothing()
    client.submits(b"h")
    path.is_woken(b"h").takes(b"h")
    path.is_denied(b"f")


def test_a_wake_that_is_not_answered_is_passed_on(hall: WmpHall) -> None:
    client, awake, away = hall.client(), hall.path(), hall.path()
    awake.is_ready(b"f")
    away.is_ready(b"f")
    client.submits(b"f")
    away.is_woken(b"f")
    awake.hears_nothing()
    hall.wait(SECOND_US)
    awake.is_woken(b"f").takes(b"f")
    # Its READY is forgotten, and the next one counts again.
    client.submits(b"f")
    away.hears_nothing()
    away.is_ready(b"f").is_woken(b"f")


def test_a_give_that_comes_after_the_wake_was_passed_on_is_served_all_the_same(hall: WmpHall) -> None:
    hall.client().submits(b"f")
    path = hall.path().is_ready(b"f").is_woken(b"f")
    hall.wait(SECOND_US)
    path.takes(b"f")


def test_a_declined_job_goes_to_another_without_blame(hall: WmpHall) -> None:
    client, first, second = hall.client(), hall.path(), hall.path()
    job = client.submits(b"f", b"x")
    name = first.is_ready(b"f").is_woken(b"f").takes(b"f")
    second.is_ready(b"f").hears_nothing()
    first.reports(name, (b"status", b"declined")).hears_nothing()
    again = second.is_woken(b"f").takes(b"f")
    assert again != name
    assert (job.losses, job.failures) == (0, 0)
    second.reports(again, payload=b"y")
    assert client.hears() == [("done 0", b"y")]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([(b"status", b"failed")], 1),
        ([(b"status", b"failed"), (b"code", b"3")], 3),
        ([(b"status", b"failed"), (b"code", b"255")], 255),
        ([(b"status", b"ok"), (b"code", b"3")], 0),
        ([(b"status", b"")], 0),
        ([(b"x-unknown", b"anything")], 0),
    ],
)
def test_how_a_job_ends(hall: WmpHall, headers: list[tuple[bytes, bytes]], code: int) -> None:
    client, path = hall.client(), hall.path()
    client.submits(b"f")
    name = path.is_ready(b"f").is_woken(b"f").takes(b"f")
    path.reports(name, *headers, payload=b"what there is to say")
    assert client.hears() == [(f"{'failed' if code else 'done'} {code}", b"what there is to say")]


def test_a_failed_job_follows_its_own_policy(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    job = client.submits(b"f", terms=Terms(failures_max=1, backoff_us=SECOND_US))
    path.reports(path.is_ready(b"f").is_woken(b"f").takes(b"f"), (b"status", b"failed"))
    assert client.hears() == []
    path.is_ready(b"f").hears_nothing()
    hall.wait(SECOND_US)
    path.reports(path.is_woken(b"f").takes(b"f"), (b"status", b"failed"), payload=b"again")
    assert client.hears() == [("failed 1", b"again")]
    assert job.state == FAILED


def test_status_reaches_the_watcher(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    client.submits(b"f")
    name = path.is_ready(b"f").is_woken(b"f").takes(b"f")
    path.shows(name).shows(name, (b"progress", b"3/8")).shows(name, payload=b"half")
    path.shows(name, (b"progress", b"8/8"), payload=b"all").hears_nothing()
    assert client.hears() == [("progress", b"3/8"), ("chunk", b"half"), ("progress", b"8/8"), ("chunk", b"all")]


def test_a_cancelled_job_is_called_off(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    job = client.submits(b"f")
    name = path.is_ready(b"f").is_woken(b"f").takes(b"f")
    hall.scheduler.cancel(job, b"not wanted")
    assert path.hears_one(wire.CANCEL).first(b"job") == name
    assert client.hears() == [("cancelled 130", b"not wanted")]
    path.reports(name, payload=b"too late").hears_nothing()
    assert hall.stale == 1


def test_a_job_that_runs_too_long_is_called_off(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    client.submits(b"f", terms=Terms(run_us=5 * SECOND_US))
    name = path.is_ready(b"f").is_woken(b"f").takes(b"f")
    hall.wait(5 * SECOND_US)
    assert path.hears_one(wire.CANCEL).first(b"job") == name
    assert client.hears() == [("failed 124", b"it exceeded its run limit")]


def test_a_worker_has_a_name_for_people(hall: WmpHall) -> None:
    job = hall.client().submits(b"f")
    path = hall.path().says(wire.READY, (b"role", b"f"), (b"worker", b"blade-7"), (b"slots", b"4"))
    path.is_woken(b"f").takes(b"f")
    assert job.worker_name == b"blade-7"


def test_a_job_in_hand_does_not_count_as_a_worker(hall: WmpHall) -> None:
    client, path = hall.client(), hall.path()
    client.submits(b"f")
    client.submits(b"f")
    path.is_ready(b"f").is_woken(b"f").takes(b"f")
    assert hall.scheduler.queue(b"f").counts() == (2, 1, 1)


def test_while_the_hall_closes_nobody_is_given_anything(hall: WmpHall) -> None:
    job = hall.client().submits(b"f")
    path = hall.path().is_ready(b"f").is_woken(b"f")
    hall.scheduler.close()
    path.is_denied(b"f")
    assert job.state == QUEUED
    assert list(hall.scheduler.workers) == [path.session.worker]


def test_a_hall_that_works_here_is_known_by_its_ready(hall: WmpHall) -> None:
    path = hall.path().is_ready(b"f")
    assert hall.scheduler.spare(b"f") == 1
    path.says(wire.READY, (b"role", b"f"), (b"via", b"south"))
    assert hall.scheduler.spare(b"f") == 0
    path.is_ready(b"f")
    assert hall.scheduler.spare(b"f") == 1


def test_the_way_of_another_managers_job_goes_with_it(hall: WmpHall) -> None:
    spec = JobSpec(b"f", b"", terms=Terms(detached=True), extras={PASSED_MANAGERS: b"east\nwest"})
    hall.scheduler.submit(spec, None)
    path = hall.path().is_ready(b"f").is_woken(b"f")
    assert path.says(wire.GIVE, (b"role", b"f")).hears_one(wire.TAKE).every(b"via") == [b"east", b"west"]
