"""Filters of the API as filters of the native protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from hiringhall.records.record import as_microseconds
from hiringhall.web.values import data_of

if TYPE_CHECKING:
    from hiringhall.web.bodies import DeadChoice, LiveChoice
    from hiringhall.web.questions import HistoryFilter, LiveFilter


def data(stated: str) -> bytes:
    """Text of a parameter as bytes; what was not UTF-8 is as it was."""
    return stated.encode(errors="surrogateescape")


def may_match(asked: LiveFilter | LiveChoice | HistoryFilter | DeadChoice) -> bool:
    """False: the period that is asked for ends before it begins, so nothing is in it."""
    return asked.since is UNSET or asked.until is UNSET or asked.since <= asked.until


def live(asked: LiveFilter | LiveChoice) -> dict[str, Any]:
    """The filters of `jobs` and `count`."""
    found = _common(asked)
    if asked.state is not UNSET:
        found["state"] = "leased" if asked.state == "running" else asked.state
    if asked.situation is not UNSET:
        found["situation"] = asked.situation
    if asked.worker is not UNSET:
        found["worker"] = int(asked.worker)
    return found


def ended(asked: HistoryFilter | DeadChoice) -> dict[str, Any]:
    """The filters of `history`."""
    found = _common(asked)
    if asked.state is not UNSET:
        found["state"] = asked.state
    return found


def _common(asked: LiveFilter | LiveChoice | HistoryFilter | DeadChoice) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("queue", "key", "text"):
        stated = getattr(asked, name)
        encoded = getattr(asked, f"{name}_base64", UNSET)
        if encoded is not UNSET:
            found[name] = data_of(name, stated, encoded)
        elif stated is not UNSET:
            found[name] = data(stated)
    if asked.since is not UNSET:
        found["from_us"] = max(0, as_microseconds(asked.since))
    if asked.until is not UNSET:
        found["to_us"] = max(0, as_microseconds(asked.until))
    return found
