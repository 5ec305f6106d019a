"""Limits on a real hall: 50 workers of two dialects, 20 keys, 7 at a time; kill -9; both stores; and tenants.

The workers keep each job until the test lets it end, so what runs and what waits is known at every moment.
"""

from __future__ import annotations

import select
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from hall_process import HallProcess, wait_until
from native_peer import NativeError, NativePeer

from hiringhall.peers.gearman import Client
from stage.databases import postgres_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUEUE: Final = b"saw"
WORKERS: Final = 50
MOST: Final = 7
RULES: Final = """
[[door]]
dialect = "gearman"
address = "127.0.0.1:0"

[[queue]]
name = "saw"
key_running_max = 7

[[queue]]
name = "share"
fair = true
tenant_weights = ["acme=2"]

[[queue]]
name = "few"
running_max = 2
starts_per_second = 0.001
burst = 5
age_max = "1h"
"""


class Crew:
    """Workers that hold what they are given."""

    def __init__(self, port: int) -> None:
        self.peers = [NativePeer(port) for _ in range(WORKERS)]
        for peer in self.peers:
            # Without a number nothing is answered: all that a socket has to read is a job.
            peer.send("work", (b"bob", 1, [(QUEUE, 0, 0)], -1, 0))
        self.held: dict[int, tuple[NativePeer, int, str]] = {}
        """By job: its worker, its lease, and its limit key, which is its payload."""

    def hear(self, timeout_s: float = 0.0) -> None:
        """Read what has come."""
        while True:
            ready, _, _ = select.select([peer.socket for peer in self.peers], [], [], timeout_s)
            if not ready:
                return
            for peer in self.peers:
                if peer.socket in ready:
                    lease, job, _, payload, *_ = peer.hear("assign")
                    self.held[job] = (peer, lease, payload.decode())
                    running = Counter(key for _, _, key in self.held.values())
                    assert max(running.values()) <= MOST

    def wait_for(self, running: int) -> Counter[str]:
        """So many are held; how many of each key."""
        wait_until(lambda: self.hear(0.05) or len(self.held) == running, f"{running} jobs run", 20.0)
        return Counter(key for _, _, key in self.held.values())

    def finish(self, job: int) -> None:
        peer, lease, _ = self.held.pop(job)
        peer.send("finish", (lease, b""))

    def close(self) -> None:
        for peer in self.peers:
            peer.close()


@pytest.fixture(params=["sqlite", "postgres"])
def hall(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HallProcess]:
    place: dict[str, Any] = {}
    if request.param == "postgres":
        place = {"data": postgres_url(tmp_path), "folder": str(tmp_path / "files")}
    with HallProcess(tmp_path, hall=place, door={"dialect": "native"}, more=RULES) as hall:
        yield hall


def submit(ann: NativePeer, keys: list[str]) -> list[int]:
    jobs = [(QUEUE, key.encode(), {"limit_key": key}, b"", 0, []) for key in keys]
    found: list[int] = ann.ask("submit", (0, jobs))
    return found


