"""gearslap, the load generator: compiled once, run for one measure, its line of figures read."""

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
    """gearslap could not be built, or met an error of the server's."""


@dataclass(frozen=True)
class Load:
    """Who comes, and how eager they are."""

    clients: int = 4
    depth: int = 64
    """Jobs that each client keeps on the way."""
    workers: int = 4
    unique: bool = False
    """Every job has a unique id."""


class Slap:
    """A compiled gearslap."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise SlapError("no C compiler: gearslap.c needs one, as `cc`")
        folder.mkdir(parents=True, exist_ok=True)
        self._binary = folder / "gearslap"
        if not self._binary.exists() or self._binary.stat().st_mtime < SOURCE.stat().st_mtime:
            subprocess.run([compiler, "-O2", "-o", str(self._binary), str(SOURCE)], check=True)

    def run(self, server: Server, mode: str, jobs: int, load: Load) -> dict[str, float]:
        """One measure: the figures that gearslap prints, by their names."""
        command = [str(self._binary), "-p", str(server.port), "-P", str(server.pid), "-f", FUNCTION]
        command += ["-m", mode, "-n", str(jobs), "-c", str(load.clients), "-d", str(load.depth)]
        command += ["-w", str(load.workers)]
        if load.unique:
            command.append("-u")
        said = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
        if said.returncode:
            raise SlapError(
                f"{server.name}: gearslap -m {mode} ended with {said.returncode}: {said.stderr.strip()}"
            )
        pairs = (word.partition("=") for word in said.stdout.split())
        return {name: float(value) for name, _, value in pairs if name != "mode"}
