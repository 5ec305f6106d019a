"""Finds the policy of a hire door: one of the core, or a function of the user."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from hiringhall.core.bidding.policies import POLICIES, soonest

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.bidding.markets import Ask, Offer

    Policy = Callable[[list[Offer], Ask], Offer | None]

_log = logging.getLogger("hiringhall")


def find_policy(name: str) -> Policy:
    """A policy by its name, or a function of the user as `module:function`. Raises LookupError."""
    if name in POLICIES:
        return POLICIES[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise LookupError(f'"{name}" is not a policy; it takes {", ".join(POLICIES)}, or module:function')
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:
        raise LookupError(f'"{name}" cannot be loaded: {error}') from error
    if callable(found):
        return OwnPolicy(name, found)
    raise LookupError(f'"{name}" is not a function')


class OwnPolicy:
    """A policy of the user. If it fails, that is logged, and `soonest` chooses instead."""

    def __init__(self, name: str, choose: Policy) -> None:
        self._name = name
        self._choose = choose

    def __call__(self, offers: list[Offer], ask: Ask) -> Offer | None:
        try:
            chosen = self._choose(list(offers), ask)
        except Exception:  # noqa: BLE001 (code of the user may raise anything)
            _log.exception("the policy %s failed; soonest is used instead", self._name)
            return soonest(offers, ask)
        if chosen is None or any(chosen is offer for offer in offers):
            return chosen
        _log.error("the policy %s chose %r, which is not an offer; soonest is used instead", self._name, chosen)
        return soonest(offers, ask)
