"""The thread that writes the log, and those who must not wait for it."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from typing import TYPE_CHECKING

import pytest

from hiringhall.logs.lines import TextFormatter
from hiringhall.logs.repeats import Repeats
from hiringhall.logs.writing import DescriptorHandler, LogWriter, logging_to

if TYPE_CHECKING:
    from collections.abc import Iterator

PIPE_BYTES = 4096


class Gate(logging.Handler):
    """Lets no line through until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.entered.set()
        assert self.opened.wait(30)
        self.lines.append(record.getMessage())


@pytest.fixture(autouse=True)
def _own_root() -> Iterator[None]:
    """The root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def said(number: int, text: str) -> logging.LogRecord:
    return logging.LogRecord("hiringhall", number, "", 0, text, None, None)


def test_whoever_logs_does_not_wait_and_what_finds_no_room_is_counted() -> None:
    gate = Gate()
    writer = LogWriter(gate, Repeats(), lines_waiting_max=3)
    writer.handle(said(logging.INFO, "taken"))
    assert gate.entered.wait(30)
    for number in range(10):
        writer.handle(said(logging.INFO, f"line {number}"))
    gate.opened.set()
    writer.finish()
    assert gate.lines[0] == "taken"
    assert [line for line in gate.lines if line.startswith("line")] == ["line 0", "line 1", "line 2"]
    assert "7 log lines were dropped: they came faster than they could be written" in gate.lines


def test_the_same_message_is_written_once_and_summarised_at_the_end() -> None:
    gate = Gate()
    gate.opened.set()
    writer = LogWriter(gate, Repeats())
    for _ in range(812):
        writer.handle(said(logging.WARNING, "the disk is slow"))
    writer.finish()
    first, summary = gate.lines
    assert first == "the disk is slow"
    assert summary.startswith("the disk is slow: 811 more in ")


def test_earlier_lines_can_be_waited_for() -> None:
    gate = Gate()
    writer = LogWriter(gate, Repeats())
    writer.handle(said(logging.INFO, "first"))
    writer.handle(said(logging.INFO, "second"))
    assert gate.entered.wait(30)
    opener = threading.Timer(0.05, gate.opened.set)
    opener.start()
    writer.wait_until_written()
    assert gate.lines == ["first", "second"]
    opener.join()
    writer.finish()


def test_what_is_no_warning_is_written_each_time() -> None:
    gate = Gate()
    gate.opened.set()
    writer = LogWriter(gate, Repeats())
    for _ in range(3):
        writer.handle(said(logging.INFO, "audit clean"))
    writer.finish()
    assert gate.lines == ["audit clean"] * 3


def test_a_full_pipe_blocks_neither_the_logger_nor_the_end() -> None:
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.write(write_end, b"x" * PIPE_BYTES)
    with logging_to(DescriptorHandler(write_end), logging.INFO, "text"):
        logging.getLogger("hiringhall").warning("nobody reads this")
    os.close(read_end)  # frees the thread
    os.close(write_end)


def test_everything_that_is_logged_goes_to_the_descriptor_in_one_line_each() -> None:
    read_end, write_end = os.pipe()
    with logging_to(DescriptorHandler(write_end), logging.INFO, "text"):
        logging.getLogger("hiringhall").info("first")
        logging.getLogger("other").warning("second\nhalf")
        logging.getLogger("hiringhall").debug("too fine")
    os.close(write_end)
    with os.fdopen(read_end) as lines:
        assert [line.split(" ", 1)[1] for line in lines] == ["INFO    first\n", "WARNING second\\nhalf\n"]


def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(write_end, False)
    handler = DescriptorHandler(write_end)
    handler.setFormatter(TextFormatter())
    words = " ".join(["word"] * 190)

    def write() -> None:
        for _ in range(40):
            handler.emit(said(logging.INFO, words))
        os.close(write_end)

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(read_end) as lines:
        assert [line.rstrip().endswith(words) for line in lines] == [True] * 40
    thread.join()
