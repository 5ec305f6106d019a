"""Halls on one database: a standby passes connections on, and takes over when the active hall is gone."""

from __future__ import annotations

import hashlib
import select
import shutil
import signal
import socket
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hall_members import MemberProcess, await_any, command, wait_for_role
from hall_process import free_port, wait_until
from native_peer import NativePeer

from hiringhall.peers.gearman.errors import ConnectionLost
from stage.postgres_server import PostgresServer
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator

TAKEN_OVER_S_MAX = 15.0
"""On a busy machine, without the time in which it stands still. Without load it is 4 to 5 seconds."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))  # its user cannot enter the folders of pytest
    made = PostgresServer(folder)
    made.create()
    made.start()
    yield made
    made.remove()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(server: PostgresServer, tmp_path: Path) -> str:
    """An empty database of the test's own."""
    name = "hall_" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:24]
    server.sql(f"CREATE DATABASE {name}")
    return server.url(name)


@pytest.fixture
def members(tmp_path: Path, url: str) -> Iterator[list[MemberProcess]]:
    """Three halls; the first is active."""
    made = [MemberProcess(tmp_path, name, url) for name in ("ann", "bob", "eve")]
    try:
        made[0].start()
        wait_for_role(made[0], "active")
        for member in made[1:]:
            member.start()
        yield made
    finally:
        for member in made:
            member.stop()


def submit(member: MemberProcess, count: int) -> list[bytes]:
    """Durable jobs, submitted at this member's door; their handles."""
    with member.client() as client:
        return [client.submit_background("keep", b"%d" % number).handle for number in range(count)]


def live(member: MemberProcess) -> int:
    return member.counts("keep")[0]


def reaches(member: MemberProcess, count: int) -> bool:
    """Whether its door leads to a hall with so many live jobs."""
    try:
        return live(member) == count
    except (OSError, ConnectionLost):
        return False


def successor(members: list[MemberProcess]) -> MemberProcess:
    """Who became active. Another one that tried as well stands by again."""
    with Stopwatch() as watch:
        while (told := await_any(members)).role() != "active":
            pass
    assert watch.elapsed_s < TAKEN_OVER_S_MAX
    return told


def test_the_door_of_every_member_leads_to_the_active_hall(members: list[MemberProcess], url: str) -> None:
    for member in members:
        wait_until(lambda member=member: reaches(member, 0), f"{member.name} passes on")  # type: ignore[misc]
    handles = [handle for member in members for handle in submit(member, 5)]
    assert len(set(handles)) == 15
    assert [live(member) for member in members] == [15, 15, 15]
    seen = command(url, "halls")
    assert Counter(hall["role"] for hall in seen) == {"active": 1, "standby": 2}
    assert set(seen[0]) == {"name", "role", "incarnation", "version", "doors"}


def test_a_standby_takes_over_from_a_hall_that_was_killed_with_every_acknowledged_job(
    members: list[MemberProcess],
) -> None:
    submit(members[0], 20)
    members[0].kill()
    taken = successor(members[1:])
    wait_until(lambda: reaches(taken, 20), "all jobs are there")
    (other,) = [member for member in members[1:] if member is not taken]
    wait_until(lambda: reaches(other, 20), "the other standby leads to the new active hall")


def test_a_hall_that_was_stopped_comes_back_as_a_standby_and_has_handed_out_nothing(
    members: list[MemberProcess],
) -> None:
    stopped = members[0]
    submit(stopped, 3)
    stopped.signal(signal.SIGSTOP)
    taken = successor(members[1:])
    with taken.client() as client:
        client.submit_background("keep", b"after")
    stopped.signal(signal.SIGCONT)
    assert stopped.role() == "standby"
    stopped.wait_for_errors("has taken over")
    wait_until(lambda: reaches(stopped, 4), "its door leads to the hall that is active now")


def test_a_hall_that_was_killed_and_started_again_does_not_pass_connections_on_to_itself(
    tmp_path: Path, url: str
) -> None:
    """Its doors are where those of the hall were that is taken for active until it has been silent for long."""
    ann = MemberProcess(tmp_path, "ann", url)
    descriptors: list[int] = []
    try:
        ann.start()
        wait_for_role(ann, "active")
        ann.kill()
        ann.start()
        while not select.select([ann.process.stdout], [], [], 0.05)[0]:
            # For a moment, while it takes over, its doors are closed.
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", ann.port), 5.0):
                descriptors.append(len(list(Path(f"/proc/{ann.pid}/fd").iterdir())))
        assert ann.role() == "active"
    finally:
        ann.stop()
    assert max(descriptors) < 100, "a client has one connection or two"


def test_a_switch_over_moves_the_role_to_the_hall_that_is_named(members: list[MemberProcess], url: str) -> None:
    submit(members[0], 7)
    with Stopwatch() as watch:
        (said,) = command(url, "switch-over", "--to", "eve")
    assert set(said) == {"active", "seconds"}
    assert said["active"].startswith("eve@")
    assert watch.elapsed_s < 5, "without load it is less than two"
    assert members[2].role() == "active"
    assert members[0].role() == "standby"
    wait_until(lambda: reaches(members[0], 7), "the former active hall leads to the new one")
    assert reaches(members[2], 7)


