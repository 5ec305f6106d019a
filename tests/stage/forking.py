"""Commands of `hall` as processes, without the start of a Python for each: that costs half a second of CPU.

A server process has imported all commands and has one thread. For each command it forks; the child gets the
descriptors, folder and environment of the request, and goes on as `python -m hiringhall` does. It ends as that
does, too, but leaves its modules to the system. Processes whose environment another Python or C library would
read differently are started as usual.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import inspect
import io
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import hiringhall

if TYPE_CHECKING:
    from collections.abc import Callable

HALL: Final = (sys.executable, "-m", "hiringhall")
_FOUND: Final = str(Path(hiringhall.__file__).parents[1])
_REQUEST_BYTES_MAX: Final = 100_000
_READ_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "OPENSSL_", "SSL_")
"""What a process reads from its environment before the hall's own code runs."""
_ARGUMENTS: Final = tuple(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]
_STATUS: Final = struct.Struct("i")


def popen(command: list[Any], **options: Any) -> subprocess.Popen[Any]:
    """As `subprocess.Popen`. A command that begins with HALL is forked, if that makes no difference to it."""
    kind = _Forked if _can_fork(command, options) else subprocess.Popen
    return kind(command, **options)


def run(
    command: list[Any],
    *,
    timeout: float,
    input: Any = None,  # noqa: A002 (as there)
    capture_output: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run` with `check=False`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with popen(command, **options) as process:
        try:
            stdout, stderr = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _can_fork(command: list[Any], options: dict[str, Any]) -> bool:
    if tuple(command[:3]) != HALL or options.keys() & {"preexec_fn", "pass_fds", "executable", "shell"}:
        return False
    environment = dict(os.environ if options.get("env") is None else options["env"])
    places = environment.pop("PYTHONPATH", "").split(os.pathsep)
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return (
        {*places} <= {"", _FOUND, *os.environ.get("PYTHONPATH", "").split(os.pathsep), *sys.path}
        and _read_at_start(environment) == _read_at_start(ours)
        and len(_request(command, **options)) < _REQUEST_BYTES_MAX
    )


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _request(
    command: list[Any], cwd: Any = None, env: Any = None, *, start_new_session: bool = False, **_: Any
) -> bytes:
    request = {
        "words": [os.fsdecode(word) for word in command[len(HALL) :]],
        "cwd": os.fsdecode(cwd or Path.cwd()),
        "environment": dict(os.environ if env is None else env),
        "new_session": start_new_session,
    }
    return json.dumps(request).encode()


class _Forked(subprocess.Popen[Any]):
    """A child of the server. Two steps of Popen are replaced: how it starts, and how its end is learned of."""

    def _execute_child(self, *arguments: Any) -> None:
        given = dict(zip(_ARGUMENTS, arguments, strict=True))
        request = _request(
            given["args"], given["cwd"], given["env"], start_new_session=given["start_new_session"]
        )
        pipes = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        descriptors = [number if pipe == -1 else pipe for number, pipe in enumerate(pipes)]
        self._ended, told = os.pipe()
        try:
            self.pid = _server().fork(request, [*descriptors, told])
        finally:
            os.close(told)
            self._close_pipe_fds(
                *(given[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"))
            )
        self._child_created = True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if not select.select([self._ended], [], [], 0 if wait_flags else None)[0]:
            return 0, 0
        (status,) = _STATUS.unpack(os.read(self._ended, _STATUS.size))
        os.close(self._ended)
        return self.pid, status


# --- the server


class _Server:
    """The tests' side of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        places = [_FOUND, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        )
        theirs.close()

    def fork(self, request: bytes, descriptors: list[int]) -> int:
        """Start a command; the last descriptor is told how it ended. Its process id."""
        with self._lock:
            socket.send_fds(self._link, [request], descriptors)
            answer = self._link.recv(_STATUS.size)
        assert answer, "the server that forks commands has ended"
        return int(_STATUS.unpack(answer)[0])

    def stop(self) -> None:
        self._link.close()
        self._process.wait()


def stop_server() -> None:
    """End the server of this process, if there is one. Commands that still run go on."""
    if _server.cache_info().currsize:
        _server().stop()
        _server.cache_clear()


@cache
def _server() -> _Server:
    return _Server()


class _Child(NamedTuple):
    pid: int
    told: int


def _serve(link: socket.socket) -> None:
    """Returns in each child."""
    children: dict[int, _Child] = {}
    poll = select.poll()
    poll.register(link, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready in children:
                poll.unregister(ready)
                _tell_end(children.pop(ready))
                os.close(ready)
                continue
            request, descriptors, _, _ = socket.recv_fds(link, _REQUEST_BYTES_MAX, 4)
            if not request:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                _become(json.loads(request), descriptors[:3])
                return
            for descriptor in descriptors[:3]:
                os.close(descriptor)
            watched = os.pidfd_open(pid)
            children[watched] = _Child(pid, descriptors[3])
            poll.register(watched, select.POLLIN)
            link.send(_STATUS.pack(pid))


def _tell_end(child: _Child) -> None:
    _, status = os.waitpid(child.pid, 0)
    with suppress(BrokenPipeError):
        os.write(child.told, _STATUS.pack(status))
    os.close(child.told)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["new_session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path.insert(0, request["cwd"])
    sys.argv = ["hall", *request["words"]]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _opened_again(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _opened_again(descriptor: int, stream: Any) -> io.TextIOWrapper:
    """With the encoding, and as much buffered, as Python chose at its start."""
    unbuffered = descriptor and stream.write_through
    raw = open(descriptor, "wb" if descriptor else "rb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115 (for the rest of the process)
    return io.TextIOWrapper(
        raw,
        stream.encoding,
        stream.errors,
        line_buffering=descriptor == 2 or os.isatty(descriptor),
        write_through=bool(unbuffered),
    )


def run_to_the_end(main: Callable[[], object]) -> None:
    """Run a command in a forked process, and end it as Python does: threads are waited for, exit handlers run,
    garbage is collected and the streams are flushed. Only the modules are not taken apart one by one, which
    copies all memory that they share with the server: three quarters of the CPU time of a short command.
    Returns or raises if the end is any other than an exit code.
    """
    code: object = None
    try:
        main()
    except SystemExit as end:
        code = end.code
        if code is not None and not isinstance(code, int):
            raise
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    try:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
    except OSError:  # Python says so, and has an exit code for it
        sys.exit(code)
    os._exit(code or 0)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    from hiringhall.cli.commands import COMMANDS, Group
    from hiringhall.cli.main import main

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in COMMANDS:
        for entry in each.entries if isinstance(each, Group) else (each,):
            importlib.import_module(f"hiringhall.cli.{entry.place.partition(':')[0]}")
    importlib.import_module("typer.rich_utils")  # a mistake or a page of help loads it
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    run_to_the_end(main)
