"""`hall halls` and `hall switch-over`: the halls on one database, and which of them is active."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from hiringhall.cli.escaping import escaped
from hiringhall.cli.grid import Column, plain, table
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.paging import show
from hiringhall.cli.remote import JsonFlag, print_json
from hiringhall.cli.reporting import CommandError, print_error, print_result
from hiringhall.cli.settings import ConfigFlag, DataFlag, load_settings
from hiringhall.cli.styling import terminal_colours
from hiringhall.cluster.overview import observe
from hiringhall.cluster.overview import switch_over as move_role
from hiringhall.cluster.standby import read_addresses
from hiringhall.storage.contract import StoreError
from hiringhall.storage.opening import is_url, shown

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path
    from typing import Any

    from hiringhall.cluster.overview import ObservedMember

COLUMNS: Final = (
    Column("hall", least=12),
    Column("role"),
    Column("incarnation", right=True, rank=1),
    Column("version", rank=2),
    Column("doors"),
)
_T = TypeVar("_T")


def halls(config: ConfigFlag = None, data: DataFlag = None, as_json: JsonFlag = False) -> int:
    """List the halls on a database: which one is active, which stand by, and which are gone.

    The members are watched for a second. silent: it is active and shows no life; a standby takes over soon.
    """
    found = _wait(observe(_url(config, data)))
    if as_json:
        print_json(map(_shape, found))
        return 0
    if not found:
        print_error("hall: no hall has opened this database yet")
        return 0
    rows = [
        plain(escaped(each.name), each.role, each.incarnation, escaped(each.version), escaped(_doors(each)))
        for each in found
    ]
    show(table(COLUMNS, rows, terminal_width(), terminal_colours()), paged=False)
    return 0


def switch_over(
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="HALL",
            show_default=False,
            help="The hall to be active. Default: any standby.",
        ),
    ] = "",
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Make a standby the active hall. Nothing is lost; clients connect again.

    The hall that was active takes back its running jobs, commits, closes, and stands by.
    """
    name, seconds = _wait(move_role(_url(config, data), to))
    if as_json:
        print_json([{"active": name, "seconds": round(seconds, 3)}])
    else:
        print_result(f"hall {escaped(name)} is active, after {seconds:.1f} s\n")
    return 0


def _url(config: Path | None, data: str | None) -> str:
    place = load_settings(config, data).config.hall.data
    if not is_url(place):
        raise CommandError(f"{shown(place)} is not a database that halls share: give --data postgresql://...")
    return place


def _wait(work: Coroutine[Any, Any, _T]) -> _T:
    try:
        return asyncio.run(work)
    except StoreError as error:
        raise CommandError(str(error)) from error


def _doors(seen: ObservedMember) -> str:
    places = [f"{host}:{port}" for door in read_addresses(seen.address) for host, port in door if port]
    return " ".join(places)


def _shape(seen: ObservedMember) -> dict[str, object]:
    return {
        "name": seen.name,
        "role": seen.role,
        "incarnation": seen.incarnation,
        "version": seen.version,
        "doors": _doors(seen).split(),
    }
