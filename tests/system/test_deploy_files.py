"""The files under deploy: systemd accepts the unit, and what the unit and the Containerfile run is a hall."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tomllib
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import CODE, STOP_S
from page_blocks import ROOT, Shell, read_blocks

from hiringhall.config.schema import HallSettings
from stage import forking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNIT: Final = ROOT / "deploy/hall.service"
CONTAINERFILE: Final = ROOT / "deploy/Containerfile"
PROGRAM: Final = "/usr/local/lib/hall/bin/hall"
EXPOSURE_MAX: Final = 20
"""Tenths of the points of `systemd-analyze security`: up to 20, a unit counts as well protected."""
CLOSING_S: Final = 10
"""What a hall may need after its drain, to answer and to commit."""


def unit(name: str) -> list[str]:
    """The values of a setting of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def systemd_analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def installed_unit(tmp_path: Path) -> Path:
    """The unit, with a program that is there in place of the one that an operator installs."""
    program = tmp_path / "hall"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / "hall.service"
    copy.write_text(UNIT.read_text().replace(PROGRAM, str(program)))
    return copy


def test_systemd_accepts_the_unit(installed_unit: Path) -> None:
    ended = systemd_analyze("verify", str(installed_unit))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_systemd_would_name_a_mistake_in_the_unit(installed_unit: Path) -> None:
    text = installed_unit.read_text()
    installed_unit.write_text(text.replace("TimeoutStopSec=60", "TimeoutStopSec=soon\nTimeoutStopSecs=60"))
    ended = systemd_analyze("verify", str(installed_unit))
    assert "TimeoutStopSecs" in ended.stderr
    assert "soon" in ended.stderr


def test_systemd_counts_the_unit_as_well_protected() -> None:
    ended = systemd_analyze(
        "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}", str(UNIT)
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Overall exposure level for hall.service" in ended.stdout


def test_the_unit_gives_a_drain_the_time_that_it_may_take() -> None:
    assert unit("KillSignal") == ["SIGTERM"]
    (stop_s,) = map(int, unit("TimeoutStopSec"))
    assert stop_s >= HallSettings().drain_grace_s + CLOSING_S


def environment(**more: str) -> dict[str, str]:
    rest = {name: value for name, value in os.environ.items() if not name.startswith("HALL_")}
    return {**rest, "PYTHONPATH": CODE, **more}


def opens_and_ends(command: list[str], folder: Path, variables: dict[str, str], number: int) -> str:
    """Run a `hall` command until its doors are open, and end it by a signal; what it wrote to stdout."""
    with (
        (folder / "stderr").open("w") as errors,
        forking.popen(
            [*forking.HALL, *command],
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            said = [process.stdout.readline()]
            process.send_signal(number)
            said += process.stdout
            process.wait(STOP_S)
            assert process.returncode == 0, (folder / "stderr").read_text()
        finally:
            process.kill()
    return "".join(said)


def test_the_units_command_opens_a_hall_with_the_settings_of_the_page(tmp_path: Path) -> None:
    places = {
        "/etc/hall": str(tmp_path / "settings"),
        "/var/lib/hall": str(tmp_path / "data"),
        "127.0.0.1:4730": "127.0.0.1:0",
    }
    (tmp_path / "settings").mkdir()
    shell = Shell(tmp_path, places)
    shell.run(read_blocks("deployment.md", "sh")[0].text)
    (command,) = unit("ExecStart")
    (state,) = unit("StateDirectory")
    program, *words = shlex.split(shell.translate(command.replace(PROGRAM, "hall")))
    assert program == "hall"
    assert f"/var/lib/{state}" in command
    number = signal.Signals[unit("KillSignal")[0]]
    said = opens_and_ends(words, tmp_path, environment(), number)
    assert "door   gearman on 127.0.0.1:" in said
    assert (tmp_path / "data/hall.sqlite3").exists()


def test_the_units_exit_code_for_no_restart_is_that_of_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text("[hall]\nno_such_setting = 1\n")
    command = [*forking.HALL, "serve", "--config", "hall.toml"]
    ended = forking.run(command, cwd=tmp_path, env=environment(), capture_output=True, timeout=60)
    assert unit("RestartPreventExitStatus") == [str(ended.returncode)]


# --- the container


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction of the Containerfile, with lines that were continued joined."""
    for line in CONTAINERFILE.read_text().replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest


def values(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


def test_what_the_container_copies_is_there_and_is_all_that_the_package_is_built_from() -> None:
    copied = [word for rest in values("COPY") if "--from" not in rest for word in rest.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {
        "pyproject.toml",
        "setup.py",
        project["project"]["readme"],
        *project["project"]["license-files"],
        *project["tool"]["setuptools"]["packages"]["find"]["where"],
    }
    assert needed == set(copied)


def test_the_container_runs_as_its_own_user_and_keeps_its_data_in_a_volume() -> None:
    (user,) = values("USER")
    assert any(rest.startswith("useradd ") and rest.split()[6] == user for rest in values("RUN"))
    (volume,) = values("VOLUME")
    assert f"HALL_DATA={volume}" in values("ENV")[0].split()
    assert any(rest.endswith(volume) and f"--owner={user}" in rest for rest in values("RUN"))


def test_the_containers_command_opens_a_hall(tmp_path: Path) -> None:
    program, *words = json.loads(values("CMD")[-1])
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts[program] == "hiringhall.cli.main:main"
    variables = dict(word.split("=", 1) for word in values("ENV")[0].split())
    assert set(variables) == {"PATH", "HALL_DATA"}
    number = signal.Signals[values("STOPSIGNAL")[0]]
    places = {f"HALL_DOOR_{door}_ADDRESS": "127.0.0.1:0" for door in range(2)}
    here = {"HALL_DATA": str(tmp_path / "data"), **places}
    said = opens_and_ends(words, tmp_path, environment(**here), number)
    assert "door   gearman on 127.0.0.1:" in said
    assert "door   native on 127.0.0.1:" in said
    assert (tmp_path / "data/hall.sqlite3").exists()


def test_a_container_open_to_its_network_needs_both_variables_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs/deployment.md").read_text()
    doors, insecure = re.findall(r"--env (HALL_DOORS=\S+) --env (HALL_DOOR_0_INSECURE=\S+)", page)[0]
    codes: list[int] = []
    for words in ([doors], [doors, insecure]):
        variables = dict(word.split("=", 1) for word in words)
        command = [*forking.HALL, "check-config"]
        ended = forking.run(
            command, cwd=tmp_path, env=environment(**variables), capture_output=True, timeout=60
        )
        codes.append(ended.returncode)
    assert codes == [2, 0]
