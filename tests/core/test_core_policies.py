"""Each policy chooses what a few plain lines choose, on a thousand seeded auctions: alone, and in the hall."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hall_recorder import SECOND_US, Hall, Person
from hiring_stories import WINDOW_US, bids, crier

from hiringhall.core.bidding.markets import Ask, Offer
from hiringhall.core.bidding.policies import POLICIES
from hiringhall.core.terms import Terms
from hiringhall.core.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

AUCTIONS = 1000
AHEAD_US = 20 * SECOND_US
POLICY = pytest.mark.parametrize("policy", POLICIES)


def oracle(policy: str, offers: list[Offer], ask: Ask) -> Offer | None:
    """The same choice by a key: `min` takes the first of those that are as good."""
    keys: dict[str, Callable[[Offer], tuple[int, ...]]] = {
        "soonest": lambda offer: (offer.arrives_us,),
        "best_skill": lambda offer: (-offer.skill, offer.arrives_us),
        "sufficient_skill": lambda offer: (offer.arrives_us,),
        "least_waiting": lambda offer: (abs(offer.arrives_us - max(ask.due_us, ask.now_us)),),
    }
    good = [offer for offer in offers if offer.skill >= ask.skill or policy != "sufficient_skill"]
    return min(good, key=keys[policy], default=None)


@POLICY
def test_a_thousand_auctions(policy: str) -> None:
    chosen: list[int] = []
    for seed in range(AUCTIONS):
        random = Random(seed)
        now_us = 1_000 * SECOND_US
        workers = [Worker(number, Person(Hall(), "w"), now_us) for number in range(random.randrange(9))]
        offers = [
            Offer(worker, random.randrange(4), now_us + random.randrange(5) * SECOND_US) for worker in workers
        ]
        ask = Ask(random.randrange(4), now_us + random.randrange(-2, 5) * SECOND_US, now_us)
        expected = oracle(policy, offers, ask)
        assert POLICIES[policy](list(offers), ask) is expected, f"seed {seed}"
        chosen.append(offers.index(expected) if expected is not None else -1)
    assert len(set(chosen)) == 9, "it is not always the same one, and sometimes nobody"


@POLICY
def test_a_thousand_auctions_in_the_hall(policy: str) -> None:
    """Bids come at any moment of the window; some bidders have too little skill or time, quit, or leave."""
    hall = Hall()
    market = crier(hall, policy=POLICIES[policy], ahead_us=AHEAD_US, travel_us=SECOND_US)
    hired = 0
    for seed in range(AUCTIONS):
        random = Random(seed)
        needed, takes_us = random.randrange(4), random.choice((0, 60 * SECOND_US))
        due_us = hall.core.now_us + random.randrange(1, AHEAD_US) if random.random() < 0.5 else 0
        terms = Terms(detached=True, skill=needed, takes_us=takes_us)
        job = hall.submit(f"{seed}", due_us=due_us, terms=terms)
        hall.turn()
        closes_us = hall.core.now_us + (1 if due_us else 0) + WINDOW_US
        hall.after(1 if due_us else 0)
        market.hears(f"announced {seed}")
        offers: list[Offer] = []
        people: list[Person] = []
        for number in range(random.randrange(7)):
            hall.core.advance(random.randrange(hall.core.now_us, closes_us))
            person = hall.person(f"w{number}")
            people.append(person)
            skill, in_us = random.randrange(5), random.randrange(5) * SECOND_US
            arrives_us = hall.core.now_us + in_us + SECOND_US
            left_us = random.choice((-1, -1, 45 * SECOND_US, 90 * SECOND_US))
            hall.core.needs.stay(person.me, left_us)
            fits = takes_us == 0 or left_us != 45 * SECOND_US
            if skill < needed or not fits:
                continue  # `test_core_auctions` tells how such a bid is refused
            bids(person, job, in_us, skill)
            if random.random() < 0.1:
                hall.core.leave(person)
            else:
                offers.append(Offer(person.me, skill, arrives_us))
        hall.core.advance(closes_us)
        expected = oracle(policy, offers, Ask(needed, due_us or closes_us, closes_us))
        lease = job.lease
        assert (lease.worker if lease is not None else None) is (
            expected.worker if expected is not None else None
        ), f"seed {seed}"
        hired += lease is not None
        hall.turn()
        for person in people:
            person.heard.clear()
            hall.core.leave(person)
        hall.core.cancel(job)
        hall.people = [market]
        hall.turn()
        market.heard.clear()
    assert AUCTIONS // 2 < hired < AUCTIONS
