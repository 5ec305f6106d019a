"""`hall`: start a hall or a device, show the history, move jobs, check and print settings."""

from __future__ import annotations

import functools
import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from hiringhall import __version__
from hiringhall.cli import schedule, schedule_control, token
from hiringhall.cli.dev import dev
from hiringhall.cli.device import device
from hiringhall.cli.help_texts import HELP_NAMES, HallCommand, HallGroup, completing, unwrapped
from hiringhall.cli.history import history
from hiringhall.cli.reporting import Parameters, guarded, print_error, print_result
from hiringhall.cli.settings import ALL_DOORS, ConfigFlag, DataFlag, load_settings
from hiringhall.cli.transfer import export_jobs, import_jobs
from hiringhall.cli.web import web
from hiringhall.cli.work import work
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
    cls=HallGroup,
    help="A job server that speaks several protocols. Start one with [bold]hall serve[/bold].",
    no_args_is_help=True,
    context_settings={"help_option_names": list(HELP_NAMES)},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

VERSION: Final = f"hiringhall {__version__}\n"

_STORAGE_HELP: Final = (
    "Where jobs are kept: sqlite (on disk) or memory (lost when the hall stops). Default: sqlite."
)
_DOOR_HELP: Final = (
    "Open this door, DIALECT=HOST:PORT. Can be given several times; replaces the configured doors. "
    "Default: Gearman on 127.0.0.1:4730 and native on 127.0.0.1:4731."
)
_LOG_FORMAT_HELP: Final = "How the log is written: text or json. Default: text."
_SET_HELP: Final = "Any setting, such as door[0].lease_s=30. Can be given several times."


def _word_option(name: str, metavar: str, words: list[str], text: str) -> Any:
    """An option that takes one of a few words."""
    return typer.Option(name, metavar=metavar, autocompletion=completing(words), help=text)


StorageFlag = Annotated[str | None, _word_option("--storage", "KIND", ["sqlite", "memory"], _STORAGE_HELP)]
DoorFlag = Annotated[list[str] | None, typer.Option("--door", metavar="DOOR", help=_DOOR_HELP)]
LogFormatFlag = Annotated[
    str | None, _word_option("--log-format", "FORMAT", ["text", "json"], _LOG_FORMAT_HELP)
]
SetFlag = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET_HELP)]


def _command(
    name: str, group: typer.Typer = app
) -> Callable[[Callable[Parameters, int]], Callable[Parameters, int]]:
    """Registers a command of `hall`, or of a group of its commands. The command returns its exit code."""

    def register(command: Callable[Parameters, int]) -> Callable[Parameters, int]:
        checked = guarded(command, "hall")

        @group.command(name, cls=HallCommand, help=unwrapped(command.__doc__ or ""))
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
    web: Annotated[
        str | None,
        typer.Option(
            "--web",
            metavar="ADDRESS",
            help="Where the dashboard and the HTTP API are. Default: 127.0.0.1:4780.",
        ),
    ] = None,
    no_web: Annotated[bool, typer.Option("--no-web", help="Start no dashboard and no HTTP API.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the open doors as one line of JSON.")] = False,
    all_doors: Annotated[
        bool,
        typer.Option(
            "--all-doors",
            help="Open a door of each dialect on loopback if its port is free. "
            "Ignored if doors are configured.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Start although the write-ahead log of the data file is damaged or missing. "
            "The changes in it are lost.",
        ),
    ] = False,
) -> int:
    """Start a hall and serve until it is stopped.

    The first Ctrl-C or SIGTERM drains the hall: no new work is handed out, and running jobs can finish. The
    second stops it at once. In both cases every durable job that was acknowledged is on disk.
    """
    default_doors = ALL_DOORS if all_doors else DEFAULT_DOORS
    loaded = load_settings(
        config, data, storage, door, assignments, log_format, default_doors, web=web, no_web=no_web
    )
    settings = loaded.config if loaded.doors_named else _without_taken(loaded.config)
    level = logging.getLevelNamesMapping()[settings.hall.log_level.upper()]
    with logging_to(DescriptorHandler(sys.stderr.fileno()), level, settings.hall.log_format) as log:
        announce = _announce_json if as_json else _announce
        return run(settings, announce, repeats=log.repeats, accept_loss=accept_loss)


def _without_taken(config: Config) -> Config:
    """The settings without the doors whose ports other programs use; each of these is reported."""
    found = [(settings, find_taken(settings, index)) for index, settings in enumerate(config.door)]
    for _, taken in found:
        if taken:
            print_error(f"hall: {taken}")
    free = tuple(settings for settings, taken in found if not taken)
    if not free:
        raise HallError("no door can be opened: other programs use the ports of all of them")
    return msgspec.structs.replace(config, door=free)


