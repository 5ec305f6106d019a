"""Commands as processes: started for real, known to be open before a test goes on, ended by their pid."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Final, Self, TypedDict

from stage import forking

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

DEADLINE_S: Final = 60.0
HALL: Final = forking.HALL
HALL_GEARMAND: Final = (sys.executable, "-c", "from hiringhall.cli.gearmand import main; main()")


ENVIRONMENT: Final = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("HALL_", "GEARMAND_")) and name not in {"COLUMNS", "LINES"}
} | {"HALL_WEB_ENABLED": "false"}


class OpenedDoor(TypedDict):
    dialect: str
    address: str


class OpenedHall(TypedDict):
    hall: str
    pid: int
    data: str
    doors: list[OpenedDoor]
    recovered: int


def run(
    command: tuple[str, ...], *words: str, cwd: Path | None = None, stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return forking.run(
        [*command, *words],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
    )


class Running:
    """A command that serves."""

    def __init__(self, command: tuple[str, ...], *words: str, cwd: Path) -> None:
        self.process = forking.popen(
            [*command, *words],
            cwd=cwd,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def opened(self) -> OpenedHall:
        """The line of JSON that `hall serve --json` begins with."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors()
        found: OpenedHall = json.loads(line)
        return found

    def line_like(self, pattern: str) -> re.Match[str]:
        """The next line on stderr that matches."""
        assert self.process.stderr is not None
        seen = ""
        for line in self.process.stderr:
            seen += line
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"no line like {pattern} in:\n{seen}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(DEADLINE_S)

    def errors(self) -> str:
        """The rest of stderr, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()


def ask(address: str, command: str, context: ssl.SSLContext | None = None) -> str:
    """The first line of the answer to an admin command."""
    with connect(address, context) as connection:
        connection.sendall(command.encode() + b"\n")
        return connection.makefile("rb").readline().decode().strip()


def connect(address: str, context: ssl.SSLContext | None = None) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=DEADLINE_S)
    return connection if context is None else context.wrap_socket(connection, server_hostname="localhost")


def wait_for_end(pid: int) -> None:
    """Until a process that is not our child is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], DEADLINE_S)
        assert ready, f"process {pid} goes on"
    finally:
        os.close(descriptor)
