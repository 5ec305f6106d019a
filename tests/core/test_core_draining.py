"""Workers that drain: they finish what they have and get nothing more, however they get their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import DETACHED, SECOND_US, Hall, refused
from hiring_stories import WINDOW_US, bids, crier
from hypothesis import given, settings
from hypothesis import strategies as st

from hiringhall.core.errors import WRONG_STATE
from hiringhall.core.reasons import why
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hall_recorder import Person


def drain(hall: Hall, person: Person) -> None:
    hall.core.draining.drain(person.me)
    person.hears("drained")


def undrain(hall: Hall, person: Person) -> None:
    hall.core.draining.undrain(person.me)
    person.hears("undrained")


def test_it_finishes_what_it_has_and_finds_nothing_more(hall: Hall) -> None:
    carl = hall.worker("carl")
    hall.submit("a")
    second = hall.submit("b")
    lease = carl.takes("a")
    drain(hall, carl)
    carl.takes_nothing()
    assert carl.takes_from("q") == ""
    hall.core.progress(lease, 1, 2)
    hall.core.finish(lease, b"")
    hall.turn()
    carl.takes_nothing()
    assert why(hall.core, second) == "all 1 workers of its queue drain: they get no more jobs"
    undrain(hall, carl)
    carl.takes("b")


def test_its_free_slots_stay_empty_until_it_is_undrained(hall: Hall) -> None:
    carl = hall.worker("carl")
    carl.offers(2)
    drain(hall, carl)
    hall.submit("a")
    hall.turn()
    carl.offers(3)
    hall.turn()
    carl.hears()
    undrain(hall, carl)
    hall.turn()
    carl.hears("assigned a")


def test_slots_of_others_are_filled_past_it(hall: Hall) -> None:
    carl, dora = hall.worker("carl"), hall.worker("dora")
    carl.offers(1)
    dora.offers(2)
    drain(hall, carl)
    hall.submit("a")
    hall.turn()
    hall.submit("b")
    hall.turn()
    dora.hears("assigned a", "assigned b")


def test_a_slot_that_is_offered_later_is_filled_past_it_although_another_was_woken(hall: Hall) -> None:
    carl, dora, emil = hall.worker("carl"), hall.worker("dora"), hall.worker("emil")
    carl.offers(1)
    drain(hall, carl)
    dora.sleeps()
    hall.submit("a")
    hall.turn()
    dora.hears("woken")
    emil.offers(1)
    hall.turn()
    emil.hears("assigned a")


@pytest.mark.parametrize("first", ["carl", "dora"])
def test_a_sleeper_that_drains_is_not_woken_and_others_are(hall: Hall, first: str) -> None:
    people = {name: hall.worker(name) for name in ("carl", "dora")}
    people[first].sleeps()
    for person in people.values():
        person.sleeps()
    drain(hall, people["carl"])
    hall.submit("a")
    hall.turn()
    people["dora"].hears("woken")
    people["dora"].takes("a")
    hall.submit("b")
    hall.turn()
    people["carl"].hears()
    undrain(hall, people["carl"])
    hall.turn()
    people["carl"].hears("woken")


def test_the_job_that_it_was_woken_for_goes_to_another(hall: Hall) -> None:
    carl, dora = hall.worker("carl"), hall.worker("dora")
    dora.sleeps()
    carl.sleeps()
    hall.submit("a")
    hall.turn()
    carl.hears("woken")
    drain(hall, carl)
    hall.turn()
    dora.hears("woken")
    carl.takes_nothing()
    dora.takes("a")


def test_a_promise_is_dismissed_and_its_bids_are_refused(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    bids(bob, job)
    hall.after(WINDOW_US)
    bob.hears("hired a")
    hall.core.draining.drain(bob.me)
    bob.hears("revoked a", "drained")
    hall.turn()
    market.hears("announced a")
    with refused(WRONG_STATE):
        bids(bob, job)
    undrain(hall, bob)
    bids(bob, job)
    hall.after(WINDOW_US)
    bob.hears("hired a")
    market.heard.clear()


def test_a_bid_made_before_it_drains_is_void(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    bob = hall.person("bob")
    bids(bob, job)
    drain(hall, bob)
    hall.after(WINDOW_US)
    bob.hears()
    market.heard.clear()


def test_a_single_job_cannot_be_taken_by_name(hall: Hall) -> None:
    carl = hall.worker("carl")
    job = hall.submit("a")
    drain(hall, carl)
    with refused(WRONG_STATE):
        hall.core.take_job(carl.me, job)


def test_what_it_says_about_its_time_counts_afterwards(hall: Hall) -> None:
    carl = hall.worker("carl")
    drain(hall, carl)
    hall.core.needs.stay(carl.me, 10 * SECOND_US)
    hall.submit("a", terms=Terms(detached=True, takes_us=20 * SECOND_US))
    hall.submit("b", terms=Terms(detached=True, takes_us=5 * SECOND_US))
    carl.takes_nothing()
    undrain(hall, carl)
    carl.takes("b")
    carl.takes_nothing()


def test_a_worker_that_comes_back_does_not_drain(hall: Hall) -> None:
    carl = hall.worker("carl")
    drain(hall, carl)
    carl.leaves()
    carl.can("q")
    hall.submit("a")
    carl.takes("a")


def test_a_resident_drains_too(hall: Hall) -> None:
    core = hall.core
    worker = core.residents.get(b"q", b"node 7")
    job = hall.submit("a")
    core.draining.drain(worker)
    assert core.take(worker) is None
    assert core.spare(b"q") == 0
    core.draining.undrain(worker)
    lease = core.take(worker)
    assert lease is not None
    assert lease.job is job


def test_draining_twice_is_told_once(hall: Hall) -> None:
    carl = hall.worker("carl")
    drain(hall, carl)
    hall.core.draining.drain(carl.me)
    carl.hears()
    undrain(hall, carl)
    hall.core.draining.undrain(carl.me)
    carl.hears()


class DrainingHall:
    """Some workers that pull, push and sleep, and somebody who drains them."""

    def __init__(self) -> None:
        self.hall = Hall()
        self.people = [self.hall.worker(f"worker {number}") for number in range(3)]
        self.submitted = 0

    def act(self, action: str, place: int) -> None:
        hall, core = self.hall, self.hall.core
        person = self.people[place]
        worker = person.me
        held = set(worker.leases)
        drained = worker.draining
        if action == "submit":
            self.submitted += 1
            hall.submit(f"job {self.submitted}", terms=DETACHED)
        elif action == "take":
            core.take(worker)
        elif action == "sleep":
            core.offer(worker, 0)
            core.sleep(worker)
        elif action == "offer":
            if not worker.asleep:
                core.offer(worker, 2)
        elif action == "finish":
            for lease in list(worker.leases.values()):
                core.finish(lease, b"")
        elif action == "lose":
            for lease in list(worker.leases.values()):
                core.release(lease)
        elif action == "drain":
            core.draining.drain(worker)
        else:
            core.draining.undrain(worker)
        hall.turn()
        if drained and worker.draining:
            assert set(worker.leases) <= held, "a worker that drains was given a job"

    def empty(self) -> None:
        """Without draining, the workers take all that is ready."""
        for person in self.people:
            self.hall.core.draining.undrain(person.me)
            for lease in list(person.me.leases.values()):
                self.hall.core.finish(lease, b"")
        self.hall.turn()
        while self.hall.core.jobs:
            before = len(self.hall.core.jobs)
            for person in self.people:
                while (lease := self.hall.core.take(person.me)) is not None:
                    self.hall.core.finish(lease, b"")
            for person in self.people:
                for held in list(person.me.leases.values()):
                    self.hall.core.finish(held, b"")
            self.hall.turn()
            assert len(self.hall.core.jobs) < before, "a job is left, and nobody takes it"


ACTIONS = ("submit", "take", "sleep", "offer", "finish", "lose", "drain", "undrain")


@settings(deadline=None, max_examples=settings().max_examples * 3 // 2)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2)), max_size=60))
def test_whatever_happens_a_worker_that_drains_gets_nothing_and_no_job_is_forgotten(
    story: list[tuple[str, int]],
) -> None:
    told = DrainingHall()
    for action, place in story:
        told.act(action, place)
    told.empty()
