"""The manager's side, one message after the other: whom it wakes, what it gives, and how a job ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wmp_story import LEASE_US, STEP_US, TAKE_1, WAKE_US, Story

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp.manager_state import (
    LOST_HOLDERS_MAX,
    SECOND_US,
    ManagerState,
    ManagerTerms,
    Outcome,
)


def test_ready_wake_give_take_done() -> None:
    story = Story()
    story.ready("d/w")
    assert story.hush() == [], "no job, no word"
    story.submit()
    assert story.hush() == ["d/w WAKE role=r"]
    story.give("d/w")
    assert story.hush() == [f"d/w {TAKE_1}"]
    story.status("d/w", b"L-1", (b"progress", b"3/8"))
    story.status("d/w", b"L-1", payload=b"piece")
    story.status("d/w", b"L-1")
    assert [tuple(news)[1:] for news in story.news] == [(3, 8), (b"piece",)]
    story.done("d/w", b"L-1", payload=b"result")
    assert story.ends == [(b"L-1", Outcome("ok", 0, b"result"))]
    assert (story.hush(), story.desk.jobs, story.desk.next_deadline()) == ([], {}, None)


def test_the_key_goes_with_the_job() -> None:
    story = Story()
    story.desk.submit(b"r", b"", b"k", 0)
    story.give("w")
    assert story.hush() == ["w TAKE job=L-1 role=r key=k lease=30"]


def test_as_many_are_woken_as_there_are_jobs_and_no_more() -> None:
    story = Story()
    for name in "abcd":
        story.ready(name)
    story.submit()
    story.submit()
    assert story.hush() == ["a WAKE role=r", "b WAKE role=r"], "who was ready first comes first"
    story.give("a")
    story.submit()
    assert story.hush() == [f"a {TAKE_1}", "c WAKE role=r"]


def test_only_workers_with_the_role_are_woken() -> None:
    story = Story()
    story.ready("a", b"other")
    story.ready("b", b"r", b"other")
    story.submit(b"r")
    assert story.hush() == ["b WAKE role=r"]
    story.submit(b"other")
    assert story.hush() == ["a WAKE role=other"]


def test_a_ready_is_remembered_until_it_is_answered_with_take() -> None:
    story = Story()
    story.ready("w")
    story.ready("w")
    story.submit()
    story.submit()
    assert story.hush() == ["w WAKE role=r"], "one READY, one WAKE"
    story.give("w")
    assert story.hush() == [f"w {TAKE_1}"], "and it is not woken for the second job before it is ready again"
    story.ready("w")
    assert story.hush() == ["w WAKE role=r"]


def test_no_keeps_the_ready() -> None:
    story = Story()
    story.ready("w")
    ticket = story.submit()
    story.do(story.desk.cancel(ticket))
    story.give("w")
    assert story.hush() == ["w WAKE role=r", "w NO role=r"]
    story.submit()
    assert story.hush() == ["w WAKE role=r"]


def test_the_latest_roles_count() -> None:
    story = Story()
    story.ready("w", b"r", b"s")
    story.ready("w", b"t")
    story.submit(b"r")
    story.submit(b"s")
    assert story.hush() == []
    story.submit(b"t")
    assert story.hush() == ["w WAKE role=t"]


def test_who_does_not_answer_a_wake_is_passed_over_and_forgotten() -> None:
    story = Story()
    story.ready("a")
    story.ready("b")
    story.submit()
    story.hush()
    story.pass_to(STEP_US - 1)
    assert story.hush() == []
    story.pass_to(STEP_US)
    assert story.hush() == ["b WAKE role=r"]
    story.pass_to(2 * WAKE_US)
    assert (story.hush(), story.desk.next_deadline()) == ([], None)
    story.ready("a")
    assert story.hush() == ["a WAKE role=r"]


def test_of_many_who_do_not_answer_twice_as_many_are_woken_each_time() -> None:
    story = Story()
    for number in range(20):
        story.ready(f"busy{number}")
    story.ready("free")
    story.submit()
    circles = [len(story.hush())]
    for step in range(1, 5):
        story.pass_to(step * STEP_US)
        circles.append(len(story.hush()))
    assert circles == [1, 2, 4, 8, 6], "and then all have been woken"
    story.give("free")
    assert story.hush() == [f"free {TAKE_1}"]


def test_who_answers_leaves_the_others_asleep() -> None:
    story = Story()
    for name in "abcdefgh":
        story.ready(name)
    story.submit()
    story.pass_to(STEP_US)
    assert story.hush() == ["a WAKE role=r", "b WAKE role=r", "c WAKE role=r"]
    story.give("b")
    story.pass_to(2 * WAKE_US)
    assert story.hush() == [f"b {TAKE_1}"]


def test_a_ready_some_time_after_an_unanswered_wake_counts_at_once() -> None:
    story = Story()
    story.ready("w")
    story.submit()
    story.pass_to(STEP_US)
    story.ready("w")
    assert story.hush() == ["w WAKE role=r", "w WAKE role=r"]


def test_who_was_ready_once_more_after_a_wake_is_woken_again() -> None:
    story = Story()
    story.ready("w")
    story.submit()
    story.ready("w")
    assert story.hush() == ["w WAKE role=r"]
    story.pass_to(WAKE_US)
    assert story.hush() == ["w WAKE role=r"]


def test_give_without_a_wake_is_served() -> None:
    story = Story()
    story.give("w")
    assert story.hush() == ["w NO role=r"]
    story.submit()
    story.give("w")
    assert story.hush() == [f"w {TAKE_1}"]


def test_give_for_another_role_than_that_of_the_wake() -> None:
    story = Story()
    story.ready("a", b"r", b"s")
    story.ready("b", b"r")
    story.submit(b"r")
    story.hush()
    story.give("a", b"s")
    assert story.hush() == ["a NO role=s", "b WAKE role=r"]


@pytest.mark.parametrize("code", [b"", b"7"])
def test_a_failure_is_an_end(code: bytes) -> None:
    story = Story()
    story.submit()
    story.give("w")
    headers = [(b"status", b"failed"), *([(b"code", code)] if code else [])]
    story.done("w", b"L-1", *headers, payload=b"why")
    assert story.ends == [(b"L-1", Outcome("failed", int(code or b"1"), b"why"))]


def test_a_declined_job_goes_to_the_next() -> None:
    story = Story()
    story.submit()
    story.submit()
    story.give("a")
    story.ready("b")
    story.hush()
    story.done("a", b"L-1", (b"status", b"declined"))
    story.give("b")
    assert story.hush()[-1] == f"b {TAKE_1}", "before the second one"
    story.done("b reconnected", b"L-1", (b"status", b"declined"))
    story.give("c")
    assert story.hush() == [f"c {TAKE_1}"]
    assert story.ends == []


def test_who_has_lost_a_job_cannot_give_it_back() -> None:
    story = Story()
    story.submit()
    story.give("a")
    story.pass_to(LEASE_US)
    story.give("b")
    story.hush()
    story.done("a", b"L-1", (b"status", b"declined"))
    story.give("c")
    assert story.hush() == ["c NO role=r"]


def test_give_without_a_role_is_for_any_of_those_named_in_ready() -> None:
    story = Story()
    story.submit(b"other")
    story.hear("w", wire.GIVE)
    assert story.hush() == ["w NO"], "it never said what it can do"
    story.ready("w", b"r", b"other")
    story.hush()
    story.hear("w", wire.GIVE)
    assert story.hush() == ["w TAKE job=L-1 role=other lease=30 | pay"]
    story.ready("w", b"r", b"other")
    story.hear("w", wire.GIVE)
    assert story.hush() == ["w NO"]


def test_who_is_silent_about_a_job_loses_it() -> None:
    story = Story()
    story.submit()
    story.give("a")
    story.pass_to(LEASE_US - 1)
    story.status("a", b"L-1")
    story.pass_to(2 * LEASE_US - 2)
    story.ready("b")
    story.hush()
    story.pass_to(2 * LEASE_US - 1)
    assert story.hush() == ["a CANCEL job=L-1", "b WAKE role=r"]
    story.status("a", b"L-1")
    assert story.hush() == ["a CANCEL job=L-1"], "it has not heard that nobody waits for it"
    story.give("b")
    story.hush()
    story.status("a", b"L-1", payload=b"ghost")
    assert story.hush() == ["a CANCEL job=L-1"]
    assert story.news == []


def test_the_first_result_counts_whoever_brings_it() -> None:
    story = Story()
    story.submit()
    story.give("a")
    story.pass_to(LEASE_US)
    story.give("b")
    story.hush()
    story.done("a", b"L-1", payload=b"late, but first")
    assert story.hush() == ["b CANCEL job=L-1"]
    story.done("b", b"L-1", payload=b"second")
    assert story.ends == [(b"L-1", Outcome("ok", 0, b"late, but first"))]
    assert story.desk.late == 1


def test_a_result_for_a_job_that_waits_again() -> None:
    story = Story()
    story.submit()
    story.give("a")
    story.pass_to(LEASE_US)
    story.done("a", b"L-1", payload=b"late")
    assert story.ends == [(b"L-1", Outcome("ok", 0, b"late"))]
    story.give("b")
    assert story.hush()[-1] == "b NO role=r"


def test_who_reconnects_has_another_path_and_the_same_job() -> None:
    story = Story()
    ticket = story.submit()
    story.give("old")
    story.pass_to(LEASE_US - 1)
    story.status("new", b"L-1")
    story.pass_to(LEASE_US + 1)
    assert story.ends == []
    story.hush()
    story.do(story.desk.cancel(ticket))
    assert story.hush() == ["new CANCEL job=L-1"]


def test_a_job_that_is_lost_for_ever_remembers_the_latest_of_those_who_lost_it() -> None:
    story = Story(readys_max=LOST_HOLDERS_MAX + 10)
    ticket = story.submit()
    for number in range(LOST_HOLDERS_MAX + 3):
        story.ready(f"w{number}")
        story.give(f"w{number}")
        story.pass_to(story.now_us + LEASE_US)
    assert list(ticket.lost_holders) == [(b"w%d" % number,) for number in range(3, LOST_HOLDERS_MAX + 3)]
    story.ready("w")
    story.give("w")
    story.hush()
    story.status(f"w{LOST_HOLDERS_MAX + 2}", b"L-1")
    assert story.hush() == [f"w{LOST_HOLDERS_MAX + 2} CANCEL job=L-1"], "a late one does not have it any more"
    story.done("w", b"L-1")
    assert len(story.ends) == 1


def test_a_job_that_was_lost_may_come_back_to_the_same_worker() -> None:
    story = Story()
    story.submit()
    story.give("a")
    story.pass_to(LEASE_US)
    story.give("a")
    story.hush()
    story.status("a", b"L-1", payload=b"piece")
    assert (story.hush(), len(story.news)) == ([], 1)


def test_a_job_that_loses_too_many_workers_has_failed() -> None:
    story = Story(losses_max=2)
    story.submit()
    for number in (1, 2):
        story.give("w")
        story.pass_to(number * LEASE_US)
    assert story.ends == [(b"L-1", Outcome("failed", 1, b"2 workers were lost while they had it"))]
    assert story.hush()[-1] == "w CANCEL job=L-1"


def test_cancel() -> None:
    story = Story()
    waiting, given_away = story.submit(), story.submit()
    story.give("w")
    story.hush()
    story.do(story.desk.cancel(given_away))
    assert story.hush() == []
    story.do(story.desk.cancel(waiting))
    assert story.hush() == ["w CANCEL job=L-1"]
    story.do(story.desk.cancel(waiting))
    assert [end for _, end in story.ends] == [Outcome("cancelled", 0, b"")] * 2
    story.status("w", b"L-1")
    assert story.hush() == ["w CANCEL job=L-1"], "the first one may have been lost"


def test_a_message_that_cannot_be_sent() -> None:
    story = Story()
    for name in "abc":
        story.ready(name)
    story.submit()
    wake = story.posts[0]
    assert story.hush() == ["a WAKE role=r"]
    story.do(story.desk.undelivered(wake, 0))
    assert story.hush() == ["b WAKE role=r"], "at once, and not after the wake time"
    story.give("b")
    take = story.posts[0]
    assert story.hush() == [f"b {TAKE_1}"]
    story.do(story.desk.undelivered(take, 0))
    assert story.hush() == ["c WAKE role=r"]
    story.give("c")
    assert story.hush() == [f"c {TAKE_1}"]
    story.do(story.desk.undelivered(take, 0))
    assert story.hush() == [], "it is with another by now"


def test_readys_are_bounded_and_the_oldest_go_first() -> None:
    story = Story(readys_max=2)
    for name in "abc":
        story.ready(name)
    for _ in range(3):
        story.submit()
    assert story.hush() == ["b WAKE role=r", "c WAKE role=r"]
    story.ready("d")
    assert story.hush() == ["d WAKE role=r"]
    story.give("c")
    assert story.hush() == [f"c {TAKE_1}"]


def test_full() -> None:
    story = Story(jobs_max=1)
    seen = [story.desk.full]
    ticket = story.submit()
    seen.append(story.desk.full)
    story.do(story.desk.cancel(ticket))
    assert [*seen, story.desk.full] == [False, True, False]


@pytest.mark.parametrize(
    ("role", "key"), [(b"", b""), (b"a\nb", b""), (b"r", b"k\n"), (b"r" * 1025, b""), (b"r", b"k" * 1025)]
)
def test_what_cannot_be_written_is_refused_at_once(role: bytes, key: bytes) -> None:
    story = Story()
    with pytest.raises(ValueError, match="no line end"):
        story.desk.submit(role, b"", key, 0)
    assert story.desk.jobs == {}


@pytest.mark.parametrize("identity", [b"", b"a\nb", b"x" * 256])
def test_an_identity_that_cannot_be_used(identity: bytes) -> None:
    with pytest.raises(ValueError, match="1 to 255 bytes"):
        ManagerState(identity, b"L", ManagerTerms())


def test_without_a_lease_a_lost_message_would_hold_a_job_for_ever() -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        ManagerState(b"M", b"L", ManagerTerms(lease_us=0))


READY = wire.encode_body(wire.READY, [(b"role", b"r")])


@pytest.mark.parametrize(
    "frames",
    [
        [b"w"],
        [b"w", READY],
        [b"w", b"", READY],
        [b"w", b"further", b"", b"", READY],
        [b"w", b"", b"", b"nonsense"],
        [b"w", b"", b"", wire.encode_body(wire.READY, [])],
        [b"w", b"", b"", wire.encode_body(wire.READY, [(b"role", b"")])],
        [b"w", b"", b"", wire.encode_body(wire.READY, [(b"role", b"r" * 1025)])],
        [b"w", b"", b"", wire.encode_body(wire.READY, [(b"role", b"%d" % number) for number in range(1025)])],
        [b"w", b"", b"", wire.encode_body(wire.WAKE, [(b"manager", b"M"), (b"role", b"r")])],
        [b"w", b"", b"", wire.encode_body(wire.DONE, [(b"job", b"L-1")])],
        [b"w", b"", b"", wire.encode_body(wire.DONE, [(b"manager", b"N"), (b"job", b"L-1")])],
        [
            b"w",
            b"",
            b"",
            wire.encode_body(wire.DONE, [(b"manager", b"M"), (b"job", b"L-1"), (b"status", b"so")]),
        ],
        [
            b"w",
            b"",
            b"",
            wire.encode_body(wire.DONE, [(b"manager", b"M"), (b"job", b"L-1"), (b"code", b"256")]),
        ],
        [b"w", b"", b"", wire.encode_body(wire.STATUS, [(b"manager", b"N"), (b"job", b"L-1")])],
        [
            b"w",
            b"",
            b"",
            wire.encode_body(wire.STATUS, [(b"manager", b"M"), (b"job", b"L-1"), (b"progress", b"1")]),
        ],
    ],
)
def test_what_makes_no_sense_is_counted_and_changes_nothing(frames: list[bytes]) -> None:
    story = Story()
    story.submit()
    story.give("w")
    story.hush()
    deadline_us = story.desk.next_deadline()
    story.do(story.desk.received(frames, SECOND_US))
    assert story.desk.malformed == 1
    assert (story.hush(), story.ends, story.news) == ([], [], [])
    assert story.desk.next_deadline() == deadline_us


@given(st.lists(st.binary(max_size=60), max_size=6), st.binary(max_size=200), st.sampled_from(wire.COMMANDS))
def test_any_frames_are_taken(frames: list[bytes], body: bytes, command: bytes) -> None:
    story = Story()
    story.submit()
    story.do(story.desk.received([b"w", *frames], 0))
    story.do(story.desk.received([b"w", b"", b"", body], 0))
    story.do(story.desk.received([b"w", b"", b"", b"WMP1 " + command + b"\n" + body + b"\n\n"], 0))
    assert story.ends == []
