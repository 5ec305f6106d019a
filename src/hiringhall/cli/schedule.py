"""`hall schedule add`, `list` and `remove`, while the hall is running or stopped."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar, cast, get_args

import typer

from hiringhall.cli.escaping import escaped
from hiringhall.cli.help_texts import completing
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.remote import JsonFlag, print_json
from hiringhall.cli.reporting import print_error, print_line, print_result
from hiringhall.cli.schedule_files import (
    find_configured,
    missing,
    open_book,
    running_hall,
    tell_hall,
    unknown,
)
from hiringhall.cli.schedule_lines import schedule_line, schedule_lines
from hiringhall.cli.settings import ConfigFlag, DataFlag, load_settings
from hiringhall.cli.tables import as_table
from hiringhall.config.quantities import Interval
from hiringhall.config.schedules import LATE_S_MAX
from hiringhall.config.sources import ConfigError
from hiringhall.core.limits import SECOND_US
from hiringhall.endpoints import HallError
from hiringhall.schedules.describing import CATCH_UP_MAX, in_zone
from hiringhall.schedules.keeper import machine_us
from hiringhall.schedules.plan import LATE_US, RETRIES_MAX, Missed, Plan, Priority

HEADINGS: Final = ("name", "when", "zone", "queue", "key", "defined", "last", "behind", "next")

_Word = TypeVar("_Word", bound=str)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")],
    queue: Annotated[str, typer.Option("--queue", metavar="QUEUE", help="The queue (function) of its jobs.")],
    cron: Annotated[
        str,
        typer.Option(
            "--cron",
            metavar="EXPRESSION",
            help="When: minute, hour, day, month, weekday, such as '30 3 * * MON'.",
        ),
    ] = "",
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="How often, in place of --cron: 90s, 15m, 6h, 1d."),
    ] = None,
    timezone: Annotated[
        str,
        typer.Option(
            "--timezone", metavar="ZONE", help="Time zone of --cron and {due}, such as Europe/Vienna."
        ),
    ] = "UTC",
    payload: Annotated[
        str,
        typer.Option(
            "--payload", metavar="TEXT", help="The job's payload; {due} and {due:%Y-%m-%d} become the due time."
        ),
    ] = "",
    key: Annotated[
        str,
        typer.Option(
            "--key", metavar="TEXT", help="The job's key. If an unfinished job has the same key, none is added."
        ),
    ] = "",
    priority: Annotated[
        str,
        typer.Option(
            "--priority",
            metavar="WORD",
            autocompletion=completing(get_args(Priority)),
            help="The job's priority: high, normal or low.",
        ),
    ] = "normal",
    retries: Annotated[
        int,
        typer.Option(
            "--retries", metavar="N", min=0, max=RETRIES_MAX, help="How often a failed job is tried again."
        ),
    ] = 0,
    quits_max: Annotated[
        int,
        typer.Option(
            "--quits-max",
            metavar="N",
            min=0,
            max=RETRIES_MAX,
            help="The job fails after this many hired workers have quit; 0: no limit.",
        ),
    ] = 0,
    limit_key: Annotated[
        str, typer.Option("--limit-key", metavar="KEY", help="What the limits of the queue count its jobs by.")
    ] = "",
    tenant: Annotated[
        str,
        typer.Option("--tenant", metavar="NAME", help="For whom they are. Tenants of a queue can take turns."),
    ] = "",
    resource: Annotated[
        list[str] | None,
        typer.Option(
            "--resource",
            metavar="NAME=AMOUNT",
            help="What they need of their worker, such as cpus=2 or mem=8G. Can be given several times.",
        ),
    ] = None,
    missed: Annotated[
        str,
        typer.Option(
            "--missed",
            metavar="WORD",
            autocompletion=completing(get_args(Missed)),
            help="Which missed due times fire later: latest, all, or skip (none).",
        ),
    ] = "latest",
    late_s: Annotated[
        float,
        typer.Option(
            "--late-s", metavar="SECONDS", help="A due time counts as missed after this many seconds."
        ),
    ] = LATE_US / SECOND_US,
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Add a schedule. A running hall reads it at once.

    Example: hall schedule add birthdays --queue birthday_mail --cron '0 6 * * *' --key '{due:%Y-%m-%d}'
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
        quits_max=quits_max,
        limit_key=limit_key,
        tenant=tenant,
        resources=" ".join(resource or []),
        missed=_one_of("--missed", missed, cast("tuple[Missed, ...]", get_args(Missed))),
        late_us=_late_us(late_s),
    )
    faults = list(plan.faults()) or list(plan.excesses(loaded.config.limits.limits()))
    if faults:
        raise ConfigError([f"{_flag(field)}: {problem}" for field, problem in faults])
    if where := find_configured(loaded, name):
        raise ConfigError([f'NAME: "{name}" is used by {where}'])
    with open_book(loaded) as book:
        is_new = not book.exists()
        book.add(plan)
    due = in_zone(plan, plan.next_due_us(machine_us()))
    where = f" in the new data folder {book.place}" if is_new else ""
    notified = tell_hall(loaded.config.hall.data)
    if as_json:
        print_json(schedule_line(loaded, name))
    else:
        print_line(f'schedule "{name}" was added{where}; it is due next at {due}{notified}')
    return 0


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")],
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Remove a schedule that was added with hall schedule add. Its jobs stay."""
    loaded = load_settings(config, data)
    where = find_configured(loaded, name)
    known: list[str] = []
    with open_book(loaded) as book:
        is_there = book.exists()
        if is_there:
            if book.remove(name):
                notified = tell_hall(loaded.config.hall.data)
                if as_json:
                    print_json([{"removed": name, "defined": book.where}])
                else:
                    print_line(f'schedule "{name}" was removed{notified}')
                if where:
                    print_error(f"hall: {where} has the same name and stays active")
                return 0
            known = list(book.read())
    if where:
        raise HallError(f'schedule "{name}" is defined as {where}: delete it there and restart the hall')
    if not is_there:
        raise missing(book.place)
    raise unknown(name, known, book.where)


