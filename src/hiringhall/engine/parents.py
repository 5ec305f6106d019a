"""Looks up parents that are no longer in memory in the history of the store.

One question is under way at a time. It is asked when every end so far has been passed to the store, so that the
answer includes all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.engine.deadlines import NEVER, RETRY_FIRST_US

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.engine.deadlines import Deadlines
    from hiringhall.engine.writer import Writer

PARENTS_ASKED_MAX: Final = 128
"""Parents in one question: a commit may have to wait for the answer."""


class ParentLookUps:
    """The question under way, and when the next one may be asked."""

    __slots__ = ("_asked", "_deadlines", "_not_before_us", "_scheduler", "_void", "_writer")

    def __init__(self, scheduler: Scheduler, writer: Writer, deadlines: Deadlines) -> None:
        self._scheduler = scheduler
        self._writer = writer
        self._deadlines = deadlines
        self._asked: list[ParentRef] = []
        """The parents that are being looked up."""
        self._void = False
        """A commit failed after the question was asked: the history lacks ends that it should have."""
        self._not_before_us = 0
        """The next question waits until this time, after an error."""

    @property
    def pending(self) -> bool:
        """A question is under way, or there are parents to ask for."""
        return len(self._asked) > 0 or self._scheduler.graph.inquiries.waiting

    def ask(self) -> None:
        """At the end of a turn, if parents wait to be looked up: ask, or set the deadline to do so."""
        scheduler = self._scheduler
        if scheduler.now_us < self._not_before_us:
            self._deadlines.parents_us = self._not_before_us
            return
        self._deadlines.parents_us = NEVER
        if self._asked or scheduler.store_trouble or len(scheduler.ledger):
            return
        self._asked = scheduler.graph.inquiries.take(PARENTS_ASKED_MAX)
        self._writer.look_up_parents(self._asked)

    def answered(self, lines: list[EndRow], trouble: str) -> None:
        """Inside a turn: what the history holds about the parents asked for, or why it could not be read."""
        refs, self._asked = self._asked, []
        if trouble or self._void:
            self._void = False
            self._not_before_us = self._scheduler.now_us + RETRY_FIRST_US
            self._scheduler.graph.inquiries.repeat(refs)
        else:
            self._scheduler.dependencies.found_parents(refs, lines)

    def commit_failed(self) -> None:
        """Ignore the answer to the question under way, if there is one."""
        self._void = len(self._asked) > 0
