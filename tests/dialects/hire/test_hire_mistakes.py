"""What is wrong, forged, late or another's: answered in a comment or passed over, and nobody else notices."""

from __future__ import annotations

from hire_script import UUIDS, line
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.limits import Limits
from hiringhall.core.states import LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.context import HireContext, HireOptions
from stage.hire import Bus, HireGuest, HireHall

JOB = "5e1d8c30-0f55-4b0e-0000-001000000001"
HALL = "5e1d8c30-0f55-4b0e-9a47-2bc168117d02"


def hire(hall: HireHall, smith: HireGuest) -> None:
    """A job, and smith on the way to it."""
    hall.submits(b"bake", Terms(detached=True))
    assert smith.hears() == [f"{HALL} ANNOUNCE {JOB}:bake"]
    smith.says(line("smith", "AVAIL", "job1", "0", "40"))
    hall.wait_s(0.1)
    assert smith.hears() == [f"{HALL} HIRE {UUIDS['smith']}:{JOB}"]


def test_what_is_wrong_with_a_line_is_told_to_who_said_it_and_the_next_line_counts(hall: HireHall) -> None:
    door = hall.door()
    smith, baker = hall.guest(door), hall.guest(door)
    hire(hall, smith)
    assert baker.reads() != b""
    smith.says("", "hello there", line("smith", "SING", "job1"), line("smith", "START", "job1"))
    said = smith.hears()
    assert [text[:2] for text in said[:3]] == ["# "] * 3
    assert said[3:] == [f"{HALL} PERFORM {JOB}:bake:10"]
    assert baker.reads() == b""
    assert door.dropped == 3


def test_comments_are_skipped(hall: HireHall) -> None:
    smith = hall.guest(hall.door())
    assert smith.says("# good morning", "#").reads() == b""


def test_lines_may_end_as_a_terminal_ends_them(hall: HireHall) -> None:
    smith = hall.guest(hall.door())
    hall.submits(b"bake", Terms(detached=True))
    smith.reads()
    smith.say_bytes(line("smith", "AVAIL", "job1", "0", "1").encode() + b"\r\n")
    hall.wait_s(0.1)
    assert smith.hears() == [f"{HALL} HIRE {UUIDS['smith']}:{JOB}"]


def test_a_line_of_the_full_length_is_one_and_a_longer_one_ends_the_connection(hall: HireHall) -> None:
    door = hall.door()
    full = b"# " + b"x" * (wire.LINE_BYTES_MAX - 2)
    smith = hall.guest(door)
    for end in (b"\n", b"\r\n"):
        for at in (1, 2000, 4095, 4096, 4097):
            smith.say_bytes((full + end)[:at]).say_bytes((full + end)[at:])
    assert smith.reads() == b""
    assert not smith.session.closing
    for data in (full + b"x\n", full + b"x", full + b"\rx", b"\0" * (1 << 20)):
        smith = hall.guest(door)
        smith.say_bytes(data)
        assert smith.session.closing
        assert smith.reads().startswith(b"# a line may have 4096 bytes")


def test_nobody_speaks_with_the_uuid_of_another_connection(hall: HireHall) -> None:
    door = hall.door()
    smith, thief = hall.guest(door), hall.guest(door)
    hire(hall, smith)
    thief.reads()
    thief.says(line("smith", "QUIT", "job1"), line("smith", "START", "job1"))
    assert thief.hears() == ["# another connection uses this UUID"] * 2
    thief.says(line("baker", "QUIT", "job1"), line("smith", "QUIT", "job1"))
    assert thief.hears() == ["# a connection must use the UUID of its first line"]
    job = hall.job(1)
    assert job is not None
    assert job.state == LEASED
    smith.says(line("smith", "START", "job1"))
    assert smith.hears() == [f"{HALL} PERFORM {JOB}:bake:10"]


