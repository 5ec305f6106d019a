"""The measured servers as processes: started on a free port, read through /proc, stopped by pid."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
START_S_MAX = 60.0
ANSWER_S_MAX = 10.0
STOP_S_MAX = 10.0


class ServerError(Exception):
    """A server did not start, or stopped under load."""


class Server(ABC):
    """One server process. Subclasses start it and set its port."""

    name = ""
    is_hall = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Holds its data and its log; must be on a disk."""
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it answers on its port."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log().open("a") as log:
            self._start(log)
        self._await_answer()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the server does not stop in time."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._release(process)

    def restart_empty(self) -> None:
        """Stop the server, delete its data, and start it again."""
        self.stop()
        shutil.rmtree(self.folder)
        self.start()

    def kill(self) -> None:
        """Send SIGKILL."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._release(process)

    def admin(self, command: str) -> list[str]:
        """Send a command of the text admin protocol; returns the lines of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S_MAX) as connection:
            connection.sendall(command.encode() + b"\n")
            with connection.makefile() as lines:
                return [line.rstrip("\n") for line in iter(lines.readline, ".\n")]

    def queued(self, function: str) -> int:
        """How many jobs of a function the server holds."""
        for line in self.admin("status"):
            name, total, *_ = line.split("\t")
            if name == function:
                return int(total)
        return 0

    def memory_bytes(self) -> int:
        """The resident memory of the process."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise ServerError(f"{self.name} is no longer running (pid {self.pid})")

    @abstractmethod
    def _start(self, log: IO[str]) -> None:
        """Start the process and set `port`."""

    def _log(self) -> Path:
        return self.folder / "server.log"

    def _release(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is not None:
            process.stdout.close()
        self._process = None

    def _await_answer(self) -> None:
        """Wait for an answer: a server that has bound its port may still be loading."""
        until = time.monotonic() + START_S_MAX
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                tail = self._log().read_text(errors="replace")[-2000:]
                raise ServerError(f"{self.name} exited with {self._process.returncode} while starting:\n{tail}")
            try:
                self.admin("status")
            except OSError:
                if time.monotonic() > until:
                    raise ServerError(f"{self.name} does not answer after {START_S_MAX:.0f} s") from None
                time.sleep(0.02)
            else:
                return


class Gearmand(Server):
    """gearmand from Debian with its built-in defaults: four threads, every idle worker woken."""

    name = "gearmand"

    def __init__(self, folder: Path, *, durable: bool = False, buckets: int = 0) -> None:
        super().__init__(folder)
        self.durable = durable
        self.buckets = buckets
        """Buckets of its hash table of unique ids; 0: its default, which is slow above 100,000 jobs."""

    def _start(self, log: IO[str]) -> None:
        self.port = free_port()
        command = ["gearmand", "-L", "127.0.0.1", "-p", str(self.port), "-l", "stderr", "-b", "4096"]
        command += ["-P", str(self.folder / "pid")]
        if self.durable:
            command += ["-q", "libsqlite3", "--libsqlite3-db", str(self.folder / "queue.db")]
        if self.buckets:
            command += ["--hashtable-buckets", str(self.buckets)]
        if os.geteuid() == 0:
            command += ["-u", "root"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, text=True)


class Hall(Server):
    """`hall serve` with its defaults: SQLite in its data folder."""

    name = "hall"
    is_hall = True

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        super().__init__(folder)
        self.python = python
        self.config: Path | None = None
        """Its hall.toml; None: it has none."""

    def _start(self, log: IO[str]) -> None:
        command = [self.python, "-m", "hiringhall", "serve", "--json"]
        command += ["--config", str(self.config)] if self.config is not None else []
        command += ["--data", str(self.folder / "data"), "--door", "gearman=127.0.0.1:0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = announced_port(self._process, self._log())


class BareLoop(Server):
    """The same packets without a scheduler, in C: the limit for a server on one thread; see bare_loop.c."""

    name = "bare loop in C"

    def __init__(self, folder: Path, binary: Path) -> None:
        super().__init__(folder)
        self.binary = binary

    def _start(self, log: IO[str]) -> None:
        self._process = subprocess.Popen([str(self.binary)], stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = announced_port(self._process, self._log())


def announced_port(process: subprocess.Popen[str], log: Path) -> int:
    """Read the port from the JSON object that the process prints first."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        raise ServerError(f"{' '.join(process.args)} did not start:\n{log.read_text(errors='replace')[-2000:]}")  # type: ignore[arg-type]
    return int(json.loads(line)["doors"][0]["address"].rpartition(":")[2])


def free_port() -> int:
    """A free port, for a server that cannot choose one itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def version_of_gearmand() -> str:
    if shutil.which("gearmand") is None:
        raise ServerError("gearmand is not installed: run scripts/install-test-clients")
    said = subprocess.run(["gearmand", "--version"], capture_output=True, text=True, check=False)
    words = (said.stdout + said.stderr).split()
    return words[1] if len(words) > 1 else "unknown"


def version_of_system_sqlite() -> str:
    """The version of the SQLite library that gearmand is linked with."""
    try:
        library = ctypes.CDLL("libsqlite3.so.0")
    except OSError:
        return "unknown"
    library.sqlite3_libversion.restype = ctypes.c_char_p
    return str(library.sqlite3_libversion().decode())


def versions_of_hall(python: str) -> dict[str, str]:
    """The versions in the interpreter that runs the hall."""
    script = (
        "import json, platform, sqlite3, uvloop, hiringhall, hiringhall.core.scheduler as core\n"
        "print(json.dumps({'hall': hiringhall.__version__, 'python': platform.python_version(),"
        " 'uvloop': uvloop.__version__, 'sqlite': sqlite3.sqlite_version,"
        " 'build': 'plain' if core.__file__.endswith('.py') else 'compiled'}))"
    )
    said = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    if said.returncode:
        raise ServerError(f"{python} cannot import hiringhall:\n{said.stderr}")
    return {str(key): str(value) for key, value in json.loads(said.stdout).items()}


def raise_descriptors() -> int:
    """Raise the limit of open files to the hard limit, here and in the servers; returns the limit."""
    import resource  # noqa: PLC0415

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
