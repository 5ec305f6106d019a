"""What stories of hiring share: a market with a crier, bids, and the stages of an engagement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hall_recorder import Hall, Person

from hiringhall.core.bidding.markets import Listing, Market, Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.leases import ARRIVED, CALLED, HIRED, PERFORMING, Engagement

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

MS: Final = 1_000
WINDOW_US: Final = 100 * MS
PAUSE_US: Final = 250 * MS
BUFFER_US: Final = 2_000 * MS
ANSWER_US: Final = 500 * MS
PERFORM_US: Final = 10_000 * MS
STAGES: Final = (HIRED, ARRIVED, CALLED, PERFORMING)
STAGE_NAMES: Final = ("hired", "arrived", "called", "performing")


def some_rules(**changed: Any) -> Rules:
    """Short times, each another one."""
    policy = changed.pop("policy", soonest)
    times = {
        "window_us": WINDOW_US,
        "pause_us": PAUSE_US,
        "buffer_us": BUFFER_US,
        "answer_us": ANSWER_US,
        "perform_us": PERFORM_US,
    }
    return Rules(policy, **(times | changed))


class Crier(Person):
    """The market's voice: what it hears is announced."""

    market: Market

    def attended_by(self, audience: int) -> None:
        self.hall.core.auctions.set_audience(self.market, audience)


def crier(hall: Hall, *queues: str, audience: int = 1, **changed: Any) -> Crier:
    """A market for these queues, or for all; somebody listens."""
    person = Crier(hall, "crier")
    hall.people.append(person)
    covered = frozenset(queue.encode() for queue in queues) or None
    person.market = hall.core.auctions.open_market(person, some_rules(**changed), covered)
    person.attended_by(audience)
    return person


def listing_of(job: Job) -> Listing:
    """What is announced of a job's queue."""
    listing = job.queue.listing
    assert listing is not None
    return listing


def bids(person: Person, job: Job, in_us: int = 0, skill: int = 0) -> None:
    person.hall.core.auctions.bid(person.me, job.id, in_us, skill)


def engagement_of(job: Job) -> Engagement:
    lease = job.lease
    assert isinstance(lease, Engagement), "nobody is hired for it"
    return lease


def hire(hall: Hall, person: Person, job: Job, in_us: int = 0, skill: int = 0) -> Engagement:
    """The job is announced; this one bids, alone, and is hired when the window is over."""
    bids(person, job, in_us, skill)
    hall.after(WINDOW_US)
    person.hears(f"hired {job.payload.decode()}")
    return engagement_of(job)


def bring_to(hall: Hall, engagement: Engagement, stage: int) -> None:
    """Let a hired worker go on until that stage."""
    core = hall.core
    if stage == ARRIVED:
        engagement.begin_us = core.now_us + BUFFER_US  # it is too early: it waits to be called
        assert not core.hiring.arrive(engagement)
    elif stage > ARRIVED:
        assert core.hiring.arrive(engagement)
    if stage == PERFORMING:
        core.hiring.perform(engagement)
    assert engagement.stage == stage