def test_nobody_takes_over_because_the_database_was_away(
    members: list[MemberProcess], server: PostgresServer
) -> None:
    submit(members[0], 4)
    server.stop("immediate")
    for member in members:
        told = "no beat" if member is members[0] else "nobody takes over"
        wait_until(lambda member=member, told=told: told in member.errors(), f"{member.name} knows")  # type: ignore[misc]
    server.start()
    wait_until(lambda: "beats again" in members[0].errors(), "the active hall beats again", 30.0)
    assert submit(members[0], 1)
    assert live(members[0]) == 5
    assert not any("silent" in member.errors() for member in members)


def test_a_process_with_the_name_of_a_member_is_refused_and_disturbs_nobody(
    members: list[MemberProcess], tmp_path: Path, url: str
) -> None:
    for member in members[:2]:
        namesake = MemberProcess(tmp_path / "namesakes", member.name, url)
        try:
            namesake.start()
            assert namesake.wait() != 0
            assert "another process is a member of this database as" in namesake.errors()
        finally:
            namesake.stop()
    assert submit(members[0], 1)
    assert live(members[1]) == 1
    assert not any("active no more" in member.errors() for member in members)


def test_signals_for_an_active_hall_do_nothing_to_a_standby(members: list[MemberProcess]) -> None:
    for number in (signal.SIGHUP, signal.SIGUSR2):
        members[1].signal(number)
    wait_until(lambda: members[1].errors().count("nothing to do for it") == 2, "both were heard")
    wait_until(lambda: reaches(members[1], 0), "its door leads to the active hall")


def test_a_standby_that_is_told_to_stop_ends_at_once(members: list[MemberProcess]) -> None:
    members[1].signal(signal.SIGTERM)
    assert members[1].wait() == 0


def test_a_door_that_others_reach_passes_nothing_on_to_loopback(tmp_path: Path, url: str) -> None:
    """The active hall would take clients from anywhere for local ones, who need no token."""
    ann = MemberProcess(tmp_path, "ann", url)
    bob = MemberProcess(tmp_path, "bob", url, host="0.0.0.0")
    try:
        ann.start()
        wait_for_role(ann, "active")
        bob.start()
        wait_until(lambda: "standing by for hall ann" in bob.errors(), "bob follows ann")
        with pytest.raises((OSError, ConnectionLost)):
            submit(bob, 1)
        bob.wait_for_errors("the active hall is at 127.0.0.1, on loopback")
        assert submit(ann, 1)
    finally:
        ann.stop()
        bob.stop()


# --- limits and needs


def test_limits_and_needs_are_exact_after_a_kill_and_after_a_take_over(tmp_path: Path, url: str) -> None:
    """Rules that were set at run time, and durable jobs with needs: 3 run, 2 of a key, with 2 blades each."""
    ports = [free_port(), free_port()]
    ann, bob = (
        MemberProcess(tmp_path, name, url, "127.0.0.1", "--door", f"native=127.0.0.1:{port}")
        for name, port in zip(("ann", "bob"), ports, strict=True)
    )
    try:
        ann.start()
        wait_for_role(ann, "active")
        with NativePeer(ports[0]) as client:
            client.ask("limit", {"name": b"saw", "running_max": 3, "key_running_max": 2})
            terms = {"resources": "blades=2", "losses_max": 0}
            keys = [b"oak"] * 5 + [b"fir"] * 5
            jobs = [(b"saw", key, {**terms, "limit_key": key}, b"", 0, []) for key in keys]
            client.ask("submit", (0, jobs))
        assert saw_some(ports[0], 10) == Counter(oak=2, fir=1)
        ann.kill()
        ann.start()
        wait_for_role(ann, "active")
        assert saw_some(ports[0], 9) == Counter(oak=2, fir=1)
        bob.start()
        ann.kill()
        wait_for_role(bob, "active")
        assert saw_some(ports[1], 8) == Counter(oak=2, fir=1)
    finally:
        ann.stop()
        bob.stop()


def saw_some(port: int, left: int) -> Counter[str]:
    """The payloads that run at once if there are blades enough. One job is done, and the others are lost."""
    with NativePeer(port) as client:
        with NativePeer(port) as few:
            few.ask("work", (b"few", 9, [(b"saw", 0, 0)], -1, 0, ("blades=5", b"")))
            assert [few.hear("assign")[7] for _ in range(2)] == [b"blades=2"] * 2
            few.ask("beat", None)
            assert not few.unclaimed
        wait_until(lambda: not client.ask("queue", (b"saw",))["running"], "what its worker had is ready again")
        told = client.ask("queue", (b"saw",))
        assert (told["rules"], told["rules_set"]) == ({"running_max": 3, "key_running_max": 2}, True)
        assert told["ready"] + told["parked"] == left
        with NativePeer(port) as many:
            many.ask("work", (b"many", 9, [(b"saw", 0, 0)], -1, 0, ("blades=99", b"")))
            held = [many.hear("assign") for _ in range(3)]
            many.ask("beat", None)
            assert not many.unclaimed
            running = Counter(payload.decode() for _, _, _, payload, *_ in held)
            lease, _, _, done, *_ = next(body for body in held if body[3] == b"fir")
            many.ask("finish", (lease, b""))
            assert many.hear("assign")[3] == done, "the other key has as many running as it may"
            many.ask("beat", None)
            assert not many.unclaimed
    return running
