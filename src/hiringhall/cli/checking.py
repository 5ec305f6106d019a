"""`hall check-config` and `hall config`: check and print settings."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from hiringhall.cli.reporting import json_line, print_error, print_line, print_result
from hiringhall.cli.settings import ConfigFlag, DataFlag, DoorFlag, SetFlag, StorageFlag, load_settings
from hiringhall.config import template
from hiringhall.doors.keyfiles import expiry_warnings, find_certificates, secret_warnings
from hiringhall.endpoints import check_shield
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS
from hiringhall.storage.places import shown


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
            json_line({"file": file, "doors": listed, "storage": hall.storage, "data": shown(hall.data)})
        )
        return 0
    doors = ", ".join(f"{door.dialect} on {door.address}" for door in loaded.config.door)
    print_line(f"{loaded.file or 'no file, defaults'}: fine; {doors}; data in {shown(hall.data)}")
    return 0


def print_config(
    as_json: Annotated[
        bool, typer.Option("--json", help="List the settings instead, one JSON object per line.")
    ] = False,
) -> int:
    """Print a complete hall.toml: every setting with its description and default.

    To start your own file: hall config > hall.toml
    """
    if as_json:
        print_result("".join(json_line(fact) for fact in template.facts(DOOR_SETTINGS)))
        return 0
    opened = [door.partition("=")[0] for door in DEFAULT_DOORS]
    print_result(template.annotated(DOOR_SETTINGS, opened))
    return 0
