"""What queues need and what is known of workers, as somebody writes it in hall.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiringhall.config.loading import Flags, Loaded, load
from hiringhall.config.quantities import Interval
from hiringhall.config.sources import ConfigError
from hiringhall.logs.events import Events
from hiringhall.logs.repeats import Repeats
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS
from hiringhall.server.opening import open_driver

SECOND_US = 1_000_000
TOO_LONG = "at most 2 bytes are allowed (limits.queue_name_bytes_max)"
SKILL = "queue with a skill from 0 to 1000000, such as render=9"

FILE = """
[hall]
storage = "memory"

[[queue]]
name = "render"
skill = 5
time = "60s"

[[queue]]
name = "größen"
time = "1.5m"

[[worker]]
name = "gpu-*"
skills = ["render=9", "a=b=1"]

[[worker]]
name = "*-spot"
stays = "15m"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(toml: str, **environ: str) -> Loaded:
    Path("hall.toml").write_text(toml, encoding="utf-8")
    return load(Flags(), environ, DOOR_SETTINGS, DEFAULT_DOORS)


def problems(toml: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(toml)
    return caught.value.problems


def test_the_scheduler_is_told_all_of_it() -> None:
    scheduler = open_driver(read(FILE).config, Events(Repeats())).scheduler
    assert scheduler.needs.by_queue == {
        b"render": (5, 60 * SECOND_US, ()),
        "größen".encode(): (0, 90 * SECOND_US, ()),
    }
    assert scheduler.needs.ratings is not None
    assert scheduler.needs.ratings.of(b"gpu-1-spot") == ({b"render": 9, b"a=b": 1}, 900 * SECOND_US)
    assert scheduler.needs.ratings.of(b"cpu") == ({}, 0)


def test_without_such_tables_nothing_is_looked_up() -> None:
    scheduler = open_driver(read('[hall]\nstorage = "memory"').config, Events(Repeats())).scheduler
    assert scheduler.needs.by_queue == {}
    assert scheduler.needs.ratings is None


def test_variables_say_the_same() -> None:
    config = read(
        "",
        HALL_QUEUE_0_NAME="render",
        HALL_QUEUE_0_SKILL="5",
        HALL_WORKER_0_NAME="gpu-*",
        HALL_WORKER_0_SKILLS="render=9, plane=2",
        HALL_WORKER_0_STAYS="30s",
    ).config
    assert [queue.needs for queue in config.queue] == [(5, 0)]
    (worker,) = config.worker
    assert (worker.ratings, worker.stays) == ({"render": 9, "plane": 2}, 30 * SECOND_US)


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        (
            '[[queue]]\nname = "f"',
            'hall.toml: queue[0].name: "f" has no other setting; set its skill, its time or a limit',
        ),
        (
            '[[queue]]\nname = "f"\nskill = 1\n[[queue]]\nname = "f"\nskill = 2',
            'hall.toml: queue[1].name: "f" is used by queue[0]',
        ),
        (
            '[[queue]]\nname = "f"\ntime = 60',
            f"hall.toml: queue[0].time: 60 is not allowed; it takes {Interval.allowed}",
        ),
        (
            '[[queue]]\nname = "f"\nskill = 1000001',
            "hall.toml: queue[0].skill: 1000001 is not allowed; it takes a whole number from 0 to 1000000",
        ),
        (
            '[limits]\nqueue_name_bytes_max = 2\n[[queue]]\nname = "fff"\nskill = 1',
            f'hall.toml: queue[0].name: "fff..." is too long: {TOO_LONG}',
        ),
        (
            '[limits]\nqueues_max = 1\n[[queue]]\nname = "f"\nskill = 1\n[[queue]]\nname = "g"\nskill = 1',
            "hall.toml: queue: at most 1 queues are allowed (limits.queues_max)",
        ),
        (
            '[queue]\nname = "f"',
            "hall.toml: queue: write each queue as a separate table headed [[queue]]",
        ),
        (
            '[[worker]]\nskills = ["f=1"]',
            "hall.toml: worker[0].name: is missing; it takes text of 1 to 512 characters",
        ),
        (
            '[[worker]]\nname = "*"\nskil = ["f=1"]',
            "hall.toml: worker[0].skil: no such setting; did you mean skills?",
        ),
        *(
            (
                f'[[worker]]\nname = "*"\nskills = ["{word}"]',
                f'hall.toml: worker[0].skills: "{word}" is not a {SKILL}',
            )
            for word in ("f", "=9", "f=", "f=-1", "f=1000001", "f=nine", "f=1.5", "f=٣", "f=00000000")
        ),
    ],
)
def test_what_is_wrong_is_named(toml: str, problem: str) -> None:
    assert problem in problems(toml)
