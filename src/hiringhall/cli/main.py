"""`hall`: open a hall or a device, look into a history, move jobs, check and print settings."""

from __future__ import annotations

import functools
import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from hiringhall import __version__
from hiringhall.cli import schedule
from hiringhall.cli.device import device
from hiringhall.cli.history import history
from hiringhall.cli.moving import export_jobs, import_jobs
from hiringhall.cli.reporting import Parameters, complain, guarded, say
from hiringhall.cli.settings import ALL_DOORS, ConfigFlag, DataFlag, load_settings
from hiringhall.config import template
from hiringhall.doors.keyfiles import expiry_warnings, find_certificates, secret_warnings
from hiringhall.doors.ports import find_taken
from hiringhall.endpoints import HallError, check_shield
from hiringhall.logs.writing import DescriptorHandler, logging_to
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS, Opened, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.config.schema import Config

app = typer.Typer(
    name="hall",
    help="A hiring hall: a job server where every job meets a worker. Start with [bold]hall serve[/bold].",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

VERSION: Final = f"hiringhall {__version__}\n"

StorageFlag = Annotated[
    str | None,
    typer.Option(
        "--storage", metavar="KIND", help="sqlite, or memory to forget all at the end (default: sqlite)."
    ),
]
DoorFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--door",
        metavar="DIALECT=HOST:PORT",
        help="Listen here; may be repeated. Replaces the configured doors (default: gearman=127.0.0.1:4730).",
    ),
]
LogFormatFlag = Annotated[
    str | None,
    typer.Option(
        "--log-format", metavar="FORMAT", help="The log in lines of text, or of json (default: text)."
    ),
]
SetFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any setting, such as door[0].lease_s=30; may be repeated."
    ),
]


def _command(
    name: str, group: typer.Typer = app
) -> Callable[[Callable[Parameters, int]], Callable[Parameters, int]]:
    """A command of `hall`, or of a group of its commands, that gives its exit code."""

    def register(command: Callable[Parameters, int]) -> Callable[Parameters, int]:
        checked = guarded(command, "hall")

        @group.command(name)
        @functools.wraps(command)
        def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
            raise typer.Exit(checked(*args, **kwargs))

        return checked

    return register


@_command("serve")
def serve(
    config: ConfigFlag = None,
    data: DataFlag = None,
    storage: StorageFlag = None,
    door: DoorFlag = None,
    assignments: SetFlag = None,
    log_format: LogFormatFlag = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say where the doors are as one line of JSON, for programs.")
    ] = False,
    all_doors: Annotated[
        bool,
        typer.Option(
            "--all-doors",
            help="Where no doors are named: one of each dialect on loopback, if its port is free.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Open although the log of the data file is damaged or missing."),
    ] = False,
) -> int:
    """Open the hall and serve until it is told to stop.

    The first Ctrl-C or SIGTERM drains: no new work is handed out, and running jobs may finish. The second
    stops at once. What was acknowledged is on disk either way.
    """
    default_doors = ALL_DOORS if all_doors else DEFAULT_DOORS
    loaded = load_settings(config, data, storage, door, assignments, log_format, default_doors)
    settings = _without_taken(loaded.config) if all_doors and not loaded.doors_named else loaded.config
    level = logging.getLevelNamesMapping()[settings.hall.log_level.upper()]
    with logging_to(DescriptorHandler(sys.stderr.fileno()), level, settings.hall.log_format) as log:
        announce = _announce_json if as_json else _announce
        return run(settings, announce, repeats=log.repeats, accept_loss=accept_loss)


def _without_taken(config: Config) -> Config:
    """Without the doors whose ports other programs have; each of them is told."""
    found = [(settings, find_taken(settings, index)) for index, settings in enumerate(config.door)]
    for _, taken in found:
        if taken:
            complain(f"hall: {taken}")
    free = tuple(settings for settings, taken in found if not taken)
    if not free:
        raise HallError("no door can be opened: the ports of all of them are taken")
    return msgspec.structs.replace(config, door=free)


def _announce_json(opened: Opened) -> None:
    doors = [{"dialect": door.dialect, "role": door.role, "address": door.address} for door in opened.doors]
    line = {
        "hall": opened.name,
        "pid": opened.pid,
        "data": opened.data,
        "doors": doors,
        "recovered": opened.recovered,
    }
    say(json.dumps(line) + "\n")


def _announce(opened: Opened) -> None:
    console = Console(highlight=False, soft_wrap=True)
    with console.capture() as captured:
        console.print(
            f"[bold]{escape(opened.name)}[/bold] is open (hiringhall {__version__}, pid {opened.pid})"
        )
        for door in opened.doors:
            name = f"{door.dialect} {door.role}".rstrip()
            shield = f" ({door.shield})" if door.shield else ""
            console.print(f"  door   [green]{name}[/green] on [bold]{door.address}[/bold]{shield}")
        console.print(f"  data   {escape(opened.data) or 'in memory: nothing survives a stop'}")
        console.print(f"  jobs   {opened.recovered} recovered")
        first_job = next((door.first_job for door in opened.doors if door.first_job), "")
        if first_job:
            console.print(f"\nA first job, to paste into another terminal:\n  [cyan]{escape(first_job)}[/cyan]")
        console.print("\nCtrl-C drains and closes; twice stops at once.")
    say(captured.get())


@_command("check-config")
def check_config(
    config: ConfigFlag = None,
    data: DataFlag = None,
    storage: StorageFlag = None,
    door: DoorFlag = None,
    assignments: SetFlag = None,
) -> int:
    """Check the settings without opening anything."""
    loaded = load_settings(config, data, storage, door, assignments)
    for index, settings in enumerate(loaded.config.door):
        check_shield(settings, index)
    certificates = find_certificates(loaded.config.door)
    for warning in (*secret_warnings(loaded.config.door), *expiry_warnings(certificates, time.time())):
        complain(f"hall: {warning}")
    doors = ", ".join(f"{settings.dialect} on {settings.address}" for settings in loaded.config.door)
    say(f"{loaded.file or 'no file, defaults'}: fine; {doors}; data in {loaded.config.hall.data}\n")
    return 0


@_command("config")
def print_config() -> int:
    """Print a complete hall.toml with every setting explained and at its default.

    Start your own with: hall config > hall.toml
    """
    opened = [door.partition("=")[0] for door in DEFAULT_DOORS]
    say(template.annotated(DOOR_SETTINGS, opened))
    return 0


@_command("version")
def version() -> int:
    """Print the version."""
    say(VERSION)
    return 0


def _say_version(wanted: bool) -> None:
    if wanted:
        say(VERSION)
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version.")
    ] = False,
) -> None:
    """What can be said before a command."""


_command("history")(history)
_command("export")(export_jobs)
_command("import")(import_jobs)
_command("device")(device)

schedule_app = typer.Typer(
    help="Jobs that come at their times: add, list and remove schedules.", no_args_is_help=True
)
app.add_typer(schedule_app, name="schedule")
_command("add", schedule_app)(schedule.add)
_command("list", schedule_app)(schedule.show)
_command("remove", schedule_app)(schedule.remove)


def main() -> None:
    """The console script."""
    app(prog_name="hall")
