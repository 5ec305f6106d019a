"""Refuses a damaged write-ahead log until the operator accepts the loss."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import quote

from hiringhall.storage.contract import StoreError
from hiringhall.storage.sqlite.wal import find_damage, log_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hiringhall.storage.sqlite.wal import Damage


class LogDamaged(StoreError):
    """Something that was acknowledged is missing from the log."""

    def __init__(self, data_file: Path, damage: Damage) -> None:
        super().__init__(
            f"{data_file.parent}: {damage.what}. Certain: {damage.certain}. Lost: {damage.lost}. "
            f"Restore {log_path(data_file).name} or a backup of the folder, "
            f"or run `hall serve --accept-loss` on it once to continue with what is certain"
        )


def check_log(data_file: Path, on_warning: Callable[[str], None], *, accept_loss: bool) -> None:
    """Refuse a damaged log before anything is changed, or set it aside. No process may have the file open."""
    damage = find_damage(data_file)
    if damage is None:
        return
    facts = f"{damage.what}. Certain: {damage.certain}. Lost: {damage.lost}"
    if not damage.sure:
        on_warning(facts)
    elif not accept_loss:
        raise LogDamaged(data_file, damage)
    else:
        kept = _put_aside(data_file, damage)
        on_warning(
            f"the loss is accepted: {facts}. The damaged log is kept as {kept.name}"
            if kept
            else f"the loss is accepted: {facts}"
        )


def _put_aside(data_file: Path, damage: Damage) -> Path | None:
    """Copy the log. Make sure that the data file is sound with the readable part of the log, or without it."""
    log = log_path(data_file)
    if not log.exists():
        return None
    kept = next(
        path for number in count(1) if not (path := log.with_name(f"{log.name}.damaged-{number}")).exists()
    )
    shutil.copy2(log, kept)
    # If the data file is ahead of the log, the start of the log would bring back older pages.
    if damage.copied or not _is_sound(data_file):
        log.unlink()
        if not _is_sound(data_file):
            kept.replace(log)
            raise StoreError(
                f"{data_file} is damaged, with its log and without: restore a backup, save what can be "
                f"read with `sqlite3 {data_file.name} .recover`, or move both away to start empty"
            )
    return kept


def _is_sound(data_file: Path) -> bool:
    """Check through a read-only connection: it does not copy the log into the file when it closes."""
    address = f"file:{quote(bytes(data_file.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError:
        return False
    return bool(found == ("ok",))
