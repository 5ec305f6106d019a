"""Answers of a hall to `metrics`, as tests want them."""

from __future__ import annotations

from typing import Any, Final

from hiringhall.core.histograms import BOUNDS_US
from hiringhall.core.histograms import BUCKETS as BUCKETS  # noqa: PLC0414 (for the tests that use this module)

_TIMES: Final = (0, [0] * BUCKETS)
_COUNTS: Final = (
    "ready",
    "parked",
    "running",
    "held",
    "delayed",
    "failed",
    "submitted_total",
    "done_total",
    "failed_total",
    "cancelled_total",
    "retried_total",
    "lost_total",
)


def queue(**changes: Any) -> dict[str, Any]:
    """A queue that has counted nothing but this."""
    empty = dict.fromkeys(_COUNTS, 0)
    return {**empty, "workers": 0, "paused": False, "oldest_us": 0, "wait": _TIMES, "run": _TIMES, **changes}


def answer(**changes: Any) -> dict[str, Any]:
    """What a hall answers with these queues; `other` has the counts that are not 0."""
    other = {"queues": 0, **queue(), **changes.pop("other", {})}
    names = ("joined", "taken", "expired", "released", "withdrawn", "stale", "woken", "announced", "hired")
    return {
        "at_us": 1_700_000_000_000_000,
        "bounds_us": list(BOUNDS_US),
        "queues": {},
        "other": other,
        "workers": {},
        "counters": dict.fromkeys([*names, "dismissed"], 0),
        "jobs": 0,
        "ended_jobs": 0,
        "changes": 0,
        "store_trouble": "",
        "closing": False,
        "paused_us": 0,
        **changes,
    }
