"""`hall schedule`: add, list and remove schedules, beside a running hall or without one."""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import shutil
import signal
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar, cast, get_args

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hiringhall.cli.reporting import complain, say
from hiringhall.cli.settings import ConfigFlag, DataFlag, load_settings
from hiringhall.config.quantities import Age, Interval
from hiringhall.config.sources import ConfigError
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.book import Book, BookError
from hiringhall.schedules.calendar import find_zone
from hiringhall.schedules.keeper import CATCH_UP_MAX, machine_us
from hiringhall.schedules.plan import LATE_US, RETRIES_MAX, Missed, Plan, Priority
from hiringhall.server import HallError
from hiringhall.storage.sqlite import DATABASE, open_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.config.loading import Loaded
    from hiringhall.core.changes import Firing

NEXT_SHOWN: Final = 3

_Word = TypeVar("_Word", bound=str)


class _Known(NamedTuple):
    """A schedule, and where it is written down."""

    plan: Plan
    defined: str


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the schedule is called.")],
    queue: Annotated[str, typer.Option(metavar="QUEUE", help="The queue (function) that its jobs are for.")],
    cron: Annotated[
        str,
        typer.Option(metavar="EXPRESSION", help="Minute, hour, day, month, weekday, such as '30 3 * * MON'."),
    ] = "",
    every: Annotated[str | None, typer.Option(metavar="TIME", help="Or how often: 90s, 15m, 6h, 1d.")] = None,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Where --cron is read and {due} told, such as Europe/Vienna.")
    ] = "UTC",
    payload: Annotated[
        str, typer.Option(metavar="TEXT", help="The job's payload; {due} and {due:%Y-%m-%d} are filled in.")
    ] = "",
    key: Annotated[
        str, typer.Option(metavar="TEXT", help="The job's key; a live job with the same key is not doubled.")
    ] = "",
    priority: Annotated[str, typer.Option(metavar="WORD", help="high, normal or low.")] = "normal",
    retries: Annotated[
        int, typer.Option(min=0, max=RETRIES_MAX, help="Failures that are followed by another try.")
    ] = 0,
    missed: Annotated[
        str, typer.Option(metavar="WORD", help="What fires of missed times: latest, all or skip.")
    ] = "latest",
    late_s: Annotated[
        float, typer.Option(min=0, help="Seconds for which a due time that is over is late, not missed.")
    ] = LATE_US / SECOND_US,
    config: ConfigFlag = None,
    data: DataFlag = None,
) -> int:
    """Add a schedule; a hall that is running is told. It begins when a hall first reads it.

    For example: hall schedule add birthdays --queue birthday_mail --cron '0 6 * * *' --key '{due:%Y-%m-%d}'
    """
    loaded = load_settings(config, data)
    plan = Plan(
        name=name,
        queue=queue,
        cron=cron,
        every_us=0 if every is None else _interval_us(every),
        timezone=timezone,
        payload=payload,
        key=key,
        priority=_one_of("--priority", priority, cast("tuple[Priority, ...]", get_args(Priority))),
        retries=retries,
        missed=_one_of("--missed", missed, cast("tuple[Missed, ...]", get_args(Missed))),
        late_us=round(late_s * SECOND_US),
    )
    faults = list(plan.faults()) or list(plan.excesses(loaded.config.limits.limits()))
    if faults:
        raise ConfigError([f"{_flag(field)}: {problem}" for field, problem in faults])
    for index, schedule in enumerate(loaded.config.schedule):
        if schedule.name == name:
            raise ConfigError([f'NAME: "{name}" is taken by schedule[{index}] of {_origin(loaded)}'])
    with _book(loaded) as book:
        book.add(plan)
    due = _in_zone(plan, plan.next_due_us(machine_us()))
    _tell_hall(book.path.parent, f'schedule "{name}" is added, and due next at {due}')
    return 0


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the schedule is called.")],
    config: ConfigFlag = None,
    data: DataFlag = None,
) -> int:
    """Remove a schedule that was added by command; a hall that is running is told. Its jobs stay."""
    loaded = load_settings(config, data)
    with _book(loaded) as book:
        if book.remove(name):
            _tell_hall(book.path.parent, f'schedule "{name}" is removed')
            return 0
        known = list(book.read())
    for index, schedule in enumerate(loaded.config.schedule):
        if schedule.name == name:
            where = f"schedule[{index}] of {_origin(loaded)}"
            raise HallError(f'schedule "{name}" is {where}: take it out there, and start the hall anew')
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise HallError(f'there is no schedule "{name}" in {book.path}{hint}')


