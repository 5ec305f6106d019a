"""When the engine must start a turn although nothing has arrived.

Each deadline is one attribute. NEVER means that it is not set. `next_us` is the only place that compares them.
"""

from __future__ import annotations

from typing import Final

LINGER_US: Final = 10_000
"""How long changes that no peer waits for may stay uncommitted, so that more of them share a commit."""
GROUP_COMMIT_US: Final = 2_000
"""The group commit window: how long a commit waits for the sessions that shared the last ones."""
STARTED_US: Final = 250_000
"""A job that has been with its worker for about this long is stored as started."""
RETRY_FIRST_US: Final = 250_000
"""The pause before the store is tried again after an error. It doubles with each error in a row."""
RETRY_MAX_US: Final = 5_000_000

NEVER: Final = 1 << 61


class Deadlines:
    """The engine's own deadlines. Those of jobs and workers belong to the scheduler."""

    __slots__ = ("deferred_us", "group_us", "linger_us", "parents_us", "retry_us", "started_us")

    def __init__(self) -> None:
        self.linger_us = NEVER
        """Commit changes that no peer waits for."""
        self.group_us = NEVER
        """Commit, although not every session of the group has something to commit."""
        self.deferred_us = NEVER
        """Flush the deferred notes of the ledger."""
        self.started_us = NEVER
        """Note the jobs that are still with their workers as started."""
        self.parents_us = NEVER
        """Look up parents in the history again, after an error."""
        self.retry_us = NEVER
        """Try the store again, after an error."""

    def next_us(self, scheduler_us: int) -> int:
        """The earliest of all deadlines and of the scheduler's next one. Here 0 means that there is none."""
        next_us = scheduler_us or NEVER
        next_us = min(next_us, self.linger_us)
        next_us = min(next_us, self.group_us)
        next_us = min(next_us, self.deferred_us)
        next_us = min(next_us, self.started_us)
        next_us = min(next_us, self.parents_us)
        next_us = min(next_us, self.retry_us)
        return next_us if next_us < NEVER else 0
