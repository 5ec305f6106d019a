"""Job systems for Python as processes: a server, workers and a client each, started for one turn and stopped.

A system is started for its turn only, since many of them poll: they would use CPU time in the turns of others.
The loads are in peers/load.py; each system is in a module of its own beside it, which its workers import too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from servers import HERE, START_S_MAX, STOP_S_MAX, Server, ServerError, announced_port, free_port

if TYPE_CHECKING:
    from types import TracebackType
    from typing import IO, Self

PEERS = HERE / "peers"
ENVIRONMENTS = HERE.parent / ".peers"
"""Where scripts/install-bench-peers puts the other systems."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class NotInstalled(ServerError):
    """A job system is not there. It is not left out of a comparison for that."""


class Redis(Server):
    """redis-server without persistence: the setting with the highest throughput."""

    name = "redis"

    def _start(self, log: IO[str]) -> None:
        if shutil.which("redis-server") is None:
            raise NotInstalled("redis-server is not installed: run scripts/install-bench-peers")
        self.port = free_port()
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        self._process = subprocess.Popen(command, stdout=log, stderr=log, text=True)

    def _await_answer(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if time.monotonic() > deadline:
                raise ServerError(f"redis-server does not listen:\n{self._log().read_text()[-2000:]}")
            time.sleep(0.02)


class NativeHall(Server):
    """`hall serve` with a native door and SQLite in its data folder."""

    name = "hall"
    is_hall = True

    def __init__(self, folder: Path, python: str) -> None:
        super().__init__(folder)
        self.python = python

    def _start(self, log: IO[str]) -> None:
        command = [self.python, "-m", "hiringhall", "serve", "--json"]
        command += ["--data", str(self.folder / "data"), "--door", "native=127.0.0.1:0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = announced_port(self._process, self._log())

    def _await_answer(self) -> None:
        """Nothing to wait for: it prints its port when it listens."""


@dataclass(frozen=True)
class System:
    """One job system, and how an expert starts its workers for throughput."""

    name: str
    module: str
    """In bench/peers."""
    worker: tuple[str, ...]
    """The command that starts two worker processes; the first word is a program of the system's environment."""
    async_worker: tuple[str, ...] = ()
    """The command that starts one process for 500 jobs at a time; empty: it has no async functions."""
    server: str = "redis"
    """`redis`, `hall`, or empty for none."""
    environment: str = "peers"
    """The virtual environment below `.peers`."""
    processes: int = 1
    """How often the command is started: 2 if one command starts one worker process."""
    variables: dict[str, str] = field(default_factory=dict)
    """Settings that it reads from the environment."""
    quick_variables: dict[str, str] = field(default_factory=dict)
    """Others for the round trip, where throughput has its price."""

    @property
    def package(self) -> str:
        """Its name among Python's packages."""
        return self.name.partition(",")[0]


class Spent(NamedTuple):
    """CPU seconds, user and system, of the processes of a system."""

    server: float
    workers: float
    client: float


class Turn:
    """One running system: server, workers and client; stopped at the end of the `with` block."""

    def __init__(
        self,
        system: System,
        folder: Path,
        python: str,
        *,
        asynchronous: bool = False,
        quick: bool = False,
    ) -> None:
        """`asynchronous`: one worker for 500 jobs at a time. `quick`: settings for a short round trip."""
        self.system = system
        self._variables = system.variables | (system.quick_variables if quick else {})
        self._folder = folder
        self._asynchronous = asynchronous
        self._python = python
        self._server: Server | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._client: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        shutil.rmtree(self._folder, ignore_errors=True)
        # A process of the turn before may write a last file while it dies.
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def run(self, load: str, function: str, jobs: int) -> dict[str, float]:
        """Run one load: the client's figures, jobs a second, and the CPU time of a job in each process."""
        before = self._spent()
        figures = self._ask({"load": load, "function": function, "jobs": jobs})
        after = self._spent()
        figures["jobs_per_s"] = jobs / figures["seconds"]
        for name, then, now in zip(Spent._fields, before, after, strict=True):
            figures[f"{name}_cpu_us"] = 1e6 * (now - then) / jobs
        return figures

    def _start(self) -> None:
        system = self.system
        if system.server == "redis":
            self._server = Redis(self._folder / "redis")
        elif system.server == "hall":
            self._server = NativeHall(self._folder / "hall", self._python)
        if self._server is not None:
            self._server.start()
        bin_folder = Path(self._python).parent
        if system.server != "hall":
            bin_folder = ENVIRONMENTS / system.environment / "bin"
        if not (bin_folder / "python").exists():
            raise NotInstalled(f"{system.name} is not installed: run scripts/install-bench-peers")
        program, *words = system.async_worker if self._asynchronous else system.worker
        count = 1 if self._asynchronous else system.processes
        with (self._folder / "worker.log").open("ab") as log:
            for _ in range(count):
                command = [str(bin_folder / program), *(word.format(redis=self._redis()) for word in words)]
                self._workers.append(self._popen(command, log))
        command = [str(bin_folder / "python"), str(PEERS / "load.py"), system.module]
        with (self._folder / "client.log").open("a") as client_log:
            self._client = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=client_log,
                env=self._environment(),
                text=True,
                cwd=PEERS,
            )

    def _popen(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self._environment(),
            cwd=PEERS,
            start_new_session=True,
        )

    def _redis(self) -> str:
        return f"redis://127.0.0.1:{self._port()}/0"

    def _port(self) -> int:
        return self._server.port if self._server is not None else 0

    def _environment(self) -> dict[str, str]:
        ours = {
            "BENCH_REDIS": self._redis(),
            "BENCH_FOLDER": str(self._folder),
            "BENCH_CONCURRENCY": "500" if self._asynchronous else "64",
            "HALL_URL": f"hall://127.0.0.1:{self._port()}",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(PEERS), os.environ.get("PYTHONPATH", "")])),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return {**os.environ, **ours, **self._variables}

    def _ask(self, command: dict[str, object]) -> dict[str, float]:
        client = self._client
        assert client is not None
        assert client.stdin is not None
        assert client.stdout is not None
        try:
            client.stdin.write(json.dumps(command) + "\n")
            client.stdin.flush()
            answer: dict[str, float] = json.loads(client.stdout.readline())
        except (BrokenPipeError, ValueError) as error:
            raise ServerError(f"{self.system.name}: the client ended:\n{self._logs()}") from error
        return answer

    def _logs(self) -> str:
        found = [self._folder / "client.log", self._folder / "worker.log"]
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-2000:]}" for path in found)

    def _spent(self) -> Spent:
        children = children_of_all()
        server = cpu_seconds([self._server.pid], children) if self._server is not None else 0.0
        workers = cpu_seconds([process.pid for process in self._workers], children)
        assert self._client is not None
        return Spent(server, workers, cpu_seconds([self._client.pid], children))

    def _stop(self) -> None:
        if self._client is not None:
            self._client.kill()
            self._client.wait()
            for stream in (self._client.stdin, self._client.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(STOP_S_MAX)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)  # its session is its own; children may be left
            worker.wait()
        if self._server is not None:
            self._server.stop()


def children_of_all() -> dict[int, list[int]]:
    """The children of each process of this machine."""
    found: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.setdefault(int(stat_fields(path)[1]), []).append(int(path.name))
    return found


def cpu_seconds(pids: list[int], children: dict[int, list[int]]) -> float:
    """User and system time of these processes and their descendants, those that have ended included."""
    total = 0.0
    left = list(pids)
    while left:
        pid = left.pop()
        left += children.get(pid, [])
        with contextlib.suppress(OSError):
            total += TICK_S * sum(int(ticks) for ticks in stat_fields(Path(f"/proc/{pid}"))[11:15])
    return total


def stat_fields(path: Path) -> list[str]:
    """The fields of /proc/PID/stat from the state on; the name before them may hold spaces."""
    return (path / "stat").read_text().rpartition(")")[2].split()
