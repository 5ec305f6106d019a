"""Looks up ended jobs that are no longer in memory in the history of the store: parents, and what sessions ask
for by key.

One question is under way at a time. It is asked when every end so far has been passed to the store, so that the
answer includes all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.depending import rows_by_ref
from hiringhall.engine.deadlines import NEVER, RETRY_FIRST_US

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.session import Session
    from hiringhall.engine.deadlines import Deadlines
    from hiringhall.engine.writer import Writer

PARENTS_ASKED_MAX: Final = 128
"""Jobs in one question: a commit may have to wait for the answer."""
KEYS_ASKED_MAX: Final = PARENTS_ASKED_MAX // 2
"""Keys of sessions among them, while parents wait too."""


class KeyQuestion:
    """The keys that one request of a session names. They are asked for in parts."""

    __slots__ = ("asked", "found", "refs", "session", "ticket")

    def __init__(self, session: Session, ticket: int, refs: list[ParentRef]) -> None:
        self.session = session
        self.ticket = ticket
        """The session's name for its request."""
        self.refs = refs
        self.asked = 0
        """How many of them were asked for."""
        self.found: dict[ParentRef, EndRow] = {}

    def answer(self, trouble: str) -> None:
        """Ignored if the session has closed."""
        if self.session.link is not None:
            self.session.keys_looked_up(self.ticket, {} if trouble else self.found, trouble)


class HistoryLookups:
    """The question under way, and when the next one may be asked."""

    __slots__ = (
        "_asked",
        "_deadlines",
        "_keys_asked",
        "_not_before_us",
        "_scheduler",
        "_void",
        "_writer",
        "questions",
    )

    def __init__(self, scheduler: Scheduler, writer: Writer, deadlines: Deadlines) -> None:
        self._scheduler = scheduler
        self._writer = writer
        self._deadlines = deadlines
        self._asked: list[ParentRef] = []
        """The parents that are being looked up."""
        self._keys_asked = 0
        """How many keys of the first question are being looked up."""
        self.questions: list[KeyQuestion] = []
        """The questions of sessions that are not answered, the oldest first."""
        self._void = ""
        """Why a commit failed after the question was asked: the history lacks ends that it should have."""
        self._not_before_us = 0
        """The next question waits until this time, after an error."""

    @property
    def pending(self) -> bool:
        """A question is under way, or there are jobs to ask for."""
        return self._under_way or len(self.questions) > 0 or self._scheduler.graph.parent_lookups.waiting

    @property
    def _under_way(self) -> bool:
        return len(self._asked) > 0 or self._keys_asked > 0

    def ask(self) -> None:
        """At the end of a turn, if jobs wait to be looked up: ask, or set the deadline to do so."""
        scheduler = self._scheduler
        if scheduler.now_us < self._not_before_us:
            self._deadlines.parents_us = self._not_before_us
            return
        self._deadlines.parents_us = NEVER
        if self._under_way or scheduler.store_trouble or len(scheduler.ledger):
            return
        keys: list[ParentRef] = []
        if self.questions:
            question = self.questions[0]
            most = KEYS_ASKED_MAX if scheduler.graph.parent_lookups.waiting else PARENTS_ASKED_MAX
            keys = question.refs[question.asked : question.asked + most]
            question.asked += len(keys)
        self._keys_asked = len(keys)
        self._asked = scheduler.graph.parent_lookups.take(PARENTS_ASKED_MAX - len(keys))
        self._writer.look_up_parents(self._asked + keys)

    def answered(self, lines: list[EndRow], trouble: str) -> None:
        """Inside a turn: what the history holds about the jobs asked for, or why it could not be read."""
        trouble = trouble or self._void
        self._void = ""
        refs, self._asked = self._asked, []
        if trouble:
            self._not_before_us = self._scheduler.now_us + RETRY_FIRST_US
            self._scheduler.graph.parent_lookups.repeat(refs)
        else:
            self._scheduler.dependencies.found_parents(refs, lines)
        if self._keys_asked:
            self._keys_asked = 0
            self._answer_keys(lines, trouble)

    def _answer_keys(self, lines: list[EndRow], trouble: str) -> None:
        question = self.questions[0]
        if not trouble:
            question.found.update(rows_by_ref(lines))
        if trouble or question.asked >= len(question.refs) or question.session.link is None:
            del self.questions[0]
            question.answer(trouble)

    def commit_failed(self, trouble: str) -> None:
        """Ignore the answer to the question under way, if there is one. Sessions are told at once."""
        self._void = trouble if self._under_way else ""
        waiting = self.questions[1:] if self._keys_asked else self.questions
        self.questions = self.questions[:1] if self._keys_asked else []
        for question in waiting:
            question.answer(trouble)
