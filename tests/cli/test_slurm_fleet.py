"""The fleet of `hall work --slurm`: what it decides, by itself and with a random Slurm and a random hall."""

from __future__ import annotations

import random
from typing import Final

import pytest

from hiringhall.cli.slurm.fleet import PENDING, Bounds, Fleet, Listed
from hiringhall.cli.slurm.order import find_time_limit, make_order, read_time

BOUNDS: Final = Bounds(workers_max=3, jobs_per_worker=2, idle_s=10.0, poll_s=5.0)
RUNNING: Final = "RUNNING"


def known_fleet() -> Fleet:
    """Nothing is left of an earlier run, and squeue has said so."""
    fleet = Fleet(BOUNDS)
    fleet.listed(0.0, [])
    return fleet


def submit(fleet: Fleet, tag: str, now_s: float) -> None:
    fleet.submitting(tag, now_s)
    fleet.submitted(tag, now_s, f"id-{tag}")


def test_workers_are_wanted_by_jobs_up_to_the_bound() -> None:
    fleet = known_fleet()
    wanted = []
    for ready in (0, 1, 2, 3, 100):
        fleet.look(1.0, ready, {})
        wanted.append((fleet.wanted, fleet.to_submit(1.0)))
    assert wanted == [(0, 0), (1, 1), (1, 1), (2, 2), (3, 3)]


def test_jobs_that_the_workers_have_count_and_need_no_second_worker() -> None:
    fleet = known_fleet()
    submit(fleet, "a", 1.0)
    fleet.look(2.0, 0, {"id-a": 2})
    assert (fleet.wanted, fleet.to_submit(2.0), fleet.to_end(100.0)) == (1, 0, [])


def test_nothing_is_submitted_while_it_is_unknown_what_sbatch_did() -> None:
    fleet = known_fleet()
    fleet.look(1.0, 9, {})
    fleet.submitting("a", 1.0)
    assert fleet.submit_failed("a", 2.0) == BOUNDS.poll_s
    fleet.look(100.0, 9, {})
    assert fleet.to_submit(100.0) == 0
    fleet.listed(1.5, [])
    assert fleet.to_submit(100.0) == 0, "squeue was asked before sbatch had ended"
    _, [gone] = fleet.listed(101.0, [])
    assert (gone.in_vain, fleet.to_submit(110.0)) == (True, 3)


def test_a_job_that_slurm_took_is_found_by_its_tag() -> None:
    fleet = known_fleet()
    fleet.look(1.0, 2, {})
    fleet.submitting("a", 1.0)
    fleet.submit_failed("a", 2.0)
    adopted, gone = fleet.listed(10.0, [Listed("7", PENDING, "a")])
    assert (adopted, gone, fleet.allocations["a"].id) == ([], [], "7")
    assert fleet.to_submit(100.0) == 0


def test_what_an_earlier_run_left_is_counted() -> None:
    fleet = Fleet(BOUNDS)
    fleet.look(1.0, 2, {})
    assert (fleet.squeue_due(1.0), fleet.to_submit(1.0)) == (True, 0)
    [adopted], _ = fleet.listed(1.0, [Listed("7", RUNNING, "old"), Listed("8", "COMPLETING", "older")])
    assert (adopted.id, fleet.to_submit(2.0)) == ("7", 0)


def test_pending_ones_end_before_idle_ones_and_busy_ones_never() -> None:
    fleet = known_fleet()
    for tag in ("busy", "idle", "waits"):
        submit(fleet, tag, 1.0)
    states = {"busy": RUNNING, "idle": RUNNING, "waits": PENDING}
    fleet.listed(2.0, [Listed(f"id-{tag}", state, tag) for tag, state in states.items()])
    jobs = {"id-busy": 1, "id-idle": 0}
    fleet.look(3.0, 0, jobs)
    fleet.look(12.0, 0, jobs)
    assert fleet.to_end(12.0) == []
    fleet.look(13.0, 0, jobs)
    assert [each.tag for each in fleet.to_end(13.0)] == ["waits", "idle"]
    fleet.look(14.0, 1, jobs)
    fleet.look(24.0, 1, jobs)
    assert [each.tag for each in fleet.to_end(24.0)] == ["waits", "idle"], "one worker does both jobs"


def test_squeue_is_asked_sparingly_and_left_alone_when_it_fails() -> None:
    fleet = known_fleet()
    assert not fleet.squeue_due(1000.0), "there is nothing to learn"
    submit(fleet, "a", 1000.0)
    assert fleet.squeue_due(1000.0)
    assert [fleet.squeue_failed(1000.0) for _ in range(9)] == [5, 10, 20, 40, 80, 160, 320, 600, 600]
    assert not fleet.squeue_due(1599.0)
    assert fleet.squeue_due(1600.0)
    fleet.listed(1600.0, [Listed("id-a", RUNNING, "a")])
    assert not fleet.squeue_due(1604.0)
    assert fleet.squeue_due(1605.0)


