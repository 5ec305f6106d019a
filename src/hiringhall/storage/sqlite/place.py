"""The data file and its log: for their owner alone, and still those that a start would find.

A file that is removed, or replaced by another, while it is open takes every write and keeps none of them. The
files are known by device and inode, and looked at by name only: closing a descriptor of a data file would give
up SQLite's locks on it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from hiringhall.storage.contract import StoreError
from hiringhall.storage.sqlite.wal import index_path, log_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


_OWNER_ALONE: Final = 0o600
_OTHERS: Final = 0o077


def make_private(data_file: Path, on_warning: Callable[[str], None]) -> None:
    """Let nobody but their owner read and write the files. SQLite gives the log and its index the permissions
    of the data file. No connection may be open.
    """
    with suppress(OSError):  # It is there; or it cannot be made, as SQLite will say.
        os.close(os.open(data_file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ALONE))
    for path in (data_file, log_path(data_file), index_path(data_file)):
        try:
            if path.stat().st_mode & _OTHERS:
                path.chmod(_OWNER_ALONE)
        except FileNotFoundError:
            pass
        except OSError as error:
            on_warning(f"{path} is open to other users, and that cannot be changed: {error.strerror}")


class Place:
    """The data file and its log, as they are while a connection has written to both."""

    def __init__(self, data_file: Path) -> None:
        self._data_file = data_file
        self._files = [(str(path), _identity(str(path))) for path in (data_file, log_path(data_file))]

    def check(self) -> None:
        """Raises StoreError while something else, or nothing, is where the files were."""
        for name, identity in self._files:
            found = _identity(name)
            if found != identity:
                what = "was removed or moved away" if found is None else "was replaced by another file"
                raise StoreError(
                    f"{name} {what} while the hall runs: move the same file back, the hall goes on by itself; "
                    f"or put a backup there and start the hall again"
                )

    @property
    def is_ours(self) -> bool:
        return all(_identity(name) == identity for name, identity in self._files)

    @contextmanager
    def spared(self) -> Iterator[None]:
        """Keep what is at the place of our files now: SQLite removes a log and its index by their names."""
        kept: list[tuple[Path, Path]] = []
        for path in (log_path(self._data_file), index_path(self._data_file)):
            link = path.with_name(f"{path.name}.kept-{os.getpid()}")
            with suppress(OSError):  # There is none, or it cannot have two names.
                link.hardlink_to(path)
                kept.append((path, link))
        try:
            yield
        finally:
            for path, link in kept:
                link.replace(path)
                link.unlink(missing_ok=True)  # It is still there when both names were of the same file.


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 (half the time of Path.stat, and before every commit)
    except OSError:
        return None
    return found.st_dev, found.st_ino
