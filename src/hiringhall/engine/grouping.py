"""Group commit: when a commit waits a moment, so that more shares it.

Two things are worth waiting for. Sessions that shared the last two commits will ask again soon: their changes
then go to disk together. And a call, a durable job whose submitter waits for its end, may be over before its
submit would be on disk: then submit and end are one row and one commit.

The invariants: a wait is bounded in time, from the last commit or from the start of the call. A session that
waits for anything else is not kept waiting by a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.states import LEASED
from hiringhall.engine.deadlines import GROUP_COMMIT_US, NEVER

if TYPE_CHECKING:
    from hiringhall.dialects.session import Session

GROUP_COMMIT_CHANGES_MAX: Final = 256
"""With this many changes or more, a commit does not wait."""
CALLS_MAX: Final = 16
"""With more pledges than this, a session is busy: its commit does not wait for the ends of calls."""
CALL_US: Final = GROUP_COMMIT_US
"""The most that a commit waits for the end of a call, from its start on."""


class GroupCommit:
    """Knows who shared the last commits, and says how long the next one waits."""

    __slots__ = ("_average_us", "_commits", "_latest", "_size", "_until_us")

    def __init__(self) -> None:
        self._commits = 0
        """How many commits have returned without an error."""
        self._latest: list[Session] = []
        """Sessions that waited for the latest commit."""
        self._size = 0
        """How many sessions waited for the latest two commits."""
        self._until_us = 0
        """The end of the window for their next commit."""
        self._average_us = 0
        """How long a commit takes: a moving average; 0: none has returned yet."""

    @property
    def shared(self) -> bool:
        """More than one session waited for the latest commit."""
        return len(self._latest) > 1

    def count(self, answered: list[Session], now_us: int, took_us: int) -> None:
        """A commit has returned after so long; these sessions waited for it."""
        self._commits += 1
        self._average_us = (self._average_us * 7 + took_us) >> 3 if self._average_us else took_us
        size = len(answered)
        for session in answered:
            session.answered_by = self._commits
        for session in self._latest:
            size += session.answered_by != self._commits
        self._latest = answered
        self._size = size
        self._until_us = now_us + GROUP_COMMIT_US

    def wait_until_us(self, waiting: list[Session], now_us: int) -> int:
        """Until when the commit for these sessions waits for more; NEVER: it begins now."""
        if len(waiting) < self._size and now_us < self._until_us:
            return self._until_us
        until_us = NEVER
        brief_us = min(self._average_us, CALL_US)
        for session in waiting:
            call_us = _call_until_us(session, brief_us)
            if call_us <= now_us:
                return NEVER
            until_us = min(until_us, call_us)
        return until_us


def _call_until_us(session: Session, brief_us: int) -> int:
    """Until when this session rather waits for the end of a call than for the commit; 0: it does not.

    A call is worth the wait if its queue's jobs take less than `brief_us`, the time of a commit, including the
    way to the worker and back: without the wait its end would come during the commit, and need another one.
    """
    pledges = session.pledges
    if not pledges or len(pledges) > CALLS_MAX:
        return 0
    until_us = NEVER
    for pledge in pledges:
        job = pledge.job
        if job is None:
            return 0
        if job.ended:
            continue
        lease = job.lease
        if job.state != LEASED or lease is None or not pledge.watching:
            return 0
        if not 0 < job.queue.average_run_us < brief_us:
            return 0
        until_us = min(until_us, lease.started_us + brief_us)
    return until_us if until_us < NEVER else 0
