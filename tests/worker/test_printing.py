"""Lines to stdout that hold up nobody."""

from __future__ import annotations

import os

from hiringhall.worker.printing import LINES_MAX, Printer


def test_lines_are_written_in_order_before_it_closes() -> None:
    reading, writing = os.pipe()
    printer = Printer(writing)
    for number in range(100):
        printer.write(f"line {number} \ud800\n")
    printer.close()
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        assert file.read().splitlines() == [f"line {number} \\ud800" for number in range(100)]


def test_a_reader_who_does_not_read_costs_lines_and_no_time() -> None:
    reading, writing = os.pipe()
    printer = Printer(writing)
    for _ in range(LINES_MAX + 5000):
        printer.write("x" * 99 + "\n")
    printer.close()
    os.close(reading)
    os.close(writing)


def test_a_reader_who_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    printer = Printer(writing)
    printer.write("nobody hears it\n")
    printer.close()
    os.close(writing)
