"""Disks that fail on command: one that fills up, one whose fsync fails."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, Protocol

import pytest

SHIM: Final = Path(__file__).resolve().parent / "shim" / "fail_fsync.c"
DISK_MIB: Final = 8
ROOMY_MIB: Final = 64
_FILLER_BYTES: Final = 4096


def lacking(what: str) -> None:
    """Say what a test lacks; see tests/conftest.py for what becomes of it."""
    pytest.skip(what)


class Disk(Protocol):
    """Where a hall keeps its data, as a test plays with it."""

    complaint: str
    """A word that the hall's refusal has to hold."""
    leaves_doubt: bool
    """Whether a commit fails so late that nobody knows its outcome: whoever waits for it goes on waiting."""

    def environment(self) -> dict[str, str]:
        """What the hall's process is started with."""

    def fail(self) -> None:
        """From now on."""

    def heal(self) -> None:
        """From now on."""


class SmallDisk:
    """A tmpfs of a few megabytes, mounted at the hall's data folder."""

    complaint = "full"
    leaves_doubt = False

    def __init__(self, data: Path) -> None:
        self._data = data
        self._filler = data / "filler"
        data.mkdir()
        _mount(data, f"size={DISK_MIB}m,mode=700")

    def environment(self) -> dict[str, str]:
        return {}

    def fail(self) -> None:
        """Take all the space there is."""
        with self._filler.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(bytes(_FILLER_BYTES)):
                pass

    def heal(self) -> None:
        self._filler.unlink(missing_ok=True)

    def widen(self) -> None:
        """Give it more space, as a person would."""
        _mount(self._data, f"remount,size={ROOMY_MIB}m")

    def unmount(self) -> None:
        subprocess.run(["umount", str(self._data)], check=True)


class FaintDisk:
    """A folder like any other, and a process that is told that its fsync has failed."""

    complaint = "failed"
    leaves_doubt = True

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            lacking("a C compiler is missing: tests/system/shim/fail_fsync.c needs one, as `cc`")
            raise AssertionError
        self._flag = folder / "fsync-fails"
        self._library = folder / "fail_fsync.so"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SHIM), "-ldl"], check=True
        )

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "FAIL_FSYNC_FLAG": str(self._flag)}

    def fail(self) -> None:
        self._flag.touch()

    def heal(self) -> None:
        self._flag.unlink(missing_ok=True)


def _mount(folder: Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if shutil.which("mount") is None or os.geteuid() != 0:
        lacking("only root can mount the small disk that this test fills")
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode:
        lacking(f"no small disk can be mounted here: {said.stderr.strip()}")
