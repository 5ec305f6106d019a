"""Reading the settings, with the flags that all commands have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

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
    typer.Option("--data", metavar="DIR", help="The data folder. Default: hall-data."),
]


ALL_DOORS: Final = tuple(
    f"{name}={field.default}"
    for name, shape in DOOR_SETTINGS.items()
    for field in msgspec.structs.fields(shape)
    if field.name == "address"
)
"""A door of each dialect, at its default address."""


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
