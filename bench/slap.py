"""gearslap, the load generator: compile it once, run it for each measurement, read its figures."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servers import Server

SOURCE = Path(__file__).resolve().parent / "gearslap.c"
FUNCTION = "slap"
RUN_S_MAX = 900.0


class SlapError(Exception):
    """gearslap could not be built, or the server answered with an error."""


@dataclass(frozen=True)
class Load:
    """How many clients and workers there are, and how many jobs they keep in flight."""

    clients: int = 4
    depth: int = 64
    """Jobs that each client keeps in flight."""
    workers: int = 4
    unique: bool = False
    """Every job has a unique id."""


class Slap:
    """A compiled gearslap."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise SlapError("no C compiler: install one as `cc` to build gearslap.c")
        folder.mkdir(parents=True, exist_ok=True)
        self._binary = folder / "gearslap"
        if not self._binary.exists() or self._binary.stat().st_mtime < SOURCE.stat().st_mtime:
            subprocess.run([compiler, "-O2", "-o", str(self._binary), str(SOURCE)], check=True)

    def run(self, server: Server, mode: str, jobs: int, load: Load) -> dict[str, float]:
        """One measurement: the figures that gearslap prints, by name."""
        command = [str(self._binary), "-p", str(server.port), "-P", str(server.pid), "-f", FUNCTION]
        command += ["-m", mode, "-n", str(jobs), "-c", str(load.clients), "-d", str(load.depth)]
        command += ["-w", str(load.workers)]
        if load.unique:
            command.append("-u")
        said = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
        if said.returncode:
            raise SlapError(
                f"{server.name}: gearslap -m {mode} exited with {said.returncode}: {said.stderr.strip()}"
            )
        pairs = (word.partition("=") for word in said.stdout.split())
        return {name: float(value) for name, _, value in pairs if name != "mode"}
