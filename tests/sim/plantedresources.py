"""Bugs for the laws to find where jobs need resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.resources.capacity import Capacity
from hiringhall.core.resources.resourcing import ResourceTerms
from hiringhall.core.workers import Worker

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease
    from hiringhall.core.terms import Requirement, Terms

_GIVE_BACK = Capacity.give_back


def _give_back_twice(self: Capacity, lease: Lease) -> bool:
    share = self.shares.get(lease.number)
    given = _GIVE_BACK(self, lease)
    if share is not None:
        for name, amount in share.amounts:
            self.free[name] += amount
    return given


def _keep(self: Capacity, lease: Lease) -> bool:
    """What the job used is not free again."""
    return self.shares.pop(lease.number, None) is not None


def _without_needs(self: ResourceTerms, terms: Terms, extras: dict[str, bytes]) -> Terms:
    return terms.with_resources(())


def _fits_by_skill(self: Worker, name: bytes, requirement: Requirement, now_us: int) -> bool:
    """A worker that has stated some resources is taken for one that has all."""
    return self.capacity is not None or not requirement[2]


BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "resource freed twice": (Capacity, "give_back", _give_back_twice),
    "resource never freed": (Capacity, "give_back", _keep),
    "needs lost at restart": (ResourceTerms, "restored", _without_needs),
    "resources not looked at": (Worker, "fits", _fits_by_skill),
}
