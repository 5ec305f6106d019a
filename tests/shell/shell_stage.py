"""Shell jobs for the tests: a client that submits commands, and `hall work --shell` as a process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from hall_process import CODE
from native_peer import NativePeer
from worker_process import WorkerProcess

from hiringhall.shell.command import ShellCommand, encode
from stage import forking
from stage.forking import HALL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

COMMAND_S: Final = 60.0
_NUMBERS: Final = itertools.count(1)


class End(NamedTuple):
    """How a job ended."""

    state: str
    code: int
    result: dict[str, Any]
    text: bytes


class ShellStage:
    """A client, and a queue that no other test uses."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.url = f"hall://127.0.0.1:{port}"
        self.folder = folder
        self.queue = f"shell-{os.getpid()}-{next(_NUMBERS)}"
        self._peer = NativePeer(port)
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._peer.close()
        for process in self._started:
            process.kill()
            process.wait()

    @contextmanager
    def worker(self, *words: str, slots: int = 2) -> Iterator[WorkerProcess]:
        """A shell worker that has been welcomed by the hall."""
        words = ("--shell", "--queue", self.queue, "--slots", str(slots), "--kill-after", "1", *words)
        with WorkerProcess(self.url, *words, target="", folder=self.folder) as worker:
            worker.wait_for("connected")
            yield worker

    def hall(self, *words: str | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a command of `hall` to its end."""
        if "input" not in options:
            options["stdin"] = subprocess.DEVNULL
        return forking.run(
            [*HALL, *words],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            timeout=COMMAND_S,
            **options,
        )

    def popen(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command of `hall`."""
        process = forking.popen([*HALL, *words], cwd=self.folder, env=self._environment(), **options)
        self._started.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HALL_")}
        return {**kept, "PYTHONPATH": CODE}

    def submit(
        self, command: str | bytes, cwd: str = "", env: dict[str, str] | None = None, **terms: Any
    ) -> int:
        """Submit a command and watch it; its id."""
        written = command.encode() if isinstance(command, str) else command
        return self.submit_payload(encode(ShellCommand(written, cwd.encode(), env or {})), **terms)

    def submit_payload(self, payload: bytes, **terms: Any) -> int:
        return self._peer.submit(self.queue.encode(), payload, watch=1, **terms)

    def end(self, job: int) -> End:
        """How it ended; waits for that."""
        number, state, code, result = self._peer.hear_of("ended", job)[:4]
        assert number == job
        try:
            read = json.loads(result)
        except ValueError:
            read = {}
        return End(state, code, read, result)

    def run(self, command: str | bytes, **options: Any) -> End:
        return self.end(self.submit(command, **options))

    def cancel(self, job: int) -> None:
        self._peer.ask("cancel", (job, b"not wanted"))

    def output(self, job: int) -> tuple[bytes, bytes]:
        """What a job wrote: standard output, standard error."""
        said: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        position = 0
        while True:
            lines, position = self._peer.ask("output", (job, position))
            for _, kind, data in lines:
                said[kind].extend(data)
            if not lines:
                return bytes(said[0]), bytes(said[1])
