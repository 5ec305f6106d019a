"""Debounce and throttle by key: the latest submit wins, or the first."""

from __future__ import annotations

import pytest
from hall_recorder import BACKGROUND, FOREGROUND, SECOND_US, START_US, Disk, Hall, refused

from hiringhall.core.errors import WRONG_STATE, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.reasons import why
from hiringhall.core.rules.debouncing import content_of
from hiringhall.core.rules.queue_rules import LIMIT_KEY, QueueRules
from hiringhall.core.rules.spacing import Spacing
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.states import DELAYED, DONE, LEASED, QUEUED
from hiringhall.core.terms import HIGH, Terms

QUIET = Spacing(debounce_us=SECOND_US)
FIRST = Spacing(throttle_us=SECOND_US)
URGENT = Terms(durable=True, detached=True, priority=HIGH)


def reborn_of(disk: Disk, now_us: int) -> Hall:
    """The hall was killed, and another is opened."""
    hall = Hall()
    hall.core = Scheduler(Limits(), 1, now_us)
    hall.core.restore(disk.load())
    hall.turn()
    return hall


def test_a_debounced_job_starts_after_quiet_with_the_latest_payload_and_terms(hall: Hall) -> None:
    bob, ann, eve = hall.worker("bob"), hall.person("ann"), hall.person("eve")
    job = hall.submit("one", by=ann, key="k", spacing=QUIET)
    hall.after(SECOND_US - 1)
    assert hall.submit("two", by=eve, key="k", terms=URGENT, spacing=QUIET) is job
    assert (job.payload, job.terms.priority, job.state) == (b"two", HIGH, DELAYED)
    assert why(hall.core, job).startswith("it is debounced and waits for 1 s without another submit")
    hall.after(SECOND_US - 1)
    bob.takes_nothing()
    hall.after(1)
    hall.core.finish(bob.takes("two"), b"")
    hall.turn()
    ann.hears("done two")
    eve.hears("done two")
    assert hall.core.counters.submitted == 1


def test_a_debounced_job_that_no_worker_took_yet_is_replaced_and_waits_again(hall: Hall) -> None:
    job = hall.submit("one", key="k", spacing=QUIET)
    other = hall.submit("other")
    hall.after(SECOND_US)
    assert job.state == QUEUED
    hall.submit("two", key="k", terms=URGENT, spacing=QUIET)
    hall.turn()
    assert (job.state, job.queue.ready) == (DELAYED, 1)
    hall.after(SECOND_US)
    bob = hall.worker("bob")
    bob.takes("two")
    bob.takes("other")
    assert other.state == LEASED


