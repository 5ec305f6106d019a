"""Hiring policies: small functions that choose one of the offers. Your own is named as `module:function`.

A policy receives the offers of an auction, in the order in which they came, and what the job asks for. It
returns one of the offers, or None to have the job announced again. Of equal offers the first one wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.bidding.markets import Ask, Offer


def soonest(offers: list[Offer], ask: Ask) -> Offer | None:  # noqa: ARG001 (a policy has both)
    """The worker that can begin first."""
    best: Offer | None = None
    for offer in offers:
        if best is None or offer.arrives_us < best.arrives_us:
            best = offer
    return best


def best_skill(offers: list[Offer], ask: Ask) -> Offer | None:  # noqa: ARG001 (as above)
    """The worker with the most skill; of equal ones the one that can begin first."""
    best: Offer | None = None
    for offer in offers:
        if (
            best is None
            or offer.skill > best.skill
            or (offer.skill == best.skill and offer.arrives_us < best.arrives_us)
        ):
            best = offer
    return best


def sufficient_skill(offers: list[Offer], ask: Ask) -> Offer | None:
    """Of the workers with enough skill, the one that can begin first."""
    return soonest([offer for offer in offers if offer.skill >= ask.skill], ask)


def least_waiting(offers: list[Offer], ask: Ask) -> Offer | None:
    """The worker that arrives closest to the job's due time."""
    wanted_us = max(ask.due_us, ask.now_us)
    best: Offer | None = None
    for offer in offers:
        if best is None or abs(offer.arrives_us - wanted_us) < abs(best.arrives_us - wanted_us):
            best = offer
    return best


POLICIES: Final[dict[str, Callable[[list[Offer], Ask], Offer | None]]] = {
    "soonest": soonest,
    "best_skill": best_skill,
    "sufficient_skill": sufficient_skill,
    "least_waiting": least_waiting,
}
