"""`hall-gearmand`: a hall that replaces gearmand, with the same command line.

Invariant: every option of gearmand 1.1.20 is accepted. One that has no effect here causes a warning; one that
is relevant for security or durability is honoured or refused.
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
from hiringhall.cli.reporting import FAILURE, guarded, print_error, print_result
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
            print_result(usage() + "\n")
            return 0
        if arguments.has("version"):
            print_result(f"\ngearmand {GEARMAND_VERSION} - hall-gearmand, hiringhall {__version__}\n")
            return 0
        planned = plan(arguments, os.environ)
    except UsageError as error:
        print_error(f"hall-gearmand: {error}")
        return FAILURE
    for note in planned.notes:
        print_error(f"hall-gearmand: warning: {note}")
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
    """Logs that the doors are open, and tells the process that started us."""

    def __init__(self, background: Background | None, log: LogWriter) -> None:
        self._background = background
        self._log = log

    def __call__(self, opened: Opened) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reopen_log)
        for door in opened.doors:
            _log.info("Listening on %s%s", door.address, " with TLS" if door.encryption else "")
        if opened.data:
            _log.info("%d jobs recovered from %s", opened.recovered, opened.data)
        if self._background is not None:
            # The starter may read the log at once, and lines for its terminal must be written before we detach.
            self._log.wait_until_written()
            self._background.ready()

    def _reopen_log(self) -> None:
        """SIGHUP: logrotate has moved the file. Every line checks for that, so writing one is enough."""
        _log.info("log reopened")
