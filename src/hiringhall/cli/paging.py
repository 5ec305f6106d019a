"""Long texts for people: through their pager where stdout is a terminal, else straight to stdout.

The law: a line is made when there is room for it. Who looks at the first page of a million has them make a
few hundred.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_PAGER: Final = "less"
LESS: Final = "FRX"
"""Ends by itself when all fits on the screen, shows colours, leaves the text standing."""

UNSHOWN: Final = "backslashreplace"
"""What becomes of characters that the terminal's encoding does not have."""


def show(lines: Iterable[str], *, paged: bool) -> bool:
    """Write lines; says whether a pager had them."""
    pager = _open() if paged and sys.stdout.isatty() else None
    if pager is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors=UNSHOWN)
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        return False
    # Ctrl-C is for the pager, which stops waiting at it and goes on.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert pager.stdin is not None
        # Who leaves the pager early has seen enough.
        with suppress(BrokenPipeError), pager.stdin:
            for line in lines:
                pager.stdin.write(f"{line}\n")
        pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def _open() -> subprocess.Popen[str] | None:
    """The pager that $PAGER names; None: there is none, or none is wanted."""
    try:
        words = shlex.split(os.environ.get("PAGER", DEFAULT_PAGER))
    except ValueError:
        return None
    if not words or words[0] == "cat" or shutil.which(words[0]) is None:
        return None
    environment = {**os.environ, "LESS": os.environ.get("LESS", LESS)}
    return subprocess.Popen(words, stdin=subprocess.PIPE, text=True, errors=UNSHOWN, env=environment)  # noqa: S603 (the user's own)
