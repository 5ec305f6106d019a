"""Listening on a Unix socket: a file that only its owner can connect to.

Invariant: the file of a socket on which a program listens is never replaced; one that a program left behind is.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Final

PATH_BYTES_MAX: Final = 107
"""The longest path that the system takes (108 bytes with the zero at its end)."""


class UnixListener:
    """A listening socket and its file."""

    __slots__ = ("_inode", "path", "socket")

    def __init__(self, path: str, backlog: int) -> None:
        """Listen. Raises OSError: EADDRINUSE if a program listens there, or the file is not a socket."""
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            raise OSError(errno.ENAMETOOLONG, f"the path has more than {PATH_BYTES_MAX} bytes")
        if is_taken(path):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        Path(path).unlink(missing_ok=True)
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            before = os.umask(0o177)  # The file is the owner's alone from the start.
            try:
                self.socket.bind(path)
            finally:
                os.umask(before)
            self._inode = Path(path).stat().st_ino
            self.socket.listen(backlog)
        except OSError:
            self.socket.close()
            raise

    def remove(self) -> None:
        """Remove the file, unless another program has put its own there."""
        try:
            file = Path(self.path)
            if file.stat().st_ino == self._inode:
                file.unlink()
        except OSError:
            return  # It is gone already, or its folder is.


def is_taken(path: str) -> bool:
    """Whether a program listens there, or something that is not a socket has that name."""
    try:
        if not stat.S_ISSOCK(Path(path).lstat().st_mode):
            return True
    except OSError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # A full backlog is an answer too.
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
