"""The process that a hall runs in: the files it may open, and how its interpreter is set up."""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
from typing import Final

DESCRIPTORS_RESERVED: Final = 64
"""Open files kept back for the store, the listeners and the log."""


def raise_descriptor_limit() -> None:
    """Allow as many connections as the system lets us."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_possible() -> int:
    """How many connections the system allows, next to the files a hall needs for itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - DESCRIPTORS_RESERVED, 1)


def tune_interpreter() -> None:
    """Set Python up for one busy loop, one committing thread and millions of long-lived objects.

    Jobs are freed by counting; the collector is only for the cycles of lost connections, so it leaves the
    recovered jobs alone and looks at young objects less often. The committing thread needs the interpreter
    for a moment every thousand rows: at the default 5 ms a hand-over it would commit a third as much.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    sys.setswitchinterval(0.001)
