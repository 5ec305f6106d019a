"""The native door, on a real hall: clients and workers, other dialects, kill -9, and bad input."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from broken_disk import FaintDisk
from hall_process import HallProcess, wait_until
from native_peer import NativeError, NativePeer

from hiringhall.peers.gearman import Worker as GearmanWorker

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "protocols" / "native.md").read_text()


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    with HallProcess(tmp_path, door={"dialect": "native"}) as hall:
        yield hall


def state(peer: NativePeer, job: int) -> str:
    return str(peer.ask("job", (job,))["state"])


def test_a_job_is_submitted_done_and_found_by_its_id_after_kill_9(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        job = ann.submit(b"resize", b"cat.jpg", b"k", watch=2, retries=1)
        assert ann.ask("job", (job,))["why"] == "its queue has no workers"
        bob.work(b"resize")
        lease, given, queue, payload, key, attempt, run_us = bob.hear("assign")
        assert (given, queue, payload, key, attempt, run_us) == (job, b"resize", b"cat.jpg", b"k", 1, 0)
        bob.send("progress", (lease, 1, 2, 0))
        bob.send("chunk", (lease, b"half", False))
        assert ann.hear("progress") == [job, 1, 2]
        assert ann.hear("chunk") == [job, b"half", False]
        bob.ask("finish", (lease, b"done"))
        assert ann.hear("ended") == [job, "done", 0, b"done"]
    hall.kill()
    hall.start()
    with NativePeer(hall.port) as ann:
        found = ann.ask("job", (job,))
        assert (found["state"], found["result"], found["worker"], found["key"]) == (
            "done",
            b"done",
            b"bob",
            b"k",
        )
        assert ann.ask("watch", (job, 1))["state"] == "done"
        assert ann.hear("ended") == [job, "done", 0, b"done"]


def test_a_failure_is_retried_as_the_terms_say_unless_the_worker_knows_better(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        job = ann.submit(b"q", b"1", watch=1, retries=5, backoff_us=0)
        bob.work(b"q")
        bob.send("fail", (bob.hear("assign")[0], 7, b"again", True))
        lease, given, *_ = bob.hear("assign")
        assert given == job
        bob.send("fail", (lease, 8, b"Traceback: no", False))
        assert ann.hear("ended") == [job, "failed", 8, b"Traceback: no"]
        ann.ask("retry", (job,))
        lease, given, *_ = bob.hear("assign")
        bob.ask("finish", (lease, b"ok"))
        assert (given, ann.ask("job", (job,))["result"]) == (job, b"ok")


def test_many_jobs_in_one_frame_go_to_the_slots_of_a_worker(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        jobs = ann.ask("submit", (1, [(b"q", b"%d" % number, {}, b"", 0, []) for number in range(500)]))
        assert jobs == sorted(set(jobs))
        bob.work(b"q", slots=4)
        running = 0
        for _ in jobs:
            lease, _, _, payload, *_ = bob.hear("assign")
            running = max(running, ann.ask("queues", (0, 1))[0]["running"])
            bob.send("finish", (lease, payload))
        assert running <= 4
        ends = {job: result for job, _, _, result in (ann.hear("ended") for _ in jobs)}
        assert ends == {job: b"%d" % number for number, job in enumerate(jobs)}


def test_a_submit_of_many_is_all_or_nothing(hall: HallProcess) -> None:
    specs = [
        (b"q", b"1", {}, b"", 0, []),
        (b"q", b"2", {"retries": -1}, b"", 0, []),
        (b"q", b"3", {}, b"", 0, []),
    ]
    with NativePeer(hall.port) as ann:
        with pytest.raises(NativeError) as caught:
            ann.ask("submit", (1, specs))
        text = (
            "terms: retries must be a whole number from 0 to 1000000 (job 2 of 3; none of them was submitted)"
        )
        assert caught.value.args == ("bad_request", text)
        assert [queue["ready"] for queue in ann.ask("queues", (0, 10))] in ([], [0])
    wait_until(lambda: "retries must be" in hall.errors(), "the refusal is in the log")


@pytest.mark.sqlite  # the disk of its file fails
def test_a_submit_that_the_disk_does_not_keep_is_refused_by_its_number(tmp_path: Path) -> None:
    disk = FaintDisk(tmp_path)
    door = {"dialect": "native"}
    with (
        HallProcess(tmp_path, door=door, environment=disk.environment()) as hall,
        NativePeer(hall.port) as ann,
    ):
        ann.submit(b"q", b"kept")
        disk.fail()
        # Two submits of one job, in one turn: each has its own answer, when it is known what the disk has.
        for number in (101, 102):
            ann.send("submit", (1, [(b"q", b"", {}, b"k", 0, [])]), number)
        wait_until(lambda: "unknown commit" in hall.errors(), "the disk fails")
        with NativePeer(hall.port) as bob:
            for watch in (0, 1):
                with pytest.raises(NativeError, match="store_down"):
                    bob.ask("submit", (watch, [(b"q", b"%d" % number, {}, b"", 0, []) for number in range(3)]))
        disk.heal()
        for number in (101, 102):
            with pytest.raises(NativeError, match="store_down"):
                ann.answer(number)
        assert ann.ask("queues", (0, 1))[0]["ready"] == 1
        wait_until(lambda: _takes_jobs(ann), "the store works again")


def _takes_jobs(peer: NativePeer) -> bool:
    try:
        return peer.submit(b"q", b"again") > 0
    except NativeError:
        return False


def test_a_worker_that_goes_loses_its_job_to_another(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob, NativePeer(hall.port) as eve:
        job = ann.submit(b"q", b"1", watch=1)
        bob.work(b"q")
        assert bob.hear("assign")[1] == job
        bob.close()
        eve.work(b"q", name=b"eve")
        lease, given, _, _, _, attempt, _ = eve.hear("assign")
        assert (given, attempt) == (job, 2)
        eve.send("finish", (lease, b""))
        assert ann.hear("ended")[:2] == [job, "done"]
        assert ann.ask("job", (job,))["losses"] == 1


def test_a_cancelled_job_is_revoked_and_its_late_result_is_stale(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        job = ann.submit(b"q", b"1", watch=1)
        bob.work(b"q")
        lease = bob.hear("assign")[0]
        ann.ask("cancel", (job, b"not needed"))
        assert ann.hear("ended") == [job, "cancelled", 130, b"not needed"]
        assert bob.hear("revoke") == [lease]
        with pytest.raises(NativeError, match="stale_lease"):
            bob.ask("finish", (lease, b"late"))
        again = ann.submit(b"q", b"2")
        assert bob.hear("assign")[1] == again


def test_children_wait_for_their_parents(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        parent = ann.submit(b"q", b"parent")
        (child,) = ann.ask("submit", (0, [(b"q", b"child", {}, b"", 0, [parent])]))
        assert state(ann, child) == "held"
        bob.work(b"q")
        bob.ask("finish", (bob.hear("assign")[0], b""))
        assert bob.hear("assign")[1] == child


def test_jobs_of_gearman_are_done_here_and_found_by_their_id(tmp_path: Path) -> None:
    more = '[[door]]\ndialect = "native"\naddress = "127.0.0.1:0"\n'
    with (
        HallProcess(tmp_path, more=more) as hall,
        NativePeer(hall.ports[1]) as ann,
        NativePeer(hall.ports[1]) as bob,
        hall.client() as client,
    ):
        receipt = client.submit_background("rev", b"abc")
        job = int(receipt.handle.rpartition(b":")[2])
        assert state(ann, job) == "queued"
        bob.work(b"rev")
        bob.ask("finish", (bob.hear("assign")[0], b"cba"))
        assert ann.ask("job", (job,))["result"] == b"cba"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xff\xff\xff", "bad_frame"),
        (b"\0\0\0\x01\xc1", "bad_frame"),
        (b"\0\0\0\x08\x93\xa4beat\x01\xc0", "no_hello"),
        (b"GET / HTTP/1.1\r\n\r\n", "bad_frame"),
    ],
)
def test_bad_input_is_answered_logged_and_the_connection_closed(
    hall: HallProcess, data: bytes, code: str
) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port, greet=False) as mallory:
        mallory.socket.sendall(data)
        frame = mallory.read()
        assert frame is not None
        assert (frame[0], frame[2][0]) == ("error", code)
        assert mallory.read() is None
        assert ann.submit(b"q", b"1") > 0
    wait_until(lambda: "bad_input" in hall.errors() or "bad input" in hall.errors(), "it is in the log")


def test_a_submit_sent_again_is_not_doubled_whatever_became_of_the_hall(tmp_path: Path) -> None:
    """Memory keeps one ended job: the others are found in the history."""
    keys = [b"k%d" % number for number in range(6)]
    jobs = [(b"q", key, {}, key, 0, []) for key in keys]
    with HallProcess(tmp_path, door={"dialect": "native"}, limits={"ended_max": 1}) as hall:
        with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
            ids = ann.ask("submit", (0, jobs))
            bob.work(b"q")
            for _ in keys[:3]:
                lease, _, _, payload, *_ = bob.hear("assign")
                bob.ask("finish", (lease, payload))
            with NativePeer(hall.port) as eve:
                assert eve.ask("submit", (1, jobs, True)) == ids
                assert sorted(eve.hear("ended") for _ in range(3)) == [
                    [job, "done", 0, key] for job, key in zip(ids[:3], keys[:3], strict=True)
                ]
        hall.kill()
        hall.start()
        with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
            new = (b"q", b"new", {}, b"new", 0, [])
            *known, added = ann.ask("submit", (1, [*jobs, new], True))
            assert (known, added > ids[-1]) == (ids, True)
            bob.work(b"q", slots=9)
            given = [bob.hear("assign") for _ in range(4)]
            assert [job for _, job, *_ in given] == [*ids[3:], added], "those that ended do not run again"
            for lease, _, _, payload, *_ in given:
                bob.send("finish", (lease, payload))
            ends = sorted(ann.hear("ended") for _ in range(7))
            results = dict(zip([*ids, added], [*keys, b"new"], strict=True))
            assert {job: result for job, _, _, result in ends} == results


def test_a_job_whose_process_dies_is_lost_and_the_worker_lives_on(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        job = ann.submit(b"q", b"1", watch=1, losses_max=2)
        bob.work(b"q")
        for _ in range(2):
            lease, given, *_ = bob.hear("assign")
            assert given == job
            bob.ask("renew", (lease,))
            bob.ask("lose", (lease, b"its process was ended by signal 9"))
        text = b"its workers were lost 2 times; the last time: its process was ended by signal 9"
        assert ann.hear("ended") == [job, "failed", 125, text]
    wait_until(lambda: "ended by signal 9; the job has lost 1 worker" in hall.errors(), "it is in the log")


def test_a_paused_queue_stays_paused_for_every_dialect_after_kill_9(tmp_path: Path) -> None:
    more = (
        '[[door]]\ndialect = "native"\naddress = "127.0.0.1:0"\n'
        '[[schedule]]\nname = "tick"\nqueue = "rev"\nevery = "1s"\npayload = "tick"\n'
    )
    with HallProcess(tmp_path, more=more) as hall:
        with NativePeer(hall.ports[1]) as ann:
            ann.ask("pause", (b"rev",))
        hall.kill()
        hall.start()
        with (
            NativePeer(hall.ports[1]) as ann,
            NativePeer(hall.ports[1]) as bob,
            GearmanWorker(hall.address) as worker,
            hall.client() as client,
        ):
            worker.register("rev", lambda job: job.data[::-1])
            bob.ask("work", (b"bob", 1, [(b"rev", 0, 0), (b"other", 0, 0)], -1, 0))
            handle = client.submit_background("rev", b"abc").handle
            job = int(handle.rpartition(b":")[2])
            wait_until(lambda: _queue(ann, b"rev")["ready"] > 1, "the schedule fires in a paused queue")
            other = ann.submit(b"other", b"")
            assert bob.hear("assign")[1] == other
            listed = _queue(ann, b"rev")
            assert (listed["running"], listed["paused"]) == (0, True)
            assert ann.ask("job", (job,))["why"] == "its queue is paused"
            ann.ask("watch", (job, 1))
            ann.ask("resume", (b"rev",))
            assert ann.hear("ended")[:2] == [job, "done"]
        hall.kill()
        hall.start()
        with NativePeer(hall.ports[1]) as ann:
            assert not any(queue["paused"] for queue in ann.ask("queues", (0, 9)))


def _queue(peer: NativePeer, name: bytes) -> dict[str, Any]:
    (listed,) = [queue for queue in peer.ask("queues", (0, 9)) if queue["name"] == name]
    assert isinstance(listed, dict)
    return listed


def test_an_idle_hall_drops_a_result_when_its_job_says_so(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        brief, usual = [ann.submit(b"q", b"", **terms) for terms in ({"keep_us": 1_000_000}, {})]
        bob.work(b"q", slots=2)
        for _ in range(2):
            bob.ask("finish", (bob.hear("assign")[0], b"result"))
        assert ann.ask("job", (brief,))["result"] == b"result"
        wait_until(lambda: _is_dropped(ann, brief), "the line of the job is dropped")
        assert ann.ask("job", (usual,))["result"] == b"result"


def _is_dropped(peer: NativePeer, job: int) -> bool:
    try:
        peer.ask("job", (job,))
    except NativeError as error:
        return error.args[0] == "not_kept"
    return False


def test_random_frames_harm_nobody(hall: HallProcess) -> None:
    draw = random.Random(4731)
    with NativePeer(hall.port) as ann:
        for _ in range(60):
            with NativePeer(hall.port) as mallory:
                data = draw.randbytes(draw.randrange(200))
                mallory.socket.sendall(len(data).to_bytes(4, "big") + data)
                mallory.socket.sendall(draw.randbytes(draw.randrange(50)))
        job = ann.submit(b"q", b"1")
        assert state(ann, job) == "queued"


def test_unknown_requests_and_jobs_are_refused_and_the_connection_goes_on(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann:
        for kind, body, code in [
            ("dance", None, "unknown_kind"),
            ("job", (1 << 62,), "unknown_job"),
            ("job", (5,), "unknown_job"),
            ("job", "five", "bad_request"),
            ("retry", (5,), "unknown_job"),
            ("finish", (1, b""), "stale_lease"),
            ("submit", (0, []), "bad_request"),
            ("submit", (0, [(b"", b"", {}, b"", 0, [])]), "bad_request"),
        ]:
            with pytest.raises(NativeError) as caught:
                ann.ask(kind, body)
            assert caught.value.args[0] == code, kind
        assert ann.submit(b"q", b"1") > 0


def test_numbers_out_of_bounds_are_refused_and_the_hall_goes_on(hall: HallProcess) -> None:
    largest = (1 << 63) - 1
    with NativePeer(hall.port) as ann:
        for kind, body in [
            ("submit", (0, [(b"q", b"", {}, b"", largest, [])])),
            ("submit", (3, [(b"q", b"", {}, b"", 0, [])])),
            ("queues", (largest, 1)),
            ("workers", (largest, 1)),
            ("work", (b"bob", 1, [(b"q", largest, 0)], -1, 0)),
            ("work", (b"bob", 1, [(b"q", 0, 0)], -2, 0)),
            ("watch", (1, 0)),
            ("submit", (0, [(b"q", b"", {}, b"", 0, [(b"", b"")])])),
        ]:
            with pytest.raises(NativeError, match="bad_request"):
                ann.ask(kind, body)
        for body in [(b"b" * 5000, 1, [(b"q", 0, 0)], -1, 0), (b"bob", 1, [(b"q", 0, 1)] * 10_001, -1, 0)]:
            with pytest.raises(NativeError, match="too_large"):
                ann.ask("work", body)
        assert ann.submit(b"q", b"1") > 0


def test_a_request_without_a_number_is_not_answered(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann:
        ann.send("submit", (0, [(b"q", b"1", {}, b"k", 0, [])]))
        ann.send("beat", None)
        job = ann.submit(b"q", b"2", b"k")
        ann.send("cancel", (job, b""))
        wait_until(lambda: state(ann, job) == "cancelled", "the job is cancelled")
        assert ann.unclaimed == []


def test_a_refused_submit_leaves_the_jobs_that_it_joined_as_they_were(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as bob:
        job = ann.submit(b"q", b"", b"k", watch=1, durable=False, detached=False)
        for bad in [(b"", b"", {}, b"", 0, []), (b"q", b"", {"durable": False}, b"", 0, [])]:
            with pytest.raises(NativeError, match="bad_request"):
                bob.ask("submit", (0, [(b"q", b"", {}, b"k", 0, []), bad]))
        ann.close()
        wait_until(lambda: not bob.ask("queues", (0, 1))[0]["ready"], "the job has ended with its watcher")
        with pytest.raises(NativeError, match="not_kept"):
            bob.ask("job", (job,))


def test_who_watches_twice_is_told_once_and_an_ended_job_can_be_unwatched(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann:
        job = ann.submit(b"q", b"")
        for level in (2, 1, 1):
            ann.ask("watch", (job, level))
        ann.ask("cancel", (job, b""))
        assert ann.hear("ended")[:2] == [job, "cancelled"]
        ann.ask("unwatch", (job,))
        assert ann.unclaimed == []


def test_the_client_of_the_page_works_as_it_stands(hall: HallProcess) -> None:
    example = textwrap.dedent(PAGE.partition("## A client of twenty lines\n")[2])
    program = example.replace("4731", str(hall.port))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "queued\n"), ended.stderr
