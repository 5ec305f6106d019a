"""`hall run --resume`: what is done is not done again, whatever was killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hall_process import wait_until
from worker_process import children_of, is_alive

from hiringhall.records import History

if TYPE_CHECKING:
    from pathlib import Path

    from hall_process import HallProcess
    from shell_stage import ShellStage

COUNT = 400
SLOTS = 2


def numbers(file: Path) -> list[int]:
    """The numbers that commands have written, one on each line."""
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def recorded(data: Path) -> set[int]:
    """The numbers of the jobs whose success is on disk."""
    with History(data) as history:
        return {int(record.key.split(b"-")[1]) for record in history.find(state="done")}


def kill(pids: list[int]) -> None:
    """Kill processes, and wait for the end of all that they have started."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # it starts nothing more
    below = [child for pid in pids for child in children_of(pid)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in (*pids, *below)), "the processes have ended", 60)


@pytest.mark.parametrize("victims", ["all", "run", "hall", "worker"])
def test_the_rest_is_done_after_kills_at_random_moments(
    stage: ShellStage, tmp_path: Path, victims: str
) -> None:
    chance = random.Random(victims)
    log, shown = tmp_path / "log", tmp_path / "shown"
    # Without other processes than the shell, so that nothing is written after its end. However late the kill
    # comes, it meets a run that has not ended.
    os.mkfifo(tmp_path / "gate")
    command = f"[ {{}} -lt {COUNT - 10} ] || [ -e open ] || read line < gate; echo {{}} >> log; echo {{}}"
    words = ("--data", "own", "-j", str(SLOTS), command, ":::")
    arguments = [str(number) for number in range(1, COUNT + 1)]
    times: Counter[int] = Counter()
    done: set[int] = set()
    for resume in ((), ("--resume",), ("--resume",)):
        with shown.open("wb") as stdout:
            process = stage.popen("run", *resume, *words, *arguments, stdout=stdout, stderr=subprocess.DEVNULL)
        target = times.total() + chance.randint(1, 60)
        wait_until(
            lambda wanted=target, run=process: len(numbers(log)) >= wanted or run.poll() is not None,
            "commands have run",
            60,
        )
        assert process.poll() is None, "the run has ended before it could be killed"
        hall, worker = sorted(children_of(process.pid))
        chosen = {"all": [process.pid, hall, worker], "run": [process.pid], "hall": [hall], "worker": [worker]}
        kill(chosen[victims])
        process.wait(60)
        wait_until(lambda pids=(hall, worker): not any(map(is_alive, pids)), "hall and worker end with it", 60)
        times = ran_once(times, Counter(numbers(log)), done)
        done = recorded(tmp_path / "own" / "data")
        # The run shows a command when the hall has told it the end, so that was on disk.
        assert set(numbers(shown)) <= done
    (tmp_path / "open").touch()
    found = stage.hall("run", "--resume", "-k", *words, *arguments)
    assert found.returncode == 0, found.stderr
    assert found.stdout.decode().split() == arguments
    times = ran_once(times, Counter(numbers(log)), done)
    assert sorted(times) == sorted(recorded(tmp_path / "own" / "data")) == list(range(1, COUNT + 1))


def ran_once(before: Counter[int], after: Counter[int], done: set[int]) -> Counter[int]:
    """What has run, after a run that ran nothing twice, and nothing whose success was on disk: so only what ran
    at a kill, or had ended and was not on disk yet, ever runs again.
    """
    more = after - before
    assert not more.keys() & done
    assert set(more.values()) <= {1}
    return after


def test_a_finished_run_is_not_run_again_and_its_output_is_shown_once_more(
    stage: ShellStage, tmp_path: Path
) -> None:
    words = ("--data", "own", "-j", "1", "-k", "echo {} >> log; echo out {}; echo err {} >&2", ":::", "a", "b")
    first = stage.hall("run", *words)
    second = stage.hall("run", "--resume", *words)
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, first.stderr)
    assert (tmp_path / "log").read_text() == "a\nb\n"
    third = stage.hall("run", *words)
    assert third.stdout == first.stdout
    assert (tmp_path / "log").read_text() == "a\nb\na\nb\n"


def test_what_failed_is_tried_again_and_shows_its_new_output_only(stage: ShellStage, tmp_path: Path) -> None:
    words = (
        "--data",
        "own",
        "-j",
        "1",
        "-k",
        "echo {} >> log; echo $(wc -l < log); test -e {}",
        ":::",
        "good",
        "bad",
    )
    (tmp_path / "good").touch()
    assert stage.hall("run", *words).returncode == 1
    (tmp_path / "bad").touch()
    found = stage.hall("run", "--resume", *words)
    assert (found.returncode, found.stdout) == (0, b"1\n3\n")
    assert (tmp_path / "log").read_text() == "good\nbad\nbad\n"


def test_new_arguments_are_run_and_old_ones_are_not(stage: ShellStage, tmp_path: Path) -> None:
    words = ("--data", "own", "echo {} >> log", ":::", "a", "b")
    stage.hall("run", *words)
    assert stage.hall("run", "--resume", *words, "c").returncode == 0
    assert sorted((tmp_path / "log").read_text().split()) == ["a", "b", "c"]


def test_resume_without_an_earlier_run_says_so_and_runs(stage: ShellStage, tmp_path: Path) -> None:
    found = stage.hall("run", "--resume", "--data", "own", "echo", ":::", "x")
    assert (found.returncode, found.stdout) == (0, b"x\n")
    assert b"no earlier run" in found.stderr


def test_jobs_that_a_killed_run_left_do_not_run_in_the_next(stage: ShellStage, tmp_path: Path) -> None:
    words = (
        "run",
        "--data",
        "own",
        "-j",
        "1",
        "touch begun; sleep 0.1; echo {} >> log",
        ":::",
        *map(str, range(50)),
    )
    process = stage.popen(*words)
    wait_until((tmp_path / "begun").exists, "the first run has begun", 60)
    kill(children_of(process.pid))
    process.wait(60)
    before = len(numbers(tmp_path / "log"))
    found = stage.hall("run", "--data", "own", "echo other", ":::", "x")
    assert found.stdout == b"other x\n"
    assert len(numbers(tmp_path / "log")) == before


def test_a_run_at_a_hall_that_is_killed_and_started_again_goes_on(
    stage: ShellStage, server: HallProcess, tmp_path: Path
) -> None:
    with stage.worker():
        words = (
            "run",
            "--hall",
            stage.url,
            "--queue",
            stage.queue,
            "-k",
            "sleep 0.01; echo {} | tee -a log",
            ":::",
        )
        process = stage.popen(*words, *map(str, range(300)), stdout=subprocess.PIPE)
        wait_until(lambda: len(numbers(tmp_path / "log")) > 30, "some commands have run", 60)
        server.kill()
        server.start()
        assert process.stdout is not None
        output = process.stdout.read()
        process.stdout.close()
        assert process.wait(60) == 0
    assert output.decode().split() == [str(number) for number in range(300)]
