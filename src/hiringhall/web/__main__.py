"""The web process of a hall: `python -m hiringhall.web DESCRIPTOR`.

The hall gives it the listening socket, and its options as a line of JSON on stdin. Invariant: it never outlives
the hall: stdin ends when the hall does, however it ends, and then this process ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading
from typing import Final

import msgspec

from hiringhall.logs.writing import DescriptorHandler, LogFormat, logging_to
from hiringhall.web.options import WebOptions

FORCED_S: Final = 5.0
"""After this time it ends, whatever is under way."""


def main() -> None:
    """The entry point of the child process."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    options = msgspec.json.decode(sys.stdin.buffer.readline(), type=WebOptions)
    level = logging.getLevelNamesMapping()[options.log_level.upper()]
    log_format: LogFormat = "json" if options.log_format == "json" else "text"
    with logging_to(DescriptorHandler(sys.stderr.fileno()), level, log_format):
        # Imported late: a wrong start is reported without loading what serves.
        from hiringhall.web.serving import serve  # noqa: PLC0415

        serve(options, listener, _wait_for_the_hall)


def _wait_for_the_hall() -> None:
    """Return when the hall has ended."""
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 4096):
            pass
    forced = threading.Timer(FORCED_S, os._exit, (1,))
    forced.daemon = True
    forced.start()


if __name__ == "__main__":
    main()
