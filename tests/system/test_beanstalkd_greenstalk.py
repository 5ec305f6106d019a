"""greenstalk, a client of beanstalkd from PyPI, at a real hall."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from beanstalkd_house import Beanstalkd, BeanstalkdHall
from foreign import missing_program
from hall_process import CODE, wait_until
from testimony import audit

from hiringhall.core.states import CANCELLED, DONE, FAILED
from hiringhall.peers import gearman

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "protocols" / "beanstalkd.md").read_text()

ANSWERS = [
    # What `converse` is answered, by beanstalkd and by the hall.
    "using default",
    "watching ['default']",
    "put 1",
    "put 2",
    "put 3",
    "peek-ready 2 urgent",
    "peek-delayed 3 later",
    "peek-buried NotFoundError",
    "reserve 2 urgent",
    "state reserved",
    "touch",
    "release",
    "reserve 2 urgent",
    "bury",
    "state buried",
    "reserve 1 first",
    "reserve TimedOutError",
    "kick 1",
    "reserve 2 urgent",
    "delete",
    "delete NotFoundError",
    "kick-job",
    "reserve-job 3 later",
    "reserve-job NotFoundError",
    "release",
    "peek 3 later",
    "delete",
    "peek NotFoundError",
    "release NotFoundError",
    "bury NotFoundError",
    "touch NotFoundError",
    "kick-job NotFoundError",
    "kick 0",
    "watch 2",
    "ignore 1",
    "ignore NotIgnoredError",
    "watching ['other']",
    "using mail",
    "put JobTooBigError",
    "put 4",
    "ready 1 urgent 0 reserved 0 delayed 0 buried 0",
    "tubes ['default', 'mail', 'other']",
    "use BadFormatError",
    "unknown UnknownCommandError",
    "delete",
    "DeadlineSoonError",
]


def converse(client: Any) -> list[str]:
    """One of each command; the answers, with jobs numbered in order of coming."""
    import greenstalk

    answers: list[str] = []
    numbers: dict[int, int] = {}

    def ask(name: str, call: Callable[[], Any]) -> Any:
        try:
            answer = call()
        except greenstalk.Error as error:
            answers.append(f"{name} {type(error).__name__}")
            return None
        if name == "put":
            numbers[answer] = len(numbers) + 1
            answers.append(f"put {numbers[answer]}")
        elif isinstance(answer, greenstalk.Job):
            answers.append(f"{name} {numbers[answer.id]} {answer.body}")
        else:
            answers.append(name if answer is None else f"{name} {answer}")
        return answer

    ask("using", client.using)
    ask("watching", client.watching)
    first = ask("put", lambda: client.put("first", priority=5000, ttr=600))
    ask("put", lambda: client.put("urgent", priority=5, ttr=600))
    later = ask("put", lambda: client.put("later", delay=600))
    ask("peek-ready", client.peek_ready)
    ask("peek-delayed", client.peek_delayed)
    ask("peek-buried", client.peek_buried)
    job = ask("reserve", client.reserve)
    ask("state", lambda: client.stats_job(job)["state"])
    ask("touch", lambda: client.touch(job))
    ask("release", lambda: client.release(job, priority=5))
    job = ask("reserve", lambda: client.reserve(timeout=5))
    ask("bury", lambda: client.bury(job, priority=5))
    ask("state", lambda: client.stats_job(job)["state"])
    ask("reserve", lambda: client.reserve(timeout=0))
    ask("reserve", lambda: client.reserve(timeout=0))
    ask("kick", lambda: client.kick(10))
    job = ask("reserve", lambda: client.reserve(timeout=0))
    ask("delete", lambda: client.delete(job))
    ask("delete", lambda: client.delete(job))
    ask("kick-job", lambda: client.kick_job(later))
    later_job = ask("reserve-job", lambda: client.reserve_job(later))
    ask("reserve-job", lambda: client.reserve_job(later))
    ask("release", lambda: client.release(later_job, delay=600))
    ask("peek", lambda: client.peek(later))
    ask("delete", lambda: client.delete(later))
    ask("peek", lambda: client.peek(later))
    ask("release", lambda: client.release(later_job))
    ask("bury", lambda: client.bury(later_job))
    ask("touch", lambda: client.touch(later_job))
    ask("kick-job", lambda: client.kick_job(later))
    ask("kick", lambda: client.kick(10))
    ask("watch", lambda: client.watch("other"))
    ask("ignore", lambda: client.ignore("default"))
    ask("ignore", lambda: client.ignore("other"))
    ask("watching", client.watching)
    client.use("mail")
    ask("using", client.using)
    ask("put", lambda: client.put("x" * 65_536))
    mail = ask("put", lambda: client.put("x" * 65_535))
    stats = client.stats_tube("mail")
    words = ("ready", "urgent", "reserved", "delayed", "buried")
    answers.append(" ".join(f"{word} {stats[f'current-jobs-{word}']}" for word in words))
    ask("tubes", lambda: sorted(client.tubes()))
    ask("use", lambda: client.use("-mail"))
    ask("unknown", lambda: client._send_cmd(b"dance", b"DANCED"))
    ask("delete", lambda: client.delete(mail))
    client.use("default")
    client.watch("default")
    # The job that is still reserved has a time to run of 600 s: only this one's is about to end.
    client.delete(first)
    client.put("short", ttr=1)
    client.reserve()
    try:
        client.reserve()
    except greenstalk.Error as error:
        answers.append(type(error).__name__)
    return answers


@pytest.fixture(scope="module", autouse=True)
def _greenstalk(need: Callable[[str], None]) -> None:
    need("" if importlib.util.find_spec("greenstalk") else "PyPI's greenstalk")


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[BeanstalkdHall]:
    with BeanstalkdHall(tmp_path) as hall:
        yield hall
        if hall.running:
            assert audit(hall) == "clean"
            assert "Traceback" not in hall.errors(), hall.errors()


def connect(server: BeanstalkdHall | Beanstalkd, **settings: Any) -> Any:
    import greenstalk

    return greenstalk.Client(server.beanstalkd, **settings)


def test_beanstalkd_itself_gives_these_answers(tmp_path: Path, need: Callable[[str], None]) -> None:
    need(missing_program("beanstalkd"))
    with Beanstalkd(tmp_path) as server, connect(server) as client:
        assert converse(client) == ANSWERS


@pytest.mark.parametrize("jobs", ["durable", "memory"])
def test_the_hall_answers_as_beanstalkd_does(tmp_path: Path, jobs: str) -> None:
    with BeanstalkdHall(tmp_path, jobs=jobs) as hall, connect(hall) as client:
        assert converse(client) == ANSWERS
        assert audit(hall) == "clean"


def test_a_worker_waits_for_jobs_of_several_producers(hall: BeanstalkdHall) -> None:
    done: list[str] = []

    def work() -> None:
        with connect(hall, watch=["mail", "print"]) as worker:
            while len(done) < 200:
                job = worker.reserve(timeout=20)
                done.append(job.body)
                worker.delete(job)

    worker = threading.Thread(target=work)
    worker.start()
    with connect(hall, use="mail") as mail, connect(hall, use="print") as printer:
        for number in range(100):
            mail.put(f"mail {number}")
            printer.put(f"page {number}")
    worker.join(60)
    assert sorted(done) == sorted(f"{kind} {number}" for number in range(100) for kind in ("mail", "page"))
    assert {end.state for end in hall.history()} == {DONE}


def test_acknowledged_jobs_survive_a_kill(hall: BeanstalkdHall) -> None:
    import greenstalk

    with connect(hall) as client:
        for number in range(20):
            client.put(f"job {number}")
        reserved = client.reserve()
        client.delete(reserved)
        buried = client.reserve()
        client.bury(buried)
        client.reserve()
        hall.kill()
        with pytest.raises((OSError, greenstalk.Error)):
            client.reserve(timeout=0)
    hall.start()
    with connect(hall) as client:
        assert client.peek_buried().id == buried.id
        bodies = [client.reserve(timeout=0).body for _ in range(18)]
        assert sorted(bodies) == sorted(f"job {number}" for number in range(2, 20))
        with pytest.raises(greenstalk.TimedOutError):
            client.reserve(timeout=0)
        assert client.kick(5) == 1
        assert client.reserve(timeout=0).body == "job 1"


def test_a_job_goes_to_another_worker_when_its_time_to_run_is_over(hall: BeanstalkdHall) -> None:
    import greenstalk

    with connect(hall) as slow, connect(hall) as other:
        for _ in range(4):
            job_id = slow.put("again", ttr=1)
            first = slow.reserve()
            second = other.reserve(timeout=10)
            assert (first.id, second.id) == (job_id, job_id)
            with pytest.raises(greenstalk.NotFoundError):
                slow.touch(first)
            assert other.stats_job(second)["timeouts"] == 1
            other.delete(second)
    assert [(end.state, end.losses) for end in hall.history()] == [(DONE, 1)] * 4


def test_a_gearman_clients_job_is_reserved_and_deleted(hall: BeanstalkdHall) -> None:
    with connect(hall, watch="resize") as worker, hall.client() as client:
        client.submit_background("resize", b"kept.jpg", unique="u1")
        job = worker.reserve(timeout=10)
        assert job.body == "kept.jpg"
        assert worker.stats_job(job)["ttr"] == 0
        worker.delete(job)
        waiting = client.submit("resize", b"awaited.jpg")
        worker.delete(worker.reserve(timeout=10))
        assert waiting.result(10) == b""
        failing = client.submit("resize", b"broken.jpg")
        worker.bury(worker.reserve(timeout=10))
        with pytest.raises(gearman.JobFailed):
            failing.result(10)
    (end,) = hall.history()
    assert (end.queue, end.key, end.state, end.result) == (b"resize", b"u1", DONE, b"")
    assert re.fullmatch(rb"127\.0\.0\.1:\d+", end.worker)


def test_a_job_that_was_put_is_done_by_a_gearman_worker(hall: BeanstalkdHall) -> None:
    got: list[bytes] = []

    def resize(job: gearman.WorkerJob) -> bytes:
        got.append(job.data)
        if job.data == b"broken.jpg":
            raise gearman.JobFailed(b"no picture")
        return b"a result that nobody waits for"

    with connect(hall, use="resize") as client:
        kept, broken = client.put("kept.jpg"), client.put("broken.jpg")
        worker = gearman.Worker(hall.address)
        worker.register("resize", resize)
        with worker:
            wait_until(lambda: client.stats_tube("resize")["current-jobs-ready"] == 0, "both jobs are taken")
            wait_until(lambda: len(hall.history()) == 2, "both jobs have ended")
        assert got == [b"kept.jpg", b"broken.jpg"]
        assert client.peek_buried().id == broken
        ends = {end.id: end.state for end in hall.history()}
        assert ends == {kept: DONE, broken: FAILED}
        client.delete(broken)
    assert {end.id: end.state for end in hall.history()} == {kept: DONE, broken: CANCELLED}


def test_a_dead_letter_of_a_gearman_client_is_kicked(hall: BeanstalkdHall) -> None:
    tries: list[bytes] = []

    def resize(job: gearman.WorkerJob) -> bytes:
        tries.append(job.data)
        if len(tries) == 1:
            raise gearman.JobFailed(b"no disk space")
        return b"smaller"

    worker = gearman.Worker(hall.address)
    worker.register("resize", resize)
    with worker, hall.client() as client, connect(hall, use="resize") as beanstalkd:
        client.submit_background("resize", b"photo.jpg", unique="photo-7")
        wait_until(lambda: [end.state for end in hall.history()] == [FAILED], "the job has failed")
        assert beanstalkd.peek_buried().body == "photo.jpg"
        assert beanstalkd.kick(10) == 1
        wait_until(lambda: [end.state for end in hall.history()] == [DONE], "the job is done")
    (end,) = hall.history()
    assert (end.key, end.result, tries) == (b"photo-7", b"smaller", [b"photo.jpg"] * 2)


def test_a_gearman_worker_that_takes_longer_than_the_time_to_run_buries_the_job(hall: BeanstalkdHall) -> None:
    may_end = threading.Event()
    worker = gearman.Worker(hall.address)
    worker.register("resize", lambda _: b"late" if may_end.wait(30) else b"")
    with connect(hall, use="resize") as client:
        job_id = client.put("large.jpg", ttr=1)
        with worker:
            wait_until(lambda: client.stats_tube("resize")["current-jobs-buried"] == 1, "the job is buried")
            may_end.set()
        assert client.peek_buried().id == job_id


def test_the_example_of_the_page_prints_what_it_says(hall: BeanstalkdHall) -> None:
    ((example, promised),) = re.findall(
        r"```python\n(.*?)```\n\nprints\n\n((?:    [^\n]*\n)+)", PAGE, re.DOTALL
    )
    program = example.replace("11300", str(hall.beanstalkd[1]))
    assert program != example
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": CODE},
    )
    assert (ended.returncode, ended.stdout) == (0, textwrap.dedent(promised)), ended.stderr
