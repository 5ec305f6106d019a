"""A hall with jobs in every situation, a worker that does what a test says, and hostile names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, Self

from hall_process import HallProcess
from native_peer import NativePeer
from running import DEADLINE_S, ENVIRONMENT, HALL
from typer.testing import CliRunner

from hiringhall.cli.main import app
from stage import forking

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

HOSTILE: Final = b"\x1b[31m\x9b2J\xc2\x9b\xff\r\n\t\x00" + b"w" * 480
"""A name of control characters in UTF-8 and outside of it, 493 bytes long."""
FAILURE: Final = json.dumps(
    {"type": "ValueError", "text": "no\x1b[2J", "traceback": "Traceback:\n  here\x1b[2J\n"}
).encode()


class RemoteStage(HallProcess):
    """A hall, and a peer that is its client and its worker."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, door={"dialect": "native"})
        self.ids: dict[str, int] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        self.peer = NativePeer(self.port)
        return self

    def __exit__(self, *error: Any) -> None:
        self.peer.close()
        super().__exit__(*error)

    @property
    def url(self) -> str:
        return f"hall://{self.address}"

    def fill(self) -> None:
        """One job in each situation: done, failed, running, waiting, without workers."""
        peer = self.peer
        peer.ask("work", [HOSTILE, 1, [[b"mail", 0, 0], [HOSTILE, 0, 0]], -1, 0])
        self.ids["done"] = self._worked(b"mail", "finish", b"sent\x1b[2J")
        self.ids["failed"] = self._worked(HOSTILE, "fail", 7, FAILURE, False)
        self.ids["running"] = self.submit(HOSTILE, b"payload\x1b[2J\nsecond", key=HOSTILE)
        lease = peer.hear("assign")[0]
        peer.ask("chunk", [lease, b"line\x1b[2J\n", False])
        peer.ask("log", [lease, HOSTILE])
        peer.ask("progress", [lease, 1, 3, 0])
        self.ids["held"] = self.submit(b"mail", parents=[self.ids["running"]])
        self.ids["delayed"] = self.submit(b"mail", delay_us=3_600_000_000)
        self.ids["alone"] = self.submit(b"nobody", b"text of nobody")

    def submit(
        self, queue: bytes, payload: bytes = b"", *, key: bytes = b"", delay_us: int = 0, parents: Any = ()
    ) -> int:
        [number] = self.peer.ask("submit", [0, [[queue, payload, {}, key, delay_us, list(parents)]]])
        return int(number)

    def _worked(self, queue: bytes, kind: str, *report: Any) -> int:
        number = self.submit(queue, b"p", key=b"key of " + queue)
        lease = self.peer.hear("assign")[0]
        self.peer.ask(kind, [lease, *report])
        return number

    # --- commands

    def run(self, *words: str, width: int | None = 80, typed: str | None = None) -> Result:
        """A command in this process."""
        environment = {"HALL_URL": self.url, "COLUMNS": str(width) if width else None}
        return CliRunner().invoke(app, list(words), env=environment, input=typed, prog_name="hall")

    def json(self, *words: str) -> list[Any]:
        """The documents that a command prints with --json."""
        ended = self.run(*words, "--json")
        assert (ended.exit_code, ended.stderr) == (0, ""), ended.output
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def command(self, *words: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
        """A command in a process of its own."""
        return forking.run(
            [*HALL, *words],
            env={**ENVIRONMENT, "HALL_URL": self.url, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
        )
