"""Matching by skill and time against a model that looks at every pair: whatever comes in which order, nobody
is given what is not good for it, each is given the first that is, and nobody idles beside one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.peer import Peer
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker

SECOND_US = 1_000_000
QUEUES = (b"saw", b"plane")
PATIENCE = 100


class Model:
    """All that is known, looked at from end to end."""

    def __init__(self) -> None:
        self.ready: dict[int, Job] = {}

    def fits(self, worker: Worker, job: Job, now_us: int) -> bool:
        known = any(queue is job.queue for queue in worker.abilities)
        skilled = (worker.skills or {}).get(job.queue.name, 0) >= job.terms.skill
        in_time = worker.until_us == 0 or (
            now_us < worker.until_us and now_us + _whole(job.terms.takes_us) <= worker.until_us
        )
        return known and skilled and in_time

    def first(self, worker: Worker, now_us: int) -> Job | None:
        fitting = [job for job in self.ready.values() if self.fits(worker, job, now_us)]
        return min(fitting, key=lambda job: (job.terms.priority, job.id), default=None)


def _whole(takes_us: int) -> int:
    """The times of this model are whole seconds of at most 31, which nothing rounds."""
    assert takes_us % SECOND_US == 0
    assert takes_us <= 31 * SECOND_US
    return takes_us


class LeaseHolder(Peer):
    """A worker that checks what it is given against the model."""

    def __init__(self, shop: Shop) -> None:
        super().__init__()
        self.shop = shop
        self.wakes = 0

    def woken(self) -> None:
        self.wakes += 1

    def assigned(self, lease: Lease) -> None:
        self.shop.given(lease)

    @property
    def me(self) -> Worker:
        return self.shop.core.worker(self)


class Shop:
    """A hall, its model, and four hands."""

    def __init__(self) -> None:
        self.core = Scheduler(Limits(), 1, SECOND_US)
        self.model = Model()
        self.leases: list[Lease] = []
        self.hands = [LeaseHolder(self) for _ in range(4)]
        for number, hand in enumerate(self.hands):
            for queue in QUEUES if number % 2 else QUEUES[:1]:
                self.core.can_do(hand.me, queue)

    def given(self, lease: Lease) -> None:
        assert lease.job is self.model.first(lease.worker, self.core.now_us)
        del self.model.ready[lease.job.id]
        self.leases.append(lease)

    def takes(self, hand: LeaseHolder) -> None:
        lease = self.core.take(hand.me)
        if lease is None:
            assert self.model.first(hand.me, self.core.now_us) is None
        else:
            self.given(lease)

    def end_turn(self) -> None:
        """Until all who were woken have answered, as real ones do: ask, and sleep if there is nothing."""
        for _ in range(PATIENCE):
            self.core.settle()
            self.core.audit()
            for hand in self.hands:
                if hand.me.credit:
                    assert self.model.first(hand.me, self.core.now_us) is None
            awake = [hand for hand in self.hands if hand.wakes]
            if not awake:
                break
            for hand in awake:
                assert hand.wakes == 1
                hand.wakes = 0
                taken = len(self.leases)
                self.takes(hand)
                if len(self.leases) == taken:
                    self.core.sleep(hand.me)
        else:
            raise AssertionError("they are woken for nothing, over and over")
        for hand in self.hands:
            if hand.me.asleep:
                assert self.model.first(hand.me, self.core.now_us) is None


skills = st.sampled_from([0, 0, 1, 5, 9])
times = st.sampled_from([0, 0, 1, 10, 30])
hands = st.integers(0, 3)
actions = st.one_of(
    st.tuples(
        st.just("submit"), st.sampled_from(QUEUES), skills, times, st.sampled_from([HIGH, NORMAL, NORMAL, LOW])
    ),
    st.tuples(st.just("take"), hands),
    st.tuples(st.just("sleep"), hands),
    st.tuples(st.just("offer"), hands, st.integers(0, 2)),
    st.tuples(st.just("rate"), hands, st.sampled_from(QUEUES), skills),
    st.tuples(st.just("stay"), hands, st.sampled_from([-1, 0, 5, 30, 60])),
    st.tuples(st.just("pass"), st.sampled_from([1, 4, 15])),
    st.tuples(st.just("finish"), st.integers(0, 100)),
    st.tuples(st.just("cancel"), st.integers(0, 100)),
    st.tuples(st.just("turn")),
)


@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(st.lists(actions, min_size=5, max_size=60))
def test_the_first_that_fits_and_nobody_idles(story: list[tuple[object, ...]]) -> None:
    shop = Shop()
    for action in story:
        _play(shop, action)
    shop.end_turn()


def _play(shop: Shop, action: tuple[object, ...]) -> None:
    core = shop.core
    match action:
        case ("submit", bytes(queue), int(skill), int(takes_s), int(priority)):
            terms = Terms(detached=True, skill=skill, takes_us=takes_s * SECOND_US, priority=priority)
            job = core.submit(JobSpec(queue, b"", b"", terms), None)
            shop.model.ready[job.id] = job
        case ("take", int(number)):
            hand = shop.hands[number]
            if not hand.me.credit and not hand.wakes:
                shop.takes(hand)
        case ("sleep", int(number)):
            hand = shop.hands[number]
            if not hand.me.credit and not hand.wakes:
                core.sleep(hand.me)
        case ("offer", int(number), int(slots)):
            hand = shop.hands[number]
            if not hand.me.asleep and not hand.wakes:
                core.offer(hand.me, slots)
        case ("rate", int(number), bytes(queue), int(skill)):
            core.needs.rate(shop.hands[number].me, queue, skill)
        case ("stay", int(number), int(left_s)):
            core.needs.stay(shop.hands[number].me, left_s * SECOND_US)
        case ("pass", int(seconds)):
            shop.end_turn()
            core.advance(core.now_us + seconds * SECOND_US)
        case ("finish", int(number)) if shop.leases:
            core.finish(shop.leases.pop(number % len(shop.leases)), b"")
        case ("cancel", int(number)) if shop.model.ready:
            job_id = list(shop.model.ready)[number % len(shop.model.ready)]
            core.cancel(shop.model.ready.pop(job_id))
        case ("turn",):
            shop.end_turn()
