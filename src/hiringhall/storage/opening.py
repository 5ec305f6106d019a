"""Opens what a place holds. A place is a data folder, or the URL of a database.

Invariant: the rest of the package names no store. `sqlite:FOLDER` is the same as FOLDER.
"""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from hiringhall.storage.contract import StoreError
from hiringhall.storage.data_folder import DataFolder
from hiringhall.storage.moving import EVERYTHING, move
from hiringhall.storage.places import find_folder, is_url, shown
from hiringhall.storage.sqlite.copying import check_copy, copy_data
from hiringhall.storage.sqlite.history_reader import SqliteHistoryReader
from hiringhall.storage.sqlite.lock import FileInUse, FileLock, Holder, Kind, find_holder, lock_path
from hiringhall.storage.sqlite.names import DATABASE
from hiringhall.storage.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.storage.contract import Retention, Store
    from hiringhall.storage.documents import Documents
    from hiringhall.storage.history_contract import HistoryReader
    from hiringhall.storage.moving import Moved, MovingStore
    from hiringhall.storage.postgres import PostgresStore

__all__ = [
    "DATABASE",
    "FileInUse",
    "Holder",
    "Kind",
    "check_copy",
    "copy_data",
    "files_folder",
    "find_active",
    "find_folder",
    "find_hall",
    "has_history",
    "is_url",
    "member_name",
    "move_all",
    "open_documents",
    "open_history",
    "open_member",
    "open_store",
    "shown",
]


def files_folder(place: str | Path, folder: str) -> Path:
    """The folder for the files of a hall on this machine: the data folder, or the one beside a database."""
    return find_folder(place) or Path(folder)


def open_store(
    place: str | Path,
    retention: Retention | None,
    on_warning: Callable[[str], None],
    kind: Kind = "hall",
    *,
    name: str = "",
    files: Path | None = None,
    accept_loss: bool = False,
) -> Store:
    """The store of a place, to be loaded. `kind` is the kind of process that has it open, `name` that of the
    hall. `files` is the folder beside a database, which no other hall may use. Raises StoreError.
    """
    return _open(place, retention, on_warning, kind, name, files, accept_loss=accept_loss)


def _open(
    place: str | Path,
    retention: Retention | None,
    on_warning: Callable[[str], None],
    kind: Kind,
    name: str = "",
    files: Path | None = None,
    *,
    accept_loss: bool = False,
) -> MovingStore:
    folder = find_folder(place)
    if folder is not None and "://" in str(place):
        raise StoreError(
            f"{shown(place)} is no place for data: give a folder, or postgresql://USER@HOST/DATABASE"
        )
    if folder is not None:
        return SqliteStore(folder.absolute() / DATABASE, retention, on_warning, kind, accept_loss=accept_loss)
    return open_member(str(place), retention, on_warning, member_name(name or kind), kind, files=files)


def member_name(name: str) -> str:
    """How a hall with this name is called among the members of a database."""
    return f"{name}@{socket.gethostname()}"


def open_member(
    url: str,
    retention: Retention | None,
    on_warning: Callable[[str], None],
    name: str,
    kind: Kind = "hall",
    *,
    version: str = "",
    files: Path | None = None,
) -> PostgresStore:
    """The store of a database, to be loaded."""
    # Only where it is used: it needs an extra.
    from hiringhall.storage.postgres import Member, PostgresStore  # noqa: PLC0415

    member = Member(name, version=version)
    on_close = None
    if files is not None:
        files.mkdir(mode=0o700, parents=True, exist_ok=True)
        on_close = FileLock(lock_path(files / DATABASE), kind).release
    return PostgresStore(url, retention, on_warning, member, on_close=on_close)


def move_all(
    source: str, target: str, on_warning: Callable[[str], None], moved: Callable[[int, int], None]
) -> Moved:
    """Copy everything of one place to another, which must be empty. No hall may run on either. `moved` is
    called with how many rows are copied, and how many there are. Raises StoreError.
    """
    with (
        closing(_open(source, EVERYTHING, on_warning, "import")) as old,
        closing(_open(target, EVERYTHING, on_warning, "import")) as new,
    ):
        return move(old, new, shown(target), moved)


def open_documents(place: str | Path, incarnation: int | None = None) -> Documents:
    """The documents of a place, such as the tokens of its hall. A hall on a database gives its incarnation: it
    changes nothing any more once another has taken over.
    """
    folder = find_folder(place)
    if folder is not None:
        return DataFolder(folder)
    from hiringhall.storage.postgres.documents import PostgresDocuments  # noqa: PLC0415 (needs an extra)

    return PostgresDocuments(str(place), incarnation)


def open_history(place: str | Path) -> HistoryReader:
    """A reader of a place, whether or not a hall is running on it. Raises StoreError."""
    folder = find_folder(place)
    if folder is None:
        from hiringhall.storage.postgres.history_reader import PostgresHistoryReader  # noqa: PLC0415

        return PostgresHistoryReader(str(place))
    if not (folder / DATABASE).exists():
        raise StoreError(f"there is no history in {folder}; give the data folder of a hall")
    return SqliteHistoryReader(folder / DATABASE)


def has_history(place: str | Path) -> bool:
    """Whether there is something to read. A database is known only after it was opened."""
    folder = find_folder(place)
    return folder is None or (folder / DATABASE).exists()


def find_hall(place: str | Path) -> Holder | None:
    """The process on this machine that has the data folder open, if there is one."""
    folder = find_folder(place)
    return None if folder is None else find_holder(folder / DATABASE)


def find_active(url: str) -> str:
    """The name of the member that has a database open; empty: none has. Raises StoreError."""
    from hiringhall.storage.postgres.documents import find_active_member  # noqa: PLC0415 (needs an extra)

    return find_active_member(url)
