"""Settings of ZeroMQ doors, read from where people write them: a file, the environment, flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from hiringhall.config.loading import Flags, Loaded, load
from hiringhall.config.schema import ZmqDoorSettings
from hiringhall.config.sources import ConfigError
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS

if TYPE_CHECKING:
    from hiringhall.config.schema import DoorSettings

ZMQ_DIALECTS: Final = ("dwork", "pingpong", "wmp")
KEY: Final = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
"""A public key in Z85, with letters that TOML, shells and lists could take for theirs."""
OTHER_KEY: Final = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"


def read(
    toml: str = "",
    environ: dict[str, str] | None = None,
    doors: tuple[str, ...] = (),
    assignments: tuple[str, ...] = (),
) -> Loaded:
    Path("hall.toml").write_text(toml, encoding="utf-8")
    return load(Flags(None, doors, assignments), environ or {}, DOOR_SETTINGS, DEFAULT_DOORS)


def door(
    toml: str = "",
    environ: dict[str, str] | None = None,
    doors: tuple[str, ...] = (),
    assignments: tuple[str, ...] = (),
) -> DoorSettings:
    (settings,) = read(toml, environ, doors, assignments).config.door
    return settings


def problems(
    toml: str = "",
    environ: dict[str, str] | None = None,
    doors: tuple[str, ...] = (),
    assignments: tuple[str, ...] = (),
) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(toml, environ, doors, assignments)
    return caught.value.problems


def zmq_door(dialect: str, **settings: str) -> ZmqDoorSettings:
    """A door of the command line, with settings as `--set` takes them."""
    assignments = tuple(f"door[0].{key.replace('__', '.')}={value}" for key, value in settings.items())
    found = door(doors=(f"{dialect}=127.0.0.1:0",), assignments=assignments)
    assert isinstance(found, ZmqDoorSettings)
    return found
