"""The audit log: who changed what, and when. One line of JSON for each change, in a file of the data folder.

Invariant: the loop never waits for the file: a thread writes, and syncs. Lines that cannot be written are tried
again with the next ones, and dropped above a limit; the log says so. The latest lines are also in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall import datafiles

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "audit.jsonl"
FILE_BYTES_MAX: Final = 16 << 20
FILES: Final = 4
"""The file that is written, and older ones: audit.jsonl.1 is the latest of these."""
LATEST_MAX: Final = 1000
"""Lines in memory, for peers that ask."""
UNWRITTEN_MAX: Final = 10_000
TAIL_BYTES: Final = 1 << 20
"""How much of the file is read at the start."""
RETRY_S: Final = 5.0
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

_log = logging.getLogger("hiringhall")


class AuditLog:
    """The audit log of one hall. Without a folder it is in memory only."""

    def __init__(self, folder: Path | None, bytes_max: int = FILE_BYTES_MAX) -> None:
        self._path = folder / FILE if folder is not None else None
        self._bytes_max = bytes_max
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
        if self._path is None:
            return
        line = msgspec.json.encode(entry) + b"\n"
        if self._closed:
            # What the last connections leave behind: nothing waits for the loop any more.
            self._append(self._path, line)
            return
        with self._changed:
            if len(self._unwritten) >= UNWRITTEN_MAX:
                self._dropped += 1
                return
            self._unwritten.append(line)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write_all, args=(self._path,), name="hall-audit", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def latest(self, count: int) -> list[dict[str, Any]]:
        """The latest entries, the newest first."""
        return [self._latest[-place] for place in range(1, min(count, len(self._latest)) + 1)]

    def load(self) -> None:
        """Read the latest lines of the file, before the doors open. A line that cannot be read is left out."""
        if self._path is None:
            return
        for line in _tail(self._path):
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

    def _write_all(self, path: Path) -> None:
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
            if lines and not self._write(path, lines) and not closing:
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, RETRY_S)
                continue
            if closing:
                return

    def _write(self, path: Path, lines: list[bytes]) -> bool:
        if not self._append(path, b"".join(lines)):
            return False
        with self._changed:
            for _ in lines:
                self._unwritten.popleft()
        return True

    def _append(self, path: Path, data: bytes) -> bool:
        try:
            _append(path, data, self._bytes_max)
        except OSError as error:
            _log.error("%s cannot be written: %s; lines are kept and tried again", path, error.strerror)
            return False
        return True


def _append(path: Path, data: bytes, bytes_max: int) -> None:
    """Add lines to the file, all or none. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size + len(data) > bytes_max:
            _rotate(path)
    file = os.open(path, _APPEND, datafiles.MODE)
    try:
        status = os.fstat(file)
        os.fchmod(file, datafiles.MODE)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        except OSError:
            # The lines come again: what was written of them must not stand there twice.
            os.ftruncate(file, status.st_size)
            raise
    finally:
        os.close(file)


def _rotate(path: Path) -> None:
    """The file becomes .1, .1 becomes .2 and so on; the oldest is overwritten."""
    for number in range(FILES - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
        with contextlib.suppress(FileNotFoundError):
            newer.replace(older)


def _tail(path: Path) -> list[bytes]:
    """The last lines of the file; of the one before it too, if it was just begun."""
    lines: list[bytes] = []
    for name in (f"{path.name}.1", path.name):
        try:
            with path.with_name(name).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                begin = max(size - TAIL_BYTES, 0)
                file.seek(begin)
                found = file.read(TAIL_BYTES).splitlines()
        except OSError:
            continue
        lines += found[1:] if begin else found
    return lines[-LATEST_MAX:]
