"""Servers as processes: a real `hall serve`, and gearmand to compare it with.

The law: a server is known to listen before a test sees it, is ended by its pid, and what it wrote to stderr
is in the message of any failure to start or to stop.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import hiringhall
from hiringhall.peers.gearman import Client
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.opening import open_documents, open_history
from stage.databases import place_of
from stage.forking import HALL, popen
from stage.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from hiringhall.core.changes import EndRow
    from hiringhall.storage.documents import Documents

CODE: Final = os.pathsep.join([str(Path(hiringhall.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
"""Where a server started here finds the same hall as the test that starts it."""
START_S: Final = 60.0
STOP_S: Final = 15.0
_STEP_S: Final = 0.01


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    """Ask again and again until the answer is yes, or fail."""
    started_s = time.monotonic()
    while not condition():
        if time.monotonic() - started_s > timeout_s:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(_STEP_S)


class Server:
    """A process that listens for Gearman peers on the loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        """0 until the first start; the same from then on."""
        self._errors = folder / "stderr"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        raise NotImplementedError

    def client(self, timeout_s: float = 20.0) -> Client:
        return Client(self.address, timeout_s=timeout_s)

    def admin(self, command: str) -> list[str]:
        """The lines that answer a text command."""
        with self.client() as client:
            return client.admin(command)

    def counts(self, function: str) -> tuple[int, int, int]:
        """Live jobs, running jobs and capable workers of a function."""
        for line in self.admin("status"):
            name, *numbers = line.split("\t")
            if name == function:
                live, running, workers = map(int, numbers)
                return live, running, workers
        return 0, 0, 0

    def wait_for_workers(self, function: str, count: int = 1, timeout_s: float = 15.0) -> None:
        wait_until(lambda: self.counts(function)[2] == count, f"{count} workers can do {function}", timeout_s)

    def rss_bytes(self) -> int:
        """Memory of the server's process that is in use."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = STOP_S) -> int:
        """Wait for its end; the exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server has not ended within {timeout_s} s\n{self.errors()}") from None

    def kill(self) -> None:
        """End it as SIGKILL does: without a word."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it whatever its state; what a test leaves behind is not its concern."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def errors(self) -> str:
        """What it wrote to stderr."""
        return self._errors.read_text(errors="replace") if self._errors.exists() else ""

    def wait_for_errors(self, text: str, timeout_s: float = 15.0) -> None:
        """Wait until it wrote this: a thread of the hall writes the log, after what it tells of."""
        wait_until(lambda: text in self.errors(), f"stderr has: {text}", timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None and self.errors():
            error.add_note(f"the server wrote:\n{self.errors()}")


class HallProcess(Server):
    """`hall serve` with a data folder of its own. Settings are TOML values by their key in hall.toml."""

    own_python = False
    """It is not forked from a process that has imported all commands: for tests of what a hall loads."""

    def __init__(
        self,
        folder: Path,
        *,
        hall: Mapping[str, object] | None = None,
        door: Mapping[str, object] | None = None,
        limits: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        more: str = "",
    ) -> None:
        """`more`: further tables, as they stand in the file."""
        super().__init__(folder)
        self.ports: list[int] = []
        """Of all doors that have one, in the order of the file."""
        self.web = ""
        """The URL of the dashboard; empty: the hall has none."""
        self.data = folder / "data"
        """The folder of its files."""
        self.place = place_of(self.data)
        """Where its jobs are: the same folder, or a database."""
        self._documents: Documents | None = None
        self._hall = {"data": self.place, "folder": str(self.data), **(hall or {})}
        self._door = {"dialect": "gearman", **(door or {})}
        self._limits = limits or {}
        self._more = more
        self._environment = {**os.environ, "PYTHONPATH": CODE, **(environment or {})}

    def start(self) -> None:
        """Start it, or start it again on the same data and port; returns when it listens."""
        self.stop()
        self.port = self.port or free_port()
        config = self.folder / "hall.toml"
        door = {**self._door, "address": self.address}
        tables = (("[hall]", self._hall), ("[limits]", self._limits), ("[[door]]", door))
        config.write_text("".join(_table(name, values) for name, values in tables) + self._more)
        with self._errors.open("ab") as errors:
            start = subprocess.Popen if self.own_python else popen
            self._process = start(
                [*HALL, "serve", "--json", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.folder,
                env=self._environment,
            )
        opened = json.loads(self._first_line())
        self.web = opened["web"]
        addresses = [door["address"] for door in opened["doors"] if not door["address"].startswith("unix:")]
        self.ports = [int(address.rpartition(":")[2]) for address in addresses]
        self.port = self.ports[0]

    def _first_line(self) -> bytes:
        stdout = self.process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], START_S)
        line = stdout.readline() if ready else b""
        if not line:
            self.stop()
            raise AssertionError(f"the hall did not open:\n{self.errors()}")
        return line

    @property
    def documents(self) -> Documents:
        """Its schedules and tokens, as a command beside it sees them."""
        self._documents = self._documents or open_documents(self.place)
        return self._documents

    def stop(self) -> None:
        super().stop()
        if self._documents is not None:
            self._documents.close()

    def drain(self) -> None:
        """Have it finish what runs and close."""
        self.signal(signal.SIGTERM)

    def history(self, query: HistoryQuery | None = None) -> list[EndRow]:
        """What became of durable jobs, newest first; read beside the running hall."""
        reader = open_history(self.place)
        try:
            return reader.history(query or HistoryQuery())
        finally:
            reader.close()


class Gearmand(Server):
    """Debian's gearmand."""

    options: tuple[str, ...] = ()

    def start(self) -> None:
        self.stop()
        self.port = self.port or free_port()
        command = [
            "/usr/sbin/gearmand",
            "--listen",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--log-file",
            "stderr",
            *self.options,
        ]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd=self.folder
            )
        wait_until(self._listens, "gearmand listens", START_S)

    def _listens(self) -> bool:
        assert self.running, f"gearmand ended at once:\n{self.errors()}"
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


def _table(name: str, values: Mapping[str, object]) -> str:
    """A table of TOML; JSON's way to write strings, numbers and truth values is TOML's too."""
    return "\n".join([name, *(f"{key} = {json.dumps(value)}" for key, value in values.items()), "", ""])
