"""Jobs that need resources of their worker: who is given them, what is free, and who is reserved for whom."""

from __future__ import annotations

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Disk, Hall, refused
from resource_stories import PATIENCE_US, capacity_of, equipped, finish, free, opened, submit

from hiringhall.amounts import BadAmounts, needs_text, parse_needs, parse_totals
from hiringhall.core.errors import BAD_REQUEST, WRONG_STATE
from hiringhall.core.reasons import why
from hiringhall.core.states import CANCELLED, FAILED
from hiringhall.core.terms import HIGH, Terms

# --- amounts


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (b"", b""),
        (b"cpus=2", b"cpus=2"),
        (b" mem=32G,cpus=0.5 ", b"cpus=0.5 mem=32G"),
        (b"cpus=1.50\tmem=1.5K", b"cpus=1.5 mem=1536"),
        (b"cpus=0", b""),
        (b"mem=2048M", b"mem=2G"),
        ("größe=1".encode(), "größe=1".encode()),
        (b"cpus=0.001", b"cpus=0.001"),
    ],
)
def test_what_a_job_needs_has_one_text(text: bytes, canonical: bytes) -> None:
    needs = parse_needs(text)
    assert needs_text(needs) == canonical
    assert parse_needs(needs_text(needs)) == needs


@pytest.mark.parametrize(
    "text",
    [
        b"cpus", b"cpus=", b"=2", b"cpus=-1", b"cpus=1.2345", b"cpus=2 cpus=2", b"cpus=two", b"mem=1X",
        b"gpus=[0]", b"gpus=1[0]", b"cpus=2[", b"a=1 [b", b"mem=9999999P", b"x" * 41 + b"=1", b"\xff=1",
        b"a\x01=1", b" ".join(b"r%d=1" % number for number in range(17)), b"a=1" + b" " * 5000 + b"b=1",
    ],
)  # fmt: skip
def test_a_text_that_states_no_needs_is_refused(hall: Hall, text: bytes) -> None:
    with refused(BAD_REQUEST):
        hall.submit("x", extras={"resources": text})
    assert not hall.core.jobs


@pytest.mark.parametrize(
    "text",
    [
        b"gpus=1.5", b"gpus=[0,0]", b"gpus=3[0,1]", b"gpus=[a,,b]", b"gpus=1000", b"cpus", b"gpus=[\xff]",
        b"disks=[a\x00b]", b"disks=[\x1b]",
    ],
)  # fmt: skip
def test_a_text_that_states_no_resources_is_refused(hall: Hall, text: bytes) -> None:
    bob = hall.worker("bob")
    with refused(BAD_REQUEST):
        hall.core.resources.equip(bob.me, text)
    assert bob.me.capacity is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"cpus=1 mem=1 cpus=2", "resources: cpus is stated twice"),
        (b" ".join(b"r%d=1" % number for number in range(17)), "resources: 17 are stated, and there may be 16"),
        (
            b"mem=32GB",
            (
                "resources: mem must be a number of 0 or more with up to 3 decimals, "
                "such as 2, 0.5 or 32G, not '32GB'"
            ),
        ),
    ],
)
def test_a_refusal_says_what_is_wrong_with_which_resource(text: bytes, problem: str) -> None:
    with pytest.raises(BadAmounts) as raised:
        parse_needs(text)
    assert str(raised.value) == problem


def test_gpus_have_units_and_others_if_they_are_named() -> None:
    stated = parse_totals(b"gpus=2 cpus=8 disks=[sda,sdb] tapes=[]")
    assert stated == [
        (b"gpus", 2000, [b"0", b"1"]),
        (b"cpus", 8000, None),
        (b"disks", 2000, [b"sda", b"sdb"]),
        (b"tapes", 0, []),
    ]


# --- what is free


def test_a_job_waits_until_its_worker_has_so_much_free(hall: Hall) -> None:
    bob = equipped(hall, "bob", "cpus=4")
    one, two = submit(hall, "one", "cpus=2.5"), submit(hall, "two", "cpus=1.5")
    three = submit(hall, "three", "cpus=0.5")
    hall.turn()
    bob.hears("assigned one", "assigned two")
    assert free(bob) == "cpus=0"
    assert why(hall.core, three) == "it needs cpus=0.5; that much is not free on any worker now"
    finish(hall, bob, two)
    bob.hears("assigned three")
    assert free(bob) == "cpus=1"
    finish(hall, bob, one)
    finish(hall, bob, three)
    assert free(bob) == "cpus=4"


