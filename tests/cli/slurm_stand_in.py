"""Stands in for sbatch, squeue and scancel: a Slurm of a few nodes on this machine, whose state is a folder.

Run as a program: `slurm_stand_in.py PROGRAM WORDS...`, with the folder in SLURM_STAND_IN. Each call starts what
waits, if a node is free. The file `PROGRAM.fault` in the folder has a word for each of the next calls: how it
goes wrong.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "SLURM_STAND_IN"
NODES: Final = 4
OPTION: Final = {"--job-name": "name", "--comment": "comment"}


class Cluster:
    """The folder, locked while it is used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = (folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def unlock(self) -> None:
        self._lock.close()

    def log(self, *words: str) -> None:
        with (self.folder / "calls").open("a", encoding="utf-8") as calls:
            calls.write(json.dumps(words) + "\n")

    def fault(self, program: str) -> str:
        """How this call goes wrong; empty: it does not."""
        file = self.folder / f"{program}.fault"
        words = file.read_text(encoding="utf-8").split() if file.exists() else []
        file.write_text(" ".join(words[1:]), encoding="utf-8")
        return words[0] if words else ""

    def jobs(self) -> dict[str, dict[str, Any]]:
        files = sorted(self.folder.glob("*.job"), key=lambda file: int(file.stem))
        return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}

    def write(self, number: str, job: dict[str, Any]) -> None:
        (self.folder / f"{number}.job").write_text(json.dumps(job), encoding="utf-8")

    def add(self, job: dict[str, Any]) -> str:
        number = str(len(list(self.folder.glob("*.job"))) + 1)
        self.write(number, job)
        return number

    def schedule(self) -> None:
        """Start what waits, and note what has ended."""
        running = 0
        for number, job in self.jobs().items():
            if job["state"] in {"RUNNING", "COMPLETING"}:
                if is_alive(job["pid"]):
                    running += 1
                else:
                    self.write(number, {**job, "state": "COMPLETED"})
        for number, job in self.jobs().items():
            if job["state"] == "PENDING" and running < int(os.environ.get("SLURM_STAND_IN_NODES", NODES)):
                running += 1
                self.write(number, {**job, "state": "RUNNING", "pid": self._start(number, job)})

    def _start(self, number: str, job: dict[str, Any]) -> int:
        script = self.folder / f"{number}.sh"
        script.write_text(job["script"], encoding="utf-8")
        with (self.folder / f"slurm-{number}.out").open("wb") as output:
            process = subprocess.Popen(
                ["/bin/sh", str(script)],
                cwd=job["cwd"],
                env={**os.environ, "SLURM_JOB_ID": number},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return process.pid


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def sbatch(cluster: Cluster, words: list[str]) -> int:
    fault = cluster.fault("sbatch")
    if fault == "fail":
        sys.stderr.write("sbatch: error: Batch job submission failed: \x1b[2JSlurm is busy\n")
        return 1
    options = dict(word.partition("=")[::2] for word in words if word.startswith("--"))
    job = {name: options.get(option, "") for option, name in OPTION.items()}
    script = "#!/bin/sh\nexit 1\n" if fault == "break" else sys.stdin.read()
    number = cluster.add({**job, "state": "PENDING", "script": script, "cwd": str(Path.cwd()), "pid": 0})
    cluster.schedule()
    if fault == "lose":
        sys.stderr.write("sbatch: error: Socket timed out on send/recv operation\n")
        return 1
    if fault == "hang":
        cluster.unlock()
        signal.pause()  # until it is killed
    sys.stdout.write(f"{number};cluster\n")
    return 0


def squeue(cluster: Cluster, words: list[str]) -> int:
    if cluster.fault("squeue"):
        sys.stderr.write("slurm_load_jobs error: Unable to contact slurm controller\n")
        return 1
    name = words[words.index("--name") + 1]
    for number, job in cluster.jobs().items():
        if job["name"] == name and job["state"] in {"PENDING", "RUNNING", "COMPLETING"}:
            sys.stdout.write(f"{number}|{job['state']}|{job['comment']}\n")
    return 0


def scancel(cluster: Cluster, words: list[str]) -> int:
    if cluster.fault("scancel"):
        sys.stderr.write("scancel: error: Kill job error\n")
        return 1
    for number, job in cluster.jobs().items():
        if number in words and job["state"] == "PENDING":
            cluster.write(number, {**job, "state": "CANCELLED"})
        elif number in words and job["state"] == "RUNNING":
            os.killpg(job["pid"], signal.SIGTERM)
            cluster.write(number, {**job, "state": "COMPLETING"})
    return 0


def main() -> int:
    program, *words = sys.argv[1:]
    cluster = Cluster(Path(os.environ[VARIABLE]))
    cluster.log(program, *words)
    cluster.schedule()
    return {"sbatch": sbatch, "squeue": squeue, "scancel": scancel}[program](cluster, words)


if __name__ == "__main__":
    sys.exit(main())
