"""Commands as processes: started, heard and ended on one event loop.

Invariant: each command leads a session and a process group of its own. When it ends, however it ends, the rest
of its group is ended too, and its end is told once, after everything that it has written. Every descriptor of
this process closes on exec, so that a command inherits its three streams and nothing else.

The process that uses this has no other children: it collects all that end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SHELL: Final = "/bin/sh"
READ_BYTES: Final = 1 << 16
"""As much as a pipe holds."""
SMALL_BYTES: Final = 1 << 14
"""After a shorter piece a pipe rests, so that a command that writes line by line costs few messages."""
REST_S: Final = 0.02
"""How long a pipe rests. A command that is shorter than this is read once, at its end."""
LEFT_S: Final = 0.5
"""How long a stream is read on when its command has ended and a process outside of its group holds it open."""
_NO_STREAM: Final = -1
# Python ignores these, and a command would inherit that.
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class Owner(Protocol):
    """Who hears what commands write, and how they end."""

    def said(self, process: Process, data: bytes, *, warning: bool) -> None: ...

    def ended(self, process: Process) -> None: ...


class Process:
    """One command."""

    __slots__ = ("code", "lease", "listening", "pid", "stderr", "stdout", "stopping")

    def __init__(self, lease: int, pid: int, stdout: int, stderr: int) -> None:
        self.lease = lease
        self.pid = pid
        self.stdout = stdout
        """A descriptor, or below 0 when it is at its end."""
        self.stderr = stderr
        self.code = -1
        """The exit code, 128 and the number for a signal; below 0 while the shell runs."""
        self.stopping = False
        self.listening = False

    @property
    def open(self) -> bool:
        """A stream is not at its end."""
        return self.stdout >= 0 or self.stderr >= 0


class Processes:
    """All commands of one worker."""

    def __init__(self, owner: Owner, grace_s: float) -> None:
        """`grace_s`: between SIGTERM and SIGKILL."""
        self._owner = owner
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, Process] = {}
        """By pid, until the shell has ended."""
        self._left: dict[Process, None] = {}
        """The shell has ended, and something else holds a stream open."""
        self._resting: list[Process] = []
        self._flowing = True
        self._nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._loop.add_signal_handler(signal.SIGCHLD, self._collect)

    def close(self) -> None:
        """End everything at once."""
        for process in (*self._running.values(), *self._left):
            _signal_group(process.pid, signal.SIGKILL)
        for pid in list(self._running):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        for process in (*self._running.values(), *self._left):
            self._close_stream(process, process.stdout)
            self._close_stream(process, process.stderr)
        self._running.clear()
        self._left.clear()
        self._loop.remove_signal_handler(signal.SIGCHLD)
        os.close(self._nothing)

    def start(
        self,
        lease: int,
        command: bytes,
        folder: bytes,
        environment: Mapping[bytes, bytes],
        starting: Callable[[int], None],
    ) -> Process:
        """Run a command. Raises OSError. `starting` is called before, with the number of the pipe that is its
        standard output.
        """
        # A spawned process begins in the folder of its parent, and nothing else here depends on that.
        os.chdir(folder)
        read_out, write_out = os.pipe2(os.O_CLOEXEC)
        try:
            read_err, write_err = os.pipe2(os.O_CLOEXEC)
        except OSError:
            os.close(read_out)
            os.close(write_out)
            raise
        starting(os.fstat(read_out).st_ino)
        try:
            pid = os.posix_spawn(
                SHELL,
                (SHELL, b"-c", command),
                environment,
                file_actions=(
                    (os.POSIX_SPAWN_DUP2, self._nothing, 0),
                    (os.POSIX_SPAWN_DUP2, write_out, 1),
                    (os.POSIX_SPAWN_DUP2, write_err, 2),
                ),
                setsid=True,
                setsigdef=_DEFAULT_SIGNALS,
            )
        except OSError:
            os.close(read_out)
            os.close(read_err)
            raise
        finally:
            os.close(write_out)
            os.close(write_err)
        os.set_blocking(read_out, False)
        os.set_blocking(read_err, False)
        process = self._running[pid] = Process(lease, pid, read_out, read_err)
        self._rest(process)
        return process

    def stop(self, process: Process) -> None:
        """End a command: SIGTERM to its group, and SIGKILL after the grace."""
        if process.stopping or process.code >= 0:
            return
        process.stopping = True
        _signal_group(process.pid, signal.SIGTERM)
        # A stopped process does not hear SIGTERM before it goes on.
        _signal_group(process.pid, signal.SIGCONT)
        self._loop.call_later(self._grace_s, self._kill, process)

    def _kill(self, process: Process) -> None:
        if process.code < 0:
            _signal_group(process.pid, signal.SIGKILL)

    def flow(self, flowing: bool) -> None:
        """Read what commands write, or let them wait."""
        self._flowing = flowing
        for process in (*self._running.values(), *self._left):
            if flowing:
                self._rest(process)
            else:
                self._deafen(process)

    # --- their output

    def _rest(self, process: Process) -> None:
        """Hear it again soon."""
        if not self._resting:
            self._loop.call_later(REST_S, self._listen_again)
        self._resting.append(process)

    def _listen_again(self) -> None:
        resting, self._resting = self._resting, []
        for process in resting:
            if self._flowing and not process.listening and process.open:
                self._listen(process)

    def _listen(self, process: Process) -> None:
        process.listening = True
        if process.stdout >= 0:
            self._loop.add_reader(process.stdout, self._read_on, process, False)
        if process.stderr >= 0:
            self._loop.add_reader(process.stderr, self._read_on, process, True)

    def _deafen(self, process: Process) -> None:
        if process.listening:
            process.listening = False
            for stream in (process.stdout, process.stderr):
                if stream >= 0:
                    self._loop.remove_reader(stream)

    def _read_on(self, process: Process, warning: bool) -> None:
        size = self._read(process, warning=warning)
        if process.code >= 0 and not process.open:
            self._finish(process)
        elif 0 < size < SMALL_BYTES:
            self._deafen(process)
            self._rest(process)

    def _read(self, process: Process, *, warning: bool) -> int:
        """Read a piece; its size, 0 at the end, below 0 if there is none so far."""
        stream = process.stderr if warning else process.stdout
        if stream < 0:
            return 0
        try:
            data = os.read(stream, READ_BYTES)
        except BlockingIOError:
            return -1
        except OSError:
            data = b""
        if data:
            self._owner.said(process, data, warning=warning)
        else:
            self._close_stream(process, stream)
        return len(data)

    def _close_stream(self, process: Process, stream: int) -> None:
        if stream < 0:
            return
        if process.listening:
            self._loop.remove_reader(stream)
        os.close(stream)
        if stream == process.stdout:
            process.stdout = _NO_STREAM
        else:
            process.stderr = _NO_STREAM

    # --- their end

    def _collect(self) -> None:
        """Some children have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            process = self._running.pop(pid, None)
            if process is not None:
                code = os.waitstatus_to_exitcode(status)
                process.code = code if code >= 0 else 128 - code
                self._exited(process)

    def _exited(self, process: Process) -> None:
        """The shell has ended; what it left in its group ends with it."""
        wait_s = LEFT_S
        if _signal_group(process.pid, signal.SIGTERM):
            wait_s += self._grace_s
            _signal_group(process.pid, signal.SIGCONT)
            self._loop.call_later(self._grace_s, _signal_group, process.pid, signal.SIGKILL)
        # A full pipe, then its end. Whoever writes on is heard like a command that runs.
        for warning in (False, True):
            if self._read(process, warning=warning) > 0:
                self._read(process, warning=warning)
        if not process.open:
            self._finish(process)
            return
        self._left[process] = None
        if not process.listening and self._flowing:
            self._listen(process)
        # A process that has left the group may hold a stream for ever.
        self._loop.call_later(wait_s, self._let_go, process)

    def _let_go(self, process: Process) -> None:
        if process in self._left:
            self._close_stream(process, process.stdout)
            self._close_stream(process, process.stderr)
            self._finish(process)

    def _finish(self, process: Process) -> None:
        self._left.pop(process, None)
        process.listening = False
        self._owner.ended(process)


def _signal_group(pid: int, number: int) -> bool:
    """Signal the processes of a group; False: there are none."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # A program with the rights of another user: nobody else could end it either.
        return False
    return True