def test_the_longest_wait_of_a_debounced_job_is_bounded(hall: Hall) -> None:
    spacing = Spacing(debounce_us=SECOND_US, debounce_max_us=2 * SECOND_US)
    job = hall.submit("0", key="k", spacing=spacing)
    for number in range(1, 4):
        hall.after(SECOND_US * 6 // 10)
        assert hall.submit(str(number), key="k", spacing=spacing) is job
    assert job.due_us == START_US + 2 * SECOND_US
    hall.after(SECOND_US * 2 // 10)
    assert job.state == QUEUED
    hall.submit("last", key="k", spacing=spacing)
    hall.turn()
    assert job.state == QUEUED
    hall.worker("bob").takes("last")


@pytest.mark.parametrize("rules", [QueueRules(running_max=1, fair=True), QueueRules(key_running_max=1)])
def test_a_debounced_job_that_has_waited_long_enough_keeps_its_place_in_a_limited_queue(
    hall: Hall, rules: QueueRules
) -> None:
    hall.core.ruled_queues.rule(b"q", rules)
    spacing = Spacing(debounce_us=SECOND_US, debounce_max_us=2 * SECOND_US)
    extras = {LIMIT_KEY: b"k"}
    ann = hall.worker("ann")
    hall.submit("runs", extras=extras)
    runs = ann.takes("runs")
    job = hall.submit("old", key="x", extras=extras, spacing=spacing)
    hall.after(3 * SECOND_US)
    hall.submit("later", extras=extras)
    other = Terms(detached=True, expire_us=10 * SECOND_US)
    assert hall.submit("new", key="x", terms=other, extras=extras, spacing=spacing) is job
    assert (job.state, job.payload, job.due_us) == (QUEUED, b"new", job.queued_us + 10 * SECOND_US)
    hall.core.finish(runs, b"")
    hall.turn()
    ann.takes("new")


def test_what_is_submitted_after_a_debounced_job_has_started_is_another_job(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = hall.submit("one", key="k", terms=BACKGROUND, spacing=QUIET)
    hall.after(SECOND_US)
    lease = bob.takes("one")
    second = hall.submit("two", key="k", terms=BACKGROUND, spacing=QUIET)
    hall.turn()
    assert second is not first
    hall.core.release(lease)
    hall.turn()
    third = hall.submit("three", key="k", terms=BACKGROUND, spacing=QUIET)
    assert (third, first.payload, second.payload) == (second, b"one", b"three")
    hall.core.finish(bob.takes("one"), b"")
    hall.after(SECOND_US)
    hall.core.finish(bob.takes("three"), b"")
    hall.turn()
    assert not hall.core.jobs


def test_a_join_without_debounce_changes_nothing(hall: Hall) -> None:
    job = hall.submit("one", key="k", spacing=QUIET)
    assert hall.submit("two", key="k") is job
    plain = hall.submit("plain", key="p")
    assert hall.submit("late", key="p", spacing=QUIET) is plain
    assert (job.payload, plain.payload) == (b"one", b"plain")


def test_a_replaced_payload_is_on_disk_with_the_commit_after_it() -> None:
    disk, hall = Disk(), Hall()
    job = hall.submit("one", key="k", terms=BACKGROUND, spacing=QUIET)
    under_way = hall.core.seal()
    hall.submit("two", key="k", terms=URGENT, spacing=QUIET)
    hall.core.committed(under_way)
    disk.apply(under_way)
    assert disk.live[job.id].payload == b"one"
    disk.apply(hall.commit())
    disk.compare(hall.core)
    reborn = reborn_of(disk, START_US + SECOND_US // 2)
    again = reborn.submit("three", key="k", terms=BACKGROUND, spacing=QUIET)
    assert (again.id, again.created_us) == (job.id, job.created_us)
    disk.apply(reborn.commit())
    latest = reborn_of(disk, START_US + 2 * SECOND_US)
    latest.after(1)
    latest.worker("bob").takes("three")


def test_a_replacement_whose_commit_failed_is_written_by_the_next() -> None:
    disk, hall = Disk(), Hall()
    hall.submit("one", key="k", terms=BACKGROUND, spacing=QUIET)
    disk.apply(hall.commit())
    hall.submit("two", key="k", terms=BACKGROUND, spacing=QUIET)
    hall.commit_fails()
    disk.apply(hall.commit())
    disk.compare(hall.core)


def test_of_two_debounced_jobs_with_one_key_the_later_has_it_after_a_restart() -> None:
    disk, hall = Disk(), Hall()
    bob = hall.worker("bob")
    first = hall.submit("one", key="k", terms=BACKGROUND, spacing=QUIET)
    disk.apply(hall.commit())
    hall.after(SECOND_US)
    bob.takes("one")
    second = hall.submit("two", key="k", terms=BACKGROUND, spacing=QUIET)
    disk.apply(hall.commit())
    reborn = reborn_of(disk, hall.core.now_us)
    found = reborn.core.find_key(b"q", b"k")
    assert found is not None
    assert found.id == second.id
    reborn.after(SECOND_US)
    bob = reborn.worker("bob")
    assert {bob.takes_from("q"), bob.takes_from("q")} == {"one", "two"}
    assert first.id in reborn.core.jobs


def test_a_replacement_can_be_undone_in_the_turn_in_which_it_was_made(hall: Hall) -> None:
    hall.core.ruled_queues.rule(b"q", QueueRules(key_running_max=1))
    waits = hall.submit("one", key="k", extras={LIMIT_KEY: b"a"}, terms=BACKGROUND, spacing=QUIET)
    ready = hall.submit("two", key="l", extras={LIMIT_KEY: b"b"}, spacing=Spacing(debounce_us=1))
    hall.after(1)
    for job, key in ((waits, "k"), (ready, "l")):
        before = content_of(job)
        state = job.state
        hall.submit("new", key=key, terms=URGENT, spacing=QUIET)
        hall.core.submissions.leave_join(job, before)
        hall.turn()
        after = content_of(job)
        assert (after.payload, after.terms, after.extras, after.due_us) == (
            before.payload,
            before.terms,
            before.extras,
            before.due_us,
        )
        assert job.state == state


def test_a_failed_debounced_job_is_retried_beside_the_next_of_its_key(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("one", key="k", terms=BACKGROUND, spacing=QUIET)
    hall.after(SECOND_US)
    hall.core.fail(bob.takes("one"))
    hall.commit()
    later = hall.submit("two", key="k", terms=BACKGROUND, spacing=QUIET)
    hall.core.retry(job)
    hall.turn()
    assert hall.core.find_key(b"q", b"k") is later
    bob.takes("one")


# --- throttle


def test_the_first_of_a_throttled_key_answers_until_its_window_is_over(hall: Hall) -> None:
    bob = hall.worker("bob")
    ann = hall.person("ann")
    job = hall.submit("one", key="k", terms=FOREGROUND, by=ann, spacing=FIRST)
    assert job.terms.detached
    assert hall.submit("two", key="k", spacing=FIRST) is job
    hall.core.finish(bob.takes("one"), b"")
    hall.turn()
    ann.hears("done one")
    assert (job.state, hall.core.throttle_windows.find(b"q", b"k")) == (DONE, job.id)
    with refused(WRONG_STATE):
        hall.submit("three", key="k", spacing=FIRST)
    other = hall.submit("not throttled", key="k")
    hall.core.cancel(other)
    hall.after(SECOND_US)
    assert hall.core.throttle_windows.find(b"q", b"k") == 0
    hall.submit("four", key="k", spacing=FIRST)


def test_a_throttled_key_is_known_after_a_restart_and_after_the_history_forgot_its_job() -> None:
    disk, hall = Disk(), Hall()
    bob = hall.worker("bob")
    job = hall.submit("one", key="k", terms=BACKGROUND, spacing=FIRST)
    hall.submit("in memory", key="m", spacing=FIRST)
    hall.turn()
    hall.core.finish(bob.takes("one"), b"")
    disk.apply(hall.commit())
    disk.history.clear()
    reborn = reborn_of(disk, START_US + SECOND_US - 1)
    assert reborn.core.throttle_windows.find(b"q", b"k") == job.id
    assert reborn.core.throttle_windows.find(b"q", b"m") == 0
    reborn.after(1)
    assert reborn.core.throttle_windows.find(b"q", b"k") == 0
    disk.apply(reborn.commit())
    disk.compare(reborn.core)
    assert not disk.windows


def test_a_throttled_job_that_is_refused_after_all_leaves_no_window() -> None:
    hall, disk = Hall(), Disk()
    hall.submit("one", key="k", terms=BACKGROUND, spacing=FIRST)
    hall.commit_fails()
    assert hall.core.throttle_windows.find(b"q", b"k") == 0
    disk.apply(hall.commit())
    taken_back = hall.submit("two", key="k", terms=BACKGROUND, spacing=FIRST)
    hall.core.submissions.take_back(taken_back)
    hall.turn()
    assert hall.core.throttle_windows.find(b"q", b"k") == 0


@pytest.mark.parametrize(
    ("spec", "spacing", "text"),
    [
        (JobSpec(b"q", b""), QUIET, "must have a key"),
        (JobSpec(b"q", b""), FIRST, "must have a key"),
        (JobSpec(b"q", b"", b"k"), Spacing(1, 0, 1), "not both"),
        (JobSpec(b"q", b"", b"k"), Spacing(2, 1), "must not be shorter"),
        (JobSpec(b"q", b"", b"k"), Spacing(debounce_max_us=1), "debounce_max needs debounce"),
        (JobSpec(b"q", b"", b"k"), Spacing(0, 1, 1), "debounce_max needs debounce"),
        (JobSpec(b"q", b"", b"k", parents=(5,)), QUIET, "no parents"),
        (JobSpec(b"q", b"", b"k", due_us=5), QUIET, "no delay"),
    ],
)
def test_what_cannot_be_kept_is_refused(hall: Hall, spec: JobSpec, spacing: Spacing, text: str) -> None:
    spec.spacing = spacing
    spec.terms = BACKGROUND
    with pytest.raises(Refusal, match=text):
        hall.core.submit(spec, None)
    assert not hall.core.jobs
