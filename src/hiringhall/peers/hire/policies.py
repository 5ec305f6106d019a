"""Policies: which bid is hired. Any function with this signature can be used.

A policy gets the bids in the order of arrival, and what the job asks for. It returns one of the bids, or None
to have the job announced again. If two bids are equal, the earlier one wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from uuid import UUID  # noqa: TC003 (a NamedTuple looks its types up)


class Bid(NamedTuple):
    """A worker's answer to an announcement."""

    worker: UUID
    skill: int
    arrives_s: float
    """When it can start, on the clock of the event loop."""


class Ask(NamedTuple):
    """What the job asks for."""

    skill: int
    """Bids with less are left out."""
    due_s: float
    """When it should start, on the same clock."""
    now_s: float


Policy = Callable[[Sequence[Bid], Ask], Bid | None]


def soonest(bids: Sequence[Bid], ask: Ask) -> Bid | None:  # noqa: ARG001 (a policy has both)
    """The worker that can start first."""
    return min(bids, key=lambda bid: bid.arrives_s, default=None)


def best_skill(bids: Sequence[Bid], ask: Ask) -> Bid | None:  # noqa: ARG001 (as above)
    """The worker with the highest skill; if equal, the one that can start first."""
    return min(bids, key=lambda bid: (-bid.skill, bid.arrives_s), default=None)


def sufficient_skill(bids: Sequence[Bid], ask: Ask) -> Bid | None:
    """Of the workers with enough skill, the one that can start first."""
    return soonest([bid for bid in bids if bid.skill >= ask.skill], ask)


def least_waiting(bids: Sequence[Bid], ask: Ask) -> Bid | None:
    """The worker that can start nearest to the due time, so that neither side waits long."""
    wanted_s = max(ask.due_s, ask.now_s)
    return min(bids, key=lambda bid: abs(bid.arrives_s - wanted_s), default=None)


POLICIES: Final[dict[str, Policy]] = {
    "soonest": soonest,
    "best_skill": best_skill,
    "sufficient_skill": sufficient_skill,
    "least_waiting": least_waiting,
}
