"""Jobs that wait in the order of turns and places, and the lanes of queues whose rules need such an order.

Invariant: an entry is in one line, once, until it is gone. What is gone is dropped when it reaches the front,
or when it outnumbers the rest. So nothing is searched, and a start costs the logarithm of what waits.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from hiringhall.core.lanes import Lane

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Auction
    from hiringhall.core.jobs import Job
    from hiringhall.core.rules.tenants import Tenant

_SWEEP_MIN: Final = 64
_OLDEST_LOOKS: Final = 16
"""Jobs at the front of a lane among which the oldest is looked for."""


class Entry:
    """A job that waits: in a lane, or parked. It gets another entry when it goes from one to the other."""

    __slots__ = ("gone", "job", "number", "parked", "place", "tenant")

    def __init__(self, job: Job, place: int, tenant: Tenant) -> None:
        self.job = job
        self.place = place
        """Its place in the queue by age: lower goes first. Jobs that came back have places below all others."""
        self.number = 0
        """Of all entries of the queue, the latest has the highest."""
        self.tenant = tenant
        self.parked = False
        self.gone = False


class _Tenancy:
    """The entries of one tenant in one line."""

    __slots__ = ("entries", "tenant")

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.entries: list[tuple[int, int, Entry]] = []
        """A heap by place."""


class Line:
    """Entries, the one that goes first at the front."""

    __slots__ = ("_by_tenant", "_gone", "_heap", "live")

    def __init__(self) -> None:
        self._by_tenant: dict[Tenant, _Tenancy] = {}
        self._heap: list[tuple[int, int, _Tenancy]] = []
        """Each tenancy once, by the tag of its tenant. A tag may have grown since; it never falls."""
        self._gone = 0
        self.live = 0
        """Entries that are not gone."""

    def push(self, entry: Entry) -> None:
        """Add an entry."""
        tenant = entry.tenant
        tenancy = self._by_tenant.get(tenant)
        if tenancy is None:
            tenancy = self._by_tenant[tenant] = _Tenancy(tenant)
            heappush(self._heap, (tenant.tag, tenant.number, tenancy))
        heappush(tenancy.entries, (entry.place, entry.number, entry))
        self.live += 1

    def first(self) -> Entry | None:
        """The entry that goes first, left in place."""
        heap = self._heap
        while heap:
            tag, number, tenancy = heap[0]
            entries = tenancy.entries
            while entries and entries[0][2].gone:
                heappop(entries)
                self._gone -= 1
            if not entries:
                heappop(heap)
                del self._by_tenant[tenancy.tenant]
            elif tag < tenancy.tenant.tag:
                heapreplace(heap, (tenancy.tenant.tag, number, tenancy))
            else:
                return entries[0][2]
        return None

    def discard(self, entry: Entry) -> None:
        """An entry of this line is gone."""
        entry.gone = True
        self.live -= 1
        self._gone += 1
        if self._gone > _SWEEP_MIN and self._gone > self.live:
            for tenancy in self._by_tenant.values():
                tenancy.entries = [item for item in tenancy.entries if not item[2].gone]
                heapify(tenancy.entries)
            self._gone = 0

    def all(self) -> list[Entry]:
        """All entries by place."""
        found = [item for tenancy in self._by_tenant.values() for item in tenancy.entries if not item[2].gone]
        found.sort()
        return [item[2] for item in found]

    def front(self, count: int, known: dict[int, Auction]) -> list[Job]:
        """The jobs at the front that are not in `known`, at most `count`: of each tenant one, then the next of
        each. It looks at all tenants, but not at all jobs.
        """
        walks = [_Walk(tenancy) for tenancy in sorted(self._by_tenant.values(), key=_turn)]
        found: list[Job] = []
        while walks and len(found) < count:
            walking: list[_Walk] = []
            for walk in walks:
                job = walk.next_of(known)
                if job is not None:
                    found.append(job)
                    walking.append(walk)
            walks = walking
        return found[:count]

    @property
    def entries(self) -> int:
        """Entries, including those that are gone."""
        return self.live + self._gone


def _turn(tenancy: _Tenancy) -> tuple[int, int]:
    return tenancy.tenant.tag, tenancy.tenant.number


class _Walk:
    """Goes through the heap of a tenancy in order, without changing it."""

    __slots__ = ("_entries", "_next")

    def __init__(self, tenancy: _Tenancy) -> None:
        self._entries = tenancy.entries
        self._next: list[tuple[int, int, int]] = []
        """Place, number and index of the entries whose parents in the heap were visited."""
        self._add(0)

    def _add(self, index: int) -> None:
        if index < len(self._entries):
            place, number, _ = self._entries[index]
            heappush(self._next, (place, number, index))

    def next_of(self, known: dict[int, Auction]) -> Job | None:
        """The next job that is not in `known`."""
        while self._next:
            _, _, index = heappop(self._next)
            self._add(2 * index + 1)
            self._add(2 * index + 2)
            entry = self._entries[index][2]
            if not entry.gone and entry.job.id not in known:
                return entry.job
        return None


class FairLane(Lane):
    """The ready jobs of one queue, priority and requirement, in the order of turns and places. It has no
    ghosts: a job that leaves it comes back with another entry.
    """

    __slots__ = ("line",)

    def __init__(self) -> None:
        super().__init__()
        self.line = Line()

    def enter(self, entry: Entry) -> None:
        """A job is ready."""
        entry.job.in_lane = True
        self.line.push(entry)
        self.ready += 1

    def leave(self, entry: Entry) -> None:
        """A job is no longer ready."""
        entry.job.in_lane = False
        self.line.discard(entry)
        self.ready -= 1

    def head(self) -> Job | None:
        entry = self.line.first()
        return entry.job if entry is not None else None

    def clear(self) -> None:
        self.line = Line()

    def waiting(self) -> list[Job]:
        """The ready jobs, the oldest first."""
        return [entry.job for entry in self.line.all()]

    def first(self, count: int, known: dict[int, Auction]) -> list[Job]:
        return self.line.front(count, known)

    def oldest_us(self) -> int:
        return min([job.queued_us for job in self.line.front(_OLDEST_LOOKS, {})], default=0)

    @property
    def entries(self) -> int:
        return self.line.entries