def test_never_8_and_never_fewer_than_7_while_work_of_that_key_waits(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, closing(Crew(hall.port)) as crew:
        # Two keys have more than they may run: each has 7, and the other 36 workers are free.
        jobs = submit(ann, ["k0"] * 40 + ["k1"] * 40)
        assert crew.wait_for(2 * MOST) == {"k0": MOST, "k1": MOST}
        told = ann.ask("queue", (QUEUE,))
        assert (told["ready"], told["parked"], told["running"]) == (0, 80 - 2 * MOST, 2 * MOST)
        assert told["rules"] == {"key_running_max": MOST}
        last = ann.ask("job", (jobs[-1],))
        assert (last["situation"], last["terms"]["limit_key"]) == ("parked", b"k1")
        assert last["why"].startswith("it is parked by the limit of 7 running for key k1")
        for _ in range(10):
            crew.finish(next(job for job, held in crew.held.items() if held[2] == "k0"))
            assert crew.wait_for(2 * MOST) == {"k0": MOST, "k1": MOST}
        # A job without a key passes them by, and so does one that a Gearman client submits.
        with Client(f"127.0.0.1:{hall.ports[1]}") as client:
            client.submit_background("saw", b"none")
        assert crew.wait_for(2 * MOST + 1)["none"] == 1
        # All keys have work: every worker is busy.
        submit(ann, [f"k{number}" for number in range(2, 20) for _ in range(3)])
        assert len(crew.wait_for(WORKERS)) > 10
        # The hall dies. What ran is queued again, and the limit holds for what starts then.
        hall.kill()
    hall.start()
    left = Counter({"k0": 30, "k1": 40, "none": 1, **{f"k{number}": 3 for number in range(2, 20)}})
    with NativePeer(hall.port) as ann:
        told = ann.ask("queue", (QUEUE,))
        assert told["ready"] + told["parked"] == left.total()
        with closing(Crew(hall.port)) as crew:
            crew.wait_for(WORKERS)
            while left.total():
                for job, (_, _, key) in list(crew.held.items())[:10]:
                    crew.finish(job)
                    left[key] -= 1
                wait_until(lambda: _settled(ann, crew), "the workers have what they may have", 20.0)
                running = Counter(key for _, _, key in crew.held.values())
                if len(crew.held) < WORKERS:
                    assert all(running[key] == min(left[key], MOST) for key in left)


def _settled(ann: NativePeer, crew: Crew) -> bool:
    crew.hear(0.02)
    told = ann.ask("queue", (QUEUE,))
    return bool(told["running"] == len(crew.held) and (not told["ready"] or told["running"] == WORKERS))


def test_tenants_take_turns_and_a_slow_queue_starts_no_more_than_it_may(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        jobs = [(b"share", b"big", {"tenant": "big"}, b"", 0, [])] * 1000
        jobs += [(b"share", b"acme", {"tenant": "acme"}, b"", 0, [])] * 20
        jobs += [(b"share", b"small", {"tenant": "small"}, b"", 0, [])] * 10
        ann.ask("submit", (0, jobs))
        few = ann.submit(b"few", b"", retries=3)
        bob.work(b"share")
        started = []
        for _ in range(41):
            lease, _, _, payload, *_ = bob.hear("assign")
            started.append(payload.decode())
            bob.send("finish", (lease, b""))
        assert Counter(started) == {"big": 11, "acme": 20, "small": 10}
        bob.work(b"few")
        told = ann.ask("job", (few,))
        assert told["situation"] == "limited"
        assert "s: it may start 0.001 a second" in told["why"]
        assert told["terms"]["expire_us"] == 3600 * 1_000_000
        with pytest.raises(NativeError, match="limit_key must be bytes"):
            ann.submit(b"few", b"", limit_key=7)


def test_rules_debounce_and_throttle_hold_after_a_kill(hall: HallProcess) -> None:
    debounced: dict[str, Any] = {"debounce_us": 500_000}
    throttled: dict[str, Any] = {"throttle_us": 3_600_000_000}
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        jobs = [(b"cut", b"%d" % number, {"limit_key": "k"}, b"", 0, []) for number in range(20)]
        ann.ask("submit", (0, jobs))
        bob.ask("work", (b"bob", 10, [(b"cut", 0, 0), (b"once", 0, 0)], -1, 0))
        held = [bob.hear("assign")[0] for _ in range(10)]
        # Five more may run than did: but ten run, so none starts until six have ended.
        answer = ann.ask("limit", {"name": b"cut", "running_max": 5})
        assert answer == {"rules": {"running_max": 5}, "set": True}
        for lease in held[:6]:
            bob.send("finish", (lease, b""))
        assert bob.hear("assign")[3] == b"10"
        told = ann.ask("queue", (b"cut",))
        assert (told["running"], told["ready"], told["rules_set"]) == (5, 9, True)
        # With a limit by key the nine that wait are parked.
        ann.ask("limit", {"name": b"cut", "key_running_max": 1, "starts_per_second": 1000})
        told = ann.ask("queue", (b"cut",))
        assert (told["running"], told["ready"], told["parked"]) == (5, 0, 9)
        ann.ask("limit", {"name": QUEUE})
        assert ann.ask("queue", (QUEUE,))["rules"] == {}
        with pytest.raises(NativeError, match="burst: is used only with"):
            ann.ask("limit", {"name": b"cut", "burst": 3})
        # Throttle: the first answers, also after its end.
        (first,) = ann.ask("submit", (0, [(b"once", b"1", throttled, b"key", 0, [])]))
        lease, _, _, payload, *_ = bob.hear("assign")
        assert payload == b"1"
        bob.ask("finish", (lease, b"the result"))
        assert ann.ask("submit", (1, [(b"once", b"2", throttled, b"key", 0, [])])) == [first]
        assert ann.hear("ended") == [first, "done", 0, b"the result"]
        # Debounce: the second payload is on disk when it is acknowledged.
        (waits,) = ann.ask("submit", (0, [(b"quiet", b"1", debounced, b"key", 0, [])]))
        assert ann.ask("submit", (0, [(b"quiet", b"2", debounced, b"key", 0, [])])) == [waits]
        longer = {"debounce_us": 3_600_000_000}
        (later,) = ann.ask("submit", (0, [(b"quiet", b"5", longer, b"another key", 0, [])]))
        assert "debounced" in ann.ask("job", (later,))["why"]
        hall.kill()
    hall.start()
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        told = ann.ask("queue", (b"cut",))
        assert (told["rules"], told["rules_set"]) == (
            {"key_running_max": 1, "starts_per_second": 1000.0, "burst": 1},
            True,
        )
        assert (told["ready"], told["parked"]) == (1, 13)
        assert ann.ask("queue", (QUEUE,))["rules"] == {}, "those of hall.toml are lifted"
        assert ann.ask("unlimit", {"name": QUEUE}) == {"rules": {"key_running_max": MOST}, "set": False}
        assert ann.ask("submit", (0, [(b"once", b"3", throttled, b"key", 0, [])])) == [first]
        assert ann.ask("submit", (0, [(b"quiet", b"3", debounced, b"key", 0, [])])) == [waits]
        bob.work(b"quiet")
        _, job, _, payload, *_ = bob.hear("assign")
        assert (job, payload) == (waits, b"3")
        # It has started: what comes now is another job.
        (later,) = ann.ask("submit", (0, [(b"quiet", b"4", debounced, b"key", 0, [])]))
        assert later != waits
        with pytest.raises(NativeError, match="must have a key"):
            ann.submit(b"quiet", b"", debounce_us=5)
