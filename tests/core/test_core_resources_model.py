"""Resources against an oracle that looks at every pair: whatever comes in which order, no worker is ever
overbooked, each job goes in its order, and nothing waits beside what it fits.
"""

from __future__ import annotations

from fractions import Fraction
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
TOTALS = ("cpus=4 gpus=2", "cpus=2 mem=2G", "cpus=8", "gpus=[a,b,c] cpus=1.5")
NEEDS = (
    *("", "cpus=1", "cpus=0.5", "cpus=2", "cpus=4", "cpus=8", "mem=1G cpus=1", "mem=3G"),
    *("gpus=1", "gpus=0.5", "gpus=2", "gpus=1.5 cpus=1"),
)


def _amounts(text: str) -> dict[str, Fraction]:
    """An own reading of the texts above: how much of what."""
    found: dict[str, Fraction] = {}
    for part in text.split():
        name, _, amount = part.partition("=")
        if amount.startswith("["):
            found[name] = Fraction(len(amount[1:-1].split(",")))
        else:
            found[name] = Fraction(amount.rstrip("G")) * ((1 << 30) if amount.endswith("G") else 1)
    return found


class Oracle:
    """A worker as it should be: the jobs that it has, and what they use."""

    def __init__(self, text: str) -> None:
        self.totals = _amounts(text)
        self.used: dict[int, dict[str, Fraction]] = {}
        self.gpus: dict[int, dict[str, Fraction]] = {}
        """By job: how much of which unit, as the worker was told."""

    def fits(self, text: str) -> bool:
        for name, need in _amounts(text).items():
            total = self.totals.get(name, Fraction(0))
            if need > total - sum(used.get(name, 0) for used in self.used.values()):
                return False
            if name == "gpus" and not self._has_gpus(need, int(total)):
                return False
        return True

    def _has_gpus(self, need: Fraction, count: int) -> bool:
        busy: dict[str, Fraction] = {}
        for units in self.gpus.values():
            for unit, part in units.items():
                busy[unit] = busy.get(unit, Fraction(0)) + part
        whole, part = need // 1, need % 1
        unused = count - len(busy)
        if not part:
            return unused >= whole
        return unused > whole or (unused >= whole and any(1 - used >= part for used in busy.values()))

    def start(self, job_id: int, text: str, told: str) -> None:
        needs = _amounts(text)
        self.used[job_id] = needs
        if "gpus" in needs:
            units = next(part for part in told.split() if part.startswith("gpus="))
            listed = units.partition("[")[2][:-1].split(",")
            assert len(listed) == -(-needs["gpus"] // 1), "it is told as many units as it needs"
            self.gpus[job_id] = self._shared(needs["gpus"], listed)

    def _shared(self, need: Fraction, listed: list[str]) -> dict[str, Fraction]:
        """A part is of the unit that others use, or of any if none of them is used."""
        part = need % 1
        if not part:
            return dict.fromkeys(listed, Fraction(1))
        busy = {unit for units in self.gpus.values() for unit in units}
        partial = next((unit for unit in listed if unit in busy), None)
        if partial is None:
            partial = listed[0]  # `check` is told which by the capacity
        return {unit: part if unit == partial else Fraction(1) for unit in listed}

    def end(self, job_id: int) -> None:
        del self.used[job_id]
        self.gpus.pop(job_id, None)

    def check(self) -> None:
        for name, total in self.totals.items():
            assert sum(used.get(name, 0) for used in self.used.values()) <= total, f"{name} is overbooked"
        busy: dict[str, Fraction] = {}
        for units in self.gpus.values():
            for unit, part in units.items():
                busy[unit] = busy.get(unit, Fraction(0)) + part
        assert max(busy.values(), default=0) <= 1, "a unit is used twice"


class Hand(Peer):
    """A worker that notes what it is given."""

    def __init__(self, shop: Shop, text: str) -> None:
        super().__init__()
        self.shop = shop
        self.oracle = Oracle(text)
        self.wakes = 0

    def woken(self) -> None:
        self.wakes += 1

    def assigned(self, lease: Lease) -> None:
        self.shop.given(self, lease)

    @property
    def me(self) -> Worker:
        return self.shop.core.worker(self)


class Shop:
    """A hall without reservations, which have tests of their own, and four workers."""

    def __init__(self) -> None:
        self.core = Scheduler(Limits(reserve_after_us=1 << 60), 1, SECOND_US)
        self.ready: dict[int, Job] = {}
        self.leases: list[Lease] = []
        self.hands = [Hand(self, text) for text in TOTALS]
        for number, hand in enumerate(self.hands):
            self.core.resources.equip(hand.me, TOTALS[number].encode())
            for queue in QUEUES if number % 2 else QUEUES[:1]:
                self.core.can_do(hand.me, queue)

    def fits(self, hand: Hand, job: Job) -> bool:
        known = any(queue is job.queue for queue in hand.me.abilities)
        return known and hand.oracle.fits(_needs(job))

    def first(self, hand: Hand) -> Job | None:
        fitting = [job for job in self.ready.values() if self.fits(hand, job)]
        return min(fitting, key=lambda job: (job.terms.priority, job.id), default=None)

    def given(self, hand: Hand, lease: Lease) -> None:
        job = lease.job
        assert job is self.first(hand), "a worker is given the first job that fits it"
        capacity = hand.me.capacity
        assert capacity is not None
        hand.oracle.start(job.id, _needs(job), capacity.given(lease).decode())
        hand.oracle.check()
        del self.ready[job.id]
        self.leases.append(lease)

    def ended(self, lease: Lease) -> None:
        hand = lease.worker.peer
        assert isinstance(hand, Hand)
        hand.oracle.end(lease.job.id)

    def takes(self, hand: Hand) -> None:
        lease = self.core.take(hand.me)
        if lease is None:
            assert self.first(hand) is None
        else:
            self.given(hand, lease)

    def end_turn(self) -> None:
        for _ in range(200):
            self.core.settle()
            self.core.audit()
            for hand in self.hands:
                if hand.me.credit:
                    assert self.first(hand) is None, "no slot is empty while a job fits"
            awake = [hand for hand in self.hands if hand.wakes]
            if not awake:
                break
            for hand in awake:
                hand.wakes = 0
                taken = len(self.leases)
                self.takes(hand)
                if len(self.leases) == taken:
                    self.core.sleep(hand.me)
        else:
            raise AssertionError("they are woken for nothing, over and over")
        for hand in self.hands:
            if hand.me.asleep:
                assert self.first(hand) is None, "nobody sleeps while a job fits"
            capacity = hand.me.capacity
            assert capacity is not None
            for name, total in hand.oracle.totals.items():
                used = sum(used.get(name, 0) for used in hand.oracle.used.values())
                assert capacity.free[name.encode()] == (total - used) * 1000, "what is free is what nobody uses"


def _needs(job: Job) -> str:
    return (job.extras or {}).get("resources", b"").decode()


# Parts of units are only of half a unit: then it does not matter to the oracle which of them a job has.
actions = st.one_of(
    st.tuples(
        st.just("submit"),
        st.sampled_from(QUEUES),
        st.sampled_from(NEEDS),
        st.sampled_from([HIGH, NORMAL, NORMAL, LOW]),
    ),
    st.tuples(st.just("take"), st.integers(0, 3)),
    st.tuples(st.just("sleep"), st.integers(0, 3)),
    st.tuples(st.just("offer"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.sampled_from(["finish", "fail", "release", "cancel"]), st.integers(0, 100)),
    st.tuples(st.just("withdraw"), st.integers(0, 100)),
    st.tuples(st.just("turn")),
)


@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(st.lists(actions, min_size=5, max_size=80))
def test_no_worker_is_overbooked_and_nothing_waits_beside_what_it_fits(story: list[tuple[object, ...]]) -> None:
    shop = Shop()
    for action in story:
        _play(shop, action)
    shop.end_turn()


def _play(shop: Shop, action: tuple[object, ...]) -> None:
    core = shop.core
    match action:
        case ("submit", bytes(queue), str(needs), int(priority)):
            extras = {"resources": needs.encode()} if needs else None
            terms = Terms(detached=True, priority=priority)
            job = core.submit(JobSpec(queue, b"", terms=terms, extras=extras), None)
            shop.ready[job.id] = job
        case ("take", int(number)):
            shop.takes(shop.hands[number])
        case ("sleep", int(number)):
            hand = shop.hands[number]
            if not hand.me.asleep and not hand.me.credit:
                hand.wakes = 0
                core.sleep(hand.me)
        case ("offer", int(number), int(slots)):
            hand = shop.hands[number]
            if not hand.me.asleep and hand.me.waking is None:
                core.offer(hand.me, slots)
        case ("withdraw", int(number)) if shop.ready:
            job = list(shop.ready.values())[number % len(shop.ready)]
            core.cancel(job)
            del shop.ready[job.id]
        case (str(end), int(number)) if shop.leases and end in ("finish", "fail", "release", "cancel"):
            lease = shop.leases.pop(number % len(shop.leases))
            shop.ended(lease)
            if end == "finish":
                core.finish(lease, b"")
            elif end == "fail":
                core.fail(lease)
            elif end == "cancel":
                core.cancel(lease.job)
            else:
                shop.ready[lease.job.id] = lease.job
                core.release(lease)
        case ("turn",):
            shop.end_turn()
