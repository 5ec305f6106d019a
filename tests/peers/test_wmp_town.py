"""Random lives of WMP fleets: messages lost, late and repeated, by any path; and always all of it ends well."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from wmp_town import LEASE_US, LOCK_US, READY_MAX_US, Town

from hiringhall.peers.wmp.manager_state import OK
from hiringhall.peers.wmp.worker_state import SECOND_US

COSTS = {b"small": 1, b"large": 3}

ACTIONS = ["deliver"] * 4 + ["submit"] * 2
ACTIONS += ["lose", "again", "finish", "fail", "give back", "show", "cancel", "wait", "wait long"]
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1 << 16)), max_size=250)


def play(town: Town, steps: list[tuple[str, int]]) -> None:
    for step, number in steps:
        if step == "submit":
            desk = ("d0", "d1")[number % 2]
            town.submit(desk, (b"small", b"large")[number // 2 % 2], b"%d" % len(town.tickets))
        elif step == "cancel" and town.tickets:
            town.cancel(list(town.tickets)[number % len(town.tickets)])
        elif step == "wait":
            town.pass_time(number * 20)
        elif step == "wait long":
            town.pass_time(LEASE_US)
        elif step in ("finish", "fail", "give back") and town.running:
            town.finish(number % len(town.running), step)
        elif step == "show" and town.running:
            town.show(number % len(town.running))
        elif step == "lose" and town.mail:
            town.lose(number % len(town.mail))
        elif step in ("deliver", "again") and town.mail:
            town.deliver(number % len(town.mail), again=step == "again")


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([(3,), (4, 1), (3, 5)]))
def test_whatever_is_lost_every_job_ends_once_and_nothing_stays_locked(
    steps: list[tuple[str, int]], capacities: tuple[int, ...]
) -> None:
    town = Town(capacities, COSTS)
    play(town, steps)
    town.calm()
    assert all(town.tickets.values())
    town.calm(until_us=town.now_us + LOCK_US + LEASE_US)
    for crew in town.crews.values():
        assert (crew.used, crew.locked, crew.orders, crew.locks) == (0, 0, {}, {})
    for desk in town.desks.values():
        assert not desk.jobs
        assert desk.malformed == 0


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_job_that_loses_too_many_workers_fails_and_no_other_does(steps: list[tuple[str, int]]) -> None:
    town = Town((4,), COSTS, losses_max=2)
    play(town, [(step, number) for step, number in steps if step not in ("fail", "cancel")])
    town.calm()
    for ticket, outcome in town.tickets.items():
        assert outcome is not None
        assert (outcome.status == OK) == (ticket.losses < 2)


def three_jobs_each() -> Town:
    return Town((2, 1), {b"small": 1, b"large": 2})


def submit_six(town: Town) -> None:
    for number in range(3):
        town.submit("d0", b"small", b"a%d" % number)
        town.submit("d1", b"large" if number == 1 else b"small", b"b%d" % number)


def test_when_nothing_is_lost_each_job_is_run_once() -> None:
    town = three_jobs_each()
    submit_six(town)
    town.calm()
    assert sorted(town.starts) == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2"]
    assert all(outcome is not None and outcome.status == OK for outcome in town.tickets.values())
    assert town.now_us < SECOND_US


def test_whichever_message_is_lost_all_jobs_are_done() -> None:
    undisturbed = three_jobs_each()
    submit_six(undisturbed)
    undisturbed.calm()
    assert undisturbed.sent > 50
    for number in range(undisturbed.sent):
        town = three_jobs_each()
        town.drop_numbers = frozenset((number,))
        submit_six(town)
        town.calm()
        assert all(outcome is not None and outcome.status == OK for outcome in town.tickets.values())
        # Whatever it was, waiting for the longest of the times once, or twice for a loss on the way, mends it.
        assert town.now_us < 2 * (LEASE_US + LOCK_US + READY_MAX_US), f"message {number}"


def test_a_dead_stretch_of_any_length_is_survived() -> None:
    for length in (5, 20, 60, 150):
        for start in range(0, 60, 7):
            town = three_jobs_each()
            town.drop_numbers = frozenset(range(start, start + length))
            submit_six(town)
            town.calm()
            assert all(outcome is not None and outcome.status == OK for outcome in town.tickets.values())
