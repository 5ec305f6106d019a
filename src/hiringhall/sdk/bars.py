"""A progress bar on stderr, if stderr is a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEP_S: Final = 0.1
"""Time between two updates of the bar."""


@contextlib.contextmanager
def bar(words: str, length: int | None, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Call what it gives once for each finished item."""
    if not shown or not sys.stderr.isatty():
        yield _nothing
        return
    from rich.console import Console  # noqa: PLC0415 (most programs need no bar)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done = 0
    shown_s = 0.0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(words, total=length)

        def advance() -> None:
            nonlocal done, shown_s
            done += 1
            if time.monotonic() - shown_s > STEP_S:
                shown_s = time.monotonic()
                progress.update(task, completed=done)

        yield advance
        progress.update(task, completed=done)


def _nothing() -> None:
    pass
