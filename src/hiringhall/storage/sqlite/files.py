"""The data file and its log: private to their owner, and still in place under their names.

If a file is removed or replaced while it is open, every write to it succeeds and is lost. The files are
identified by device and inode, and checked by name only: closing a descriptor of a data file would release
SQLite's locks on it.
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


_OWNER_ONLY: Final = 0o600
_OTHERS: Final = 0o077


def make_private(data_file: Path, on_warning: Callable[[str], None]) -> None:
    """Let only the owner read and write the files. SQLite gives the log and its index the permissions of the
    data file. No connection may be open.
    """
    with suppress(OSError):  # It exists already; or it cannot be created, and SQLite will report that.
        os.close(os.open(data_file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY))
    for path in (data_file, log_path(data_file), index_path(data_file)):
        try:
            if path.stat().st_mode & _OTHERS:
                path.chmod(_OWNER_ONLY)
        except FileNotFoundError:
            pass
        except OSError as error:
            on_warning(f"other users may read {path}, and its permissions cannot be changed: {error.strerror}")


class FileIdentities:
    """The data file and its log. Made when a connection has written to both."""

    def __init__(self, data_file: Path) -> None:
        self._data_file = data_file
        self._files = [(str(path), _identity(str(path))) for path in (data_file, log_path(data_file))]

    def check(self) -> None:
        """Raise StoreError while a file is missing or another one has its name."""
        for name, identity in self._files:
            found = _identity(name)
            if found != identity:
                what = "was removed or moved away" if found is None else "was replaced by another file"
                raise StoreError(
                    f"{name} {what} while the hall runs: move the same file back, then the hall continues by "
                    f"itself; or restore a backup and restart the hall"
                )

    @property
    def unchanged(self) -> bool:
        return all(_identity(name) == identity for name, identity in self._files)

    @contextmanager
    def replacements_kept(self) -> Iterator[None]:
        """Keep the files that now have the names of ours: SQLite removes a log and its index by name."""
        kept: list[tuple[Path, Path]] = []
        for path in (log_path(self._data_file), index_path(self._data_file)):
            link = path.with_name(f"{path.name}.kept-{os.getpid()}")
            with suppress(OSError):  # It does not exist, or hard links are not supported.
                link.hardlink_to(path)
                kept.append((path, link))
        try:
            yield
        finally:
            for path, link in kept:
                link.replace(path)
                link.unlink(missing_ok=True)  # It still exists if both names were links to the same file.


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 (half the time of Path.stat, and before every commit)
    except OSError:
        return None
    return found.st_dev, found.st_ino
