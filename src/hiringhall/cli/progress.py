"""Progress bars on stderr, if stderr is a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Item = TypeVar("Item")

STEP: Final = 256
"""Items between two updates of the bar."""


def with_progress(items: Iterable[Item], words: str, total: int | None = None) -> Iterator[Item]:
    """The same items, with a progress bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=total)
        for count, item in enumerate(items, 1):
            yield item
            if count % STEP == 0:
                bar.update(task, completed=count)


@contextmanager
def bar(words: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar if stderr is a terminal. It is called with how much is done, and how much there is."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(words, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
