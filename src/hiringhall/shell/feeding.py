"""The jobs of a run, made in a thread: an input that does not come must not hold up what runs.

Invariant: at most AHEAD batches wait. The thread is a daemon: it may wait for input for ever.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.shell.command import COMMAND_BYTES_MAX
from hiringhall.shell.inputs import BadInput, arguments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hiringhall.shell.inputs import Reading, Source
    from hiringhall.shell.templates import Template

BATCH: Final = 500
AHEAD: Final = 4


class Planned(NamedTuple):
    """A job to be."""

    number: int
    """From 1 on."""
    arguments: tuple[bytes, ...]
    command: bytes
    problem: str = ""
    """Why it cannot be submitted."""


class Plan:
    """All jobs of a run, in order."""

    def __init__(self, template: Template | None, sources: Sequence[Source], reading: Reading) -> None:
        """`template`: None if the arguments themselves are commands."""
        self._template = template
        self._arguments = arguments_of(sources, reading)
        self._number = 0

    def __iter__(self) -> Plan:
        return self

    def __next__(self) -> Planned | None:
        """The next job; None: it is not there yet. Raises BadInput."""
        while True:
            arguments = next(self._arguments)
            if arguments is None:
                return None
            if self._template is not None or any(word.strip() for word in arguments):
                break
        self._number += 1
        if self._template is not None:
            command = self._template.fill(arguments, self._number)
        else:
            command = b" ".join(arguments)
        problem = ""
        if len(command) > COMMAND_BYTES_MAX:
            problem = f"its command has more than {COMMAND_BYTES_MAX} bytes"
        elif b"\0" in command:
            problem = "its command has a NUL character"
        return Planned(self._number, arguments, command, problem)


class Feeder:
    """Reads a plan ahead."""

    def __init__(self, plan: Plan, wake: Callable[[], None]) -> None:
        """`wake` is called in the thread when there is something to take."""
        self._plan = plan
        self._wake = wake
        self._batches: queue.Queue[list[Planned]] = queue.Queue(AHEAD)
        self._left: list[Planned] = []
        self._stopped = False
        self.total = 0
        """Jobs that were read so far; all of them when the input is at its end."""
        self._exhausted = False
        self.problem: BadInput | None = None
        threading.Thread(target=self._run, name="input", daemon=True).start()

    @property
    def ended(self) -> bool:
        """Nothing more comes."""
        return self._stopped or (self._exhausted and self._batches.empty() and not self._left)

    @property
    def exhausted(self) -> bool:
        """The input is at its end."""
        return self._exhausted

    def take(self, count: int) -> list[Planned]:
        """At most so many jobs, of those that are there."""
        taken = self._left
        while len(taken) < count and not self._stopped:
            try:
                taken = taken + self._batches.get_nowait()
            except queue.Empty:
                break
        self._left = taken[count:]
        return [] if self._stopped else taken[:count]

    def stop(self) -> None:
        """Nothing more is wanted."""
        self._stopped = True

    def _run(self) -> None:
        batch: list[Planned] = []
        try:
            for planned in self._plan:
                if planned is not None:
                    self.total += 1
                    batch.append(planned)
                if batch and (planned is None or len(batch) == BATCH):
                    self._give(batch)
                    batch = []
                if self._stopped:
                    return
            if batch:
                self._give(batch)
        except BadInput as error:
            self.problem = error
        self._exhausted = True
        self._wake()

    def _give(self, batch: list[Planned]) -> None:
        self._batches.put(batch)
        self._wake()
