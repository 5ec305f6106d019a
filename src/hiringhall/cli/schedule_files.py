"""The book that `hall schedule` works on, and the hall that reads it."""

from __future__ import annotations

import difflib
import os
import signal
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from hiringhall.cli.reporting import print_error
from hiringhall.endpoints import HallError
from hiringhall.schedules.book import Book, BookError
from hiringhall.schedules.pauses import PauseError
from hiringhall.storage import opening
from hiringhall.storage.opening import find_active, find_folder, open_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hiringhall.config.loading import Loaded
    from hiringhall.storage.opening import Holder


@contextmanager
def open_book(loaded: Loaded) -> Iterator[Book]:
    """The book of the hall; its errors become HallErrors."""
    if loaded.config.hall.storage != "sqlite":
        raise HallError(
            "hall.storage is memory, so no schedules are stored: define them as [[schedule]] in hall.toml"
        )
    try:
        with closing(open_documents(loaded.config.hall.data)) as documents:
            yield Book(documents)
    except (BookError, PauseError) as error:
        raise HallError(str(error)) from error


def missing(place: str) -> HallError:
    """There is no data folder."""
    return HallError(f"{place} does not exist; use --data to name the hall's data folder")


def origin(loaded: Loaded) -> str:
    """What the settings were read from."""
    return str(loaded.file or "the environment")


def find_configured(loaded: Loaded, name: str) -> str:
    """Where the settings define a schedule of that name; empty if they do not."""
    names = [schedule.name for schedule in loaded.config.schedule]
    return f"schedule[{names.index(name)}] of {origin(loaded)}" if name in names else ""


def find_hall(place: str | Path) -> Holder | None:
    """The hall on this machine that has the data folder open, if there is one."""
    holder = opening.find_hall(place)
    return None if holder is None or holder.kind == "import" else holder


def running_hall(place: str) -> str:
    """How a hall that runs is described; empty: none does."""
    if find_folder(place) is None:
        return find_active(place)
    holder = find_hall(place)
    return "" if holder is None else f"process {holder.pid}"


def tell_hall(place: str) -> str:
    """Make a running hall read the book again. Returns the end of a sentence that says so."""
    none = "; no hall is running, the next one to start reads it"
    if find_folder(place) is None:
        active = find_active(place)
        return f"; hall {active} reads it within two seconds" if active else none
    holder = find_hall(place)
    if holder is None:
        return none
    remedy = _signal_hall(holder)
    if remedy:
        print_error(f"hall: {remedy}")
        return ""
    return f"; the hall (process {holder.pid}) was notified"


def _signal_hall(holder: Holder) -> str:
    """Signal it; returns what the user has to do if that was not possible."""
    if holder.kind != "hall":
        return f"hall-gearmand (process {holder.pid}) reads it at its next start: restart it"
    if not holder.in_same_namespace:
        return f"the hall runs in another container as process {holder.pid}: send it SIGHUP there"
    try:
        os.kill(holder.pid, signal.SIGHUP)
    except OSError as error:
        return f"process {holder.pid} could not be notified ({error.strerror}): send it SIGHUP, or restart it"
    return ""


def unknown(name: str, known: Iterable[str], where: str) -> HallError:
    """There is no schedule of that name."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return HallError(f'there is no schedule "{name}" in {where}{hint}')
