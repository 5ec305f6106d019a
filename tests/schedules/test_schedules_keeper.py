"""Schedules in a hall: each due time fires once, on time, whatever happens to the hall and to its clocks."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keeper_stage import MOMENT_US, START_US, KeeperHall

from hiringhall.core.changes import Firing
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.terms import Terms
from hiringhall.schedules.book import Book, BookError
from hiringhall.schedules.keeper import CATCH_UP_MAX, CHECK_US, utc_text
from hiringhall.schedules.plan import Missed, Plan
from hiringhall.storage.data_folder import DataFolder

MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US


@pytest.fixture(autouse=True)
def _hear_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hiringhall")


def every(
    interval_us: int, *, name: str = "x", missed: Missed = "latest", late_us: int = MINUTE_US, key: str = ""
) -> Plan:
    return Plan(
        name=name,
        queue="q",
        every_us=interval_us,
        payload="{due:%H:%M:%S}",
        missed=missed,
        late_us=late_us,
        key=key,
    )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def seconds(*numbers: int) -> list[str]:
    return [f"00:{number // 60:02}:{number % 60:02}" for number in numbers]


# --- on time


def test_a_job_is_on_disk_a_second_ahead_and_starts_on_time() -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.pass_time(9 * SECOND_US - 1)
    assert hall.fired() == []
    hall.pass_time(100_000)
    assert hall.fired() == seconds(10)
    assert hall.starts() == {"00:00:10": 10 * SECOND_US}
    assert hall.work() == []
    hall.pass_time(SECOND_US)
    assert hall.work() == seconds(10)


def test_of_a_close_schedule_a_job_is_handed_in_half_an_interval_ahead() -> None:
    hall = KeeperHall([every(SECOND_US)])
    hall.pass_time(400_000)
    assert hall.fired() == []
    hall.pass_time(200_000)
    assert hall.fired() == seconds(1)
    hall.pass_time(4 * SECOND_US)
    assert hall.fired() == seconds(1, 2, 3, 4, 5)


def test_a_new_schedule_begins_now_and_fires_nothing_of_the_past() -> None:
    hall = KeeperHall([Plan(name="x", queue="q", cron="0 0 * * *", payload="{due}", missed="all")])
    hall.pass_time(2 * DAY_US)
    assert hall.fired() == ["2026-11-17T00:00:00+00:00", "2026-11-18T00:00:00+00:00"]


def test_many_schedules_keep_their_own_times() -> None:
    hall = KeeperHall([every(number * SECOND_US, name=f"n{number}") for number in (8, 12, 15)])
    hall.pass_time(60 * SECOND_US)
    expected = [number for step in (8, 12, 15) for number in range(step, 61, step)]
    assert sorted(hall.fired()) == seconds(*sorted(expected))


def test_between_two_firings_the_keeper_sleeps() -> None:
    hall = KeeperHall([Plan(name="x", queue="q", cron="0 0 * * *")])
    hall.pass_time(10 * SECOND_US)
    assert CHECK_US - 10 * SECOND_US <= hall.next_look_us <= CHECK_US
    assert KeeperHall().next_look_us == CHECK_US


def test_a_live_job_of_the_same_key_is_joined_and_that_counts(caplog: pytest.LogCaptureFixture) -> None:
    hall = KeeperHall([every(10 * SECOND_US, key="only-one")])
    hall.pass_time(30 * SECOND_US)
    assert hall.fired() == seconds(10)
    assert hall.scheduler.firings.by_name["x"].due_us == START_US + 30 * SECOND_US
    joined = [record.getMessage() for record in caplog.records if "joined job" in record.getMessage()]
    assert len(joined) == 2
    assert joined[0].startswith('schedule "x", due 2026-11-16T00:00:20+00:00, joined job ')


def test_a_hall_that_drains_fires_no_more_and_the_next_one_does() -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.pass_time(15 * SECOND_US)
    hall.keeper.stop_taking()
    hall.pass_time(20 * SECOND_US)
    assert hall.fired() == seconds(10)
    hall.reopen_after(0)
    assert hall.fired() == seconds(10, 20, 30)


# --- the hall dies


@pytest.mark.parametrize(
    "moment_us", [0, 1, 8_999_999, 9_000_000, 9_005_000, 9_020_000, 10_000_000, 19_999_999]
)
def test_a_hall_that_dies_at_any_moment_fires_each_due_time_once(moment_us: int) -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.pass_time(100_000)  # the schedule is known to the store
    for _ in range(6):
        hall.pass_time(moment_us % (10 * SECOND_US))
        hall.reopen_after(3 * SECOND_US)
    hall.pass_time(20 * SECOND_US)
    count = (hall.now_us + SECOND_US - START_US) // (10 * SECOND_US)
    assert hall.fired() == seconds(*range(10, 10 * count + 1, 10))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["die", "store fails", "store is slow", "clock is set"]),
        st.integers(0, 25 * SECOND_US),
        st.integers(0, 5 * SECOND_US),
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(EVENTS, st.integers(1, 12))
def test_each_due_time_fires_once_whatever_happens(events: list[tuple[str, int, int]], interval_s: int) -> None:
    interval_us = interval_s * SECOND_US
    hall = KeeperHall([Plan(name="x", queue="q", every_us=interval_us, payload="{due}", missed="all")])
    hall.pass_time(MOMENT_US)  # the schedule is known to the store
    for event, after_us, length_us in events:
        hall.pass_time(after_us)
        if event == "die":
            hall.reopen_after(length_us)
        elif event == "clock is set":
            hall.machine_ahead_us += length_us
        else:
            hall.trouble = "disk full" if event == "store fails" else ""
            hall.held = event == "store is slow"
            hall.pass_time(length_us)
            hall.trouble, hall.held = "", False
            hall.end()
    hall.pass_time(70 * SECOND_US)
    last_us = hall.store.load(0).fired["x"].due_us
    assert last_us > hall.now_us + hall.machine_ahead_us - interval_us - MOMENT_US
    first_us = hall.plans[0].next_due_us(START_US)
    assert hall.fired() == [utc_text(due_us) for due_us in range(first_us, last_us + 1, interval_us)]


def test_a_firing_that_was_not_committed_when_the_hall_died_is_fired_by_the_next_one() -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.pass_time(SECOND_US)
    hall.held = True
    hall.pass_time(10 * SECOND_US)
    assert hall.fired() == []
    hall.held = False
    hall.reopen_after(0)
    assert hall.fired() == seconds(10)


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        # Missed are 10 to 230 s. What was due within the last minute is late, and fires in any case.
        ("latest", [230, 240, 250, 260, 270, 280, 290]),
        ("all", list(range(10, 291, 10))),
        ("skip", [240, 250, 260, 270, 280, 290]),
    ],
)
def test_what_was_missed(missed: Missed, expected: list[int], caplog: pytest.LogCaptureFixture) -> None:
    hall = KeeperHall([every(10 * SECOND_US, missed=missed)])
    hall.pass_time(SECOND_US)
    hall.reopen_after(297 * SECOND_US)
    assert hall.fired() == seconds(*expected)
    (told,) = warnings(caplog)
    assert told.startswith(
        'schedule "x" missed its due times from 2026-11-16T00:00:10+00:00 to 2026-11-16T00:03:50+00:00: '
    )
    assert told.endswith(
        {
            "latest": "fired for 1 of them, from 2026-11-16T00:03:50+00:00 on",
            "all": "fired for 23 of them, from 2026-11-16T00:00:10+00:00 on",
            "skip": "skipped",
        }[missed]
    )
    hall.reopen_after(0)
    assert hall.fired() == seconds(*expected)


def test_what_is_late_by_no_more_than_it_may_be_is_not_missed(caplog: pytest.LogCaptureFixture) -> None:
    hall = KeeperHall([every(HOUR_US, missed="skip", late_us=600 * SECOND_US)])
    hall.pass_time(HOUR_US - 2 * SECOND_US)
    hall.reopen_after(602 * SECOND_US)
    assert hall.fired() == ["01:00:00"]
    assert warnings(caplog) == []


def test_a_timer_that_is_hardly_late_makes_no_due_time_missed(caplog: pytest.LogCaptureFixture) -> None:
    hall = KeeperHall([every(10 * SECOND_US, missed="skip", late_us=0)])
    hall.timers_late_us = 1000
    hall.machine_ahead_us = SECOND_US // 2  # so that nothing is handed in ahead
    hall.pass_time(95 * SECOND_US)
    assert hall.fired()[-2:] == seconds(80, 90)
    assert warnings(caplog) == []


def test_of_very_many_missed_times_the_latest_thousand_fire(caplog: pytest.LogCaptureFixture) -> None:
    hall = KeeperHall([every(SECOND_US, missed="all")])
    hall.pass_time(100_000)
    hall.reopen_after(DAY_US - 100_000)
    fired = hall.fired()
    assert (fired[0], fired[-1]) == ("23:42:20", "00:00:00")
    assert len(fired) == CATCH_UP_MAX + 61  # those of the last minute are late, not missed
    assert [
        f"fired for {CATCH_UP_MAX} of them, from 2026-11-16T23:42:20+00:00 on" in told
        for told in warnings(caplog)
    ] == [True]


# --- the store and the limits


def test_a_firing_whose_commit_fails_is_fired_again_when_the_store_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.pass_time(SECOND_US)
    hall.trouble = "disk full"
    hall.pass_time(15 * SECOND_US)
    assert hall.fired() == []
    assert hall.scheduler.firings.by_name["x"].due_us < START_US + 10 * SECOND_US
    assert [line for line in warnings(caplog) if "cannot fire" in line] == [
        'schedule "x" cannot fire, and will be retried: store_down: disk full'
    ]
    hall.trouble = ""
    hall.pass_time(8 * SECOND_US)
    assert hall.fired() == seconds(10, 20)
    assert any(record.getMessage() == 'schedule "x" fires again' for record in caplog.records)


def test_a_store_that_is_down_for_long_makes_due_times_missed() -> None:
    hall = KeeperHall([every(10 * SECOND_US, missed="skip")])
    hall.pass_time(SECOND_US)
    hall.trouble = "disk full"
    hall.pass_time(200 * SECOND_US)
    hall.trouble = ""
    hall.pass_time(10 * SECOND_US)
    fired = hall.fired()
    assert fired[-1] == "00:03:30"
    assert fired == seconds(*range(210 - 10 * (len(fired) - 1), 211, 10))
    assert 6 <= len(fired) <= 8


def test_a_new_schedule_whose_beginning_is_not_stored_begins_when_it_can_be() -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.trouble = "disk full"
    hall.reopen_after(0)
    hall.pass_time(25 * SECOND_US)
    hall.trouble = ""
    hall.pass_time(20 * SECOND_US)
    assert hall.fired()[-1] == "00:00:40"
    assert hall.store.load(0).fired["x"].due_us == START_US + 40 * SECOND_US


def test_a_full_hall_is_asked_again_until_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.limits = Limits(jobs_max=1)
    hall.open()
    hall.loop.run_soon(lambda: None)
    blocker = hall.scheduler.submit(JobSpec(b"other", b"", b"", Terms(durable=True, detached=True)), None)
    hall.end()
    hall.pass_time(12 * SECOND_US)
    assert hall.fired() == []
    assert len(warnings(caplog)) == 1
    assert "hall_full" in warnings(caplog)[0]
    hall.begin()
    hall.scheduler.cancel(blocker, b"")
    hall.end()
    hall.pass_time(SECOND_US + MOMENT_US)
    assert hall.fired() == seconds(10)


def test_a_refusal_in_the_middle_of_catching_up_leaves_out_nothing() -> None:
    hall = KeeperHall([every(10 * SECOND_US, missed="all")])
    hall.pass_time(SECOND_US)
    hall.limits = Limits(jobs_max=3)
    hall.reopen_after(200 * SECOND_US)
    assert hall.fired() == seconds(10, 20, 30)
    hall.limits = Limits()
    hall.reopen_after(0)
    assert hall.fired() == seconds(*range(10, 201, 10))


# --- plans come, change and go


def test_a_schedule_that_is_due_at_other_times_begins_anew() -> None:
    hall = KeeperHall([every(10 * SECOND_US, missed="all")])
    hall.pass_time(15 * SECOND_US)
    hall.plans = [every(8 * SECOND_US, missed="all")]
    hall.reopen_after(100 * SECOND_US)
    hall.pass_time(6 * SECOND_US)
    assert hall.fired() == seconds(10, 120)


def test_another_payload_does_not_make_a_schedule_begin_anew() -> None:
    hall = KeeperHall([every(10 * SECOND_US, missed="all")])
    hall.pass_time(15 * SECOND_US)
    hall.plans = [Plan(name="x", queue="q", every_us=10 * SECOND_US, payload="new {due:%S}", missed="all")]
    hall.reopen_after(20 * SECOND_US)
    assert hall.fired() == ["00:00:10", "new 20", "new 30"]


def test_what_was_fired_ahead_is_not_fired_again_by_the_changed_plan() -> None:
    hall = KeeperHall([Plan(name="x", queue="q", cron="10 0 0 * * *", payload="old")])
    hall.pass_time(9 * SECOND_US + 500_000)
    assert hall.fired() == ["old"]
    hall.plans = [Plan(name="x", queue="q", cron="10,20 0 0 * * *", payload="new")]
    hall.reopen_after(0)
    hall.pass_time(5 * SECOND_US)
    assert hall.fired() == ["old"]
    hall.pass_time(5 * SECOND_US)
    assert hall.fired() == ["old", "new"]


def test_a_schedule_that_is_gone_is_forgotten_and_comes_back_as_a_new_one() -> None:
    hall = KeeperHall([every(10 * SECOND_US, missed="all")])
    hall.pass_time(15 * SECOND_US)
    hall.plans = []
    hall.reopen_after(0)
    hall.pass_time(SECOND_US)
    assert hall.store.load(0).fired == {}
    hall.plans = [every(10 * SECOND_US, missed="all")]
    hall.reopen_after(100 * SECOND_US)
    hall.pass_time(5 * SECOND_US)
    assert hall.fired() == seconds(10, 120)


def test_the_book_is_read_again_when_the_hall_is_told(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path))
    hall = KeeperHall([every(10 * SECOND_US, name="file")], book)
    hall.pass_time(2 * SECOND_US)
    book.add(every(4 * SECOND_US, name="booked"))
    hall.pass_time(8 * SECOND_US)
    assert hall.fired() == seconds(10)
    hall.reread()
    hall.pass_time(SECOND_US + MOMENT_US)
    assert hall.fired() == seconds(10, 12)
    book.remove("booked")
    hall.reread()
    hall.pass_time(9 * SECOND_US)
    assert hall.fired() == seconds(10, 12, 20)
    assert list(hall.scheduler.firings.by_name) == ["file"]


def test_no_hall_opens_with_a_broken_book(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path))
    book.add(every(10 * SECOND_US, name="booked"))
    hall = KeeperHall([], book)
    Path(book.where).write_text("{")
    with pytest.raises(BookError):
        hall.reopen_after(0)


def test_a_name_in_both_places_means_the_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    book = Book(DataFolder(tmp_path))
    book.add(every(3 * SECOND_US))
    hall = KeeperHall([every(10 * SECOND_US)], book)
    hall.pass_time(12 * SECOND_US)
    assert hall.fired() == seconds(10)
    assert warnings(caplog) == ['schedule "x" is in the settings and in the book: the settings win']


def test_a_hall_that_drains_takes_no_more_news(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path))
    hall = KeeperHall([], book)
    hall.keeper.stop_taking()
    book.add(every(SECOND_US))
    hall.reread()
    hall.pass_time(5 * SECOND_US)
    assert hall.fired() == []


# --- clocks that are set


def test_a_machine_that_slept_finds_out_within_a_minute_and_goes_by_what_was_missed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hall = KeeperHall([every(HOUR_US)])
    hall.pass_time(MINUTE_US)
    hall.machine_ahead_us = 3 * HOUR_US + 30 * MINUTE_US  # the hall's own clock stood still
    hall.pass_time(MINUTE_US)
    assert hall.fired() == ["03:00:00"]
    assert warnings(caplog)[0] == "the system clock changed by +12600.0 s: schedules follow it"
    assert (
        "missed its due times from 2026-11-16T01:00:00+00:00 to 2026-11-16T03:00:00+00:00"
        in warnings(caplog)[1]
    )
    hall.pass_time(28 * MINUTE_US - 1)
    assert hall.fired() == ["03:00:00"]
    hall.pass_time(MINUTE_US)
    assert hall.fired() == ["03:00:00", "04:00:00"]
    assert hall.work() == ["03:00:00", "04:00:00"]


def test_a_clock_set_back_fires_nothing_twice(caplog: pytest.LogCaptureFixture) -> None:
    hall = KeeperHall([every(10 * MINUTE_US)])
    hall.pass_time(35 * MINUTE_US)
    assert len(hall.fired()) == 3
    hall.machine_ahead_us = -20 * MINUTE_US
    hall.pass_time(20 * MINUTE_US)
    assert len(hall.fired()) == 3
    assert 'schedule "x" has already fired until 2026-11-16T00:30:00+00:00, and waits until then' in (
        warnings(caplog)
    )
    hall.pass_time(6 * MINUTE_US)
    assert hall.fired() == ["00:10:00", "00:20:00", "00:30:00", "00:40:00"]
    hall.machine_ahead_us -= 20 * MINUTE_US
    hall.pass_time(2 * MINUTE_US)
    waiting = [text for text in warnings(caplog) if "waits until then" in text]
    assert len(waiting) == 2, "the second time it is told as well, and once"
    assert "until 2026-11-16T00:40:00+00:00" in waiting[1]


def test_clocks_that_hardly_differ_agree() -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.machine_ahead_us = 50_000
    hall.pass_time(9 * SECOND_US + 500_000)
    assert hall.starts() == {"00:00:10": 10 * SECOND_US}


# --- what the store holds


def test_the_store_knows_how_far_each_schedule_has_come() -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.pass_time(SECOND_US)
    assert hall.store.load(0).fired == {"x": Firing(START_US, hall.plans[0].digest)}
    hall.pass_time(9 * SECOND_US)
    assert hall.store.load(0).fired == {"x": Firing(START_US + 10 * SECOND_US, hall.plans[0].digest)}
