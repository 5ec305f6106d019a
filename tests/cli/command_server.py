"""Runs many commands of `hall`, each in a process of its own, without the start of a Python for each.

A server process has loaded all commands and has one thread. For each command it forks; the child gets the
descriptors, folder and environment of the request, and ends as any Python program does.
"""

from __future__ import annotations

import array
import fcntl
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

REQUEST_BYTES_MAX: Final = 1 << 20
DEADLINE_S: Final = 60.0
"""A command goes on that should have ended. The machine may be busy."""
HEIGHT: Final = 24


class Ended(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes
    """Empty if both went to a terminal."""


class CommandServer:
    """The tests' side. One command at a time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**self._environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        theirs.close()
        self._link.settimeout(DEADLINE_S)
        self._requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()
        self._process.wait(DEADLINE_S)

    def piped(
        self, words: Sequence[str], cwd: Path, *, until: bytes = b"", more: Mapping[str, str] | None = None
    ) -> Ended:
        """Both outputs are pipes. A command that serves is ended with SIGTERM when `until` was printed."""
        (out, their_out), (err, their_err) = os.pipe(), os.pipe()
        pid = self._start(words, cwd, (their_out, their_err), more)
        printed = _read_all({out: b"", err: b""}, pid, until)
        return Ended(self._wait(), printed[out], printed[err])

    def on_a_terminal(
        self,
        words: Sequence[str],
        cwd: Path,
        width: int,
        *,
        until: bytes = b"",
        more: Mapping[str, str] | None = None,
    ) -> Ended:
        """Both outputs, and the input, are one terminal of this width."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, width, 0, 0))
        environment = {"TERM": "xterm-256color", **(more or {})}
        pid = self._start(words, cwd, (theirs, os.dup(theirs)), environment, terminal=theirs)
        printed = _read_all({ours: b""}, pid, until)
        return Ended(self._wait(), printed[ours].replace(b"\r\n", b"\n"), b"")

    def into_a_closed_pipe(self, words: Sequence[str], cwd: Path, *, until: bytes = b"") -> Ended:
        """Nobody reads stdout. `until` is awaited on stderr."""
        (unread, their_out), (err, their_err) = os.pipe(), os.pipe()
        os.close(unread)
        pid = self._start(words, cwd, (their_out, their_err), None)
        printed = _read_all({err: b""}, pid, until)
        return Ended(self._wait(), b"", printed[err])

    def _start(
        self,
        words: Sequence[str],
        cwd: Path,
        outputs: tuple[int, int],
        more: Mapping[str, str] | None,
        terminal: int | None = None,
    ) -> int:
        given = os.open(os.devnull, os.O_RDONLY) if terminal is None else os.dup(terminal)
        environment = {**self._environment, **(more or {})}
        self._requests += 1
        request = {
            "number": self._requests,
            "words": list(words),
            "cwd": str(cwd),
            "environment": environment,
        }
        socket.send_fds(self._link, [json.dumps(request).encode()], [given, *outputs])
        for descriptor in (given, *outputs):
            os.close(descriptor)
        return self._answer("pid")

    def _wait(self) -> int:
        return self._answer("code")

    def _answer(self, wanted: str) -> int:
        """Passes over late answers to a request that was given up: an exit code is no process to signal."""
        while True:
            number, what, value = json.loads(self._link.recv(REQUEST_BYTES_MAX))
            if number == self._requests:
                assert what == wanted, (what, wanted)
                return int(value)


def _read_all(printed: dict[int, bytes], pid: int, until: bytes) -> dict[int, bytes]:
    """Read until all ends are closed."""
    left = set(printed)
    latest_s = time.monotonic() + DEADLINE_S
    while left:
        ready, _, _ = select.select(list(left), [], [], max(0.0, latest_s - time.monotonic()))
        if not ready or time.monotonic() > latest_s:
            os.kill(pid, signal.SIGKILL)
            return {descriptor: data + b"\n(killed: it went on)" for descriptor, data in printed.items()}
        for descriptor in ready:
            try:
                data = os.read(descriptor, 65536)
            except OSError:  # the other side of a terminal is closed
                data = b""
            if not data:
                left.discard(descriptor)
                os.close(descriptor)
                continue
            printed[descriptor] += data
            if until and until in printed[descriptor]:
                os.kill(pid, signal.SIGTERM)
                until = b""
    return printed


def _serve(link: socket.socket) -> None:
    """The server: returns in each child."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(link, REQUEST_BYTES_MAX, 3)
        if not request:
            os._exit(0)
        asked = json.loads(request)
        pid = os.fork()
        if pid == 0:
            link.close()
            _become(asked, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        link.send(json.dumps([asked["number"], "pid", pid]).encode())
        _, status = os.waitpid(pid, 0)
        link.send(json.dumps([asked["number"], "code", os.waitstatus_to_exitcode(status)]).encode())


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, array.array("i", [0]))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin, sys.stdout, sys.stderr = _text(0, "r"), _text(1, "w"), _text(2, "w")
    sys.argv = ["hall", *request["words"]]


def _text(descriptor: int, mode: str) -> io.TextIOWrapper:
    raw = open(descriptor, f"{mode}b", closefd=False)  # noqa: SIM115 (for the rest of the process)
    errors = "backslashreplace" if descriptor == 2 else "strict"
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=descriptor == 2 or os.isatty(descriptor))


if __name__ == "__main__":
    from hiringhall.cli.commands import COMMANDS, Group
    from hiringhall.cli.main import main
    from stage.forking import run_to_the_end

    for each in COMMANDS:
        for entry in each.entries if isinstance(each, Group) else (each,):
            importlib.import_module(f"hiringhall.cli.{entry.place.partition(':')[0]}")
    importlib.import_module("typer.rich_utils")  # a mistake or a page of help loads it
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    run_to_the_end(main)
