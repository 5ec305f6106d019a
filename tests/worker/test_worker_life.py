"""How a worker begins, ends, and comes back: signals, reloading, recycling, a hall that goes away."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hall_process import HallProcess, free_port, wait_until
from native_peer import NativePeer
from worker_process import WorkerProcess, is_alive

from hiringhall import Hall
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pathlib import Path

RESULT_S = 30.0
JOBS = """
import os
import time
from pathlib import Path
from hiringhall import Hall, current_job

hall = Hall()

@hall.job
def version() -> int:
    return 1

@hall.job
def pid() -> int:
    return os.getpid()

@hall.job
def until(file: str, started: str) -> str:
    with open(started, "a") as log:
        log.write(f"{os.getpid()}\\n")
    while not Path(file).exists():
        time.sleep(0.01)
    return "seen"

@hall.job
def total(numbers: list[int], extra: int) -> int:
    return sum(numbers) + extra
"""

DYING = """
from hiringhall.worker.loops import LOOPS

LOOPS.update(dict.fromkeys(LOOPS, lambda *_: os._exit(9)))
"""
"""A process that has imported this ends as soon as it is told to begin."""


@pytest.fixture
def module(tmp_path: Path) -> str:
    """A module of this test alone."""
    name = f"jobs_{os.getpid()}_{abs(hash(tmp_path)) % 100_000}"
    (tmp_path / f"{name}.py").write_text(JOBS)
    return name


def test_sigterm_finishes_what_runs_and_gives_the_rest_back(
    hall: Hall, url: str, module: str, tmp_path: Path
) -> None:
    until = hall.function(f"{module}.until")
    with WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path) as worker:
        first = until.submit(str(tmp_path / "go"), str(tmp_path / "started"))
        second = until.submit(str(tmp_path / "go"), str(tmp_path / "started"))
        wait_until((tmp_path / "started").exists, "the first runs")
        worker.signal(signal.SIGTERM)
        assert worker.wait_for("draining")["running"] == 1
        wait_until(lambda: second.state() == "queued", "the second waits")
        (tmp_path / "go").touch()
        assert first.result(RESULT_S) == "seen"
        assert worker.wait() == 0
    assert second.state() == "queued"
    with WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path):
        assert second.result(RESULT_S) == "seen"
    assert second.info().losses == 0


def test_after_the_grace_a_job_is_given_back_without_a_loss(
    hall: Hall, url: str, module: str, tmp_path: Path
) -> None:
    with WorkerProcess(url, "--processes", "1", "--grace", "0.2", target=module, folder=tmp_path) as worker:
        job = hall.function(f"{module}.until").submit(str(tmp_path / "go"), str(tmp_path / "started"))
        wait_until((tmp_path / "started").exists, "it runs")
        worker.signal(signal.SIGTERM)
        worker.wait_for("released", job=job.id)
        assert worker.wait() == 0
    wait_until(lambda: job.state() == "queued", "it waits again")
    assert job.info().losses == 0
    pid = int((tmp_path / "started").read_text())
    wait_until(lambda: not is_alive(pid), "the process of the job is gone")


def test_a_second_signal_ends_at_once(hall: Hall, url: str, module: str, tmp_path: Path) -> None:
    with WorkerProcess(url, "--processes", "1", "--grace", "60", target=module, folder=tmp_path) as worker:
        job = hall.function(f"{module}.until").submit(str(tmp_path / "go"), str(tmp_path / "started"))
        wait_until((tmp_path / "started").exists, "it runs")
        worker.signal(signal.SIGINT)
        worker.wait_for("draining")
        worker.signal(signal.SIGINT)
        assert worker.wait() == 130
    pid = int((tmp_path / "started").read_text())
    wait_until(lambda: not is_alive(pid), "the process of the job is gone")
    wait_until(lambda: job.state() == "queued", "it waits again")
    assert job.info().losses == 0


def test_processes_end_with_a_supervisor_that_is_killed(
    hall: Hall, url: str, module: str, tmp_path: Path
) -> None:
    with WorkerProcess(url, "--processes", "2", target=module, folder=tmp_path) as worker:
        worker.wait_for("connected")
        job = hall.function(f"{module}.until").submit(str(tmp_path / "go"), str(tmp_path / "started"))
        wait_until((tmp_path / "started").exists, "it runs")
        wait_until(lambda: len(worker.children()) == 2, "both processes are there")
        pids = worker.children()
        with Stopwatch() as watch:
            worker.signal(signal.SIGKILL)
            wait_until(lambda: not any(map(is_alive, pids)), "all of them are gone")
        assert watch.elapsed_s < 2
    wait_until(lambda: job.state() == "queued", "the hall has it again")


def test_a_process_is_replaced_after_so_many_jobs(hall: Hall, url: str, module: str, tmp_path: Path) -> None:
    words = ("--processes", "1", "--recycle", "3")
    with WorkerProcess(url, *words, target=module, folder=tmp_path):
        pids = hall.gather(*hall.function(f"{module}.pid", returns=int).submit_many([()] * 9))
    assert sorted(pids.count(pid) for pid in set(pids)) == [3, 3, 3]


def test_only_the_named_functions_are_run(hall: Hall, url: str, module: str, tmp_path: Path) -> None:
    words = ("--processes", "1", "--only", "pid", "--only", f"{module}.total")
    with WorkerProcess(url, *words, target=module, folder=tmp_path) as worker:
        assert worker.wait_for("serving")["functions"] == [f"{module}.pid", f"{module}.total"]
        version = hall.function(f"{module}.version").submit()
        hall.function(f"{module}.pid").submit().result(RESULT_S)
        assert version.state() == "queued"


def test_a_name_that_is_not_there_is_told_with_those_that_are(url: str, module: str, tmp_path: Path) -> None:
    with WorkerProcess(url, "--only", "nothing", target=module, folder=tmp_path) as worker:
        reason = worker.wait_for("broken")["reason"]
        assert worker.wait() == 1
    assert reason == (
        f"no function is called nothing (--only); there are: {module}.version, {module}.pid, "
        f"{module}.until, {module}.total"
    )


def test_a_job_that_needs_a_skill_goes_to_the_worker_that_has_it(
    hall: Hall, url: str, module: str, tmp_path: Path
) -> None:
    pid = hall.function(f"{module}.pid", returns=int)
    version = hall.function(f"{module}.version", returns=int)
    words = ("--processes", "1", "--skill", "2", "--skill", f"{module}.version=7")
    with WorkerProcess(url, *words, target=module, folder=tmp_path) as worker:
        assert version.options(skill=7).submit().result(RESULT_S) == 1
        assert pid.options(skill=2).submit().result(RESULT_S) in worker.children()
        hard = pid.options(skill=3).submit()
        assert pid.submit().result(RESULT_S) in worker.children()
        assert hard.info().why == "it needs skill 3, which none of 1 workers has"
        with WorkerProcess(
            url, "--processes", "1", "--skill", "pid=3", target=module, folder=tmp_path
        ) as other:
            assert hard.result(RESULT_S) in other.children()


def test_a_job_waits_for_a_worker_that_has_the_time(hall: Hall, url: str, module: str, tmp_path: Path) -> None:
    version = hall.function(f"{module}.version", returns=int)
    with WorkerProcess(url, "--processes", "1", "--stays", "50", target=module, folder=tmp_path):
        long = version.options(takes=60).submit()
        assert version.options(takes=10).submit().result(RESULT_S) == 1
        assert long.info().why == "it takes 60 s, and none of 1 workers has that much time left"
        with WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path):
            assert long.result(RESULT_S) == 1


def test_a_worker_whose_time_is_up_says_so_to_a_hall_that_comes_back(module: str, tmp_path: Path) -> None:
    words = ("--processes", "1", "--stays", "0")
    with (
        HallProcess(tmp_path, door={"dialect": "native"}) as server,
        Hall(f"hall://{server.address}") as hall,
        WorkerProcess(f"hall://{server.address}", *words, target=module, folder=tmp_path) as worker,
    ):
        worker.wait_for("connected")
        server.kill()
        server.start()
        worker.wait_for("connected")
        job = hall.function(f"{module}.version").submit()
        wait_until(lambda: job.info().why == "all 1 workers of its queue have no time left", "it waits")


def test_a_skill_for_a_function_that_is_not_there_is_told_with_those_that_are(
    url: str, module: str, tmp_path: Path
) -> None:
    with WorkerProcess(url, "--skill", "nothing=3", target=module, folder=tmp_path) as worker:
        reason = worker.wait_for("broken")["reason"]
        assert worker.wait() == 1
    assert reason.startswith(f"no function is called nothing (--skill); there are: {module}.version, ")


@pytest.mark.parametrize(
    ("option", "word", "complaint"),
    [
        ("--skill", "much", '"much" is not allowed; it takes a whole number from 0 to 1000000'),
        ("--skill", "pid=", '"pid=" is not allowed'),
        ("--skill", "=3", '"=3" is not allowed'),
        ("--skill", "pid=1000001", '"pid=1000001" is not allowed'),
        ("--skill", "9" * 5000, "is not allowed; it takes a whole number"),
        ("--stays", "-1", "-1 is not allowed; it takes seconds from 0 to 3153600000"),
        ("--stays", "nan", "nan is not allowed"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_starts(
    url: str, module: str, tmp_path: Path, option: str, word: str, complaint: str
) -> None:
    with WorkerProcess(url, option, word, target=module, folder=tmp_path) as worker:
        assert worker.wait() == 2
        assert f"{option}: " in (said := worker.printed())
        assert complaint in said


def test_changed_code_is_loaded_and_jobs_that_run_finish_with_the_old(
    hall: Hall, url: str, module: str, tmp_path: Path
) -> None:
    file = tmp_path / f"{module}.py"
    version = hall.function(f"{module}.version", returns=int)
    with WorkerProcess(url, "--processes", "2", "--reload", target=module, folder=tmp_path) as worker:
        assert version.submit().result(RESULT_S) == 1
        running = hall.function(f"{module}.until").submit(str(tmp_path / "go"), str(tmp_path / "started"))
        wait_until((tmp_path / "started").exists, "a job runs")
        file.write_text(
            JOBS.replace("return 1", "return 22") + "\n\n@hall.job\ndef more() -> int:\n    return 3\n"
        )
        worker.wait_for("reload")
        assert f"{module}.more" in worker.wait_for("serving")["functions"]
        assert hall.function(f"{module}.more").submit().result(RESULT_S) == 3
        wait_until(lambda: version.submit().result(RESULT_S) == 22, "new code runs")
        (tmp_path / "go").touch()
        assert running.result(RESULT_S) == "seen"
        assert running.info().attempts == 1

        file.write_text(JOBS + "\nraise RuntimeError('half written')\n")
        broken = worker.wait_for("broken")
        assert "RuntimeError: half written" in broken["reason"]
        assert "the code from before goes on" in broken["text"]
        assert version.submit().result(RESULT_S) == 22
        file.write_text(JOBS.replace("return 1", "return 333"))
        worker.wait_for("serving")
        wait_until(lambda: version.submit().result(RESULT_S) == 333, "mended code runs")


def test_with_reload_a_module_that_cannot_be_imported_is_waited_for(
    hall: Hall, url: str, module: str, tmp_path: Path
) -> None:
    file = tmp_path / f"{module}.py"
    file.write_text("from hiringhall import Hall\nhall = Hall(\n")
    with WorkerProcess(url, "--processes", "1", "--reload", target=module, folder=tmp_path) as worker:
        broken = worker.wait_for("broken")
        assert "SyntaxError" in broken["reason"]
        assert "waiting for a change" in broken["text"]
        file.write_text(JOBS)
        assert hall.function(f"{module}.version").submit().result(RESULT_S) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(5)\n", "SystemExit: 5"),
        ("import os\nos._exit(5)\n", "ended while it was imported: the worker's process exited with code 5"),
        ("x = 1\n", "has no Hall: write `hall = Hall()` in it"),
        ("from hiringhall import Hall\nhall = Hall()\n", "its hall has no functions; put @hall.job above"),
        (
            "from hiringhall import Hall\nb = Hall()\na = Hall()\n",
            "has several halls (a, b): say which, such as NAME:a",
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_explained(
    url: str, module: str, tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / f"{module}.py").write_text(text)
    with WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path) as worker:
        reason = worker.wait_for("broken")["reason"]
        assert worker.wait() == 1
    assert expected.replace("NAME", module) in reason
    assert "importlib" not in reason


def test_processes_that_die_without_a_job_are_replaced_after_a_pause(
    url: str, module: str, tmp_path: Path
) -> None:
    (tmp_path / f"{module}.py").write_text(JOBS + DYING)
    with WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path) as worker:
        for pause in ("0.5", "1"):
            text = worker.wait_for("broken")["text"]
            assert "the worker's process exited with code 9" in text
            assert f"(tried again in {pause} s)" in text


def test_a_module_that_is_not_there_is_explained(url: str, tmp_path: Path) -> None:
    with WorkerProcess(url, target="nowhere", folder=tmp_path) as worker:
        assert worker.wait_for("broken")["reason"] == (
            "no module called nowhere: run it in the folder where the module is, or set PYTHONPATH"
        )
        assert worker.wait() == 1


def test_the_hall_may_be_away_at_the_start_and_later(module: str, tmp_path: Path) -> None:
    folder = tmp_path / "hall"
    folder.mkdir()
    server = HallProcess(folder, door={"dialect": "native"})
    server.port = free_port()
    url = f"hall://{server.address}"
    with WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path) as worker:
        assert "connection refused" in worker.wait_for("disconnected")["reason"]
        with server, Hall(url) as hall:
            worker.wait_for("connected")
            version = hall.function(f"{module}.version", returns=int)
            assert version.submit().result(RESULT_S) == 1
            running = hall.function(f"{module}.until").submit(str(tmp_path / "go"), str(tmp_path / "started"))
            wait_until((tmp_path / "started").exists, "a job runs")
            server.kill()
            worker.wait_for("disconnected")
            server.start()
            # Its first attempt is stopped, since the hall gives it out again.
            worker.wait_for("stopped", job=running.id)
            worker.wait_for("connected")
            wait_until(lambda: len((tmp_path / "started").read_text().split()) == 2, "it runs again")
            first, second = map(int, (tmp_path / "started").read_text().split())
            wait_until(lambda: not is_alive(first), "the process of the first attempt is gone")
            assert is_alive(second)
            (tmp_path / "go").touch()
            assert running.result(RESULT_S) == "seen"
            assert version.submit().result(RESULT_S) == 1


def test_a_busy_job_is_not_lost_by_silence(hall: Hall, url: str, module: str, tmp_path: Path) -> None:
    with WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path):
        until = hall.function(f"{module}.until", silence=2)
        job = until.submit(str(tmp_path / "go"), str(tmp_path / "started"))
        wait_until((tmp_path / "started").exists, "it runs")
        nap = hall.function(f"{module}.none", delay=3, expires=0.1).submit()
        with pytest.raises(Exception, match="expired"):
            nap.result(RESULT_S)
        (tmp_path / "go").touch()
        assert job.result(RESULT_S) == "seen"
        assert job.info().attempts == 1


def test_results_of_parents_become_arguments(hall: Hall, url: str, module: str, tmp_path: Path) -> None:
    with WorkerProcess(url, "--processes", "2", target=module, folder=tmp_path):
        version = hall.function(f"{module}.version", returns=int)
        parents = version.submit_many([()] * 3)
        total = hall.function(f"{module}.total", returns=int)
        child = total.submit(list(parents), total.submit([10], 5))
        assert child.result(RESULT_S) == 18
        # A parent that has ended long ago is found as well.
        assert total.submit([1], parents[0]).result(RESULT_S) == 2


def test_a_parent_without_a_result_fails_the_job(hall: Hall, url: str, module: str, tmp_path: Path) -> None:
    with WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path):
        total = hall.function(f"{module}.total", returns=int)
        broken = total.submit("no numbers", 1)
        child = hall.function(f"{module}.total", on_parent_failure="run").submit([1], broken)
        with pytest.raises(
            Exception, match=f"the result of job {broken.id}, which is an argument, is not there"
        ):
            child.result(RESULT_S)


def test_a_worker_that_the_hall_drains_says_so_and_gets_no_more_jobs(
    hall: Hall, url: str, module: str, tmp_path: Path
) -> None:
    version = hall.function(f"{module}.version")
    with (
        WorkerProcess(url, "--processes", "1", target=module, folder=tmp_path) as worker,
        NativePeer(int(url.rpartition(":")[2])) as operator,
    ):
        assert version.submit().result(RESULT_S) == 1
        numbers = [one["number"] for one in operator.ask("workers", (0, 10)) if one["queues"]]
        for number in numbers:
            operator.ask("drain", (number,))
            assert "gets no more jobs" in worker.wait_for("drained")["text"]
        job = version.submit()
        assert job.state() == "queued"
        assert "drain" in job.info().why
        for number in numbers:
            operator.ask("undrain", (number,))
        assert job.result(RESULT_S) == 1
        worker.wait_for("undrained")
