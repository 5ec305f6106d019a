"""One child process, as the supervisor sees it: started, heard, measured, ended.

Invariant: an end is told to the owner once, after everything that the child has said. A child is the leader of
a process group; when it ends, the rest of its group is killed, so nothing that a function started outlives it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from hiringhall.worker import messages
from hiringhall.worker.channel import Channel

if TYPE_CHECKING:
    from hiringhall.worker.tasks import Task

STARTING: Final = "starting"
WORKING: Final = "working"
RETIRING: Final = "retiring"
"""It gets no more jobs and ends with those that it has."""
KILLED: Final = "killed"
ENDED: Final = "ended"

MESSAGE_BYTES_MAX: Final = 1 << 31
"""A child sends no result that is longer than the hall takes; more than this is not a message at all."""
CLOSED_S: Final = 5.0
"""How long a child that has closed its socket may take to end."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Owner(Protocol):
    """Who hears what a child says, and its end."""

    def heard(self, child: Child, tag: int, lease: int, body: bytes) -> None: ...

    def ended(self, child: Child) -> None: ...


class Child:
    """A process that runs jobs."""

    def __init__(
        self,
        target: str,
        owner: Owner,
        folder: str,
        environment: dict[str, str],
        output: tuple[int, int] | None,
        generation: int,
    ) -> None:
        """`environment`: variables for the SDK in functions that submit jobs. `output`: descriptors in place of
        stdout and stderr.
        """
        self.owner = owner
        self.generation = generation
        self.state = STARTING
        self.capacity = 1
        self.tasks: dict[int, Task] = {}
        """Jobs that were sent to it and have not ended, by lease, in the order in which it begins them."""
        self.waiting: deque[Task] = deque()
        """Those of them that it has not begun."""
        self.given = 0
        """Jobs that were sent to it in all."""
        self.doom = ""
        """Why it is killed: for its memory, or since the time of grace is over."""
        self.ready: messages.Ready | None = None
        self.broken: messages.Broken | None = None
        self.channel = Channel()
        self._reader = messages.Reader(MESSAGE_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        descriptors = self.channel.child_descriptors
        stdout, stderr = output if output is not None else (None, None)
        self._process = subprocess.Popen(  # noqa: S603 (our own module; the target is the user's)
            [
                sys.executable,
                "-m",
                "hiringhall.worker.child",
                *map(str, descriptors),
                str(os.getpid()),
                target,
            ],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=folder,
            env={**os.environ, **environment},
            pass_fds=descriptors,
            start_new_session=True,
        )
        self.channel.child_stream.close()
        self.pid = self._process.pid
        self._descriptor = os.pidfd_open(self.pid)
        self._reading = True
        self._loop.add_reader(self._descriptor, self._exited)
        self._loop.add_reader(self.channel.fileno(), self.pump)

    @property
    def code(self) -> int:
        """How it ended: the exit code, or the number of a signal below 0."""
        return self._process.returncode if self._process.returncode is not None else 0

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.code >= 0:
            return f"the worker's process exited with code {self.code}"
        with contextlib.suppress(ValueError):
            return f"the worker's process was ended by signal {-self.code} ({signal.Signals(-self.code).name})"
        return f"the worker's process was ended by signal {-self.code}"

    def pump(self) -> bool:
        """Hear what the child has said. True: it said something."""
        data = self.channel.read()
        if not data:
            if data is not None and self._reading:
                # Closed by the child; its end comes by itself, unless a function has left a thread behind.
                self.hush()
                self._loop.call_later(CLOSED_S, self.kill, "its process closed the socket of its worker")
            return False
        try:
            heard = self._reader.feed(data)
        except messages.ChildFault:
            self.kill("a function wrote to the socket of its worker")
            return False
        owner = self.owner
        for tag, lease, body in heard:
            owner.heard(self, tag, lease, body)
        return True

    def pump_all(self) -> None:
        while self.pump():
            pass

    def hush(self) -> None:
        """Do not listen, so that the child waits when it says more: the hall does not read as fast."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self.channel.fileno())

    def listen(self) -> None:
        """Listen again."""
        if not self._reading and self.state != ENDED:
            self._reading = True
            self._loop.add_reader(self.channel.fileno(), self.pump)

    def resident_bytes(self) -> int:
        """Memory that it uses; 0: not known."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:  # noqa: PTH123 (ten times a second)
                return int(file.read().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError, ValueError):
            return 0

    def begin(self, mode: str, capacity: int, result_bytes_max: int) -> None:
        """Tell it how to run jobs."""
        self.state = WORKING
        self.capacity = capacity
        self.channel.control(messages.message(messages.BEGIN, messages.Begin(mode, capacity, result_bytes_max)))

    def revoke(self, lease: int) -> None:
        self.channel.control(messages.HEADER.pack(0, messages.REVOKE, lease))

    def finish(self) -> None:
        """It ends when it has done what it has."""
        self.state = RETIRING
        self.channel.finish()

    def kill(self, doom: str = "") -> None:
        """End it and everything that it has started, at once."""
        if self.state != ENDED:
            self.state = KILLED
            self.doom = self.doom or doom
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _exited(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        # Before it is reaped: until then nobody else can have its number.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self.pump_all()
        self.hush()
        self.state = ENDED
        self.owner.ended(self)
        self.channel.close()
