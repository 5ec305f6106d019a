"""Shell commands: `hall run` beside GNU parallel, and a shell worker beside HyperQueue.

All run the same number of commands at a time, in turns, and each turn begins in an empty folder. The figures of
the hall contain the start of `hall run`, and beside GNU parallel also that of the hall and the worker that it
opens; every result is on disk.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from figures import AT_LEAST, HALL, Figures, Ratio, Section
from servers import ServerError
from systems import ENVIRONMENTS, PEERS, NativeHall, NotInstalled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from figures import Row
    from scenarios import Stage

PARALLEL = "GNU parallel"
HYPERQUEUE = "HyperQueue"
TO_PARALLEL = Ratio(HALL, PARALLEL)
TO_HYPERQUEUE = Ratio(HALL, HYPERQUEUE)
AT_A_TIME = 2
RUN_S_MAX = 1800.0
ENVIRONMENT = ENVIRONMENTS / "hyperqueue"


def timed(command: list[str], folder: Path, lines: int = 0) -> float:
    """How long a command takes. Its input has so many numbers, one on each line."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{number}\n" for number in range(lines))
    start_s = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, input=text, text=True, capture_output=True, check=False, timeout=RUN_S_MAX
    )
    elapsed_s = time.perf_counter() - start_s
    if done.returncode:
        raise ServerError(f"{command[0]} ended with code {done.returncode}: {done.stderr[-500:]}")
    return elapsed_s


def hall_run(stage: Stage, *words: str) -> list[str]:
    return [stage.python, "-m", "hiringhall", "run", "-j", str(AT_A_TIME), *words]


@contextmanager
def shell_worker(stage: Stage, url: str) -> Iterator[None]:
    """`hall work --shell` at a hall."""
    words = ("work", "--shell", "--json", "--slots", str(AT_A_TIME), "--hall", url)
    worker = subprocess.Popen([stage.python, "-m", "hiringhall", *words], stdout=subprocess.PIPE)
    try:
        assert worker.stdout is not None
        while b'"connected"' not in (line := worker.stdout.readline()):
            if not line:
                raise ServerError("hall work --shell has ended")
        yield
    finally:
        worker.kill()
        worker.wait()


@dataclass(frozen=True)
class Commands:
    """The same command many times, from nothing to the end of the last."""

    name: str = "shell"
    commands: int = 10_000
    required: float = 1.0

    def run(self, stage: Stage) -> list[Row]:
        figures = Figures(self.name)
        count = stage.jobs(self.commands)
        program = shutil.which("parallel")
        if program is None and not stage.halls_only:
            raise NotInstalled("GNU parallel is not installed: run scripts/install-bench-peers")
        for number in range(stage.rounds):
            if program is not None and not stage.halls_only:
                stage.say(f"round {number + 1}: {PARALLEL}, {count:,} commands")
                command = [program, "--will-cite", "-j", str(AT_A_TIME), "true"]
                elapsed_s = timed(command, stage.folder / f"parallel-{number}", count)
                figures.add(PARALLEL, "rate", count / elapsed_s)
            stage.say(f"round {number + 1}: hall, {count:,} commands")
            elapsed_s = timed(hall_run(stage, "--data", "own", "true"), stage.folder / f"hall-{number}", count)
            figures.add(HALL, "rate", count / elapsed_s)
        title = f"{count:,} commands, {AT_A_TIME} at a time, with start"
        return [figures.row("rate", "commands/s", title=title).must(AT_LEAST, self.required, TO_PARALLEL)]


@dataclass(frozen=True)
class Tasks:
    """No-op tasks with one worker that is there already."""

    name: str = "shell-tasks"
    tasks: int = 20_000
    required: float = 2.0

    def run(self, stage: Stage) -> list[Row]:
        figures = Figures(self.name)
        count = stage.jobs(self.tasks)
        for number in range(stage.rounds):
            if not stage.halls_only:
                stage.say(f"round {number + 1}: {HYPERQUEUE}, {count:,} tasks")
                elapsed_s = self._hyperqueue(stage.folder / f"hyperqueue-{number}", count)
                figures.add(HYPERQUEUE, "rate", count / elapsed_s)
            stage.say(f"round {number + 1}: hall, {count:,} tasks")
            figures.add(HALL, "rate", count / self._hall(stage, stage.folder / f"hall-{number}", count))
        title = f"{count:,} no-op tasks, one worker of {AT_A_TIME} slots"
        return [figures.row("rate", "tasks/s", title=title).must(AT_LEAST, self.required, TO_HYPERQUEUE)]

    def _hall(self, stage: Stage, folder: Path, count: int) -> float:
        hall = NativeHall(folder, stage.python)
        hall.start()
        try:
            url = f"hall://127.0.0.1:{hall.port}"
            # Not bounded by -j: the worker has so many slots.
            command = [stage.python, "-m", "hiringhall", "run", "--hall", url, "true"]
            with shell_worker(stage, url):
                return timed(command, folder / "run", count)
        finally:
            hall.stop()

    def _hyperqueue(self, folder: Path, count: int) -> float:
        python = ENVIRONMENT / "bin" / "python"
        if not python.exists():
            raise NotInstalled("HyperQueue is not installed: run scripts/install-bench-peers")
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(python), str(PEERS / "hyperqueue_tasks.py"), str(count), str(AT_A_TIME), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
        try:
            return float(done.stdout.split()[-1])
        except (IndexError, ValueError):
            raise ServerError(f"HyperQueue did not run: {done.stderr[-500:]}") from None


def versions_of_shells() -> str:
    """The versions of GNU parallel and HyperQueue, in one line."""
    program, python = shutil.which("parallel"), ENVIRONMENT / "bin" / "python"
    if program is None or not python.exists():
        return "not installed"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    script = "from importlib.metadata import version; print(version('hyperqueue'))"
    told = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True).stdout
    return f"{(said.splitlines() or [''])[0]}, HyperQueue {told.strip()}"


SHELL_COMMANDS = Section(
    "Shell commands", (Commands(), Tasks()), (PARALLEL, HYPERQUEUE, HALL), (TO_PARALLEL, TO_HYPERQUEUE)
)
