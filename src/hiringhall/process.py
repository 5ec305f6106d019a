"""The process that a hall runs in: its limit of open files, and the settings of its interpreter."""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
from typing import Final

DESCRIPTORS_RESERVED: Final = 64
"""Open files that are reserved for the store, the listeners and the log."""


def raise_descriptor_limit() -> None:
    """Raise the limit of open files as far as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_possible() -> int:
    """How many connections the system allows, without the files that the hall itself needs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - DESCRIPTORS_RESERVED, 1)


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
