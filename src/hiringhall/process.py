"""The process that a hall runs in: its open files, its memory, and the settings of its interpreter."""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
from pathlib import Path
from typing import Final

DESCRIPTORS_RESERVED: Final = 64
"""Open files that are reserved for the store, the listeners and the log."""
_DESCRIPTORS: Final = Path("/proc/self/fd")
_MEMORY: Final = Path("/proc/self/statm")


def raise_descriptor_limit() -> None:
    """Raise the limit of open files as far as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_possible() -> int:
    """How many connections the system allows, without the files that the hall itself needs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - DESCRIPTORS_RESERVED, 1)


def open_descriptors() -> int:
    """How many files and sockets are open; 0 where the system does not tell."""
    try:
        # Since Linux 6.2 the size of this folder is the number of its entries: it need not be read.
        return _DESCRIPTORS.stat().st_size or sum(1 for _ in _DESCRIPTORS.iterdir())
    except OSError:
        return 0


def resident_bytes() -> int:
    """The memory in use; 0 where the system does not tell."""
    try:
        return int(_MEMORY.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def tune_interpreter() -> None:
    """Set Python up for one busy event loop, one committing thread and millions of long-lived objects.

    Jobs are freed by reference counting. The garbage collector is needed only for the reference cycles of lost
    connections, so it ignores the recovered jobs and looks at young objects less often. The committing thread
    needs the interpreter for a moment every thousand rows: with the default switch interval of 5 ms it would
    commit a third as much.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    sys.setswitchinterval(0.001)


def forget_garbage() -> None:
    """Free what was frozen and is in use no more, such as the jobs of a hall that stands by again."""
    gc.unfreeze()
    gc.collect()
