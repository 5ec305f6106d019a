"""How much work one request about the hall as a whole may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Bounds:
    """The limits of lists and summaries."""

    searches_max: int = 16
    """Lists of one connection that may be under way at once."""
    ids_max: int = 10_000
    """Ids of live jobs that are looked at in one turn."""
    steps_max: int = 64
    """Turns, or pages of the store, for one answer."""
    search_us_max: int = 100_000
    """How long a search among the live jobs goes on. What was found by then is the answer."""
    summary_queues_max: int = 1000
    """Queues of one summary: the most active ones."""
    metrics_queues_max: int = 1000
    """Queues that the answer to `metrics` has one by one: those with the most jobs. The rest is summed."""
    summary_waiting_bytes_max: int = 65_536
    """With more output than this that waits for the store, a subscriber is sent no summary."""


DEFAULT_BOUNDS: Final = Bounds()
