"""The tenants that share a queue: each has its turn, by its weight.

Every tenant has a tag, its virtual time. The tenant with the lowest tag is served, and each start moves its tag
on by a step, which is shorter for a larger weight (start-time fair queueing).

Invariant: a tenant that comes, or comes back, does not begin before the tag that was served last, so nobody
saves up turns.
"""

from __future__ import annotations

from typing import Final

STEP: Final = 720_720
"""What a start costs a tenant of weight 1: divisible by all numbers up to 16."""
_IDLE_MAX: Final = 1024
"""With this many more tenants without a waiting job than with one, they are forgotten."""


class Tenant:
    """One tenant of a queue, for jobs of one priority."""

    __slots__ = ("name", "number", "step", "tag", "waiting")

    def __init__(self, name: bytes, number: int, step: int, tag: int) -> None:
        self.name = name
        self.number = number
        """Who came first, if the tags are the same."""
        self.step = step
        self.tag = tag
        """Never falls."""
        self.waiting = 0
        """Its jobs that are ready or parked."""


class Tenants:
    """The tenants of a queue, for jobs of one priority."""

    __slots__ = ("_by_name", "_idle", "_last_number", "_served", "_weights")

    def __init__(self, weights: dict[bytes, int]) -> None:
        self._weights = weights
        self._by_name: dict[bytes, Tenant] = {}
        self._idle = 0
        """Tenants without a waiting job."""
        self._last_number = 0
        self._served = 0
        """The tag of the tenant that was served last, before that start."""

    def enter(self, name: bytes) -> Tenant:
        """A job of this tenant waits."""
        tenant = self._get(name)
        if not tenant.waiting:
            self._idle -= 1
            tenant.tag = max(tenant.tag, self._served)
        tenant.waiting += 1
        return tenant

    def leave(self, tenant: Tenant) -> None:
        """A job of this tenant no longer waits."""
        tenant.waiting -= 1
        if not tenant.waiting:
            self._idle += 1
            if self._idle > _IDLE_MAX and 2 * self._idle > len(self._by_name):
                # They come back at the tag that is served then: nobody gains more than one turn.
                self._by_name = {name: kept for name, kept in self._by_name.items() if kept.waiting}
                self._idle = 0

    def charge(self, name: bytes) -> None:
        """A job of this tenant has started."""
        tenant = self._get(name)
        tenant.tag = max(tenant.tag, self._served) if not tenant.waiting else tenant.tag
        self._served = tenant.tag
        tenant.tag += tenant.step

    def _get(self, name: bytes) -> Tenant:
        tenant = self._by_name.get(name)
        if tenant is None:
            self._last_number += 1
            step = STEP // self._weights.get(name, 1)
            tenant = self._by_name[name] = Tenant(name, self._last_number, step, self._served)
            self._idle += 1
        return tenant

    def waiting(self) -> dict[bytes, int]:
        """How many jobs of each tenant wait."""
        return {name: tenant.waiting for name, tenant in self._by_name.items() if tenant.waiting}
