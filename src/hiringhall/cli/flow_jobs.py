"""The tasks of a flow file as jobs of a hall, submitted in frames.

Invariant: a task has the same queue and key whenever its file is run under the same name. So what lives is
joined, what is done is not done again, and what failed or was cancelled runs again as the file says now.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hiringhall.cli.reporting import WRONG_USE, CommandError
from hiringhall.dialects.native import wire
from hiringhall.flows.tasks import shown
from hiringhall.shell.command import QUEUE, BadCommand, ShellCommand, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hiringhall.cli.remote import Remote
    from hiringhall.flows.tasks import Task

SHELL: Final = QUEUE.decode()
"""The queue of tasks that are commands."""
DWORK: Final = "dwork"
"""The queue of tasks that have only a name."""
NAME_BYTES_MAX: Final = 200
PLACE: Final = "{}"
"""In --command, the name of the task."""
FRAME_JOBS: Final = 2000
FRAME_BYTES: Final = 4 << 20


class Way(NamedTuple):
    """How the tasks of one run become jobs."""

    flow: bytes
    cwd: str
    command: str | None = None
    """For tasks that have only a name."""
    queue: str | None = None
    """For tasks that do not name their own."""
    retries: int | None = None
    timeout_us: int | None = None


def submit_all(remote: Remote, way: Way, tasks: Sequence[Task], told: Callable[[int, int], None]) -> int:
    """Submit the tasks in this order; how many they are."""
    count = 0
    for frame in _frames(_Jobs(way, tasks)):
        # Each frame waits for the one before: a parent that runs again must live before its children come.
        remote.ask(wire.SUBMIT, (0, frame, wire.UNLESS_DONE))
        count += len(frame)
        told(count, len(tasks))
    return count


def key_of(way: Way, task: Task) -> bytes:
    """The key of its job."""
    return os.fsencode(task.name) if _is_bare(way, task) else way.flow + b"/" + os.fsencode(task.name)


def _is_bare(way: Way, task: Task) -> bool:
    """A dwork task: its name is all that its worker is given."""
    return task.command is None and way.command is None and _queue(way, task) == DWORK


def _queue(way: Way, task: Task) -> str:
    is_command = task.command is not None or way.command is not None
    return task.settings.queue or way.queue or (SHELL if is_command else DWORK)


class _Jobs:
    """Makes the jobs of tasks, one by one."""

    def __init__(self, way: Way, tasks: Sequence[Task]) -> None:
        self._way = way
        self._tasks = tasks
        self._names = {task.name: task for task in tasks}
        self._terms: dict[Any, dict[str, Any]] = {}

    def __iter__(self) -> Iterator[Any]:
        for task in self._tasks:
            yield self._job(task)

    def _job(self, task: Task) -> Any:
        way = self._way
        parents = [self._ref(self._names[name]) for name in task.needs]
        return (*self._ref(task)[:1], self._payload(task), self._terms_of(task), key_of(way, task), 0, parents)

    def _ref(self, task: Task) -> tuple[bytes, bytes]:
        return os.fsencode(_queue(self._way, task)), key_of(self._way, task)

    def _payload(self, task: Task) -> bytes:
        command = task.command
        if command is None and self._way.command is not None:
            command = self._way.command.replace(PLACE, shlex.quote(task.name))
        if command is None:
            return os.fsencode(task.payload or task.name)
        settings = task.settings
        cwd = str(Path(self._way.cwd, settings.cwd)) if settings.cwd else self._way.cwd
        shell = ShellCommand(os.fsencode(command), os.fsencode(cwd), dict(settings.env or {}), task.name)
        try:
            return encode(shell)
        except BadCommand as error:
            raise CommandError(f"task {shown(task.name)}: {error}", WRONG_USE) from error

    def _terms_of(self, task: Task) -> dict[str, Any]:
        """Tasks with equal settings share their terms, which the hall then reads once."""
        settings = task.settings
        stated = (
            self._way.retries if settings.retries is None else settings.retries,
            settings.backoff_us,
            self._way.timeout_us if settings.timeout_us is None else settings.timeout_us,
            settings.priority,
            settings.on_parent_failure,
            settings.resources or None,
        )
        terms = self._terms.get(stated)
        if terms is None:
            names = ("retries", "backoff_us", "timeout_us", "priority", "on_parent_failure", "resources")
            terms = {name: value for name, value in zip(names, stated, strict=True) if value is not None}
            self._terms[stated] = terms
            terms["flow"] = self._way.flow
        return terms


def _frames(jobs: _Jobs) -> Iterator[list[Any]]:
    """The jobs in lists that each fit a frame."""
    frame: list[Any] = []
    size = 0
    for job in jobs:
        added = len(job[1]) + sum(len(queue) + len(key) for queue, key in job[5])
        if frame and (len(frame) == FRAME_JOBS or size + added > FRAME_BYTES):
            yield frame
            frame, size = [], 0
        frame.append(job)
        size += added
    if frame:
        yield frame
