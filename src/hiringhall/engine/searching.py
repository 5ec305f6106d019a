"""What sessions read from the history: the ends of single jobs, searches, and output.

Invariants: a session that asks for a job is told no end that was out of date when it asked, and is not told
that there is none while one is about to be stored. Of searches and of output one page is under way at a time. A
commit that comes meanwhile is next, so it waits for one page, and not for all that were asked for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow, HistoryPage, HistoryQuery
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.session import Session
    from hiringhall.engine.writer import Writer


class EndReads:
    """Look-ups of single jobs. One that has to wait for a commit is kept here."""

    __slots__ = ("_scheduler", "_waiting", "_writer")

    def __init__(self, scheduler: Scheduler, writer: Writer) -> None:
        self._scheduler = scheduler
        self._writer = writer
        self._waiting: list[tuple[Session, int]] = []
        """Session and job: the end of the job is not in the history yet."""

    def ask(self, session: Session, job_id: int) -> None:
        """Read the job now, or after the commit that has its end. A dead letter that was retried and has ended
        again is in the history as it ended before, or, once the retry is on disk, not at all.
        """
        if self._scheduler.unwritten(job_id) is not None:
            self._waiting.append((session, job_id))
        else:
            self._writer.look_up(session, job_id)

    def answered(self, session: Session, job_id: int, line: EndRow | None, trouble: str) -> None:
        """Inside a turn: what the history holds. Ignored if the session has closed."""
        if session.link is None:
            return
        if line is None and not trouble and self._scheduler.unwritten(job_id) is not None:
            self._waiting.append((session, job_id))  # it was retried, and has ended, since it was asked for
        else:
            session.looked_up(job_id, line, trouble)

    def committed(self) -> None:
        """Inside a turn: a batch is on disk. Ask for what has waited for it."""
        waiting, self._waiting = self._waiting, []
        for session, job_id in waiting:
            if session.link is not None:
                self.ask(session, job_id)


class Searches:
    """The page under way, and those that wait for it."""

    __slots__ = ("_waiting", "_writer")

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._waiting: deque[tuple[Session, int, HistoryQuery]] = deque()
        """The first of them is under way."""

    def ask(self, session: Session, number: int, query: HistoryQuery) -> None:
        self._waiting.append((session, number, query))
        if len(self._waiting) == 1:
            self._writer.search(query)

    def answered(self, page: HistoryPage | None, trouble: str) -> None:
        """Inside a turn: a page, or why the history could not be read."""
        session, number, _ = self._waiting[0]
        if session.link is not None:
            session.searched(number, page, trouble)  # it may ask for more
        self._waiting.popleft()
        while self._waiting and self._waiting[0][0].link is None:
            self._waiting.popleft()
        if self._waiting:
            self._writer.search(self._waiting[0][2])


class OutputReads:
    """The output under way, and what waits for it."""

    __slots__ = ("_waiting", "_writer")

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._waiting: deque[tuple[Session, int, int]] = deque()
        """Session, job and position. The first of them is under way."""

    def ask(self, session: Session, job_id: int, position: int) -> None:
        self._waiting.append((session, job_id, position))
        if len(self._waiting) == 1:
            self._writer.look_up_output(session, job_id, position)

    def answered(self) -> None:
        """Inside a turn: the first of them is answered, and the next is asked for."""
        self._waiting.popleft()
        while self._waiting and self._waiting[0][0].link is None:
            self._waiting.popleft()
        if self._waiting:
            self._writer.look_up_output(*self._waiting[0])
