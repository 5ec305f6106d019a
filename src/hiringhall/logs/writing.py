"""The handler of every record, and the thread that writes the lines.

Invariant: a caller that logs never waits. Records go through a bounded queue. While nobody reads the lines,
as with a full pipe at stderr, further records are dropped and counted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import select
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from hiringhall.logs.lines import EVENT_ATTRIBUTE, FIELDS_ATTRIBUTE, JsonFormatter, TextFormatter
from hiringhall.logs.repeats import Repeats, Summary, Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

LogFormat = Literal["text", "json"]

LINES_WAITING_MAX: Final = 10_000
SUMMARY_PAUSE_S: Final = 1.0
"""How often the thread checks for windows of repeats that are over."""
CLOSE_WAIT_S: Final = 2.0
"""How long to wait until lines are written, for example at the end."""
SAME_LINES_MAX: Final = 1
"""Lines with the same text within a window, for records that are not events."""


class DescriptorHandler(logging.Handler):
    """Writes lines to a file descriptor, without Python's own buffers. It holds no lock while it blocks, so
    that a process whose stderr nobody reads can still end.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def emit(self, record: logging.LogRecord) -> None:
        line = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        while line:
            try:
                line = line[os.write(self._descriptor, line) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                return  # nobody reads it any longer


class LogWriter(logging.Handler):
    """Takes records from all threads and passes them to `target` on its own thread."""

    def __init__(
        self, target: logging.Handler, repeats: Repeats, lines_waiting_max: int = LINES_WAITING_MAX
    ) -> None:
        super().__init__()
        self._target = target
        self.repeats: Final = repeats
        self._records: queue.Queue[logging.LogRecord | threading.Event | None] = queue.Queue(lines_waiting_max)
        self._dropped = 0
        """Records dropped since the last line about it, because the queue was full."""
        self._runner = threading.Thread(target=self._run, name="hall-log", daemon=True)
        self._runner.start()

    def emit(self, record: logging.LogRecord) -> None:
        # Messages below WARNING, such as the answer to a signal, are never suppressed.
        if record.levelno >= logging.WARNING and not getattr(record, EVENT_ATTRIBUTE, ""):
            topic = Topic(record.levelno, "", record.getMessage())
            if not self.repeats.admit(topic, SAME_LINES_MAX):
                return
        try:
            self._records.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def wait_until_written(self) -> None:
        """Wait until all earlier records are written, at most `CLOSE_WAIT_S`."""
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._records.put(written, timeout=CLOSE_WAIT_S)
            written.wait(CLOSE_WAIT_S)

    def finish(self) -> None:
        """Write all waiting records, within `CLOSE_WAIT_S`."""
        with contextlib.suppress(queue.Full):
            self._records.put(None, timeout=CLOSE_WAIT_S)
            self._runner.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        while True:
            try:
                record = self._records.get(timeout=SUMMARY_PAUSE_S)
            except queue.Empty:
                self._summarise(self.repeats.summaries())
                continue
            if record is None:
                self._summarise(self.repeats.summaries(all_of_them=True))
                return
            if isinstance(record, threading.Event):
                record.set()
                continue
            # Not `handle`: it holds a lock while the write blocks, and the process would wait for it at exit.
            self._target.emit(record)
            self._summarise(self.repeats.summaries())

    def _summarise(self, summaries: list[Summary]) -> None:
        for topic, count, window_s in summaries:
            text = f"{topic.text}: {count} more in {window_s:.1f} s"
            fields: dict[str, str | bytes] = {"repeated": str(count)}
            if topic.door:
                fields["door"] = topic.door
            if topic.queue:
                fields["queue"] = topic.queue
            self._target.emit(_record(topic.level, topic.event, text, fields))
        if self._dropped:
            dropped = self._dropped
            self._dropped -= dropped
            text = f"{dropped} log lines were dropped: they came faster than they could be written"
            self._target.emit(_record(logging.WARNING, "log_dropped", text, {"dropped": str(dropped)}))


def _record(level: int, event: str, text: str, fields: dict[str, str | bytes]) -> logging.LogRecord:
    record = logging.LogRecord("hiringhall", level, "", 0, text, None, None)
    record.__dict__[EVENT_ATTRIBUTE] = event
    record.__dict__[FIELDS_ATTRIBUTE] = fields
    return record


@contextmanager
def logging_to(target: logging.Handler, level: int, log_format: LogFormat) -> Iterator[LogWriter]:
    """Inside the block, all log records of this process go to `target` and nowhere else."""
    target.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    writer = LogWriter(target, Repeats())
    logging.basicConfig(handlers=[writer], level=level, force=True)
    try:
        yield writer
    finally:
        writer.finish()
