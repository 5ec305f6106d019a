"""The processes of a WMP fleet: a hall, managers, devices and workers. Each can be killed and started again.

The law: a process is known to be open before a test goes on, comes back at the address it had, and is ended by
its pid.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from hall_process import CODE, START_S, free_port, wait_until

from stage.databases import place_of
from stage.forking import popen

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE: Final = Path(__file__).parent
HALL: Final = (sys.executable, "-m", "hiringhall")


class Part:
    """One process, which says in a first line of JSON where it is."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.address = f"127.0.0.1:{free_port()}"
        self.kills_s: list[float] = []
        """When it was killed, by the clock that all processes share."""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    def opened(self, line: dict[str, Any]) -> None:
        """What the first line says."""

    def start(self) -> None:
        with (self._folder / f"{self.name}.stderr").open("ab") as errors:
            self._process = popen(
                [*self.command()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": CODE},
            )
        self.opened(self.hear())

    def hear(self) -> dict[str, Any]:
        """The next line it says."""
        stdout = self.process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], START_S)
        line = stdout.readline() if ready else b""
        assert line, f"{self.name} says nothing:\n{self.errors()}"
        said: dict[str, Any] = json.loads(line)
        return said

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    def errors(self) -> str:
        return (self._folder / f"{self.name}.stderr").read_text(errors="replace")

    def kill(self) -> None:
        """As SIGKILL does it: without a word."""
        self.kills_s.append(time.monotonic())
        self.process.kill()
        self._bury()

    def end(self) -> int:
        """In good order; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        wait_until(lambda: self.process.poll() is not None, f"{self.name} ends", 20)
        return self._bury()

    def _bury(self) -> int:
        code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and not self.process.stdout.closed:  # type: ignore[union-attr]
            self.process.kill()
            self._bury()


class HallPart(Part):
    """`hall serve` with a door for WMP and one for Gearman."""

    def __init__(self, folder: Path, lease_s: float) -> None:
        super().__init__(folder, "hall")
        self.gearman = f"127.0.0.1:{free_port()}"
        self.data = folder / "data"
        self.place = place_of(self.data)
        self._lease_s = lease_s

    def command(self) -> Sequence[str]:
        doors = ("--door", f"wmp={self.address}", "--door", f"gearman={self.gearman}")
        settings = (
            "--set",
            f"door[0].lease_s={self._lease_s}",
            "--set",
            "door[1].losses_max=0",
            "--set",
            f"hall.folder={self.data}",
        )
        return [*HALL, "serve", "--json", "--data", self.place, *doors, *settings]

    def opened(self, line: dict[str, Any]) -> None:
        self.address, self.gearman = (door["address"] for door in line["doors"])


class ManagerPart(Part):
    """A plain manager with so many jobs."""

    def __init__(self, folder: Path, name: str, count: int, lease_s: float) -> None:
        super().__init__(folder, name)
        self.count = count
        self._lease_s = lease_s
        self._record = folder / f"{name}.record"

    def command(self) -> Sequence[str]:
        words = (self.name, self.address, str(self._record), str(self.count), str(self._lease_s))
        return [sys.executable, str(HERE / "wmp_manager.py"), *words]

    def opened(self, line: dict[str, Any]) -> None:
        self.address = line["address"]

    def has_all(self) -> bool:
        """The end of every job is recorded."""
        return len(self.outcomes()) >= self.count

    def outcomes(self) -> list[tuple[str, str]]:
        """Each job that has ended, and its result, as they were recorded."""
        lines = self._record.read_text().splitlines()
        return [(name, result) for name, _, result in (line.partition(" ") for line in lines)]


class DevicePart(Part):
    """`hall device`."""

    def __init__(self, folder: Path, name: str, managers: Sequence[Part]) -> None:
        super().__init__(folder, name)
        self._managers = managers

    def command(self) -> Sequence[str]:
        managers = [word for manager in self._managers for word in ("--manager", manager.address)]
        return [*HALL, "device", "--json", "--listen", self.address, *managers]

    def opened(self, line: dict[str, Any]) -> None:
        self.address = line["device"]


class Execution(NamedTuple):
    """A worker ran a job from then to then."""

    payload: str
    begin_s: float
    end_s: float


class WorkerPart(Part):
    """A worker of four slots."""

    def __init__(self, folder: Path, name: str, managers: Sequence[Part]) -> None:
        super().__init__(folder, name)
        self._managers = managers
        self._journal = folder / f"{name}.journal"

    def command(self) -> Sequence[str]:
        words = (self.name, str(self._journal), *(manager.address for manager in self._managers))
        return [sys.executable, str(HERE / "wmp_worker.py"), *words]

    def state(self) -> dict[str, Any]:
        """What of its resources is used and locked, now."""
        self.process.send_signal(signal.SIGUSR1)
        return self.hear()

    def lines(self) -> list[tuple[str, float, int, str]]:
        """What it wrote down: begin or end, when, which, the job."""
        if not self._journal.exists():
            return []
        # The worker may be in the middle of a line.
        whole = self._journal.read_text().rpartition("\n")[0]
        words = (line.split(" ", 3) for line in whole.splitlines())
        return [(what, float(at_s), int(number), payload) for what, at_s, number, payload in words]

    def executions(self) -> list[Execution]:
        begun: dict[int, float] = {}
        found: list[Execution] = []
        for what, at_s, number, payload in self.lines():
            if what == "begin":
                begun[number] = at_s
            else:
                found.append(Execution(payload, begun.pop(number), at_s))
        assert not begun, f"{self.name} has not ended what it began"
        return found

    def most_at_once(self) -> int:
        """The most jobs that overlapped."""
        running = most = 0
        for what, _, _, _ in self.lines():
            running += 1 if what == "begin" else -1
            most = max(most, running)
        return most