def test_allocations_that_end_in_vain_make_pauses_until_a_worker_comes() -> None:
    fleet = known_fleet()
    pauses = []
    now_s = 10.0
    for number in range(4):
        submit(fleet, str(number), now_s)
        fleet.look(now_s, 2, {})
        fleet.listed(now_s + 1, [])
        pauses.append(next(s for s in range(1000) if fleet.to_submit(now_s + 1 + s)))
        now_s += 1000
    assert pauses == [5, 10, 20, 40]
    submit(fleet, "good", now_s)
    assert [each.tag for each in fleet.look(now_s, 2, {"id-good": 1})] == ["good"]
    submit(fleet, "bad", now_s)
    fleet.listed(now_s + 1, [Listed("id-good", RUNNING, "good")])
    fleet.look(now_s + 1, 100, {"id-good": 1})
    assert fleet.to_submit(now_s + 5.9) == 0
    assert fleet.to_submit(now_s + 6) == 2


@pytest.mark.parametrize("seed", range(200))
def test_any_slurm_and_any_hall_keep_the_bounds_and_all_ends(seed: int) -> None:
    random_source = random.Random(seed)
    fleet = Fleet(BOUNDS)
    cluster: dict[str, tuple[str, str]] = {}
    """What Slurm really has: id and state, by tag."""
    jobs: dict[str, int] = {}
    now_s = 0.0
    for step in range(400):
        now_s += random_source.uniform(0.5, 3.0)
        calm = step > 250
        ready = 0 if calm else random_source.choice([0, 0, 1, 5, 50])
        for tag, (number, state) in list(cluster.items()):
            if state == PENDING and random_source.random() < 0.3:
                cluster[tag] = (number, RUNNING)
                if random_source.random() < 0.8:
                    jobs[number] = 0
            elif random_source.random() < 0.02 or (calm and number not in jobs and state == RUNNING):
                del cluster[tag]
                jobs.pop(number, None)
        jobs = {number: 0 if calm else random_source.choice([0, 0, 1, 2]) for number in jobs}
        fleet.look(now_s, ready, jobs)
        if fleet.squeue_due(now_s):
            if not calm and random_source.random() < 0.2:
                fleet.squeue_failed(now_s)
            else:
                fleet.listed(now_s, [Listed(number, state, tag) for tag, (number, state) in cluster.items()])
        for each in range(fleet.to_submit(now_s)):
            tag = f"{step}.{each}"
            now_s += 0.01
            fleet.submitting(tag, now_s)
            taken = random_source.random() < 0.8
            if taken:
                cluster[tag] = (f"n{tag}", PENDING)
            if taken and random_source.random() < 0.8:
                fleet.submitted(tag, now_s, f"n{tag}")
            else:
                fleet.submit_failed(tag, now_s)
                break
        assert len(cluster) <= BOUNDS.workers_max, "more allocations than allowed"
        for allocation in fleet.to_end(now_s):
            assert not allocation.jobs, "a busy worker is not ended"
            fleet.cancelled(allocation)
            if not calm and random_source.random() < 0.2:
                fleet.cancel_failed(allocation, now_s)
            elif allocation.tag in cluster:
                del cluster[allocation.tag]
                jobs.pop(allocation.id, None)
    assert cluster == {}, "without jobs all allocations end"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("2:00:05", 7205),
        ("1-2", 93_600),
        ("1-2:30", 95_400),
        ("1-2:30:10", 95_410),
        ("", None),
        ("UNLIMITED", None),
        ("1:2:3:4", None),
        ("-5", None),
    ],
)
def test_times_are_read_as_slurm_reads_them(written: str, seconds: int | None) -> None:
    assert read_time(written) == seconds


def test_the_time_limit_is_found_among_the_options() -> None:
    assert find_time_limit(["--mem=4G", "--time=10"]) == 600
    assert find_time_limit(["-t", "10", "--mem=4G"]) == 600
    assert find_time_limit(["-t10"]) == 600
    assert find_time_limit(["--time"]) is None
    assert find_time_limit(["--test-only"]) is None


def test_the_same_workers_of_the_same_hall_have_the_same_name() -> None:
    names = [
        make_order(url, "slurm", words, options).name
        for url, words, options in (
            ("hall://a:1", ["app"], ["--time=1"]),
            ("hall://a:1", ["app"], ["--time=2"]),
            ("hall://b:1", ["app"], []),
            ("hall://a:1", ["--shell"], []),
        )
    ]
    assert names[0] == names[1]
    assert len(set(names)) == 3
