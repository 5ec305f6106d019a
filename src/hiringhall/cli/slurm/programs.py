"""Slurm's programs: sbatch, squeue and scancel, each called with a time limit.

Invariant: whatever a program does, the caller gets an answer or a `ProgramError` within the limit. What
programs write is escaped before it is shown.
"""

from __future__ import annotations

import asyncio
import getpass
import re
import shutil
from typing import TYPE_CHECKING, Final

from hiringhall.cli.escaping import escaped
from hiringhall.cli.slurm.fleet import Listed

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS: Final = ("sbatch", "squeue", "scancel")
ANSWER_BYTES_MAX: Final = 4 << 20
SHOWN_MAX: Final = 300
"""Characters of a program's message that are shown."""
TAG_PREFIX: Final = "hall:"
_ID: Final = re.compile(r"([0-9]+)(?:;.*)?")


class ProgramError(Exception):
    """Why a program gave no answer, in one line."""


def missing_programs() -> list[str]:
    """Which of the programs are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


class Slurm:
    """The programs, and how long each may take."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s

    async def sbatch(self, options: Sequence[str], script: str) -> str:
        """Submit a batch script. Returns the id of the Slurm job."""
        answer = await self._call(["sbatch", *options], script.encode())
        for line in reversed(answer.splitlines()):
            if found := _ID.fullmatch(line.strip()):
                return found[1]
        raise ProgramError(f"sbatch told no job id: {_shown(answer)}")

    async def squeue(self, name: str) -> list[Listed]:
        """The jobs of this user that have this name and a tag of ours."""
        words = ("--noheader", "--user", getpass.getuser(), "--name", name, "--format", "%i|%T|%k")
        answer = await self._call(["squeue", *words], b"")
        lines = [line.strip().split("|", 2) for line in answer.splitlines()]
        return [Listed(*line) for line in lines if len(line) == 3 and line[2].startswith(TAG_PREFIX)]

    async def scancel(self, numbers: Sequence[str]) -> None:
        """End these jobs."""
        await self._call(["scancel", *numbers], b"")

    async def _call(self, words: Sequence[str], given: bytes) -> str:
        """What a program wrote to stdout."""
        name = words[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # Ctrl-C is for this command, which tells afterwards what the program did.
                start_new_session=True,
            )
        except OSError as error:
            raise ProgramError(f"{name} cannot be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._limit_s):
                out, err = await process.communicate(given)
        except TimeoutError:
            raise ProgramError(f"{name} did not answer within {self._limit_s:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            said = _shown((err or out)[:ANSWER_BYTES_MAX].decode(errors="replace")) or "it said nothing"
            raise ProgramError(f"{name} failed with code {process.returncode}: {said}")
        return out[:ANSWER_BYTES_MAX].decode(errors="replace")


def _shown(text: str) -> str:
    """A message in one line."""
    return escaped(" ".join(text.split()))[:SHOWN_MAX]
