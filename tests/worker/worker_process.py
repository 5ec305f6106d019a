"""`hall work` as a process: started for real, heard by its JSON lines, ended by its pid."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hall_process import CODE

from stage.forking import HALL, popen

if TYPE_CHECKING:
    import signal
    from types import TracebackType

HERE: Final = Path(__file__).parent
EVENT_S: Final = 30.0


class WorkerProcess:
    """A worker. `target` is a module of this folder unless another is given; empty: there is none."""

    def __init__(
        self, url: str, *words: str, target: str = "trouble_jobs", folder: Path = HERE, command: str = "work"
    ) -> None:
        targets = [target] if target else []
        self._command = [*HALL, command, *targets, "--json", *words]
        if url:
            self._command += ["--hall", url]
        self._folder = folder
        self.events: list[dict[str, Any]] = []
        """All that were read."""
        self._rest = b""

    def __enter__(self) -> Self:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HALL_")}
        self._errors, writing = os.pipe()
        self.process = popen(
            self._command,
            cwd=self._folder,
            env={**kept, "PYTHONPATH": CODE},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writing,
        )
        os.close(writing)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        if error is not None:
            error.add_note(f"the worker told:\n{self.events}\nand printed:\n{self.printed(wait=False)}")
        os.close(self._errors)

    @property
    def pid(self) -> int:
        return self.process.pid

    def resident_bytes(self) -> int:
        """Memory of its process that is in use."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def wait_for(self, event: str, timeout_s: float = EVENT_S, **fields: Any) -> dict[str, Any]:
        """The next event of this name and with these fields."""
        wanted = {"event": event, **fields}
        ends_s = time.monotonic() + timeout_s
        while True:
            told = self._next(ends_s - time.monotonic())
            assert told is not None, f"no event {wanted}"
            if wanted.items() <= told.items():
                return told

    def _next(self, timeout_s: float) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(timeout_s, 0))
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        self.events.append(told)
        return told

    def printed(self, *, wait: bool = True) -> str:
        """What its functions have printed, and its own errors; the next of it if there is none."""
        text = b""
        while select.select([self._errors], [], [], EVENT_S if wait and not text else 0)[0]:
            data = os.read(self._errors, 65536)
            if not data:
                break
            text += data
        return text.decode()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = EVENT_S) -> int:
        return self.process.wait(timeout_s)

    def children(self) -> list[int]:
        return children_of(self.pid)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has asked for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