def show(
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> int:
    """List all schedules: when they are due, what has fired, and what comes next.

    Works beside a running hall and without one.
    """
    loaded = load_settings(config, data)
    known: dict[str, _Known] = {}
    folder = Path(loaded.config.hall.data)
    if loaded.config.hall.storage == "sqlite":
        with _book(loaded) as book:
            known = {name: _Known(plan, str(book.path)) for name, plan in book.read().items()}
    for schedule in loaded.config.schedule:
        known[schedule.name] = _Known(schedule.plan(), _origin(loaded))
    fired = _firings(folder / DATABASE)
    pid = find_hall(folder)
    now_us = machine_us()
    lines = [_line(entry, fired.get(name), now_us, pid) for name, entry in sorted(known.items())]
    if as_json:
        say("".join(json.dumps(line) + "\n" for line in lines))
        return 0
    say(_as_table(lines))
    complain(f"hall: a hall is running (process {pid})" if pid else "hall: no hall is running: nothing fires")
    return 0


# --- the book and the hall that reads it


@contextmanager
def _book(loaded: Loaded) -> Iterator[Book]:
    """The book of the data folder; its troubles are the command's."""
    if loaded.config.hall.storage != "sqlite":
        raise HallError(
            "hall.storage is memory, and keeps no book of schedules: write them as [[schedule]] tables"
        )
    try:
        yield Book(Path(loaded.config.hall.data))
    except BookError as error:
        raise HallError(str(error)) from error


def _origin(loaded: Loaded) -> str:
    return str(loaded.file or "the environment")


def find_hall(folder: Path) -> int | None:
    """The process that has a data folder open, if one has. Only when the process that the lock names is
    alive is the lock tried: a hall that is just starting must not find it taken.
    """
    try:
        lock = os.open(folder / f"{DATABASE}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        pid = int(os.read(lock, 20))
        if not _is_alive(pid):
            return None
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return pid
    except (ValueError, OSError):
        return None
    finally:
        os.close(lock)
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, and somebody else's
    return True


def _tell_hall(folder: Path, news: str) -> None:
    """Have a running hall read the book again, and say what was done."""
    pid = find_hall(folder)
    if pid is None:
        say(f"{news}; no hall is running here, the next to start reads it\n")
        return
    try:
        os.kill(pid, signal.SIGHUP)
    except OSError as error:
        complain(f"hall: process {pid} could not be told ({error.strerror}): send it SIGHUP, or start it anew")
        say(f"{news}\n")
    else:
        say(f"{news}; the hall (process {pid}) is told\n")


# --- what people see


def _flag(field: str) -> str:
    return "NAME" if field == "name" else f"--{field.replace('_', '-')}"


def _interval_us(written: str) -> int:
    try:
        return int(Interval.parse(written))
    except ValueError:
        raise ConfigError([f'--every: "{written}" is not allowed; it takes {Interval.allowed}']) from None


def _one_of(flag: str, written: str, words: tuple[_Word, ...]) -> _Word:
    for word in words:
        if word == written:
            return word
    raise ConfigError([f'{flag}: "{written}" is not allowed; it takes one of {", ".join(words)}'])


def _in_zone(plan: Plan, at_us: int) -> str:
    return datetime.fromtimestamp(at_us / SECOND_US, UTC).astimezone(find_zone(plan.timezone)).isoformat()


def _firings(database: Path) -> dict[str, Firing]:
    """How far each schedule has come, as the store knows it."""
    if not database.exists():
        return {}
    reader = open_history(database)
    try:
        return reader.firings()
    finally:
        reader.close()


def _line(entry: _Known, firing: Firing | None, now_us: int, pid: int | None) -> dict[str, object]:
    """All about one schedule, in the words of JSON."""
    plan = entry.plan
    begun = firing if firing is not None and firing.plan == plan.digest else None
    upcoming = [now_us]
    for _ in range(NEXT_SHOWN):
        upcoming.append(plan.next_due_us(upcoming[-1]))
    return {
        "name": plan.name,
        "cron": plan.cron or None,
        "every": Age(plan.every_us).text.strip('"') if plan.every_us else None,
        "timezone": plan.timezone,
        "queue": plan.queue,
        "key": plan.key,
        "payload": plan.payload,
        "priority": plan.priority,
        "retries": plan.retries,
        "missed": plan.missed,
        "late_s": plan.late_us / SECOND_US,
        "defined": entry.defined,
        "begun": begun is not None,
        "last": _in_zone(plan, begun.due_us) if begun is not None and plan.is_due(begun.due_us) else None,
        "behind": len(plan.latest_due(begun.due_us, now_us, CATCH_UP_MAX)) if begun is not None else 0,
        "next": [_in_zone(plan, due_us) for due_us in upcoming[1:]],
        "hall": pid,
    }


def _as_table(lines: list[dict[str, object]]) -> str:
    if not lines:
        return "No schedules.\n"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "when", "zone", "queue", "key", "defined", "last", "behind", "next"):
        table.add_column(heading, no_wrap=heading not in {"next", "defined"}, overflow="fold")
    for line in lines:
        behind = line["behind"]
        table.add_row(
            Text(str(line["name"]), style="bold"),
            Text(str(line["cron"] or f"every {line['every']}")),
            Text(str(line["timezone"])),
            Text(str(line["queue"])),
            Text(str(line["key"])),
            Text(str(line["defined"])),
            Text(str(line["last"] or ("not yet" if line["begun"] else "not begun"))),
            Text(f"{behind} or more" if behind == CATCH_UP_MAX else str(behind or "")),
            Text("\n".join(cast("list[str]", line["next"]))),
        )
    console = Console(highlight=False, width=max(shutil.get_terminal_size((200, 24)).columns, 160))
    with console.capture() as captured:
        console.print(table)
    return captured.get()
