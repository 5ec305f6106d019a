"""Reading the settings, with the flags that all commands have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from hiringhall.cli.help_texts import completing
from hiringhall.cli.reporting import print_error
from hiringhall.config import loading
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

ConfigFlag = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings file. Default: $HALL_CONFIG, or ./hall.toml if it exists."
    ),
]
DataFlag = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The data folder, or the URL of a PostgreSQL database. Default: hall-data.",
    ),
]

_STORAGE_HELP: Final = (
    "Where jobs are kept: sqlite (on disk) or memory (lost when the hall stops). Default: sqlite."
)
_DOOR_HELP: Final = (
    "Open this door, DIALECT=HOST:PORT. Can be given several times; replaces the configured doors. "
    "Default: Gearman on 127.0.0.1:4730 and native on 127.0.0.1:4731."
)
_SET_HELP: Final = "Any setting, such as door[0].lease_s=30. Can be given several times."


def word_option(name: str, metavar: str, words: list[str], text: str) -> Any:
    """An option that takes one of a few words."""
    return typer.Option(name, metavar=metavar, autocompletion=completing(words), help=text)


StorageFlag = Annotated[str | None, word_option("--storage", "KIND", ["sqlite", "memory"], _STORAGE_HELP)]
DoorFlag = Annotated[list[str] | None, typer.Option("--door", metavar="DOOR", help=_DOOR_HELP)]
SetFlag = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET_HELP)]


def all_doors() -> list[str]:
    """A door of each dialect, at its default address."""
    return [
        f"{name}={field.default}"
        for name, shape in DOOR_SETTINGS.items()
        for field in msgspec.structs.fields(shape)
        if field.name == "address"
    ]


def load_settings(
    config: Path | None,
    data: str | None = None,
    storage: str | None = None,
    doors: list[str] | None = None,
    assignments: list[str] | None = None,
    log_format: str | None = None,
    default_doors: Sequence[str] = DEFAULT_DOORS,
    web: str | None = None,
    no_web: bool = False,
) -> loading.Loaded:
    """The settings from all sources; warnings go to stderr. Raises ConfigError."""
    named = {
        "--data": (("hall", "data"), data),
        "--storage": (("hall", "storage"), storage),
        "--log-format": (("hall", "log_format"), log_format),
        "--web": (("web", "address"), web),
        "--no-web": (("web", "enabled"), "false" if no_web else None),
    }
    flags = loading.Flags(config, doors or (), assignments or (), named)
    loaded = loading.load(flags, os.environ, DOOR_SETTINGS, default_doors)
    for warning in loaded.warnings:
        print_error(f"hall: {warning}")
    return loaded
