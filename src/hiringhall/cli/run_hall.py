"""The hall of one run: `hall serve` and `hall work --shell` as processes of `hall run`.

Invariant: the hall listens on a Unix socket that only this user can reach, since whoever reaches it can run
commands. Both processes end with the run, however that ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from hiringhall.cli.reporting import CommandError, print_error
from hiringhall.storage.opening import find_hall

if TYPE_CHECKING:
    from types import TracebackType

START_S: Final = 60.0
STOP_S: Final = 20.0
BUSY_S: Final = 45.0
"""How long another run in the same folder is waited for."""
STEP_S: Final = 0.1
LOG_BYTES_MAX: Final = 500
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


class RunHall:
    """A hall and a worker for shell commands."""

    def __init__(self, folder: Path, queue: str, slots: int, kill_after_s: float, resources: str) -> None:
        self._folder = folder.absolute()
        words = ["--queue", queue, "--slots", str(slots), "--kill-after", f"{kill_after_s:g}"]
        for part in resources.split():
            words += ["--resource", part]
        self._words = tuple(words)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        # In a short path: that of a socket may have 107 bytes.
        self._place = Path(tempfile.mkdtemp(prefix="hall-run-"))
        self._log = (self._folder / "log").open("wb")
        socket = self._place / "hall.sock"
        self.url = f"hall+unix://{socket}"
        try:
            self._start_both(socket)
        except BaseException:
            self._stop()
            raise
        return self

    def _start_both(self, socket: Path) -> None:
        data = self._folder / "data"
        self._wait_for(data)
        hall = self._spawn(
            ("serve", "--json", "--no-web", "--data", str(data), "--door", f"native=unix:{socket}"),
            subprocess.PIPE,
        )
        # The worker connects as soon as the hall listens.
        worker = self._spawn(
            ("work", "--shell", "--json", "--hall", self.url, "--env", "*", "--grace", "5", *self._words),
            subprocess.DEVNULL,
        )
        assert hall.stdout is not None
        ready, _, _ = select.select([hall.stdout], [], [], START_S)
        line = hall.stdout.readline() if ready else b""
        if not line or worker.poll() is not None:
            self._stop()
            said = (self._folder / "log").read_text(encoding="utf-8", errors="replace").strip()
            raise CommandError(f"the hall for this run did not open: {said[-LOG_BYTES_MAX:]}", OTHER)
        json.loads(line)

    def _spawn(self, words: tuple[str, ...], stdout: int) -> subprocess.Popen[bytes]:
        def end_with_parent() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

        environment = {name: value for name, value in os.environ.items() if not name.startswith("HALL_")}
        process = subprocess.Popen(  # noqa: S603 (our own command)
            [sys.executable, "-m", "hiringhall", *words],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=self._log,
            env=environment,
            # Ctrl-C at the terminal is for the run, which decides what to end.
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 (there is one thread, and the function is prepared)
        )
        self._processes.append(process)
        return process

    def _wait_for(self, data: Path) -> None:
        """The hall of a run that was killed may take some seconds to end."""
        until_s = time.monotonic() + BUSY_S
        told = False
        while find_hall(data) is not None:
            if time.monotonic() > until_s:
                raise CommandError(f"another run uses {self._folder}: choose another folder with --data", OTHER)
            if not told:
                told = True
                print_error(f"hall: waiting for another run in {self._folder} to end")
            time.sleep(STEP_S)

    @property
    def pids(self) -> list[int]:
        """The hall and the worker."""
        return [process.pid for process in self._processes]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        """End the worker, then the hall."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._processes.clear()
        self._log.close()
        with contextlib.suppress(OSError):
            shutil.rmtree(self._place)


OTHER: Final = 255
"""Exit code of `hall run` for what is not a job that failed, as of GNU parallel."""
