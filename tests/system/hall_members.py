"""Several halls on one database, as processes: one is active, the others stand by."""

from __future__ import annotations

import json
import os
import select
import subprocess
from typing import TYPE_CHECKING, Any

from hall_process import CODE, START_S, Server, free_port

from stage import forking
from stage.forking import HALL

if TYPE_CHECKING:
    from pathlib import Path


class MemberProcess(Server):
    """`hall serve --standby` with a Gearman door. It prints a line whenever its role changes."""

    def __init__(self, folder: Path, name: str, url: str, host: str = "127.0.0.1", *more: str) -> None:
        folder = folder / name
        folder.mkdir(parents=True)
        super().__init__(folder)
        self.name = name
        self.port = free_port()
        self._url = url
        self._host = host
        self._more = more
        """Further words of the command."""

    def start(self) -> None:
        """Start it; returns when it stands by, or is active already."""
        self.stop()
        door = f"gearman={self._host}:{self.port}"
        command = ["serve", "--json", "--standby", "--data", self._url, "--door", door]
        command += ["--set", "door[0].insecure=true"] if self._host != "127.0.0.1" else []
        command += self._more
        with self._errors.open("ab") as errors:
            self._process = forking.popen(
                [*HALL, *command, "--set", f"hall.name={self.name}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": CODE},
            )
        assert self.role() == "standby"

    def role(self) -> str:
        """Wait for its next role."""
        assert await_any([self]) is self
        stdout = self.process.stdout
        assert stdout is not None
        line: dict[str, Any] = json.loads(stdout.readline())
        return "standby" if line["standby"] else "active"


def await_any(members: list[MemberProcess]) -> MemberProcess:
    """The first member that has a new role to tell."""
    by_stream = {member.process.stdout: member for member in members}
    ready, _, _ = select.select(list(by_stream), [], [], START_S)
    assert ready, "\n".join(member.errors() for member in members)
    return by_stream[ready[0]]


def command(url: str, *words: str) -> list[dict[str, Any]]:
    """What a command prints with --json."""
    said = forking.run(
        [*HALL, *words, "--data", url, "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": CODE},
        timeout=60,
    )
    assert said.returncode == 0, said.stderr
    return [json.loads(line) for line in said.stdout.splitlines()]


def wait_for_role(member: MemberProcess, role: str) -> None:
    while member.role() != role:
        pass
