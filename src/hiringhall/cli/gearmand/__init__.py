"""`hall-gearmand`: a hall that starts where gearmand started, with the same command line.

The law: every option of gearmand 1.1.20 is taken. One that has no meaning here costs a line of warning;
one that bears on safety is honoured or refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from hiringhall import __version__
from hiringhall.cli.gearmand import daemon
from hiringhall.cli.gearmand.options import UsageError, parse, usage
from hiringhall.cli.gearmand.translating import Plan, plan
from hiringhall.cli.reporting import TROUBLE, complain, guarded, say
from hiringhall.doors.gearman import GEARMAND_VERSION
from hiringhall.logs.writing import logging_to
from hiringhall.server import Opened, run

if TYPE_CHECKING:
    from hiringhall.cli.gearmand.daemon import Background
    from hiringhall.logs.writing import LogWriter

_log = logging.getLogger("hiringhall")


def main() -> None:
    """The console script."""
    sys.exit(guarded(_main, "hall-gearmand")(sys.argv[1:]))


def _main(words: list[str]) -> int:
    try:
        arguments = parse(words)
        if arguments.has("check-args"):
            return 0
        if arguments.has("help"):
            say(usage() + "\n")
            return 0
        if arguments.has("version"):
            say(f"\ngearmand {GEARMAND_VERSION} - hall-gearmand, hiringhall {__version__}\n")
            return 0
        planned = plan(arguments, os.environ)
    except UsageError as error:
        complain(f"hall-gearmand: {error}")
        return TROUBLE
    for note in planned.notes:
        complain(f"hall-gearmand: warning: {note}")
    return _serve(planned)


def _serve(planned: Plan) -> int:
    if planned.descriptors:
        daemon.limit_descriptors(planned.descriptors)
    if planned.coredump:
        daemon.allow_core_dump()
    if planned.user:
        daemon.switch_user(planned.user)
    background = daemon.go_to_background() if planned.daemon else None
    with daemon.pid_file(planned.pid_file, required=planned.pid_file_required):
        handler = daemon.log_handler(planned.log_file, syslog=planned.syslog)
        log_format = planned.config.hall.log_format
        with contextlib.closing(handler), logging_to(handler, planned.log_level, log_format) as log:
            return run(planned.config, _Announcer(background, log), "gearmand", log.repeats)


class _Announcer:
    """Tells the log, and the process that started us, that the doors are open."""

    def __init__(self, background: Background | None, log: LogWriter) -> None:
        self._background = background
        self._log = log

    def __call__(self, opened: Opened) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reopen_log)
        for door in opened.doors:
            _log.info("Listening on %s%s", door.address, " with TLS" if door.shield else "")
        if opened.data:
            _log.info("%d jobs recovered from %s", opened.recovered, opened.data)
        if self._background is not None:
            # Whoever started us may read the log at once, and what was logged to its terminal belongs there.
            self._log.wait_until_written()
            self._background.ready()

    def _reopen_log(self) -> None:
        """SIGHUP: logrotate has moved the file away. Each line looks for that, so a line is all it takes."""
        _log.info("log reopened")
