"""Whom to hire: small functions on plain bids. One's own is any function that takes the same.

A policy is given the bids in the order in which they came, and what the job asks for; it gives one of them, or
None to have the job announced again. Of two that are as good, the first to bid.
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
    """When it can begin, on the clock of the event loop."""


class Ask(NamedTuple):
    """What the job asks for."""

    skill: int
    """Nobody with less is among the bids."""
    due_s: float
    """When it is to be begun, on the same clock."""
    now_s: float


Policy = Callable[[Sequence[Bid], Ask], Bid | None]


def soonest(bids: Sequence[Bid], ask: Ask) -> Bid | None:  # noqa: ARG001 (a policy has both)
    """Who can begin first."""
    return min(bids, key=lambda bid: bid.arrives_s, default=None)


def best_skill(bids: Sequence[Bid], ask: Ask) -> Bid | None:  # noqa: ARG001 (as above)
    """Who does it best; of those who are as good, who can begin first."""
    return min(bids, key=lambda bid: (-bid.skill, bid.arrives_s), default=None)


def sufficient_skill(bids: Sequence[Bid], ask: Ask) -> Bid | None:
    """Of those who are good enough, who can begin first."""
    return soonest([bid for bid in bids if bid.skill >= ask.skill], ask)


def least_waiting(bids: Sequence[Bid], ask: Ask) -> Bid | None:
    """Who comes nearest to the moment when the job is due, so that neither waits for the other."""
    wanted_s = max(ask.due_s, ask.now_s)
    return min(bids, key=lambda bid: abs(bid.arrives_s - wanted_s), default=None)


POLICIES: Final[dict[str, Policy]] = {
    "soonest": soonest,
    "best_skill": best_skill,
    "sufficient_skill": sufficient_skill,
    "least_waiting": least_waiting,
}
