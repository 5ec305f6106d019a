"""The states of a job, its legal moves, and the codes with which it ends.

Invariant: a job is in exactly one state and moves only along `MOVES`.
"""

from __future__ import annotations

from typing import Final

NEW: Final = -1
"""Just created: in no index yet."""
HELD: Final = 0
"""Waiting for its parents."""
DELAYED: Final = 1
"""Due later, or backing off after a failure."""
QUEUED: Final = 2
"""Ready for the next worker."""
LEASED: Final = 3
"""With a worker."""
DONE: Final = 4
FAILED: Final = 5
"""If the job is durable it is a dead letter: kept with its reason, and can be retried."""
CANCELLED: Final = 6

STATE_NAMES: Final = ("held", "delayed", "queued", "leased", "done", "failed", "cancelled")

MOVES: Final = (
    (HELD, (DELAYED, QUEUED, FAILED, CANCELLED)),
    (DELAYED, (HELD, QUEUED, LEASED, CANCELLED)),
    (QUEUED, (HELD, DELAYED, LEASED, CANCELLED)),
    (LEASED, (QUEUED, DELAYED, DONE, FAILED, CANCELLED)),
    (DONE, ()),
    (FAILED, (HELD, QUEUED)),
    (CANCELLED, (HELD, QUEUED)),
)
"""Every legal move of a job."""
FIRST_STATES: Final = (HELD, DELAYED, QUEUED, LEASED)
"""The states that a NEW job may move to."""

SUCCESS: Final = 0
FAILURE: Final = 1
"""The code of a failure whose worker gave none."""
GIVEN_BACK: Final = 0
"""The code of an attempt whose worker gave the job back."""
QUIT_TOO_OFTEN: Final = 122
"""The code of a job that too many hired workers quit after they had begun."""
CUT_SHORT: Final = 123
"""The code of an attempt that ended with the hall, or because another worker reported first."""
TIMED_OUT: Final = 124
"""The code of a job that exceeded its run limit."""
LOST: Final = 125
"""The code of a job that lost too many workers."""
PARENT_FAILED: Final = 126
"""The code of a job that failed because a parent did."""
WITHDRAWN: Final = 127
"""The code of a job that was withdrawn before it was acknowledged."""
CALLED_OFF: Final = 130
"""The code of a job that was cancelled, lost its last watcher, or expired."""
