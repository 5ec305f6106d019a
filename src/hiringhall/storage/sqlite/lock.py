"""Only one hall uses a data file: a lock that the system releases when its process ends, in any way."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hiringhall.storage.contract import StoreError

Kind = Literal["hall", "gearmand", "import"]
"""Which command has a data file open: `hall serve`, `hall-gearmand` or `hall import`."""

_HOLDER_BYTES_MAX: Final = 200
_PID: Final = re.compile(r"[1-9][0-9]{0,8}")
_NAMESPACE: Final = Path("/proc/self/ns/pid")
_OTHERS: Final = {"gearmand": "a hall-gearmand", "import": "a hall import"}


class Holder(NamedTuple):
    """The process that has a data file open."""

    pid: int
    kind: str
    """One of `Kind`; `hall` if the lock file has none, as in earlier versions."""
    namespace: str
    """The PID namespace that `pid` belongs to; empty: unknown."""

    @property
    def in_same_namespace(self) -> bool:
        """Whether `pid` means the same process here, so that it can be signalled."""
        return self.namespace in {"", _own_namespace()}

    @property
    def description(self) -> str:
        return f"{_OTHERS.get(self.kind, 'another hall')} (process {self.pid or 'unknown'})"


class FileInUse(StoreError):
    """Another process has the file open."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        super().__init__(f"{holder.description} has {folder} open: stop it, or choose another data folder")
        self.holder = holder


class FileLock:
    """Held from construction to `release`. The file stays. While the lock is held, the file has three lines:
    the process id, the kind, and the PID namespace of that id. `release` empties it.
    """

    def __init__(self, path: Path, kind: Kind) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be opened: make its folder writable for this user ({error.strerror})"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read_holder(self._descriptor)
            os.close(self._descriptor)
            raise FileInUse(path.parent, holder) from error
        with suppress(OSError):  # The file of another user, which we may write but not change.
            os.fchmod(self._descriptor, 0o600)
        before = _read_holder(self._descriptor)
        self.previous_holder = before if before.pid else None
        """The process that held it before and ended without releasing it."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, f"{os.getpid()}\n{kind}\n{_own_namespace()}\n".encode())

    def release(self) -> None:
        with contextlib.suppress(OSError):  # A full or broken disk must not keep it locked.
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def lock_path(data_file: Path) -> Path:
    """The lock file next to the data file."""
    return data_file.with_name(data_file.name + ".lock")


def find_holder(data_file: Path) -> Holder | None:
    """The process that has a data file open, if any. If the lock names a process that is known to be dead, the
    lock is not tried: a hall that is just starting must not find it locked by us.
    """
    try:
        descriptor = os.open(lock_path(data_file), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        holder = _read_holder(descriptor)
        if not holder.pid or (holder.in_same_namespace and not _is_alive(holder.pid)):
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return holder
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def _read_holder(descriptor: int) -> Holder:
    """The content of a lock file; a pid of 0: it could not be parsed."""
    lines = os.read(descriptor, _HOLDER_BYTES_MAX).decode("ascii", "replace").splitlines()
    pid, kind, namespace = (*lines, "", "", "")[:3]
    return Holder(int(pid) if _PID.fullmatch(pid) else 0, kind or "hall", namespace)


def _own_namespace() -> str:
    """The PID namespace of this process; empty: unknown."""
    try:
        return str(_NAMESPACE.readlink())
    except OSError:
        return ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It is alive and belongs to another user.
    return True
