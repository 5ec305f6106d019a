"""For stories of commands: a data folder with a past, and a command at a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from running import DEADLINE_S, ENVIRONMENT, HALL

from hiringhall.core.changes import Batch, EndRow, JobRow
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.storage.contract import Retention
from hiringhall.storage.sqlite import DATABASE, SqliteStore
from stage.forking import popen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COUNT: Final = 10_000
FIRST_ID: Final = (1 << 36) + 1
LAST_ID: Final = FIRST_ID + COUNT - 1
"""The newest job that has ended."""
SECOND_US: Final = 1_000_000
TERMS: Final = Terms(durable=True, detached=True)
STATES: Final = (DONE, DONE, DONE, FAILED, CANCELLED)
NASTY: Final = b"\xff\x1b[31m\nr\xc3\xa9d"
EARLIER: Final = ((1_000_000, 2_000_000, b"bob", 125, "gearman"), (3_000_000, 0, b"bob", 123, ""))


def fill_past(folder: Path) -> None:
    """Ten thousand ended jobs, one a second until now, and three unfinished ones."""
    now_us = time.time_ns() // 1000
    store = SqliteStore(folder / DATABASE, Retention(), print)
    store.load(0)
    batch = Batch()
    for number in range(COUNT):
        batch.ends.append(_end(number, now_us - (COUNT - number) * SECOND_US))
    for number, (state, due_us) in enumerate(((QUEUED, 0), (DELAYED, now_us + 3600 * SECOND_US), (HELD, 0)), 1):
        parents = ((b"mail", b"never"),) if state == HELD else ()
        key = b"live-%d" % number
        batch.inserts.append(
            JobRow(
                LAST_ID + number, b"mail", key, b"to ann", TERMS, state, now_us, due_us, 0, 0, 0, parents, None
            )
        )
    store.commit(batch, now_us)
    store.close()


def _end(number: int, ended_us: int) -> EndRow:
    state = STATES[number % len(STATES)]
    result = NASTY if number % 100 == 0 else b"result %d" % number
    return EndRow(
        FIRST_ID + number,
        b"resize" if number % 2 else b"mail",
        b"key-%d" % number,
        state,
        3 if state == FAILED else 0,
        result,
        b"ann",
        ended_us - 2 * SECOND_US,
        ended_us - SECOND_US,
        ended_us,
        3 if state == FAILED else 1,
        0,
        TERMS,
        b"payload %d" % number if state == FAILED else b"",
        None,
        0,
        EARLIER if state == FAILED else (),
    )


class AtTerminal(NamedTuple):
    """How a command ended, and what its terminals showed."""

    code: int
    stdout: str
    stderr: str


def run_at_terminal(*words: str, cwd: Path, environment: Mapping[str, str]) -> AtTerminal:
    """A command of `hall` whose stdout and stderr are terminals, as wide as the default."""
    masters: list[int] = []
    slaves: list[int] = []
    for _ in range(2):
        master, slave = pty.openpty()
        masters.append(master)
        slaves.append(slave)
    with popen(
        [*HALL, *words],
        cwd=cwd,
        env={**ENVIRONMENT, "TERM": "xterm", **environment},
        stdin=subprocess.DEVNULL,
        stdout=slaves[0],
        stderr=slaves[1],
    ) as process:
        for slave in slaves:
            os.close(slave)
        shown = _read_all(masters)
        return AtTerminal(process.wait(DEADLINE_S), *shown)


def _read_all(masters: list[int]) -> list[str]:
    """Both at the same time: the bar of a slow command may fill the terminal of stderr."""
    shown = dict.fromkeys(masters, b"")
    left = set(masters)
    while left:
        for master in select.select(list(left), [], [])[0]:
            try:
                shown[master] += os.read(master, 65_536)
            except OSError:  # A terminal that all have left is an error to read.
                os.close(master)
                left.remove(master)
    return [data.decode().replace("\r\n", "\n") for data in shown.values()]
