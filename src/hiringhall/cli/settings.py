"""The settings that commands read alike: where the file is, where the data is, what is odd about them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hiringhall.cli.reporting import complain
from hiringhall.config import loading
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS

ConfigFlag = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings; ./hall.toml is read if it is there, or $HALL_CONFIG."
    ),
]
DataFlag = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="The folder where jobs are kept (default: hall-data)."),
]


def load_settings(
    config: Path | None,
    data: str | None = None,
    storage: str | None = None,
    doors: list[str] | None = None,
    assignments: list[str] | None = None,
    log_format: str | None = None,
) -> loading.Loaded:
    """All sources put together; what looks odd is told on stderr. Raises ConfigError."""
    named = {
        "--data": (("hall", "data"), data),
        "--storage": (("hall", "storage"), storage),
        "--log-format": (("hall", "log_format"), log_format),
    }
    flags = loading.Flags(config, doors or (), assignments or (), named)
    loaded = loading.load(flags, os.environ, DOOR_SETTINGS, DEFAULT_DOORS)
    for warning in loaded.warnings:
        complain(f"hall: {warning}")
    return loaded
