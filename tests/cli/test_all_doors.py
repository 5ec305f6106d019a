"""`hall serve --all-doors`, as `make serve` calls it: all doors are opened, and a taken port shuts one."""

from __future__ import annotations

import re
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from running import HALL, Running, run

from hiringhall.cli.settings import all_doors
from hiringhall.config.loading import Flags, load
from hiringhall.server import DOOR_SETTINGS

ROOT: Final = Path(__file__).resolve().parents[2]
EVERY_ADDRESS: Final = (
    *(f"door[{index}].address" for index in range(len(DOOR_SETTINGS))),
    "door[2].frontend",
    "door[5].subscribe",
)
SERVE: Final = ("serve", "--json", "--all-doors", "--storage", "memory")


def placed(**places: str) -> list[str]:
    """Flags that put every address somewhere else than its default, which another hall may have."""
    moved = dict.fromkeys(EVERY_ADDRESS, "127.0.0.1:0") | places
    return [f"--set={setting}={address}" for setting, address in moved.items()]


def test_every_dialect_has_a_door_on_loopback_at_a_port_of_its_own() -> None:
    doors = load(Flags(), {}, DOOR_SETTINGS, all_doors()).config.door
    assert [door.dialect for door in doors] == list(DOOR_SETTINGS)
    addresses = [address for door in doors for address in door.addresses]
    assert all(address.is_loopback and address.port for address in addresses)
    assert len({address.port for address in addresses}) == len(addresses) == len(EVERY_ADDRESS)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"The doors are at 127.0.0.1: (.*?) If another\b", text, re.DOTALL)
    assert sorted(map(int, re.findall(r"\d+", told))) == sorted(address.port for address in addresses)


def test_all_doors_are_opened(tmp_path: Path) -> None:
    with Running(HALL, *SERVE, *placed(), cwd=tmp_path) as hall:
        opened = hall.opened()["doors"]
    assert list(dict.fromkeys(door["dialect"] for door in opened)) == list(DOOR_SETTINGS)


@pytest.mark.parametrize(
    ("setting", "dialect"),
    [("door[0].address", "gearman"), ("door[2].frontend", "pingpong"), ("door[5].subscribe", "hire-bus")],
)
def test_a_taken_port_is_named_with_its_cure_and_shuts_no_other_door(
    tmp_path: Path, setting: str, dialect: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with Running(HALL, *SERVE, *placed(**{setting: taken}), cwd=tmp_path) as hall:
            opened = {door["dialect"] for door in hall.opened()["doors"]}
            hall.process.terminate()
            hall.wait()
            errors = hall.errors()
    assert opened == set(DOOR_SETTINGS) - {dialect}
    assert f"{taken} is in use by another program, so the {dialect} door is not opened" in errors
    assert f"--set {setting}=127.0.0.1:PORT" in errors


def test_a_hall_does_not_open_when_all_ports_are_taken(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in EVERY_ADDRESS]
        taken = [f"127.0.0.1:{server.getsockname()[1]}" for server in servers]
        words = placed(**dict(zip(EVERY_ADDRESS, taken, strict=True)))
        ended = run(HALL, *SERVE, *words, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.endswith("hall: no door can be opened: other programs use the ports of all of them\n")


def test_doors_that_are_named_are_opened_instead_and_must_be_free(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text('[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:0"\n')
    with Running(HALL, *SERVE, cwd=tmp_path) as hall:
        assert [door["dialect"] for door in hall.opened()["doors"]] == ["gearman"]
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        ended = run(HALL, *SERVE, "--door", f"gearman={taken}", "--door", "wmp=127.0.0.1:0", cwd=tmp_path)
    assert ended.returncode == 1
    assert f"door[0]: {taken} is in use by another program" in ended.stderr


def test_make_serve_opens_all_doors() -> None:
    told = subprocess.run(
        ["make", "-n", "serve", "ARGS=--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "hall serve --all-doors --json\n" in told.stdout
