"""Searches in the history, and requests for output, that sessions have asked for.

Invariant: of each one page is under way at a time. A commit that comes meanwhile is next, so it waits for one
page, and not for all that were asked for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiringhall.core.changes import HistoryPage, HistoryQuery
    from hiringhall.dialects.session import Session
    from hiringhall.engine.writer import Writer


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