def test_a_uuid_is_free_again_when_its_connection_is_gone(hall: HireHall) -> None:
    door = hall.door()
    smith = hall.guest(door)
    hire(hall, smith)
    smith.leaves()
    again = hall.guest(door)
    assert again.hears() == [f"{HALL} ANNOUNCE {JOB}:bake"]
    again.says(line("smith", "AVAIL", "job1", "0", "40"))
    hall.wait_s(0.1)
    assert again.hears() == [f"{HALL} HIRE {UUIDS['smith']}:{JOB}"]


def test_nobody_speaks_as_the_hall_or_calls_a_job_as_the_hall_does(hall: HireHall) -> None:
    door = hall.door()
    thief, tower = hall.guest(door), hall.guest(door)
    for name in ("hall", "miller"):
        assert thief.says(line(name, "QUIT", "task")).hears() == [
            "# UUIDs that start like this one are reserved for the hall"
        ]
    tower.says(
        line("tower", "ANNOUNCE", "job1", "bake"),
        line("tower", "HIRE", "smith", "job1"),
        line("tower", "PERFORM", "job1", "bake", "1"),
        line("tower", "DISMISS", "smith", "job1"),
    )
    assert tower.hears() == ["# this job is the hall's: only the hall may send this verb about it"] * 4
    assert thief.reads() == b""


def test_another_s_words_about_a_job_do_nothing(hall: HireHall) -> None:
    door = hall.door()
    smith, baker = hall.guest(door), hall.guest(door)
    hire(hall, smith)
    baker.reads()
    baker.says(line("baker", "QUIT", "job1"), line("baker", "AVAIL", "job1", "0", "99"))
    assert baker.reads() == b""
    assert door.hire_bus.stale == 2
    job = hall.job(1)
    assert job is not None
    assert job.lease is not None
    assert job.lease.worker is smith.session.participant.worker  # type: ignore[union-attr]


def test_words_out_of_turn_do_nothing(hall: HireHall) -> None:
    door = hall.door()
    smith = hall.guest(door)
    hire(hall, smith)
    smith.says(line("smith", "PERFORMING", "job1"))
    assert smith.reads() == b""
    assert hall.scheduler.counters.stale == 1
    smith.says(line("smith", "START", "job1"))
    smith.says(
        line("smith", "PERFORMING", "job1"), line("smith", "PERFORMING", "job1"), line("smith", "START", "job1")
    )
    assert smith.hears() == [f"{HALL} PERFORM {JOB}:bake:10"]
    hall.wait_s(10)
    assert smith.hears() == [f"{HALL} DISMISS {UUIDS['smith']}:{JOB}"]
    assert hall.scheduler.counters.done == 1


def test_only_its_provider_speaks_for_a_posting(hall: HireHall) -> None:
    door = hall.door()
    tower, castle, smith = hall.guest(door), hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    for guest in (castle, smith, tower):
        guest.reads()
    castle.says(
        line("castle", "ANNOUNCE", "task", "guard"),
        line("castle", "HIRE", "smith", "task"),
        line("castle", "PERFORM", "task", "guard", "1"),
        line("castle", "DISMISS", "smith", "task"),
    )
    assert (
        castle.hears()
        == ["# another provider has announced a job with this id"]
        + ["# this job is another provider's: only that provider may send this verb about it"] * 3
    )
    tower.says(
        line("tower", "AVAIL", "task", "0", "1"),
        line("tower", "ANNOUNCE", "task", "cook"),
        line("tower", "PERFORM", "task", "cook", "1"),
    )
    assert [text[:14] for text in tower.hears()] == ["# a provider c", "# this job was", "# this job was"]
    tower.says(line("tower", "HIRE", "smith", "task"), line("tower", "HIRE", "baker", "task"))
    assert tower.hears() == ["# a worker is hired for this job already: dismiss it first"]
    assert smith.hears() == [line("tower", "HIRE", "smith", "task")]
    tower.says(line("tower", "DISMISS", "baker", "task"))
    assert tower.hears() == ["# another worker is hired for this job"]
    castle.says(line("castle", "START", "task"), line("castle", "QUIT", "task"))
    assert castle.reads() == tower.reads() == b""


