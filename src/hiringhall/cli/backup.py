"""`hall backup` and `hall restore`: a consistent copy of a data folder, also while the hall is running.

Invariant: a backup is complete or not there. It is made under another name, checked, synced and renamed. A
restore checks the backup in the same way before the data folder exists, and replaces no data folder.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tarfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 (typer looks its types up)
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from hiringhall import __version__
from hiringhall.access.tokens import FILE as TOKENS
from hiringhall.cli.progress import bar
from hiringhall.cli.reporting import WRONG_USE, CommandError, json_line, print_line, print_result
from hiringhall.cli.settings import ConfigFlag, DataFlag, load_settings
from hiringhall.schedules.book import FILE as SCHEDULES
from hiringhall.schedules.pauses import FILE as PAUSES
from hiringhall.storage.contract import StoreError
from hiringhall.storage.opening import DATABASE, check_copy, copy_data, find_folder, find_hall

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST: Final = "backup.json"
SMALL_FILES: Final = (SCHEDULES, PAUSES, TOKENS)
"""Files that may be missing. The database is always there."""
MANIFEST_BYTES_MAX: Final = 1 << 20
CHUNK: Final = 1 << 20
TAR: Final = ".tar"

JsonFlag = Annotated[bool, typer.Option("--json", help="Print what was done as one line of JSON.")]


class Manifest(msgspec.Struct):
    """What a backup has."""

    hiringhall: str
    made: datetime
    source: str
    jobs: int
    """Unfinished jobs."""
    history: int
    """Ended jobs."""
    files: dict[str, str]
    """SHA-256 of each file."""


def backup(
    target: Annotated[
        Path,
        typer.Argument(metavar="TARGET", help="A folder that does not exist yet, or a file ending with .tar."),
    ],
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Copy the data folder while the hall runs: jobs, history, schedules and tokens at one moment.

    The copy is checked before it gets its name. It has the payloads of jobs, and digests of tokens: only you
    can read it. Run this on the machine of the hall; see hall restore.
    """
    folder = _folder(config, data)
    if not (folder / DATABASE).exists():
        raise CommandError(f"there is no {DATABASE} in {folder}; use --data to name the hall's data folder")
    _refuse_existing(target)
    with _partial(target) as work:
        copied = work / "data"
        copied.mkdir(mode=0o700)
        manifest = _copy(folder, copied)
        (copied / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        (copied / MANIFEST).chmod(0o600)
        _sync(copied)
        finished = _packed(copied, work / "data.tar") if target.suffix == TAR else copied
        finished.rename(target)
    _sync_folder(target.absolute().parent)
    _report("backup", target, manifest, as_json=as_json)
    return 0


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A folder or .tar file of hall backup.")],
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Make a data folder of a backup. Every file is checked first, and an existing data folder is refused.

    Then start the hall with hall serve --data DIR.
    """
    folder = _folder(config, data)
    holder = find_hall(folder)
    if holder is not None:
        raise CommandError(
            f"{holder.description} has {folder} open: stop it first, or choose another with --data"
        )
    _refuse_existing(folder)
    if not source.exists():
        raise CommandError(
            f"there is no backup {source}: give the folder or the .tar file that hall backup made"
        )
    with _partial(folder) as work:
        copied = work / "data"
        copied.mkdir(mode=0o700)
        _unpack(source, copied)
        manifest = _checked(copied, source)
        (copied / MANIFEST).unlink()
        _sync(copied)
        copied.rename(folder)
    _sync_folder(folder.absolute().parent)
    _report("restored", folder, manifest, as_json=as_json)
    return 0


def _folder(config: Path | None, data: str | None) -> Path:
    hall = load_settings(config, data).config.hall
    if hall.storage != "sqlite":
        raise CommandError("hall.storage is memory: there is no data folder to copy", WRONG_USE)
    folder = find_folder(hall.data)
    if folder is None:
        raise CommandError(
            "the data is in PostgreSQL, which has tools for this: pg_dump and pg_restore, or pg_basebackup",
            WRONG_USE,
        )
    return folder


def _refuse_existing(target: Path) -> None:
    if target.is_dir() and not any(target.iterdir()):
        target.rmdir()
    if target.exists() or target.is_symlink():
        raise CommandError(f"{target} exists already: move it away, or choose another name")


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A folder beside the target, on the same file system. It is gone afterwards."""
    parent = target.absolute().parent
    if not parent.is_dir():
        raise CommandError(f"there is no folder {parent}: make it first")
    work = parent / f".{target.name}.partial-{secrets.token_hex(4)}"
    work.mkdir(mode=0o700)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


# --- making a backup


def _copy(folder: Path, target: Path) -> Manifest:
    database = target / DATABASE
    os.close(os.open(database, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with bar("copying") as copied:
        copy_data(folder, database, copied)
    for name in SMALL_FILES:
        # They are replaced as a whole by their writers, so each of them is complete.
        if (folder / name).exists():
            shutil.copyfile(folder / name, target / name)
            (target / name).chmod(0o600)
    jobs, history = _check_database(database)
    names = [DATABASE, *(name for name in SMALL_FILES if (target / name).exists())]
    digests = {name: _digest(target / name) for name in names}
    return Manifest(__version__, datetime.now(UTC), str(folder.absolute()), jobs, history, digests)


def _packed(folder: Path, file: Path) -> Path:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        with tarfile.open(fileobj=out, mode="w") as archive:
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name)
        out.flush()
        os.fsync(out.fileno())
    return file


# --- reading a backup


def _unpack(source: Path, target: Path) -> None:
    """The known files of a backup; others, and links, are left out."""
    if source.is_dir():
        for name in (MANIFEST, DATABASE, *SMALL_FILES):
            if (source / name).is_file():
                shutil.copyfile(source / name, target / name)
                (target / name).chmod(0o600)
        return
    try:
        with tarfile.open(source, "r:") as archive:
            for member in archive:
                if member.isreg() and member.name in {MANIFEST, DATABASE, *SMALL_FILES}:
                    found = archive.extractfile(member)
                    assert found is not None
                    with os.fdopen(os.open(target / member.name, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as out:
                        shutil.copyfileobj(found, out, CHUNK)
    except tarfile.TarError as error:
        raise CommandError(f"{source} is not a tar file of hall backup: {error}") from error


def _checked(folder: Path, source: Path) -> Manifest:
    """What the backup says of itself, after everything was compared with it."""
    path = folder / MANIFEST
    if not path.exists() or path.stat().st_size > MANIFEST_BYTES_MAX:
        raise CommandError(f"{source} is not a backup: it has no {MANIFEST}")
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CommandError(f"{source}: {MANIFEST} is damaged: {error}") from error
    if DATABASE not in manifest.files:
        raise CommandError(f"{source} is not a backup: it has no {DATABASE}")
    for name, digest in manifest.files.items():
        if name not in {DATABASE, *SMALL_FILES} or not (folder / name).exists():
            raise CommandError(f"{source}: {name} is missing; nothing was restored")
        if _digest(folder / name) != digest:
            raise CommandError(f"{source}: {name} is damaged: its digest is another; nothing was restored")
    _check_database(folder / DATABASE)
    return manifest


def _check_database(path: Path) -> tuple[int, int]:
    """Unfinished and ended jobs of a sound database. Raises CommandError."""
    try:
        return check_copy(path)
    except StoreError as error:
        raise CommandError(str(error)) from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    """All files of a folder, and the folder, to disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _report(verb: str, place: Path, manifest: Manifest, *, as_json: bool) -> None:
    facts: dict[str, Any] = {
        verb: str(place),
        "made": manifest.made,
        "jobs": manifest.jobs,
        "history": manifest.history,
        "files": sorted(manifest.files),
    }
    if as_json:
        print_result(json_line(facts))
        return
    words = f"{manifest.jobs:,} unfinished and {manifest.history:,} ended jobs, {', '.join(facts['files'])}"
    print_line(f"{place}: {words}; checked")
