"""Hostile peers at the hire doors of a real hall: nobody else is disturbed, and nothing is left behind."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING, Final

import pytest
from hire_house import HALL, BusPeer, GearmanLink, HireHouse, LineLink
from neighbours import Neighbours
from testimony import audit

if TYPE_CHECKING:
    from collections.abc import Iterator

SMITH: Final = "a0000000-0000-4000-8000-000000000001"
THIEF: Final = "a0000000-0000-4000-8000-0000000000ee"
JOB: Final = f"{HALL[:19]}0000-001000000001"
MIB: Final = 1 << 20


@pytest.fixture
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HireHouse]:
    with HireHouse(tmp_path_factory.mktemp("hall"), {"types": ["bake"], "perform_s": 60}) as hall:
        yield hall
        assert audit(hall) == "clean"
        assert "Traceback" not in hall.errors(), hall.errors()


def say(link: LineLink, who: str, text: str) -> None:
    link.say(f"{who} {text}".encode())


def hear(link: LineLink) -> str:
    return link.hear().decode().rstrip("\n")


def hire(hall: HireHouse, smith: LineLink) -> None:
    """A job of a Gearman client, and smith performs it."""
    smith.check_silence()
    client = GearmanLink(hall.address)
    client.submits(b"bake")
    client.close()
    assert hear(smith) == f"{HALL} ANNOUNCE {JOB}:bake"
    say(smith, SMITH, f"AVAIL {JOB}:0:1")
    assert hear(smith) == f"{HALL} HIRE {SMITH}:{JOB}"
    say(smith, SMITH, f"START {JOB}")
    assert hear(smith) == f"{HALL} PERFORM {JOB}:bake:60"
    say(smith, SMITH, f"PERFORMING {JOB}")
    smith.check_silence()


def test_malformed_lines_and_unknown_verbs_are_answered_in_a_comment(hall: HireHouse) -> None:
    with Neighbours(hall) as neighbours, LineLink(hall.lines) as vandal:
        for text in (
            "",
            "hello",
            f"{THIEF} SING {JOB}",
            f"{THIEF} ANNOUNCE a:b:c",
            f"{THIEF} QUIT a:b",
            f"{THIEF} AVAIL {JOB}:soon:1",
            f"!{THIEF}",
        ):
            vandal.say(text.encode())
            assert hear(vandal).startswith("# "), text
        say(vandal, THIEF, "QUIT roof-7")
        vandal.check_silence()
        neighbours.expect_service()


def test_a_line_of_a_megabyte_ends_its_connection_only(hall: HireHouse) -> None:
    with Neighbours(hall) as neighbours, LineLink(hall.lines) as smith:
        hire(hall, smith)
        for data in (b"x" * MIB, f"{THIEF} ANNOUNCE task:".encode() + b"y" * MIB + b"\n", b"\0" * MIB):
            with LineLink(hall.lines) as vandal:
                try:
                    vandal.say_bytes(data)
                    assert hear(vandal).startswith("# a line may have 4096 bytes")
                    assert vandal.hear() == b""
                except (BrokenPipeError, ConnectionResetError):
                    """The hall had closed before all of it was taken."""
        smith.check_silence()
        neighbours.expect_service()


def test_binary_garbage_of_all_kinds(hall: HireHouse) -> None:
    chance = random.Random(5)
    with Neighbours(hall) as neighbours, LineLink(hall.lines) as smith:
        hire(hall, smith)
        for _ in range(50):
            with LineLink(hall.lines) as vandal:
                for _ in range(4):
                    try:
                        vandal.say_bytes(chance.randbytes(chance.randrange(3000)))
                    except OSError:
                        break
        smith.check_silence()
        neighbours.expect_service()


def test_nobody_speaks_with_the_id_of_another_connection(hall: HireHouse) -> None:
    with LineLink(hall.lines) as smith, LineLink(hall.lines) as thief:
        hire(hall, smith)
        assert hear(thief) == f"{HALL} ANNOUNCE {JOB}:bake"
        for text in (f"QUIT {JOB}", f"START {JOB}", f"AVAIL {JOB}:0:9"):
            say(thief, SMITH, text)
            assert hear(thief) == "# another connection uses this UUID"
        say(thief, HALL, f"DISMISS {SMITH}:{JOB}")
        assert hear(thief) == "# UUIDs that start like this one are reserved for the hall"
        say(thief, THIEF, f"QUIT {JOB}")
        say(thief, THIEF, f"HIRE {SMITH}:{JOB}")
        assert hear(thief) == "# this job is the hall's: only the hall may send this verb about it"
        say(thief, THIEF, f"START {JOB}")
        assert hear(thief) == f"{HALL} DISMISS {THIEF}:{JOB}"
        say(thief, SMITH, f"QUIT {JOB}")
        assert hear(thief) == "# a connection must use the UUID of its first line"
        smith.check_silence()
        assert hall.counts("bake")[1] == 1


def test_on_the_bus_nobody_speaks_with_the_id_of_a_connection_and_nonsense_is_dropped(hall: HireHouse) -> None:
    chance = random.Random(6)
    with LineLink(hall.lines) as smith, BusPeer(hall.publish, hall.subscribe) as bus:
        hire(hall, smith)
        said = [bus.hear().decode() for _ in range(6)]
        assert said == [
            f"{HALL} ANNOUNCE {JOB}:bake",
            f"{SMITH} AVAIL {JOB}:0:1",
            f"{HALL} HIRE {SMITH}:{JOB}",
            f"{SMITH} START {JOB}",
            f"{HALL} PERFORM {JOB}:bake:60",
            f"{SMITH} PERFORMING {JOB}",
        ]
        bus.say(f"{SMITH} QUIT {JOB}".encode())
        bus.say(f"{HALL} DISMISS {SMITH}:{JOB}".encode())
        bus.say(b"")
        bus.say_frames(f"{THIEF} QUIT roof-7".encode(), b"and more")
        for _ in range(100):
            bus.say(chance.randbytes(chance.randrange(5000)))
        bus.check_silence()
        smith.check_silence()
        assert hall.counts("bake")[1] == 1


def test_a_message_of_a_megabyte_costs_its_speaker_the_connection_to_the_bus(hall: HireHouse) -> None:
    with BusPeer(hall.publish, hall.subscribe) as bus, BusPeer(hall.publish, hall.subscribe) as vandal:
        vandal.say(b"x" * MIB)
        while not bus.hear().startswith(b"cccccccc-"):
            """The other's first words on the bus."""
        say_again = f"{THIEF} QUIT roof-7".encode()
        bus.say(say_again)
        while bus.hear() != say_again:
            """Those too."""
        assert hall.running


def test_many_who_connect_and_say_nothing_are_let_go_of(hall: HireHouse) -> None:
    host, _, port = hall.lines.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(200)]
    with LineLink(hall.lines) as smith:
        hire(hall, smith)
        for one in silent:
            one.close()
        smith.check_silence()
