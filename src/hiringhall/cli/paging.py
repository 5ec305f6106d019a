"""Long texts: through the user's pager if stdout is a terminal, else straight to stdout.

Invariant: a line is made when the pager reads it, so the first page of a million lines is shown at once.
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
"""Ends by itself if the text fits on the screen, shows colours, leaves the text on the screen."""

ENCODING_ERRORS: Final = "backslashreplace"
"""How characters are written that the terminal's encoding does not have."""


def show(lines: Iterable[str], *, paged: bool) -> bool:
    """Write lines; True if they went through a pager."""
    pager = _open() if paged and sys.stdout.isatty() else None
    if pager is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors=ENCODING_ERRORS)
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        return False
    # Ctrl-C is for the pager, which does not end at it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert pager.stdin is not None
        # The user can leave the pager before the end.
        with suppress(BrokenPipeError), pager.stdin:
            for line in lines:
                pager.stdin.write(f"{line}\n")
        pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def _open() -> subprocess.Popen[str] | None:
    """The pager that $PAGER names; None if it is not installed, or not wanted."""
    try:
        words = shlex.split(os.environ.get("PAGER", DEFAULT_PAGER))
    except ValueError:
        return None
    if not words or words[0] == "cat" or shutil.which(words[0]) is None:
        return None
    environment = {**os.environ, "LESS": os.environ.get("LESS", LESS)}
    return subprocess.Popen(words, stdin=subprocess.PIPE, text=True, errors=ENCODING_ERRORS, env=environment)  # noqa: S603 (the user's own)
