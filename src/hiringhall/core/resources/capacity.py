"""The capacity of a worker: the resources that it has, and which of its jobs use how much of them.

Invariant: what is free and what the shares hold add up to what the worker has, for each resource and each of
its units, and nothing is ever below 0. A share is taken when a job is leased and given back when that lease
ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.amounts import ONE, amount_text
from hiringhall.core.errors import invariant
from hiringhall.core.timers import NEVER

if TYPE_CHECKING:
    from hiringhall.amounts import Stated
    from hiringhall.core.leases import Lease
    from hiringhall.core.resources.reserving import Reservation
    from hiringhall.core.terms import Amounts, Requirement
    from hiringhall.core.workers import Worker

SCORE_ONE: Final = 1_000_000


class Share:
    """What one lease uses."""

    __slots__ = ("amounts", "lease", "units")

    def __init__(self, lease: Lease, amounts: Amounts) -> None:
        self.lease = lease
        self.amounts = amounts
        self.units: dict[bytes, dict[int, int]] = {}
        """Of resources with units: how much of which of them."""


class Capacity:
    """The resources of one worker, also if it has several connections, or others hold its jobs."""

    __slots__ = ("free", "labels", "machine", "reservation", "shares", "text", "totals", "units", "workers")

    def __init__(self, text: bytes, machine: bytes, stated: Stated) -> None:
        self.text = text
        """How the worker states it."""
        self.machine = machine
        """What connections that share it name; empty: it is of one connection."""
        self.totals: dict[bytes, int] = {}
        """What it has, in thousandths."""
        self.labels: dict[bytes, list[bytes]] = {}
        """The names of the units of a resource that has some."""
        for name, amount, labels in stated:
            self.totals[name] = amount
            if labels is not None:
                self.labels[name] = labels
        self.free = dict(self.totals)
        self.units = {name: [ONE] * len(labels) for name, labels in self.labels.items()}
        """How much is free of each unit."""
        self.shares: dict[int, Share] = {}
        """By the number of the lease."""
        self.reservation: Reservation | None = None
        """The job that it is kept for; None: it is not reserved."""
        self.workers: dict[Worker, None] = {}
        """Those that may get jobs for it."""

    def fits(self, needs: Amounts) -> bool:
        """Whether so much is free."""
        return _fits(needs, self.free, self.units)

    def could_fit(self, needs: Amounts) -> bool:
        """Whether so much would be free if it had no jobs."""
        for name, need in needs:
            units = self.units.get(name)
            if need > self.totals.get(name, 0) or (units is not None and -(-need // ONE) > len(units)):
                return False
        return True

    def admits(self, name: bytes, requirement: Requirement, now_us: int) -> bool:
        """Whether a job of this queue may use it now. While it is reserved, only the job that it is reserved
        for, and those that say that they end before that one can begin.
        """
        reservation = self.reservation
        if reservation is not None and not reservation.allows(name, requirement, now_us):
            return False
        return _fits(requirement[2], self.free, self.units)

    def take(self, lease: Lease, needs: Amounts) -> None:
        """A job of these needs was leased."""
        invariant(self.fits(needs), "a worker is never given more than it has")
        share = self.shares[lease.number] = Share(lease, needs)
        for name, need in needs:
            self.free[name] -= need
            units = self.units.get(name)
            if units is not None:
                used = share.units[name] = _choose(units, need)
                for number, amount in used.items():
                    units[number] -= amount

    def give_back(self, lease: Lease) -> bool:
        """The lease has ended; False: it had no share."""
        share = self.shares.pop(lease.number, None)
        if share is None:
            return False
        _restore(share, self.free, self.units)
        return True

    def left_over(self, needs: Amounts, scales: dict[bytes, int]) -> int:
        """How much would be left free: the sum over all its resources, each as a part of the largest amount
        that any worker has. The best worker for a job is the one with the least.
        """
        left = 0
        for name, free in self.free.items():
            left += free * SCORE_ONE // (scales.get(name, 0) or 1)
        for name, need in needs:
            left -= need * SCORE_ONE // (scales.get(name, 0) or 1)
        return left

    def free_from(self, needs: Amounts, now_us: int) -> tuple[int, int]:
        """When so much should be free, by the ends that are expected; and by those that were stated, or 0 if
        it takes the end of a job of which nothing was said.
        """
        free = dict(self.free)
        units = {name: list(amounts) for name, amounts in self.units.items()}
        stated_us = expected_us = now_us
        ends = [(expected_end_us(share.lease, now_us), number) for number, share in self.shares.items()]
        for ends_us, number in sorted(ends):
            if _fits(needs, free, units):
                break
            share = self.shares[number]
            _restore(share, free, units)
            expected_us = ends_us
            if stated_us:
                stated = stated_end_us(share.lease)
                stated_us = max(stated, stated_us) if stated > now_us else 0
        return expected_us, stated_us

    def used(self) -> dict[bytes, tuple[float, float]]:
        """How much of each resource its jobs use, and how much there is."""
        return {name: ((total - self.free[name]) / ONE, total / ONE) for name, total in self.totals.items()}

    def given(self, lease: Lease) -> bytes:
        """What a lease uses, as its worker is told: with the names of the units; empty: nothing."""
        share = self.shares.get(lease.number)
        if share is None:
            return b""
        parts: list[bytes] = []
        for name, amount in share.amounts:
            units = share.units.get(name)
            part = b"%s=%s" % (name, amount_text(amount))
            if units is not None:
                labels = self.labels[name]
                part += b"[%s]" % b",".join([labels[number] for number in sorted(units)])
            parts.append(part)
        return b" ".join(parts)


def expected_end_us(lease: Lease, now_us: int) -> int:
    """When a job will end, as far as one can know: as its worker or the job says, or as long as jobs of its
    queue take. One that takes longer than that is taken for half done.
    """
    ends_us = stated_end_us(lease) or lease.started_us + lease.job.queue.average_run_us
    return ends_us if ends_us > now_us else now_us + max(now_us - lease.started_us, 1)


def stated_end_us(lease: Lease) -> int:
    """When a job should end, as was said; 0: nobody said."""
    if lease.expected_us != NEVER:
        return lease.expected_us
    takes_us = lease.job.terms.takes_us
    return lease.started_us + takes_us if takes_us else 0


def _fits(needs: Amounts, free: dict[bytes, int], all_units: dict[bytes, list[int]]) -> bool:
    for name, need in needs:
        if need > free.get(name, 0):
            return False
        units = all_units.get(name)
        if units is not None and not _has_units(units, need):
            return False
    return True


def _has_units(units: list[int], need: int) -> bool:
    """Whether the whole units that it needs are free, and a part of one more if it needs that."""
    whole, part = divmod(need, ONE)
    unused = units.count(ONE)
    if not part or unused > whole:
        return unused >= whole
    return unused == whole and any(part <= free < ONE for free in units)


def _choose(units: list[int], need: int) -> dict[int, int]:
    """How much to use of which units: whole ones from the front, and a part of the one where least is left."""
    whole, part = divmod(need, ONE)
    chosen: dict[int, int] = {}
    if part:
        _, number = min([(free, number) for number, free in enumerate(units) if free >= part])
        chosen[number] = part
    for number, free in enumerate(units):
        if not whole:
            break
        if free == ONE and number not in chosen:
            chosen[number] = ONE
            whole -= 1
    return chosen


def _restore(share: Share, free: dict[bytes, int], units: dict[bytes, list[int]]) -> None:
    for name, amount in share.amounts:
        free[name] += amount
        for number, used in share.units.get(name, {}).items():
            units[name][number] += used
