"""The audit log: a line for each change, on disk and in memory, rotated, for its owner alone."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
from typing import TYPE_CHECKING

import msgspec

from hiringhall.access import audit_log as audit_module
from hiringhall.access.audit_log import FILE, AuditLog
from hiringhall.storage import data_folder
from hiringhall.storage.data_folder import DataFolder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def lines(path: Path) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def noted(folder: Path | None, *entries: dict[str, object], bytes_max: int = 1 << 20) -> AuditLog:
    """A log that was closed after these entries."""
    log = AuditLog(None if folder is None else DataFolder(folder, bytes_max))
    log.load()
    for entry in entries:
        log.note(entry)
    asyncio.run(log.close())
    return log


def test_each_change_is_a_line_and_the_latest_come_first(tmp_path: Path) -> None:
    log = noted(tmp_path, {"what": "cancel", "job": "5"}, {"what": "pause", "queue": "\u2028\x00\n\u00fc"})
    assert lines(tmp_path / FILE) == [
        {"what": "cancel", "job": "5"},
        {"what": "pause", "queue": "\u2028\x00\n\u00fc"},
    ]
    assert [entry["what"] for entry in log.latest(10)] == ["pause", "cancel"]
    assert [entry["what"] for entry in log.latest(1)] == ["pause"]
    assert log.latest(0) == []


def test_what_comes_when_the_hall_closes_is_written_too(tmp_path: Path) -> None:
    log = noted(tmp_path, {"n": 1})
    log.note({"n": 2})
    assert lines(tmp_path / FILE) == [{"n": 1}, {"n": 2}]


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        noted(tmp_path, {"n": 1})
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_it_is_there_after_a_restart_without_what_cannot_be_read(tmp_path: Path) -> None:
    noted(tmp_path, {"n": 1}, {"n": 2})
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"n": 3\n[4]\n\xff\n')
    log = noted(tmp_path, {"n": 5})
    assert [entry["n"] for entry in log.latest(1000)] == [5, 2, 1]


def test_four_files_are_kept(tmp_path: Path) -> None:
    for number in range(8):
        noted(tmp_path, {"n": number}, bytes_max=12)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [FILE, f"{FILE}.1", f"{FILE}.2", f"{FILE}.3"]
    assert [lines(tmp_path / name)[0]["n"] for name in names] == [7, 6, 5, 4]
    log = noted(tmp_path)
    assert [entry["n"] for entry in log.latest(10)] == [7, 6, 5, 4]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = tmp_path / "other"
    other.write_text("")
    (tmp_path / FILE).symlink_to(other)
    with caplog.at_level(logging.ERROR):
        noted(tmp_path, {"n": 1})
    assert other.read_text() == ""
    assert "cannot be written" in caplog.text


def test_a_hall_in_memory_keeps_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(None)
    for number in range(1500):
        log.note({"n": number})
    assert [entry["n"] for entry in log.latest(2000)] == list(range(1499, 499, -1))


def test_lines_that_could_not_be_written_come_later_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()
    sync = os.fsync

    def full(descriptor: int) -> None:
        if not failed.is_set():
            failed.set()
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(data_folder.os, "fsync", full)
    monkeypatch.setattr(audit_module, "RETRY_S", 0.01)
    log = AuditLog(DataFolder(tmp_path))
    with caplog.at_level(logging.ERROR):
        log.note({"n": 1})
        assert failed.wait(10)
        log.note({"n": 2})
        monkeypatch.setattr(audit_module, "RETRY_S", 10.0)
        asyncio.run(log.close())
    assert lines(tmp_path / FILE) == [{"n": 1}, {"n": 2}]
    assert "No space left" in caplog.text


def test_what_comes_too_fast_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writing, go_on = threading.Event(), threading.Event()
    append = data_folder._append

    def slow(path: Path, data: bytes, bytes_max: int) -> None:
        writing.set()
        assert go_on.wait(10)
        append(path, data, bytes_max)

    monkeypatch.setattr(data_folder, "_append", slow)
    monkeypatch.setattr(audit_module, "UNWRITTEN_MAX", 2)
    log = AuditLog(DataFolder(tmp_path))
    with caplog.at_level(logging.ERROR):
        log.note({"n": 1})
        assert writing.wait(10)
        for number in (2, 3, 4):
            log.note({"n": number})
        go_on.set()
        asyncio.run(log.close())
    assert lines(tmp_path / FILE) == [{"n": 1}, {"n": 2}]
    assert "lost 2 lines" in caplog.text
