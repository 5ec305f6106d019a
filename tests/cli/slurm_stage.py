"""A hall, a Slurm that stands in for a real one, and `hall work --slurm` between the two."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Self

import slurm_stand_in
from hall_process import CODE, HallProcess, wait_until
from native_peer import NativePeer
from running import DEADLINE_S, ENVIRONMENT, HALL

from stage import forking

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

APP: Final = """
import time
from pathlib import Path
from hiringhall import Hall
hall = Hall()
@hall.job
def wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.01)
@hall.job
def nap(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"
"""
PATIENCE_S: Final = 60.0


class SlurmPrograms:
    """sbatch, squeue and scancel in a folder, and the cluster behind them."""

    def __init__(self, folder: Path, nodes: int = slurm_stand_in.NODES) -> None:
        self.cluster = folder / "cluster"
        self.bin = folder / "bin"
        self._nodes = nodes
        for each in (self.cluster, self.bin):
            each.mkdir(parents=True)
        for program in ("sbatch", "squeue", "scancel"):
            file = self.bin / program
            file.write_text(f'#!/bin/sh\nexec {sys.executable} {slurm_stand_in.__file__} {program} "$@"\n')
            file.chmod(0o755)

    def environment(self, path: str) -> dict[str, str]:
        """For programs that shall find them. `path` has the others."""
        return {
            "PATH": f"{self.bin}:{path}",
            slurm_stand_in.VARIABLE: str(self.cluster),
            "SLURM_STAND_IN_NODES": str(self._nodes),
        }

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The jobs of the cluster, by id."""
        cluster = slurm_stand_in.Cluster(self.cluster)
        try:
            cluster.schedule()
            return cluster.jobs()
        finally:
            cluster.unlock()

    def kill_all(self) -> None:
        """End what runs, at once."""
        for job in self.jobs().values():
            if job["pid"] and slurm_stand_in.is_alive(job["pid"]):
                os.killpg(job["pid"], signal.SIGKILL)


class SlurmStage:
    """What a test has at hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slurm = SlurmPrograms(folder)
        self.jobs = self.slurm.jobs
        (folder / "app.py").write_text(APP, encoding="utf-8")
        (folder / "hall").mkdir()
        self.hall = HallProcess(folder / "hall", door={"dialect": "native"})

    def __enter__(self) -> Self:
        self.hall.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.slurm.kill_all()
        self.hall.__exit__(kind, error, trace)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **ENVIRONMENT,
            **self.slurm.environment(os.environ["PATH"]),
            "HALL_URL": f"hall://{self.hall.address}",
            "PYTHONPATH": CODE,
        }

    # --- the cluster

    def alive(self) -> list[str]:
        """The jobs that wait or run."""
        states = {"PENDING", "RUNNING", "COMPLETING"}
        return [number for number, job in self.jobs().items() if job["state"] in states]

    def calls(self, program: str) -> list[list[str]]:
        file = self.slurm.cluster / "calls"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [words for words in map(json.loads, lines) if words[0] == program]

    def go_wrong(self, program: str, *faults: str) -> None:
        """How the next calls of a program go wrong."""
        (self.slurm.cluster / f"{program}.fault").write_text(" ".join(faults), encoding="utf-8")

    # --- the hall

    def submit(self, count: int, argument: float | str = 0.0, queue: bytes = b"app.nap") -> list[int]:
        with NativePeer(self.hall.port) as peer:
            return [peer.submit(queue, json.dumps([argument]).encode()) for _ in range(count)]

    def wait_done(self, ids: list[int]) -> None:
        with NativePeer(self.hall.port) as peer:
            wait_until(
                lambda: all(peer.ask("job", [number])["state"] == "done" for number in ids),
                f"jobs {ids} are done",
                PATIENCE_S,
            )

    def attempts(self, ids: list[int]) -> list[int]:
        with NativePeer(self.hall.port) as peer:
            return [peer.ask("job", [number])["attempts"] for number in ids]

    # --- the command

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`hall work`, which ends by itself."""
        return forking.run(
            [*HALL, "work", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def manager(self, *words: str) -> Managing:
        return Managing(self, "app", "--processes", "1", "--slurm", "--poll", "1s", *words)


class Managing:
    """`hall work --slurm`, while the block runs."""

    def __init__(self, stage: SlurmStage, *words: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._stage = stage
        self._words = words

    def __enter__(self) -> Self:
        self.process = forking.popen(
            [*HALL, "work", *self._words, "--json"],
            cwd=self._stage.folder,
            env=self._stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    def wait_for(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.named(name)) >= count, f"{count} {name} in {self.events}", PATIENCE_S)
        return self.named(name)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_S)
        self._reader.join()
        return code
