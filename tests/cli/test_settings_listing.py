"""The settings of a hall as a list: value, source and description of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.config.listing import listed
from hiringhall.config.loading import Flags, load
from hiringhall.server import DOOR_SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = """
[hall]
name = "one"
[limits]
payload_bytes_max = "2MiB"
[[door]]
dialect = "gearman"
address = "127.0.0.1:4730"
[[schedule]]
name = "nightly"
queue = "q"
every = "1h"
payload = "a secret"
"""


def test_each_setting_has_its_value_its_source_and_its_meaning(tmp_path: Path) -> None:
    file = tmp_path / "hall.toml"
    file.write_text(SETTINGS)
    flags = Flags(file, assignments=["limits.jobs_max=5"])
    loaded = load(flags, {"HALL_LOG_LEVEL": "debug"}, DOOR_SETTINGS, [])
    found = {name: (value, source, description) for name, value, source, description in listed(loaded.config)}
    assert found["hall.name"][:2] == ("one", str(file))
    assert found["hall.log_level"][:2] == ("debug", "HALL_LOG_LEVEL")
    assert found["limits.jobs_max"][:2] == ("5", "--set")
    assert found["limits.payload_bytes_max"][:2] == ("2MiB", str(file))
    assert found["door[0].address"][:2] == ("127.0.0.1:4730", str(file))
    assert found["limits.queues_max"][1] == "default"
    assert all(description for _, _, description in found.values())
    assert not [value for value, _, _ in found.values() if "secret" in value]


def test_the_url_of_a_database_is_listed_without_its_password(tmp_path: Path) -> None:
    environment = {"HALL_DATA": "postgresql://ann:secret@db/hall?sslmode=require&password=secret"}
    loaded = load(Flags(None), environment, DOOR_SETTINGS, [])
    found = {name: value for name, value, _, _ in listed(loaded.config)}
    assert found["hall.data"] == "postgresql://ann@db/hall"
    assert not [value for value in found.values() if "secret" in value]