def _announce_json(opened: Opened) -> None:
    doors = [{"dialect": door.dialect, "role": door.role, "address": door.address} for door in opened.doors]
    line = {
        "hall": opened.name,
        "pid": opened.pid,
        "data": opened.data,
        "doors": doors,
        "recovered": opened.recovered,
        "web": opened.web,
    }
    print_result(json.dumps(line) + "\n")


def _announce(opened: Opened) -> None:
    console = Console(highlight=False, soft_wrap=True)
    with console.capture() as captured:
        console.print(
            f"[bold]{escape(opened.name)}[/bold] is open (hiringhall {__version__}, pid {opened.pid})"
        )
        for door in opened.doors:
            name = f"{door.dialect} {door.role}".rstrip()
            encryption = f" ({door.encryption})" if door.encryption else ""
            console.print(f"  door   [green]{name}[/green] on [bold]{door.address}[/bold]{encryption}")
        if opened.web:
            console.print(f"  web    [bold]{opened.web}[/bold]")
        console.print(f"  data   {escape(opened.data) or 'in memory: jobs are lost when the hall stops'}")
        console.print(f"  jobs   {opened.recovered} recovered")
        first_job = next((door.first_job for door in opened.doors if door.first_job), "")
        if first_job:
            console.print(
                f"\nSubmit a first job: paste this into another terminal.\n  [cyan]{escape(first_job)}[/cyan]"
            )
        console.print("\nPress Ctrl-C to drain and stop. Press it twice to stop at once.")
    print_result(captured.get())


@_command("check-config")
def check_config(
    config: ConfigFlag = None,
    data: DataFlag = None,
    storage: StorageFlag = None,
    door: DoorFlag = None,
    assignments: SetFlag = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the doors and the data folder as JSON.")
    ] = False,
) -> int:
    """Check the settings. Opens no door and no data folder."""
    loaded = load_settings(config, data, storage, door, assignments)
    for index, settings in enumerate(loaded.config.door):
        check_shield(settings, index)
    certificates = find_certificates(loaded.config.door)
    for warning in (*secret_warnings(loaded.config.door), *expiry_warnings(certificates, time.time())):
        print_error(f"hall: {warning}")
    hall = loaded.config.hall
    if as_json:
        listed = [{"dialect": door.dialect, "address": door.address} for door in loaded.config.door]
        file = None if loaded.file is None else str(loaded.file)
        print_result(
            json.dumps({"file": file, "doors": listed, "storage": hall.storage, "data": hall.data}) + "\n"
        )
        return 0
    doors = ", ".join(f"{door.dialect} on {door.address}" for door in loaded.config.door)
    print_result(f"{loaded.file or 'no file, defaults'}: fine; {doors}; data in {hall.data}\n")
    return 0


@_command("config")
def print_config(
    as_json: Annotated[
        bool, typer.Option("--json", help="List the settings instead, one JSON object per line.")
    ] = False,
) -> int:
    """Print a complete hall.toml: every setting with its description and default.

    To start your own file: hall config > hall.toml
    """
    if as_json:
        print_result("".join(json.dumps(fact) + "\n" for fact in template.facts(DOOR_SETTINGS)))
        return 0
    opened = [door.partition("=")[0] for door in DEFAULT_DOORS]
    print_result(template.annotated(DOOR_SETTINGS, opened))
    return 0


@_command("version")
def version() -> int:
    """Print the version."""
    print_result(VERSION)
    return 0


def _print_version(wanted: bool) -> None:
    if wanted:
        print_result(VERSION)
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Options before a command."""


_command("history")(history)
_command("export")(export_jobs)
_command("import")(import_jobs)
_command("device")(device)
_command("work")(work)
_command("dev")(dev)
_command("web")(web)

schedule_app = typer.Typer(
    cls=HallGroup,
    help="Add, list, pause, run and remove schedules: jobs that are submitted at fixed times.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.add_typer(schedule_app, name="schedule")
_command("add", schedule_app)(schedule.add)
_command("list", schedule_app)(schedule.show)
_command("remove", schedule_app)(schedule.remove)
_command("pause", schedule_app)(schedule_control.pause)
_command("resume", schedule_app)(schedule_control.resume)
_command("run", schedule_app)(schedule_control.run)

token_app = typer.Typer(
    cls=HallGroup,
    help="Make, list and revoke tokens: who may come in, and what they may do.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.add_typer(token_app, name="token")
_command("add", token_app)(token.add)
_command("list", token_app)(token.show)
_command("revoke", token_app)(token.revoke)


def main() -> None:
    """The console script."""
    app(prog_name="hall")
