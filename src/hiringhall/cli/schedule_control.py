"""`hall schedule pause`, `resume` and `run`."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (typer looks its types up)
from typing import Annotated
from urllib.parse import quote

import typer

from hiringhall.cli.remote import JsonFlag, print_json
from hiringhall.cli.reporting import print_line
from hiringhall.cli.schedule_files import find_configured, find_hall, missing, open_book, tell_hall, unknown
from hiringhall.cli.schedule_lines import schedule_line
from hiringhall.cli.settings import ConfigFlag, DataFlag, load_settings
from hiringhall.dialects.native import wire
from hiringhall.doors.native import SOCKET
from hiringhall.endpoints import HallError
from hiringhall.schedules.keeper import machine_us
from hiringhall.sdk import errors
from hiringhall.sdk.hall import Hall
from hiringhall.storage.opening import files_folder, is_url, shown

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]


def pause(name: Name, config: ConfigFlag = None, data: DataFlag = None, as_json: JsonFlag = False) -> int:
    """Pause a schedule, also one of hall.toml. Due times that pass meanwhile do not fire, also not later.

    The hall can be running or stopped.
    """
    _set_paused(name, config, data, paused=True, as_json=as_json)
    return 0


def resume(name: Name, config: ConfigFlag = None, data: DataFlag = None, as_json: JsonFlag = False) -> int:
    """Resume a paused schedule: it fires again, from its next due time on."""
    _set_paused(name, config, data, paused=False, as_json=as_json)
    return 0


def run(name: Name, config: ConfigFlag = None, data: DataFlag = None, as_json: JsonFlag = False) -> int:
    """Submit the job of a schedule once now. Its due times stay as they are, and it may be paused.

    The hall must be running.
    """
    hall = load_settings(config, data).config.hall
    folder = files_folder(hall.data, hall.folder)
    socket = (folder / SOCKET).absolute()
    if find_hall(folder) is None:
        if is_url(hall.data):
            raise HallError(
                f"no hall on this machine is active with {shown(hall.data)}: run this on the machine of the"
                " active one, which `hall halls` names"
            )
        raise HallError(f"no hall is running with the data folder {folder}; use --data to name another")
    if not socket.exists():
        raise HallError(f"the hall has no native door, which is needed for this: there is no {socket}")
    client = Hall(f"hall+unix://{quote(bytes(socket))}", name="hall schedule run")
    try:
        job = client.run(_run(client, name))
    except errors.HallRefused as refused:
        raise HallError(refused.text) from refused
    except errors.HallError as error:
        raise HallError(str(error)) from error
    finally:
        client.close()
    if as_json:
        print_json([{"schedule": name, "job": str(job)}])
    else:
        print_line(f'schedule "{name}" was run: job {job}')
    return 0


async def _run(hall: Hall, name: str) -> int:
    return int(await hall.connection().request(wire.RUN_SCHEDULE, (name.encode(),)))


def _set_paused(name: str, config: Path | None, data: str | None, *, paused: bool, as_json: bool) -> None:
    loaded = load_settings(config, data)
    with open_book(loaded) as book:
        if not find_configured(loaded, name):
            if not book.exists():
                raise missing(book.place)
            plans = book.read()
            if name not in plans:
                raise unknown(name, [*plans, *[each.name for each in loaded.config.schedule]], book.where)
        before = book.pauses.read()
        after = book.pauses.change(name, paused=paused, at_us=machine_us())
    if after == before:
        news = "is paused already" if paused else "is not paused"
    else:
        news = ("is paused" if paused else "fires again") + tell_hall(loaded.config.hall.data)
    if as_json:
        print_json(schedule_line(loaded, name))
    else:
        print_line(f'schedule "{name}" {news}')