def test_a_job_goes_only_to_a_worker_that_states_what_it_needs(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.offers(1)
    carl = equipped(hall, "carl", "mem=1G")
    job = submit(hall, "one", "cpus=1")
    hall.turn()
    assert why(hall.core, job) == "it needs cpus=1; no worker has any"
    with refused(WRONG_STATE):
        hall.core.take_job(carl.me, job)
    hall.submit("plain")
    hall.turn()
    bob.hears("assigned plain")
    big = submit(hall, "big", "mem=4G")
    assert why(hall.core, big) == "it needs mem=4G; no worker has more than 1G"
    equipped(hall, "dora", "cpus=1 mem=2G")
    both = submit(hall, "both", "cpus=1 mem=2G")
    hall.turn()
    assert why(hall.core, both) == "it needs cpus=1 mem=2G; that much is not free on any worker now"
    hall.people[-1].hears("assigned one")
    other = submit(hall, "other", "mem=2G skis=1")
    equipped(hall, "eve", "skis=1")
    hall.turn()
    assert why(hall.core, other) == "it needs mem=2G skis=1; no worker has all of that"


@pytest.mark.parametrize("end", ["finish", "fail", "retry", "release", "cancel", "lose", "leave", "expire"])
def test_whatever_ends_a_lease_gives_its_resources_back(hall: Hall, end: str) -> None:
    core = hall.core
    bob = equipped(hall, "bob", "cpus=2 gpus=2")
    terms = Terms(detached=True, losses_max=1, run_us=SECOND_US, failures_max=end == "retry")
    job = submit(hall, "one", "cpus=1 gpus=1.5", terms=terms)
    hall.turn()
    bob.hears("assigned one")
    assert free(bob) == "cpus=1 gpus=0.5"
    capacity = capacity_of(bob)
    lease = bob.holds(job)
    if end == "finish":
        core.finish(lease, b"")
    elif end in ("fail", "retry"):
        core.fail(lease)
    elif end == "release":
        bob.offers(0)
        core.release(lease)
    elif end == "cancel":
        core.cancel(job)
        bob.hears("revoked one")
    elif end == "lose":
        core.lose(lease)
    elif end == "leave":
        bob.leaves()
    else:
        hall.after(SECOND_US)
        bob.hears("revoked one")
    hall.turn()
    assert capacity.free == {b"cpus": 2000, b"gpus": 2000}
    assert capacity.units == {b"gpus": [1000, 1000]}
    assert not capacity.shares


def test_a_worker_keeps_its_resources_while_jobs_use_them(hall: Hall) -> None:
    bob = equipped(hall, "bob", "cpus=4")
    job = submit(hall, "one", "cpus=3")
    hall.turn()
    bob.hears("assigned one")
    with refused(WRONG_STATE):
        hall.core.resources.equip(bob.me, b"cpus=2")
    hall.core.resources.equip(bob.me, b"cpus=4")
    assert free(bob) == "cpus=1"
    finish(hall, bob, job)
    big = submit(hall, "big", "cpus=8")
    hall.turn()
    hall.core.resources.equip(bob.me, b"cpus=8")
    hall.turn()
    bob.hears("assigned big")
    finish(hall, bob, big)
    hall.core.resources.equip(bob.me, b"")
    assert bob.me.capacity is None


# --- units


def test_a_job_is_told_which_units_it_has(hall: Hall) -> None:
    bob = equipped(hall, "bob", "gpus=3 cpus=8")
    jobs = [submit(hall, f"job {number}", text) for number, text in enumerate(("gpus=1", "gpus=0.5 cpus=2"))]
    hall.turn()
    bob.hears("assigned job 0", "assigned job 1")
    capacity = capacity_of(bob)
    assert [capacity.given(bob.holds(job)) for job in jobs] == [b"gpus=1[0]", b"cpus=2 gpus=0.5[1]"]
    quarter = submit(hall, "quarter", "gpus=0.25")
    two = submit(hall, "two", "gpus=2")
    hall.turn()
    bob.hears("assigned quarter")
    assert capacity.given(bob.holds(quarter)) == b"gpus=0.25[1]", "parts share a unit"
    assert free(bob) == "cpus=6 gpus=1.25"
    finish(hall, bob, jobs[0])
    bob.hears("assigned two")
    assert capacity.given(bob.holds(two)) == b"gpus=2[0,2]"
    assert capacity.given(bob.holds(jobs[1])) == b"cpus=2 gpus=0.5[1]"


def test_parts_of_two_units_are_no_whole_one(hall: Hall) -> None:
    bob = equipped(hall, "bob", "gpus=[a,b]")
    parts = [submit(hall, f"part {number}", "gpus=0.6") for number in range(2)]
    hall.turn()
    bob.hears("assigned part 0", "assigned part 1")
    whole = submit(hall, "half", "gpus=0.8")
    hall.turn()
    assert "not free" in why(hall.core, whole)
    finish(hall, bob, parts[0])
    bob.hears("assigned half")
    assert capacity_of(bob).given(bob.holds(whole)) == b"gpus=0.8[a]"


# --- packing


def test_a_job_goes_where_it_leaves_the_least(hall: Hall) -> None:
    large, exact, gpus = (
        equipped(hall, name, text)
        for name, text in (("large", "cpus=64"), ("exact", "cpus=4"), ("gpus", "cpus=4 gpus=2"))
    )
    submit(hall, "small", "cpus=4")
    hall.turn()
    exact.hears("assigned small")
    submit(hall, "whole", "cpus=64")
    submit(hall, "trained", "gpus=1")
    hall.turn()
    large.hears("assigned whole")
    gpus.hears("assigned trained")


def test_an_older_job_is_placed_before_a_younger_one(hall: Hall) -> None:
    bob, carl = equipped(hall, "bob", "cpus=2"), equipped(hall, "carl", "cpus=4")
    submit(hall, "old", "cpus=3")
    submit(hall, "young", "cpus=2")
    submit(hall, "urgent", "cpus=1", terms=Terms(detached=True, priority=HIGH))
    hall.turn()
    bob.hears("assigned urgent")
    carl.hears("assigned old")


def test_a_worker_of_two_queues_takes_the_older_job_of_the_other(hall: Hall) -> None:
    bob = equipped(hall, "bob", "cpus=2", "p", "q", slots=0)
    hall.submit("old", "p")
    submit(hall, "young", "cpus=2", "q")
    bob.offers(1)
    hall.turn()
    bob.hears("assigned old")


def test_one_that_sleeps_is_woken_for_what_fits(hall: Hall) -> None:
    bob, carl = equipped(hall, "bob", "cpus=2", slots=0), equipped(hall, "carl", "cpus=8", slots=0)
    bob.sleeps()
    carl.sleeps()
    submit(hall, "eight", "cpus=8")
    hall.turn()
    carl.hears("woken")
    carl.takes("eight")
    carl.sleeps()
    submit(hall, "two", "cpus=2")
    hall.turn()
    bob.hears("woken")
    bob.takes("two")


# --- reservation and backfill


def test_a_large_job_is_not_overtaken_for_ever(hall: Hall) -> None:
    bob = equipped(hall, "bob", "cpus=4")
    small = [submit(hall, f"small {number}", "cpus=1") for number in range(4)]
    hall.turn()
    whole = submit(hall, "whole", "cpus=4")
    small += [submit(hall, f"small {number}", "cpus=1") for number in range(4, 8)]
    hall.after(PATIENCE_US - 1)
    finish(hall, bob, small[0])
    bob.hears(*(f"assigned small {number}" for number in range(5)))
    hall.after(1)
    for number in range(1, 5):
        finish(hall, bob, small[number])
        if number < 4:
            bob.hears()
            assert why(hall.core, whole) == (
                "it needs cpus=4; worker bob is reserved for it, and gets it as soon as that much is free"
            )
    bob.hears("assigned whole")
    finish(hall, bob, whole)
    bob.hears("assigned small 5", "assigned small 6", "assigned small 7")


def test_a_job_that_ends_in_time_is_given_to_a_reserved_worker(hall: Hall) -> None:
    bob = equipped(hall, "bob", "cpus=4")
    minute = Terms(detached=True, takes_us=60 * SECOND_US)
    running = submit(hall, "running", "cpus=2", terms=minute)
    hall.turn()
    submit(hall, "whole", "cpus=4")
    hall.after(PATIENCE_US)
    bob.hears("assigned running")
    submit(hall, "unknown", "cpus=1")
    submit(hall, "long", "cpus=1", terms=minute)
    short = submit(hall, "short", "cpus=1", terms=Terms(detached=True, takes_us=50 * SECOND_US))
    hall.turn()
    bob.hears("assigned short")
    finish(hall, bob, short)
    hall.after(10 * SECOND_US)
    late = submit(hall, "late", "cpus=1", terms=Terms(detached=True, takes_us=50 * SECOND_US))
    hall.turn()
    bob.hears()
    finish(hall, bob, running)
    bob.hears("assigned whole")
    hall.core.cancel(late)


def test_the_worker_that_is_free_soonest_is_reserved(hall: Hall) -> None:
    people = [equipped(hall, name, "cpus=4") for name in ("bob", "carl", "dora")]
    for seconds in (300, 100, 200):
        terms = Terms(detached=True, takes_us=seconds * SECOND_US)
        submit(hall, f"{seconds}", "cpus=4", terms=terms)
    hall.turn()
    whole = submit(hall, "whole", "cpus=4")
    hall.after(PATIENCE_US)
    reservation = whole.queue.reservation
    assert reservation is not None
    assert [worker.name for worker in reservation.capacity.workers] == [b"carl"]
    assert reservation.until_us == hall.core.now_us - PATIENCE_US + 100 * SECOND_US
    for person, seconds in zip(people, (300, 100, 200), strict=True):
        person.hears(f"assigned {seconds}")


@pytest.mark.parametrize("why_it_ends", ["cancel", "leave", "drain", "pause", "cannot", "elsewhere"])
def test_a_reservation_ends_with_its_job_or_its_worker(hall: Hall, why_it_ends: str) -> None:
    core = hall.core
    bob = equipped(hall, "bob", "cpus=2", "q", "p")
    running = submit(hall, "running", "cpus=1")
    hall.turn()
    whole = submit(hall, "whole", "cpus=2")
    hall.after(PATIENCE_US)
    submit(hall, "other", "cpus=1", "p")
    hall.turn()
    bob.hears("assigned running")
    capacity = capacity_of(bob)
    assert capacity.reservation is not None
    if why_it_ends == "cancel":
        core.cancel(whole)
    elif why_it_ends == "leave":
        bob.leaves()
    elif why_it_ends == "drain":
        core.draining.drain(bob.me)
    elif why_it_ends == "pause":
        core.pause_queue(b"q")
    elif why_it_ends == "cannot":
        core.cant_do(bob.me, b"q")
    else:
        carl = equipped(hall, "carl", "cpus=2")
        hall.turn()
        carl.hears("assigned whole")
    hall.turn()
    assert capacity.reservation is None
    assert whole.queue.reservation is None
    bob.hears(*{"drain": ["drained"], "leave": []}.get(why_it_ends, ["assigned other"]))
    assert running.queue.name == b"q"


def test_a_job_that_no_worker_can_ever_do_reserves_none(hall: Hall) -> None:
    bob = equipped(hall, "bob", "cpus=2")
    submit(hall, "running", "cpus=1")
    huge = submit(hall, "huge", "cpus=64")
    whole = submit(hall, "whole", "cpus=2")
    hall.after(PATIENCE_US)
    hall.after(PATIENCE_US)
    bob.hears("assigned running")
    assert why(hall.core, huge) == "it needs cpus=64; no worker has more than 2"
    assert whole.queue.reservation is not None
    assert whole.queue.reservation.job is whole


# --- what is stored


def test_what_a_job_needs_survives_a_restart_and_a_retry(hall: Hall) -> None:
    disk = Disk()
    bob = equipped(hall, "bob", "cpus=2")
    job = submit(hall, "one", "cpus=2", terms=BACKGROUND)
    dead = submit(hall, "dead", "cpus=1", terms=BACKGROUND)
    hall.turn()
    disk.apply(hall.commit())
    bob.hears("assigned one")
    bob.offers(0)
    again = opened(disk)
    carl, dora = equipped(again, "carl", "cpus=1"), equipped(again, "dora", "cpus=2")
    again.turn()
    dora.hears("assigned one")
    carl.hears("assigned dead")
    assert again.core.jobs[job.id].terms.resources == ((b"cpus", 2000),)
    again.core.fail(carl.holds(again.core.jobs[dead.id]))
    again.turn()
    disk.apply(again.commit())
    last = opened(disk)
    failed = disk.history[dead.id]
    assert failed.state == FAILED
    eve = equipped(last, "eve", "cpus=1")
    revived = last.core.retry_recorded(failed)
    last.turn()
    eve.hears("assigned dead")
    assert revived.terms.resources == ((b"cpus", 1000),)
    assert free(eve) == "cpus=0"
    last.core.cancel(revived)
    eve.hears("revoked dead")
    assert revived.state == CANCELLED


def test_a_joined_job_keeps_what_it_needs(hall: Hall) -> None:
    bob = equipped(hall, "bob", "cpus=2")
    job = hall.submit("one", key="k", extras={"resources": b"cpus=1"})
    assert hall.submit("one", key="k", terms=BACKGROUND) is job
    assert job.terms.durable
    hall.turn()
    bob.hears("assigned one")
    assert free(bob) == "cpus=1"


def test_the_hall_opens_although_what_was_stored_cannot_be_read(hall: Hall) -> None:
    disk = Disk()
    job = submit(hall, "one", "cpus=2", terms=BACKGROUND)
    disk.apply(hall.commit())
    row = disk.live[job.id]
    unreadable = {"resources": b"so much"}
    disk.live[job.id] = row._replace(terms=row.terms.with_resources(()), extras=unreadable)
    again = opened(disk)
    assert again.core.jobs[job.id].terms.resources == ()