def test_who_was_not_there_to_bid_is_not_hired(hall: HireHall) -> None:
    door = hall.door()
    tower, smith = hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.reads()
    tower.says(line("tower", "HIRE", "smith", "task"))
    assert tower.hears() == [line("smith", "QUIT", "task")]
    assert smith.reads() == b""


def test_words_about_a_job_that_nobody_announced_reach_nobody_on_connections(hall: HireHall) -> None:
    door = hall.door()
    smith, tower = hall.guest(door), hall.guest(door)
    for verb in ("START", "PERFORMING", "QUIT"):
        smith.says(line("smith", verb, "task"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"), line("smith", "HIRE", "baker", "task"))
    assert smith.reads() == tower.reads() == b""
    assert door.hire_bus.stale == 5


def test_an_announcement_is_forgotten_after_its_time_unless_it_is_made_again(hall: HireHall) -> None:
    door = hall.door(HireOptions(posting_us=1_000_000))
    tower, castle, smith = hall.guest(door), hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    hall.wait_s(0.9)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    hall.wait_s(0.9)
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    assert tower.hears() == [line("smith", "AVAIL", "task", "0", "1")]
    hall.wait_s(0.1)
    tower.says(line("tower", "HIRE", "smith", "task"))
    assert tower.reads() == b""
    assert castle.reads()
    castle.says(line("castle", "ANNOUNCE", "task", "guard"))
    assert castle.reads() == b""
    assert tower.hears() == [line("castle", "ANNOUNCE", "task", "guard")]


def test_a_type_longer_than_a_queue_s_name_may_be_is_refused() -> None:
    hall = HireHall(Limits(queue_name_bytes_max=8))
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "guarding!"))
    assert tower.hears() == ["# a type may have 8 bytes"]


def test_a_queue_whose_name_is_too_long_for_a_line_is_not_announced() -> None:
    hall = HireHall(Limits(queue_name_bytes_max=4096))
    door = hall.door()
    smith = hall.guest(door)
    hall.submits(b":" * 513, Terms(detached=True))
    assert smith.reads() == b""
    assert door.dropped == 1


# --- on a bus there is no word for a mistake


def hall_with_bus(**options: int) -> tuple[HireHall, HireContext, Bus]:
    hall = HireHall()
    door = hall.door(HireOptions(bus=True, **options), Rules(soonest))  # type: ignore[arg-type]
    return hall, door, Bus(hall, door)


def test_on_a_bus_what_is_no_line_is_dropped_and_counted() -> None:
    _, door, bus = hall_with_bus()
    bus.says("", "hello", line("smith", "SING", "task"), line("hall", "QUIT", "task"), b"\xff" * 5000, "# hm")
    assert bus.hears() == []
    assert door.dropped == 5


def test_on_a_bus_words_about_a_job_unknown_to_the_hall_are_heard_by_all() -> None:
    _, _, bus = hall_with_bus()
    bus.says(line("smith", "START", "task"))
    assert bus.hears() == [line("smith", "START", "task")]


def test_on_a_bus_nobody_speaks_with_the_uuid_of_a_connection(hall: HireHall) -> None:
    door = hall.door()
    bus = Bus(hall, hall.door(HireOptions(bus=True)))
    smith = hall.guest(door)
    hire(hall, smith)
    bus.hears()
    bus.says(line("smith", "QUIT", "job1"))
    assert bus.hears() == []
    job = hall.job(1)
    assert job is not None
    assert job.state == LEASED


