"""What a running hall can be asked about itself: its audit by signal, its history by the command line."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Final, NamedTuple

from hall_process import wait_until

from stage import forking

if TYPE_CHECKING:
    from hall_process import HallProcess

AUDIT_SIGNAL: Final = signal.SIGUSR2
_AUDIT_LINE: Final = re.compile(r"^.*\baudit (clean|broken.*)$", re.MULTILINE)
HISTORY_LINES_MAX: Final = 1_000_000


def audit(hall: HallProcess, timeout_s: float = 30.0) -> str:
    """Let the hall check every cross-reference of its core: "clean", or the law that does not hold."""
    before = len(_AUDIT_LINE.findall(hall.errors()))
    hall.signal(AUDIT_SIGNAL)
    wait_until(
        lambda: not hall.running or len(_AUDIT_LINE.findall(hall.errors())) > before,
        "the hall writes the outcome of its audit to stderr",
        timeout_s,
    )
    assert hall.running, f"the hall ended when it was asked for an audit:\n{hall.errors()}"
    said: str = _AUDIT_LINE.findall(hall.errors())[-1]
    return said


class End(NamedTuple):
    """One line of the history."""

    id: int
    queue: str
    key: str
    state: str
    code: int
    result: str
    losses: int


def history(place: str) -> list[End]:
    """Every line of the history in a data folder or a database, newest first."""
    command = [*forking.HALL, "history", "--data", place, "--json", "--limit", str(HISTORY_LINES_MAX)]
    said = forking.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, f"hall history ended with {said.returncode}:\n{said.stderr}"
    return [
        End(
            line["id"],
            line["queue"],
            # A key that is a digest of the data is not text.
            line.get("key", ""),
            line["state"],
            line["code"],
            line.get("result", ""),
            line["losses"],
        )
        for line in map(json.loads, said.stdout.splitlines())
    ]


def job_id(handle: bytes) -> int:
    """The job's number at the end of its handle."""
    return int(handle.rpartition(b":")[2])
