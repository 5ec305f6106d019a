"""The programs in C, compiled once; and gearslap, the load generator, run for each measurement."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servers import Server

HERE = Path(__file__).resolve().parent
FUNCTION = "slap"
RUN_S_MAX = 900.0


class SlapError(Exception):
    """A program in C could not be built, or the server answered a load generator with an error."""


def compiled(folder: Path, name: str, *libraries: str) -> Path:
    """The program of NAME.c in this folder, compiled if its source is newer."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise SlapError(f"no C compiler: install one as `cc` to build {name}.c")
    binary, source = folder / name, HERE / f"{name}.c"
    folder.mkdir(parents=True, exist_ok=True)
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        linked = [f"-l{library}" for library in libraries]
        subprocess.run([compiler, "-O2", "-o", str(binary), str(source), *linked], check=True)
    return binary


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
    """The compiled gearslap, and the compiled bare loop."""

    def __init__(self, folder: Path) -> None:
        self._binary = compiled(folder, "gearslap")
        self.bare_loop = compiled(folder, "bare_loop")

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