def show(
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """List all schedules, with their last and next due times.

    The hall can be running or stopped.
    """
    loaded = load_settings(config, data)
    lines = schedule_lines(loaded)
    hall = running_hall(loaded.config.hall.data)
    if as_json:
        print_json(lines)
        return 0
    print_result(_as_text(lines, terminal_width()))
    print_error(
        f"hall: a hall is running ({hall})" if hall else "hall: no hall is running, so no schedule fires"
    )
    return 0


# --- output


def _flag(field: str) -> str:
    if field == "name":
        return "NAME"
    return "--resource" if field == "resources" else f"--{field.replace('_', '-')}"


def _interval_us(written: str) -> int:
    try:
        return int(Interval.parse(written))
    except ValueError:
        raise ConfigError([f'--every: "{written}" is not allowed; it takes {Interval.allowed}']) from None


def _late_us(late_s: float) -> int:
    if not 0 <= late_s <= LATE_S_MAX:  # NaN is outside as well
        raise ConfigError([f'--late-s: "{late_s:g}" is not allowed; it takes seconds from 0 to {LATE_S_MAX}'])
    return round(late_s * SECOND_US)


def _one_of(flag: str, written: str, words: tuple[_Word, ...]) -> _Word:
    for word in words:
        if word == written:
            return word
    raise ConfigError([f'{flag}: "{written}" is not allowed; it takes one of {", ".join(words)}'])


def _as_text(lines: list[dict[str, object]], width: int | None) -> str:
    if not lines:
        return "No schedules.\n"
    return as_table(HEADINGS, [_cells(line) for line in lines], width)


def _cells(line: dict[str, object]) -> list[str]:
    """The texts under HEADINGS."""
    behind = line["behind"]
    return [
        escaped(str(line["name"])),
        escaped(str(line["cron"] or f"every {line['every']}")),
        escaped(str(line["timezone"])),
        escaped(str(line["queue"])),
        escaped(str(line["key"])),
        escaped(str(line["defined"])),
        str(line["last"] or ("not yet" if line["begun"] else "not begun")),
        f"{behind} or more" if behind == CATCH_UP_MAX else str(behind or ""),
        "paused" if line["paused"] else "\n".join(cast("list[str]", line["next"])),
    ]
