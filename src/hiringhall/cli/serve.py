"""`hall serve`: start a hall and serve until it is stopped."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from hiringhall import __version__
from hiringhall.cli.escaping import escaped
from hiringhall.cli.reporting import json_line, print_error, print_result
from hiringhall.cli.settings import (
    ConfigFlag,
    DataFlag,
    DoorFlag,
    SetFlag,
    StorageFlag,
    all_doors,
    load_settings,
    word_option,
)
from hiringhall.cli.styling import BOLD, Style, terminal_colours
from hiringhall.doors.ports import find_taken
from hiringhall.endpoints import HallError
from hiringhall.logs.writing import DescriptorHandler, logging_to
from hiringhall.server import DEFAULT_DOORS, Opened, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.config.schema import Config

_DIALECT: Final = Style("green")
_FIRST_JOB: Final = Style("cyan")
_LOG_FORMAT_HELP: Final = "How the log is written: text or json. Default: text."
LogFormatFlag = Annotated[str | None, word_option("--log-format", "FORMAT", ["text", "json"], _LOG_FORMAT_HELP)]


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
    every_door: Annotated[
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
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="Stand by while another hall on the same database is active, and take over when it is gone. "
            "Needs --data postgresql://...",
        ),
    ] = False,
) -> int:
    """Start a hall and serve until it is stopped.

    The first Ctrl-C or SIGTERM drains the hall: no new work is handed out, and running jobs can finish. The
    second stops it at once. In both cases every durable job that was acknowledged is on disk.
    """
    default_doors = all_doors() if every_door else DEFAULT_DOORS
    loaded = load_settings(
        config, data, storage, door, assignments, log_format, default_doors, web=web, no_web=no_web
    )
    settings = loaded.config if loaded.doors_named else _without_taken(loaded.config)
    level = logging.getLevelNamesMapping()[settings.hall.log_level.upper()]
    with logging_to(DescriptorHandler(sys.stderr.fileno()), level, settings.hall.log_format) as log:
        announce = _announce_json if as_json else _announce
        return run(settings, announce, repeats=log.repeats, accept_loss=accept_loss, standby=standby)


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
        "standby": opened.standby,
    }
    print_result(json_line(line))


def _announce(opened: Opened) -> None:
    print_result("".join(f"{line}\n" for line in _lines(opened)))


def _lines(opened: Opened) -> Iterator[str]:
    colours = terminal_colours()

    def styled(text: str, style: Style = BOLD) -> str:
        return style.render(escaped(text), color_system=colours)

    state = "stands by" if opened.standby else "is open"
    yield f"{styled(opened.name)} {state} (hiringhall {__version__}, pid {opened.pid})"
    for door in opened.doors:
        name = styled(f"{door.dialect} {door.role}".rstrip(), _DIALECT)
        encryption = f" ({door.encryption})" if door.encryption else ""
        yield f"  door   {name} on {styled(str(door.address))}{encryption}"
    if opened.web:
        yield f"  web    {styled(opened.web)}"
    yield f"  data   {escaped(opened.data) or 'in memory: jobs are lost when the hall stops'}"
    if not opened.standby:
        yield f"  jobs   {opened.recovered} recovered"
    first_job = next((door.first_job for door in opened.doors if door.first_job), "")
    if first_job:
        yield f"\nSubmit a first job: paste this into another terminal.\n  {styled(first_job, _FIRST_JOB)}"
    yield "\nPress Ctrl-C to drain and stop. Press it twice to stop at once."
