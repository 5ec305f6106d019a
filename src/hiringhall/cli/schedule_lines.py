"""Schedules as `hall schedule` shows them: where each is defined, what has fired and what comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.cli.reporting import print_error
from hiringhall.cli.schedule_files import find_hall, missing, open_book, origin
from hiringhall.schedules.describing import Known, describe
from hiringhall.schedules.keeper import machine_us
from hiringhall.storage.opening import files_folder, has_history, open_history

if TYPE_CHECKING:
    from hiringhall.config.loading import Loaded
    from hiringhall.core.changes import Firing
    from hiringhall.schedules.pauses import Pause
    from hiringhall.schedules.plan import Plan


def schedule_lines(loaded: Loaded) -> list[dict[str, Any]]:
    """All schedules of the settings and of the book, by name. Raises HallError if there is neither."""
    known: dict[str, tuple[Plan, str]] = {}
    pauses: dict[str, Pause] = {}
    hall = loaded.config.hall
    if hall.storage == "sqlite":
        with open_book(loaded) as book:
            if not book.exists():
                if not loaded.config.schedule:
                    raise missing(book.place)
                print_error(f"hall: {book.place} does not exist: no hall has used it yet")
            plans, pauses = book.read_all()
            known = {name: (plan, book.where) for name, plan in plans.items()}
    for schedule in loaded.config.schedule:
        known[schedule.name] = (schedule.plan(), origin(loaded))
    fired = _firings(hall.data)
    holder = find_hall(files_folder(hall.data, hall.folder))
    pid = None if holder is None else holder.pid
    now_us = machine_us()
    return [
        describe(Known(plan, defined, fired.get(name), pauses.get(name)), now_us, pid)
        for name, (plan, defined) in sorted(known.items())
    ]


def schedule_line(loaded: Loaded, name: str) -> list[dict[str, Any]]:
    """The line of one schedule; none if it was removed meanwhile."""
    return [line for line in schedule_lines(loaded) if line["name"] == name]


def _firings(place: str) -> dict[str, Firing]:
    """The last firing of each schedule, from the store."""
    if not has_history(place):
        return {}
    reader = open_history(place)
    try:
        return reader.firings()
    finally:
        reader.close()
