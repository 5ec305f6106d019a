"""The documents of a data folder: small files that are replaced as a whole, and logs that are rotated.

Invariant: a file is complete at every moment: a new version is written to another name, synced, renamed. Only
its owner can read it. A writer locks the folder; a reader needs no lock.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from hiringhall.storage.documents import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hiringhall.storage.documents import Stamp

LOG_BYTES_MAX: Final = 16 << 20
LOG_FILES: Final = 4
"""The file of a log that is written, and older ones: the name with .1 is the latest of these."""
LINE_BYTES: Final = 1 << 10
"""For each line that is wanted, this much of the end of a file is read: most are shorter."""
_MODE: Final = 0o600
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class DataFolder:
    """The documents of a folder, which may not exist yet."""

    shared: Final = False

    def __init__(self, path: Path, log_bytes_max: int = LOG_BYTES_MAX) -> None:
        self.path = path
        self._log_bytes_max = log_bytes_max

    @property
    def place(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        return self.path.exists()

    def where(self, name: str) -> str:
        return str(self.path / name)

    def stamp(self, name: str) -> Stamp | None:
        try:
            status = (self.path / name).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self, name: str, bytes_max: int) -> bytes | None:
        try:
            with (self.path / name).open("rb") as file:
                data = file.read(bytes_max + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DocumentError(f"{self.where(name)} cannot be read: {error.strerror}") from error
        if len(data) > bytes_max:
            raise DocumentError(f"{self.where(name)} is longer than {bytes_max} bytes")
        return data

    def change(self, name: str, bytes_max: int, edit: Callable[[bytes | None], bytes | None]) -> None:
        with self._locked() as folder:
            content = edit(self.read(name, bytes_max))
            if content is None:
                return
            try:
                _replace(self.path / name, content, folder)
            except OSError as error:
                raise DocumentError(f"{self.where(name)} cannot be written: {error.strerror}") from error

    def append(self, name: str, lines: Sequence[bytes]) -> None:
        try:
            _append(self.path / name, b"".join([line + b"\n" for line in lines]), self._log_bytes_max)
        except OSError as error:
            raise DocumentError(f"{self.where(name)} cannot be written: {error.strerror}") from error

    def tail(self, name: str, lines_max: int) -> list[bytes]:
        lines: list[bytes] = []
        for number in range(LOG_FILES):
            if len(lines) < lines_max:
                path = self.path / (f"{name}.{number}" if number else name)
                lines = _last_lines(path, lines_max * LINE_BYTES) + lines
        return lines[-lines_max:]

    def close(self) -> None:
        """Nothing is held open."""

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The folder, which is created if need be, locked against other writers: its descriptor."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise DocumentError(f"data folder {self.path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)


def _replace(path: Path, data: bytes, folder: int) -> None:
    """Write a new version of a file in a folder that is locked. It is on disk on return. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # Left by a crash; or a link, which must not be followed.
    with os.fdopen(os.open(new, _CREATE, _MODE), "wb") as file:
        _give_to_owner(file.fileno(), os.fstat(folder))
        os.fchmod(file.fileno(), _MODE)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    os.fsync(folder)


def _give_to_owner(file: int, folder: os.stat_result) -> None:
    """The hall must be able to read a file that root has written: it belongs to the owner of the folder."""
    if os.geteuid() == 0:
        os.fchown(file, folder.st_uid, folder.st_gid)


def _append(path: Path, data: bytes, bytes_max: int) -> None:
    """Add lines to the file, all or none. Raises OSError."""
    with suppress(FileNotFoundError):
        if path.stat().st_size + len(data) > bytes_max:
            _rotate(path)
    file = os.open(path, _APPEND, _MODE)
    try:
        status = os.fstat(file)
        os.fchmod(file, _MODE)
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
    for number in range(LOG_FILES - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
        with suppress(FileNotFoundError):
            newer.replace(older)


def _last_lines(path: Path, bytes_max: int) -> list[bytes]:
    """The lines at the end of a file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            begin = max(file.seek(0, os.SEEK_END) - bytes_max, 0)
            file.seek(begin)
            lines = file.read(bytes_max).splitlines()
    except OSError:
        return []
    return lines[1:] if begin else lines
