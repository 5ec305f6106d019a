"""The process of the daemon: limits, user, background, pid file, log.

The order is that of gearmand: limits, user, background, pid file. So the pid file belongs to the user that the
daemon runs as, and the starting process ends only when the doors are open.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import pwd
import resource
import sys
from typing import TYPE_CHECKING, NoReturn

from hiringhall.endpoints import HallError
from hiringhall.logs.writing import DescriptorHandler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READY = b"open"
_SYSLOG_SOCKET = "/dev/log"


def limit_descriptors(count: int) -> None:
    """Set the limit of open files."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
    except (OSError, ValueError) as error:
        raise HallError(
            f"cannot set the limit of open files to {count}; run as root or use a smaller -f ({error})"
        ) from error


def allow_core_dump() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def switch_user(name: str) -> None:
    """Switch to another user permanently."""
    if os.geteuid() != 0:
        raise HallError("must be root to switch users (-u)")
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise HallError(f"there is no user {name} (-u)") from None
    try:
        os.initgroups(name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    except OSError as error:
        raise HallError(f"cannot switch to user {name}: {error.strerror}") from error


class Background:
    """Tells the process that started us whether the start succeeded."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def ready(self) -> None:
        """The doors are open: let the starter end, and detach from its terminal."""
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)
        with contextlib.suppress(OSError):
            os.write(self._pipe, _READY)
        os.close(self._pipe)


def go_to_background() -> Background:
    """Detach from the terminal. The starting process waits for `ready`, then exits with 0; otherwise with 1.

    Must be called before any thread, event loop or database exists.
    """
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(write_end)
        _leave(0 if os.read(read_end, len(_READY)) == _READY else 1)
    os.close(read_end)
    os.setsid()
    if os.fork():  # A session leader could get a terminal again; its child cannot.
        _leave(0)
    os.chdir("/")
    return Background(write_end)


def _leave(code: int) -> NoReturn:
    """Exit without Python's exit handlers: those belong to the process that continues."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def pid_file(path: Path, *, required: bool) -> Iterator[None]:
    """Keep our process id in a file while we run."""
    written = False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.write(descriptor, b"%d\n" % os.getpid())
        os.close(descriptor)
        written = True
    except OSError as error:
        if required:
            raise HallError(f"cannot write the pid file {path}: {error.strerror}") from error
    try:
        yield
    finally:
        if written:
            with contextlib.suppress(OSError):
                path.unlink()


def log_handler(log_file: str, *, syslog: bool) -> logging.Handler:
    """The handler of the log. If the file cannot be written, stderr is used, as in gearmand."""
    if syslog:
        if os.path.exists(_SYSLOG_SOCKET):  # noqa: PTH110 (a socket, not a file)
            handler = logging.handlers.SysLogHandler(_SYSLOG_SOCKET, logging.handlers.SysLogHandler.LOG_DAEMON)
            handler.ident = "hall-gearmand: "
            return handler
        print("hall-gearmand: there is no syslog, logging to the log file", file=sys.stderr)
    if log_file == "none":
        return logging.NullHandler()
    if log_file == "stderr":
        return DescriptorHandler(sys.stderr.fileno())
    try:
        # Checks at each line whether logrotate has moved the file.
        return logging.handlers.WatchedFileHandler(log_file, encoding="utf-8")
    except OSError as error:
        print(f"hall-gearmand: cannot write {log_file}, logging to stderr: {error.strerror}", file=sys.stderr)
        return DescriptorHandler(sys.stderr.fileno())
