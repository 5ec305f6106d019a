"""One hall to a data file: a lock that the system lets go of when its process dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from pathlib import Path


class FileLock:
    """Held from construction to `release`. The file stays, with the process number of its latest holder."""

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be opened: make its folder writable for this user ({error.strerror})"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreError(
                f"another hall (process {holder}) has {path.parent} open: stop it, or name another data folder"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, b"%d\n" % os.getpid())

    def release(self) -> None:
        os.close(self._descriptor)
