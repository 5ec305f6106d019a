"""Schedules at the native door of a real hall: added, listed, replaced and removed, on disk and in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hall_process import HallProcess, wait_until
from native_peer import NativeError, NativePeer

from hiringhall.schedules.book import Book
from hiringhall.schedules.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NIGHTLY: dict[str, Any] = {"name": b"nightly", "queue": b"report", "payload": b"[]", "cron": "0 3 * * *"}
IN_SETTINGS = '[[schedule]]\nname = "fixed"\nqueue = "q"\nevery = "1h"\n'


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    with HallProcess(tmp_path, door={"dialect": "native"}, more=IN_SETTINGS) as hall:
        yield hall


def names(peer: NativePeer) -> list[str]:
    return [line["name"] for line in peer.ask("schedules", None)]


def test_a_schedule_is_on_disk_when_it_is_acknowledged_and_survives_kill_9(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann:
        terms = {"retries": 3, "timeout_us": 60_000_000, "keep_us": 3_600_000_000, "priority": "low"}
        ann.ask("schedule", {**NIGHTLY, "timezone": "Europe/Vienna", "terms": terms})
        hall.kill()
    hall.start()
    with NativePeer(hall.port) as ann:
        fixed, nightly = ann.ask("schedules", None)
        assert (fixed["name"], fixed["defined"], fixed["every"]) == ("fixed", "settings", "1h")
        assert (nightly["defined"], nightly["cron"]) == (hall.documents.where("schedules.json"), "0 3 * * *")
        assert (nightly["retries"], nightly["priority"], nightly["terms"]) == (
            3,
            "low",
            {"timeout_us": 60_000_000, "keep_us": 3_600_000_000},
        )
        assert len(nightly["next"]) == 3
        assert ann.ask("schedules", (1, 1)) == [nightly]
        ann.ask("unschedule", (b"nightly",))
        assert list(Book(hall.documents).read()) == []
        assert names(ann) == ["fixed"]


@pytest.mark.parametrize("storage", ["sqlite", "memory"])
def test_a_schedule_fires_with_its_terms_until_it_is_removed(tmp_path: Path, storage: str) -> None:
    with (
        HallProcess(tmp_path, hall={"storage": storage}, door={"dialect": "native"}) as hall,
        NativePeer(hall.port) as ann,
        NativePeer(hall.port) as bob,
    ):
        every = {"name": "often", "queue": "tick", "payload": b"{due:%Y}", "every_us": 1_000_000}
        ann.ask("schedule", {**every, "terms": {"timeout_us": 7_000_000}})
        bob.work(b"tick")
        lease, _, queue, payload, *_, run_us = bob.hear("assign")
        assert (queue, payload[:2], run_us) == (b"tick", b"20", 7_000_000)
        ann.ask("schedule", {**every, "every_us": 3_600_000_000, "replace": True})
        (line,) = ann.ask("schedules", None)
        assert (line["every"], line["terms"]) == ("1h", {})
        ann.ask("unschedule", ("often",))
        assert ann.ask("schedules", None) == []
        bob.ask("finish", (lease, b""))


def test_the_jobs_of_a_schedule_go_to_a_worker_that_has_what_they_need(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as small, NativePeer(hall.port) as large:
        needs = {"resources": "cpus=4", "limit_key": "k", "tenant": "acme"}
        ann.ask("schedule", {**NIGHTLY, "terms": needs})
        assert ann.ask("schedules", (1, 1))[0]["terms"] == needs
        queues = [(b"report", 0, 0)]
        small.ask("work", (b"small", 1, queues, -1, 0, ("cpus=2", b"")))
        by_hand = ann.ask("run_schedule", (b"nightly",))
        stated = {"durable": True, "resources": b"cpus=4", "limit_key": b"k", "tenant": b"acme"}
        assert ann.ask("job", (by_hand,))["terms"] == stated
        assert ann.ask("job", (by_hand,))["why"] == "it needs cpus=4; no worker has more than 2"
        large.ask("work", (b"large", 1, queues, -1, 0, ("cpus=8", b"")))
        lease, given_id, *_, given = large.hear("assign")
        assert (given_id, given) == (by_hand, b"cpus=4")
        large.ask("finish", (lease, b""))


def test_bad_schedules_are_refused_by_the_name_of_the_field(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann:
        ann.ask("schedule", NIGHTLY)
        for change, text in [
            ({"queue": b""}, "queue: is missing"),
            ({"cron": "61 * * * *"}, 'cron: "61 * * * *" is not a cron expression'),
            ({"cron": ""}, "cron: is missing; set cron or every"),
            ({"every_us": 5_000_000}, "cron: and every are both set"),
            ({"cron": "", "every_us": 5}, 'every_us: must be "1s" or more'),
            ({"timezone": "Mars"}, 'timezone: "Mars" is not a known time zone'),
            ({"payload": b"\xff"}, "payload: is not UTF-8 text"),
            ({"name": b"x" * 65}, "name: must have 1 to 64 printable characters"),
            ({"queue": b"q" * 600}, "queue: is too long"),
            ({"terms": {"durable": False, "detached": True}}, "terms: durable must be true"),
            ({"terms": {"colour": 1}}, "terms: 'colour' is not known"),
            ({"terms": {"resources": "cpus"}}, "resources: 'cpus' must be NAME=AMOUNT"),
            ({"terms": {"throttle_us": 5}}, "terms: jobs of a schedule have no flow"),
            ({"color": 1}, "'color' is not a field of this request"),
            ({"replace": 1}, "replace: must be true or false"),
            ({}, 'name: there is already a schedule "nightly"'),
            ({"name": b"fixed"}, 'name: schedule "fixed" is defined in the settings'),
        ]:
            with pytest.raises(NativeError) as caught:
                ann.ask("schedule", {**NIGHTLY, **change})
            assert caught.value.args[0] == "bad_request", change
            assert str(caught.value.args[1]).startswith(text), caught.value
        for name, text in [(b"nobody", 'name: there is no schedule "nobody"'), (b"fixed", "name: schedule")]:
            with pytest.raises(NativeError) as caught:
                ann.ask("unschedule", (name,))
            assert caught.value.args[0] == "bad_request"
            assert str(caught.value.args[1]).startswith(text)
        assert names(ann) == ["fixed", "nightly"]


def test_what_the_command_and_the_door_change_is_one_book(hall: HallProcess) -> None:
    """Many changes at once, by both: none is lost, and the hall knows what the book says."""
    with NativePeer(hall.port) as ann:
        for number in range(20):
            ann.send("schedule", {**NIGHTLY, "name": b"n%d" % number}, 100 + number)
            Book(hall.documents).add(Plan(name=f"b{number}", queue="q", cron="0 3 * * *"))
        for number in range(20):
            assert ann.answer(100 + number) is None
        hall.process.send_signal(1)
        written = Book(hall.documents).read()
        assert len(written) == 40
        wait_until(lambda: names(ann) == sorted([*written, "fixed"]), "the hall has read the book")


@pytest.mark.sqlite  # it damages the file of the book
def test_a_book_that_cannot_be_written_is_told(hall: HallProcess) -> None:
    (hall.data / "schedules.json").write_bytes(msgspec.json.encode({"version": 7}))
    with NativePeer(hall.port) as ann:
        with pytest.raises(NativeError, match="store_down"):
            ann.ask("schedule", NIGHTLY)
        assert names(ann) == ["fixed"]


@pytest.mark.parametrize("storage", ["sqlite", "memory"])
def test_a_schedule_is_paused_resumed_and_run_by_hand(tmp_path: Path, storage: str) -> None:
    with (
        HallProcess(tmp_path, hall={"storage": storage}, door={"dialect": "native"}, more=IN_SETTINGS) as hall,
        NativePeer(hall.port) as ann,
    ):
        ann.ask("schedule", NIGHTLY)
        for name in (b"fixed", b"nightly"):
            ann.ask("pause_schedule", (name,))
        lines = ann.ask("schedules", None)
        assert [(line["paused"], line["next"]) for line in lines] == [(True, [])] * 2
        job = ann.ask("run_schedule", (b"nightly",))
        assert ann.ask("job", (job,))["queue"] == b"report"
        lines = ann.ask("schedules", None)
        assert [line["last_id"] for line in lines] == [None, job]
        assert lines[1]["last_state"] == "queued"
        ann.ask("resume_schedule", ("nightly",))
        assert [line["paused"] for line in ann.ask("schedules", None)] == [True, False]
        if storage == "sqlite":
            hall.kill()
            hall.start()
            with NativePeer(hall.port) as bob:
                assert [line["paused"] for line in bob.ask("schedules", None)] == [True, False]
                assert bob.ask("job", (job,))["state"] == "queued"


@pytest.mark.parametrize("kind", ["pause_schedule", "resume_schedule", "run_schedule"])
def test_an_unknown_schedule_is_neither_paused_nor_run(hall: HallProcess, kind: str) -> None:
    with NativePeer(hall.port) as ann:
        for body in ((b"nobody",), (b"\xff",), (7,), None, ()):
            with pytest.raises(NativeError) as refused:
                ann.ask(kind, body)
            assert refused.value.args[0] == "bad_request"
        assert names(ann) == ["fixed"]
