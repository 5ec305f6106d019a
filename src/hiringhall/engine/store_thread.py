"""The one thread that uses the store."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

from hiringhall.core.changes import Batch, OutputPage
from hiringhall.storage.contract import HistoryQuery, OutcomeUnknown, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import EndRow, HistoryPage
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Session
    from hiringhall.storage.contract import Store


class OutputQuestion:
    """A session asks what the workers of a job said."""

    __slots__ = ("position", "session")

    def __init__(self, session: Session, position: int) -> None:
        self.session = session
        self.position = position


class OutcomeQuestion:
    """Whether the last batch is on disk."""

    __slots__ = ()


class StoreThread:
    """Commits batches, and reads the history between two commits. Its callbacks run on this thread."""

    def __init__(
        self,
        store: Store,
        done: Callable[[str, bool, int], None],
        found: Callable[[Session, int, EndRow | None, str], None],
        found_page: Callable[[HistoryPage | None, str], None],
        found_parents: Callable[[list[EndRow], str], None],
        found_output: Callable[[Session, int, int, OutputPage, str], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._done = done
        self._unknown = ""
        """Why the outcome of the last commit is unknown; empty: it is known."""
        self._begun_ns = 0
        """When the last commit began."""
        self._found = found
        self._found_page = found_page
        self._found_parents = found_parents
        self._found_output = found_output
        self._broken = broken
        self._requests: SimpleQueue[
            tuple[Batch | OutcomeQuestion | Session | HistoryQuery | OutputQuestion | list[ParentRef], int, str]
            | None
        ] = SimpleQueue()
        self._runner = threading.Thread(target=self._run, name="hall-store", daemon=True)

    def start(self) -> None:
        self._runner.start()

    def write(self, batch: Batch, now_us: int) -> None:
        # Checked here, while the store thread is idle: there the check would release the interpreter lock, and
        # then wait for this thread to give it back.
        self._requests.put((batch, now_us, self._check()))

    def settle(self) -> None:
        self._requests.put((OutcomeQuestion(), 0, ""))

    def look_up(self, session: Session, job_id: int) -> None:
        self._requests.put((session, job_id, ""))

    def search(self, query: HistoryQuery) -> None:
        self._requests.put((query, 0, ""))

    def look_up_output(self, session: Session, job_id: int, position: int) -> None:
        self._requests.put((OutputQuestion(session, position), job_id, ""))

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        self._requests.put((refs, 0, ""))

    def stop(self) -> None:
        """Finish what was asked for, and end the thread."""
        self._requests.put(None)
        self._runner.join()

    def _run(self) -> None:
        while True:
            request = self._requests.get()
            if request is None:
                return
            what, number, trouble = request
            try:
                if isinstance(what, Batch):
                    self._begun_ns = time.monotonic_ns()
                    self._answer(trouble or self._commit(what, number))
                elif isinstance(what, OutcomeQuestion):
                    self._answer(self._settle())
                elif isinstance(what, HistoryQuery):
                    self._found_page(*self._find_page(what))
                elif isinstance(what, list):
                    self._found_parents(*self._find_parents(what))
                elif isinstance(what, OutputQuestion):
                    page, trouble = self._find_output(number, what.position)
                    self._found_output(what.session, number, what.position, page, trouble)
                else:
                    line, trouble = self._find(number)
                    self._found(what, number, line, trouble)
            except Exception as error:  # noqa: BLE001 (a bug of ours: it is raised on the loop)
                self._broken(error)
                return

    def _check(self) -> str:
        """Why a commit would be lost; empty if no reason is known."""
        try:
            self._store.check()
        except StoreError as error:
            return str(error)
        return ""

    def _commit(self, batch: Batch, now_us: int) -> str:
        """The error, or an empty text."""
        try:
            if batch.empty:
                self._store.probe()
            else:
                self._store.commit(batch, now_us)
        except OutcomeUnknown as error:
            self._unknown = str(error) or "the store failed"
            return self._unknown
        except StoreError as error:
            return str(error) or "the store failed"
        return ""

    def _settle(self) -> str:
        """Why the last batch is not on disk, or why that is still unknown; empty if it is on disk."""
        try:
            kept = self._store.settle()
        except StoreError as error:
            return str(error) or self._unknown
        trouble, self._unknown = self._unknown, ""
        return "" if kept else trouble

    def _answer(self, trouble: str) -> None:
        """A commit has its outcome, or that is unknown."""
        self._done(trouble, bool(self._unknown), (time.monotonic_ns() - self._begun_ns) // 1000)

    def _find(self, job_id: int) -> tuple[EndRow | None, str]:
        try:
            found = self._store.history(HistoryQuery(id=job_id, limit=1))
        except StoreError as error:
            return None, str(error) or "the store failed"
        return (found[0] if found else None), ""

    def _find_page(self, query: HistoryQuery) -> tuple[HistoryPage | None, str]:
        try:
            return self._store.page(query), ""
        except StoreError as error:
            return None, str(error) or "the store failed"

    def _find_output(self, job_id: int, position: int) -> tuple[OutputPage, str]:
        try:
            return self._store.output(job_id, position), ""
        except StoreError as error:
            return OutputPage([], position), str(error) or "the store failed"

    def _find_parents(self, refs: list[ParentRef]) -> tuple[list[EndRow], str]:
        try:
            return self._store.latest_ends(refs), ""
        except StoreError as error:
            return [], str(error) or "the store failed"
