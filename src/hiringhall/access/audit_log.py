"""The audit log: who changed what, and when. One line of JSON for each change, a document of the hall.

Invariant: the loop never waits for the disk: a thread writes, and syncs. Lines that cannot be written are tried
again with the next ones, and dropped above a limit; the log says so. The latest lines are also in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.storage.documents import DocumentError

if TYPE_CHECKING:
    from hiringhall.storage.documents import Documents

FILE: Final = "audit.jsonl"
LATEST_MAX: Final = 1000
"""Lines in memory, for peers that ask."""
UNWRITTEN_MAX: Final = 10_000
RETRY_S: Final = 5.0

_log = logging.getLogger("hiringhall")


class AuditLog:
    """The audit log of one hall. Without documents it is in memory only."""

    def __init__(self, documents: Documents | None) -> None:
        self._documents = documents
        self._latest: deque[dict[str, Any]] = deque(maxlen=LATEST_MAX)
        self._unwritten: deque[bytes] = deque()
        self._dropped = 0
        self._changed = threading.Condition()
        """Guards what stands above and below."""
        self._closing = False
        self._closed = False
        """The thread has written all, and has ended."""
        self._thread: threading.Thread | None = None

    # --- called by the loop

    def note(self, entry: dict[str, Any]) -> None:
        """A change was made, or refused."""
        self._latest.append(entry)
        if self._documents is None:
            return
        line = msgspec.json.encode(entry)
        if self._closed:
            # What the last connections leave behind: nothing waits for the loop any more.
            self._append(self._documents, [line])
            return
        with self._changed:
            if len(self._unwritten) >= UNWRITTEN_MAX:
                self._dropped += 1
                return
            self._unwritten.append(line)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write_all, args=(self._documents,), name="hall-audit", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def latest(self, count: int) -> list[dict[str, Any]]:
        """The latest entries, the newest first."""
        return [self._latest[-place] for place in range(1, min(count, len(self._latest)) + 1)]

    def load(self) -> None:
        """Read the latest lines, before the doors open. A line that cannot be read is left out."""
        if self._documents is None:
            return
        try:
            lines = self._documents.tail(FILE, LATEST_MAX)
        except DocumentError as error:
            _log.error("the latest lines of the audit log are not known: %s", error)
            return
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                self._latest.append(msgspec.json.decode(line, type=dict[str, Any]))

    def start(self) -> None:
        """Its thread starts with the first line."""

    def stop_taking(self) -> None:
        """Changes are noted until the hall closes."""

    async def close(self) -> None:
        """Write what is left. The disk gets a few seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        thread = self._thread
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, thread.join, RETRY_S)
        self._closed = thread is None or not thread.is_alive()

    # --- the thread

    def _write_all(self, documents: Documents) -> None:
        while True:
            with self._changed:
                while not self._unwritten and not self._closing:
                    self._changed.wait()
                lines = list(self._unwritten)
                dropped, self._dropped = self._dropped, 0
                closing = self._closing
            if dropped:
                _log.error(
                    "the audit log has lost %d lines: they came faster than they could be written", dropped
                )
            if lines and not self._write(documents, lines) and not closing:
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, RETRY_S)
                continue
            if closing:
                return

    def _write(self, documents: Documents, lines: list[bytes]) -> bool:
        if not self._append(documents, lines):
            return False
        with self._changed:
            for _ in lines:
                self._unwritten.popleft()
        return True

    def _append(self, documents: Documents, lines: list[bytes]) -> bool:
        try:
            documents.append(FILE, lines)
        except DocumentError as error:
            _log.error("%s; lines of the audit log are kept and tried again", error)
            return False
        return True
