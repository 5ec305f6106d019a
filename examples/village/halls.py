"""A hall of one's own, as a process, while it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from village import Doors, ahead_h
from world import HOUR_S

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


@contextmanager
def hall(data: Path, policy: str) -> Iterator[subprocess.Popen[bytes]]:
    """`hall serve`, with this policy at its hire door. Ctrl-C is for us alone: we tell the others."""
    command = [sys.executable, "-m", "hiringhall", "serve", "--json", "--config", str(HERE / "hall.toml")]
    command += ["--data", str(data), "--set", f"door[1].policy={policy}"]
    command += ["--set", f"door[1].ahead_s={ahead_h(policy) * HOUR_S}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:  # noqa: S603
        try:
            yield process
        finally:
            process.terminate()


def doors_of(process: subprocess.Popen[bytes]) -> Doors:
    """Where a hall can be reached, as soon as it can."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        sys.exit("a hall did not open")
    addresses = {door["dialect"]: door["address"] for door in json.loads(line)["doors"]}
    return Doors(addresses["gearman"], addresses["hire"])
