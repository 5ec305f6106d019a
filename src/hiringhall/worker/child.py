"""A worker's process: `python -m hiringhall.worker.child JOBS STREAM PARENT TARGET`, started by the supervisor.

Invariant: it ends when the supervisor ends, also in the middle of a job: the kernel kills it.
"""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
from typing import Final

from hiringhall.worker import messages
from hiringhall.worker.channel import ChildChannel
from hiringhall.worker.loading import CannotLoad, files_of, load, user_files
from hiringhall.worker.loops import LOOPS

_PR_SET_PDEATHSIG: Final = 1


def main() -> int:
    jobs, stream, parent, target = sys.argv[1:]
    _die_with(int(parent))
    for file in (sys.stdout, sys.stderr):
        if isinstance(file, io.TextIOWrapper):
            # A job's lines are seen when they are printed, wherever they go.
            file.reconfigure(line_buffering=True, errors="backslashreplace")
    with ChildChannel(int(jobs), int(stream)) as channel:
        del sys.argv[1:]
        try:
            loaded = load(target, os.getcwd())  # noqa: PTH109 (text)
        except CannotLoad as error:
            text = str(error).encode(errors="backslashreplace").decode()
            channel.send(messages.message(messages.BROKEN, messages.Broken(text, _watched(error))))
            return 1
        files = [os.fsencode(file) for file in user_files()]
        channel.send(messages.message(messages.READY, messages.Ready(loaded.served, loaded.url, files)))
        control = channel.read_control()
        if control is not None:
            begin = messages.BEGIN_BODY.decode(control[2])
            LOOPS[begin.mode](channel, loaded.functions, begin)
    return 0


def _watched(error: BaseException) -> list[bytes]:
    return [os.fsencode(file) for file in dict.fromkeys([*user_files(), *files_of(error)])]


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It ended before it was asked for.
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
