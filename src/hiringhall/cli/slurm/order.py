"""What is submitted to Slurm: the batch script of one worker, and the options of sbatch.

Invariant: the same command for the same hall gives the same name, so that after a restart the allocations of
the run before are found again.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ID_VARIABLE: Final = "SLURM_JOB_ID"
MARGIN_S: Final = 60
"""A worker counts on so much less than the time limit of its allocation: starting and ending take time."""
_TIME: Final = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,7})(?::([0-9]{1,5}))?(?::([0-9]{1,5}))?")


class Order(NamedTuple):
    """A worker as it is submitted."""

    name: str
    """Of the Slurm jobs."""
    worker: str
    """The hall calls a worker this and the id of its Slurm job."""
    words: tuple[str, ...]
    """Of `hall work`."""
    sbatch: tuple[str, ...]
    """The operator's options for sbatch."""

    @property
    def script(self) -> str:
        """The batch script. The worker takes the place of the shell, so that it gets Slurm's signals."""
        command = shlex.join([sys.executable, "-m", "hiringhall", "work", *self.words])
        return f'#!/bin/sh\nexec {command} --name {shlex.quote(self.worker)}" ${ID_VARIABLE}"\n'

    def options(self, tag: str) -> list[str]:
        """Of sbatch, for one allocation."""
        return ["--parsable", f"--job-name={self.name}", f"--comment={tag}", *self.sbatch]

    def called(self, number: str) -> bytes:
        """The name of the worker of an allocation."""
        return f"{self.worker} {number}".encode()


def make_order(url: str, worker: str, words: Sequence[str], options: Sequence[str]) -> Order:
    """`worker`: what the hall calls the workers, before their numbers."""
    limit_s = find_time_limit(options)
    told = [*words, "--hall", url]
    if limit_s is not None and not any(word.startswith("--stays=") for word in words):
        told += ["--stays", str(max(0, limit_s - MARGIN_S))]
    digest = hashlib.sha256("\0".join([url, *words]).encode(errors="surrogateescape")).hexdigest()
    return Order(f"hall-{digest[:8]}", worker, tuple(told), tuple(options))


def find_time_limit(options: Sequence[str]) -> int | None:
    """The seconds of `--time` among the options of sbatch; None: there is none that can be read."""
    limit_s: int | None = None
    for place, option in enumerate(options, 1):
        if option.startswith(("--time=", "-t")) and option != "-t":
            limit_s = read_time(option.removeprefix("--time=").removeprefix("-t"))
        elif option in {"--time", "-t"}:
            limit_s = read_time("".join(options[place : place + 1]))
    return limit_s


def read_time(written: str) -> int | None:
    """The seconds of a time as Slurm takes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; None: it is none."""
    found = _TIME.fullmatch(written)
    if found is None:
        return None
    days, *rest = found.groups()
    numbers = [int(number) for number in rest if number is not None]
    if days is not None:
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) < 3:
        # Without hours: minutes, or minutes and seconds.
        numbers = [0, *numbers, 0][:3]
    hours, minutes, seconds = numbers
    return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds
