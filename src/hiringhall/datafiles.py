"""Small files of the data folder that are replaced as a whole.

Invariant: such a file is complete at every moment: a new version is written to another name, synced, renamed.
Only its owner can read it. A writer locks the folder; a reader needs no lock.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODE: Final = 0o600
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """The folder, which is created if need be, locked against other writers: its descriptor. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes, folder: int) -> None:
    """Write a new version of a file in a folder that is locked. It is on disk on return. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # Left by a crash; or a link, which must not be followed.
    with os.fdopen(os.open(new, _CREATE, MODE), "wb") as file:
        give_to_owner(file.fileno(), os.fstat(folder))
        os.fchmod(file.fileno(), MODE)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    os.fsync(folder)


def give_to_owner(file: int, folder: os.stat_result) -> None:
    """The hall must be able to read a file that root has written: it belongs to the owner of the folder."""
    if os.geteuid() == 0:
        os.fchown(file, folder.st_uid, folder.st_gid)
