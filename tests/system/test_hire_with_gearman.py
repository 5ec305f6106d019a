"""Jobs of Gearman clients done by hire workers, on a real hall; durable ones also after it was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hall_process import wait_until
from hire_house import HALL, BusPeer, GearmanLink, HireHouse, LineLink
from testimony import audit

from hiringhall.core.states import DONE

if TYPE_CHECKING:
    from pathlib import Path

SMITH: Final = "a0000000-0000-4000-8000-000000000001"
BAKER: Final = "a0000000-0000-4000-8000-000000000002"
TOWER: Final = "b0000000-0000-4000-8000-0000000000ff"


def perform(link: LineLink | BusPeer, who: str, *, performing: bool = True) -> str:
    """Do the next job that is announced, up to PERFORMING; its id."""
    heard = ""
    while f"{HALL} ANNOUNCE " not in heard:
        heard = link.hear().decode()
    job = heard.split()[2].split(":")[0]
    for word, answer in (
        (f"AVAIL {job}:0:7", f"{HALL} HIRE {who}:{job}"),
        (f"START {job}", f"{HALL} PERFORM {job}:"),
    ):
        link.say(f"{who} {word}".encode())
        while not heard.startswith(answer):
            heard = link.hear().decode()
    if performing:
        link.say(f"{who} PERFORMING {job}".encode())
    return job


def test_a_foreground_job_is_complete_when_its_time_is_up(tmp_path: Path) -> None:
    with (
        HireHouse(tmp_path, {"perform_s": 0.2}) as hall,
        LineLink(hall.lines) as smith,
        hall.client() as client,
    ):
        waiting = client.submit("bake", b"dough")
        job = perform(smith, SMITH)
        assert smith.hear() == f"{HALL} DISMISS {SMITH}:{job}\n".encode()
        assert waiting.result(20) == b""
        assert audit(hall) == "clean"


def test_workers_of_both_doors_are_one_village(tmp_path: Path) -> None:
    with (
        HireHouse(tmp_path, {"perform_s": 0.2, "window_s": 0.5}) as hall,
        LineLink(hall.lines) as smith,
        BusPeer(hall.publish, hall.subscribe) as bus,
        hall.client() as client,
    ):
        smith.check_silence()
        waiting = client.submit("bake", b"dough")
        job = smith.hear().decode().split()[2].split(":")[0]
        assert bus.hear() == f"{HALL} ANNOUNCE {job}:bake".encode()
        smith.say(f"{SMITH} AVAIL {job}:3:7".encode())
        assert bus.hear() == f"{SMITH} AVAIL {job}:3:7".encode()
        bus.say(f"{BAKER} AVAIL {job}:0:7".encode())
        assert bus.hear() == f"{BAKER} AVAIL {job}:0:7".encode()
        assert bus.hear() == f"{HALL} HIRE {BAKER}:{job}".encode()
        for word, answer in (("START", f"PERFORM {job}:bake:0.2"), ("PERFORMING", f"DISMISS {BAKER}:{job}")):
            bus.say(f"{BAKER} {word} {job}".encode())
            assert bus.hear() == f"{BAKER} {word} {job}".encode()
            assert bus.hear() == f"{HALL} {answer}".encode()
        assert waiting.result(20) == b""
        smith.check_silence()
        assert audit(hall) == "clean"


def test_a_durable_job_is_announced_again_after_the_hall_was_killed(tmp_path: Path) -> None:
    with HireHouse(tmp_path, {"perform_s": 0.3}) as hall:
        client = GearmanLink(hall.address)
        client.submits(b"bake")
        client.close()
        with LineLink(hall.lines) as smith:
            first = perform(smith, SMITH, performing=False)
            hall.kill()
            assert smith.hear() == b""
        hall.start()
        with LineLink(hall.lines) as smith:
            # It goes on where it was, and is told that there is nothing to go on with.
            smith.say(f"{SMITH} PERFORMING {first}".encode())
            heard = {smith.hear().decode(), smith.hear().decode()}
            assert heard == {f"{HALL} DISMISS {SMITH}:{first}\n", f"{HALL} ANNOUNCE {first}:bake\n"}
            smith.say(f"{SMITH} AVAIL {first}:0:7".encode())
            assert smith.hear() == f"{HALL} HIRE {SMITH}:{first}\n".encode()
            smith.say(f"{SMITH} START {first}".encode())
            assert smith.hear() == f"{HALL} PERFORM {first}:bake:0.3\n".encode()
            smith.say(f"{SMITH} PERFORMING {first}".encode())
            assert smith.hear() == f"{HALL} DISMISS {SMITH}:{first}\n".encode()
        wait_until(lambda: [row.state for row in hall.history()] == [DONE], "the job is in the history as done")
        assert audit(hall) == "clean"


def test_who_connects_late_hears_what_stands_announced(tmp_path: Path) -> None:
    with HireHouse(tmp_path) as hall, LineLink(hall.lines) as tower:
        tower.say(f"{TOWER} ANNOUNCE roof-7:build".encode())
        tower.check_silence()
        with LineLink(hall.lines) as smith:
            assert smith.hear() == f"{TOWER} ANNOUNCE roof-7:build\n".encode()
            smith.say(f"{SMITH} AVAIL roof-7:0.12345678:7".encode())
            assert tower.hear() == f"{SMITH} AVAIL roof-7:0.123457:7\n".encode()
        assert audit(hall) == "clean"