def test_a_connection_takes_the_uuid_of_a_bus_only_if_it_holds_nothing_there(hall: HireHall) -> None:
    door = hall.door()
    bus = Bus(hall, hall.door(HireOptions(bus=True)))
    hall.submits(b"bake", Terms(detached=True))
    bus.hears()
    bus.says(line("smith", "AVAIL", "job1", "0", "40"), line("baker", "AVAIL", "job1", "1", "40"))
    hall.wait_s(0.1)
    assert bus.hears()[-1] == line("hall", "HIRE", "smith", "job1")
    smith, baker = hall.guest(door), hall.guest(door)
    assert smith.says(line("smith", "QUIT", "job1")).hears() == ["# another connection uses this UUID"]
    assert baker.says(line("baker", "QUIT", "job1")).hears() == []
    bus.says(line("baker", "QUIT", "task"))
    assert bus.hears() == []


def test_who_is_silent_on_a_bus_and_holds_nothing_is_forgotten() -> None:
    hall, door, bus = hall_with_bus(idle_us=70_000_000)
    hall.submits(b"bake", Terms(detached=True))
    bus.hears()
    bus.says(line("smith", "AVAIL", "job1", "600", "40"), line("tower", "ANNOUNCE", "task", "guard"))
    hall.wait_s(0.1)
    bus.says(line("baker", "QUIT", "task"))
    hall.wait_s(71)
    bus.says(line("castle", "QUIT", "task"))
    assert [UUIDS["smith"], UUIDS["tower"], UUIDS["castle"]] == [
        wire.write_uuid(uuid).decode() for uuid in door.hire_bus.participants
    ]


def test_a_bus_knows_so_many_and_no_more() -> None:
    hall, door, bus = hall_with_bus(participants_max=2)
    bus.says(line("tower", "ANNOUNCE", "task", "guard"), line("castle", "ANNOUNCE", "roof-7", "guard"))
    bus.hears()
    hall.wait_s(2)
    bus.says(line("smith", "QUIT", "task"))
    assert bus.hears() == []
    assert door.dropped == 1
    bus.says(line("castle", "DISMISS", "smith", "roof-7"))
    hall.wait_s(2)
    bus.says(line("smith", "AVAIL", "task", "0", "1"))
    assert bus.hears()[-1] == line("smith", "AVAIL", "task", "0", "1")


# --- however the bytes are cut

TALK = b"".join(
    text.encode() + b"\n"
    for text in (
        line("tower", "ANNOUNCE", "task", "guard"),
        "nonsense",
        "# a comment",
        line("tower", "SING", "task"),
        line("smith", "AVAIL", "task", "0", "1"),
        line("tower", "HIRE", "smith", "task"),
        line("tower", "ANNOUNCE", "roof-7", "guard") + "\r",
        "\u00e4" * 30,
    )
)


@given(st.lists(st.integers(0, len(TALK)), max_size=12))
def test_the_same_is_heard_however_the_bytes_are_cut(cuts: list[int]) -> None:
    hall = HireHall()
    door = hall.door()
    tower, other = hall.guest(door), hall.guest(door)
    whole_hall = HireHall()
    whole_door = whole_hall.door()
    whole_tower, whole_other = whole_hall.guest(whole_door), whole_hall.guest(whole_door)
    whole_tower.say_bytes(TALK)
    before = 0
    for cut in [*sorted(cuts), len(TALK)]:
        tower.say_bytes(TALK[before:cut])
        before = cut
    assert tower.reads() == whole_tower.reads() != b""
    assert other.reads() == whole_other.reads() != b""


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_garbage_disturbs_nobody(pieces: list[bytes]) -> None:
    hall = HireHall()
    door = hall.door()
    smith, vandal = hall.guest(door), hall.guest(door)
    hire(hall, smith)
    for piece in pieces:
        vandal.say_bytes(piece)
    smith.says(line("smith", "QUIT", "job1"))
    assert smith.hears() == [f"{HALL} ANNOUNCE {JOB}:bake"]
    job = hall.job(1)
    assert job is not None
    assert job.state == QUEUED
