"""`hall run` as a process: its output, its exit code, its hall."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import subprocess
import termios
import time
from typing import IO, TYPE_CHECKING, Any

import pytest
from hall_process import wait_until
from late_answers import LateAnswers
from worker_process import children_of, is_alive

if TYPE_CHECKING:
    from pathlib import Path

    from shell_stage import ShellStage


PIPE_BYTES = 65536
"""A full pipe of Linux."""


def run(stage: ShellStage, *words: str | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A run with a hall of its own, in the folder of the test."""
    return stage.hall("run", "--data", str(stage.folder / "own"), *words, **options)


def shared(stage: ShellStage, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A run at the hall of the tests."""
    return stage.hall("run", "--hall", stage.url, "--queue", stage.queue, *words, **options)


def test_each_argument_is_run_by_a_hall_of_its_own_and_both_end(stage: ShellStage, tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("first\n")
    (tmp_path / "c'd.txt").write_text("second\n")
    found = run(stage, "-k", "cat {} && echo {.} $(pwd)", ":::", "a b.txt", "c'd.txt")
    assert found.returncode == 0
    assert found.stdout.decode() == f"first\na b {tmp_path}\nsecond\nc'd {tmp_path}\n"
    assert found.stderr == b""
    history = stage.hall("history", "--data", str(tmp_path / "own" / "data"), "--json")
    lines = [json.loads(line) for line in history.stdout.splitlines()]
    assert sorted(line["state"] for line in lines) == ["done", "done"]


def test_stdout_and_stderr_are_kept_apart_and_whole(stage: ShellStage) -> None:
    found = run(stage, "-j", "3", "echo a{}; echo e{} >&2; echo b{}", ":::", "1", "2", "3")
    assert sorted(found.stdout.split()) == [b"a1", b"a2", b"a3", b"b1", b"b2", b"b3"]
    assert sorted(found.stderr.split()) == [b"e1", b"e2", b"e3"]
    assert all(f"a{n}\nb{n}\n".encode() in found.stdout for n in (1, 2, 3))


def test_keep_order_shows_output_in_the_order_of_the_arguments(stage: ShellStage) -> None:
    with stage.worker(slots=5):
        found = shared(stage, "-k", "sleep 0.{}; echo {}", ":::", "5", "4", "3", "2", "1")
    assert found.stdout == b"5\n4\n3\n2\n1\n"


def test_binary_and_huge_output_arrive_whole_and_in_order(stage: ShellStage) -> None:
    with stage.worker():
        found = shared(
            stage, "-k", r"head -c 3000000 /dev/zero | tr '\0' {}; printf '\000\377'", ":::", "a", "b"
        )
    assert found.stdout == b"a" * 3_000_000 + b"\0\xff" + b"b" * 3_000_000 + b"\0\xff"


@pytest.mark.parametrize(("count", "code"), [(0, 0), (3, 3), (100, 100), (120, 101)])
def test_the_exit_code_is_the_number_of_failed_jobs(stage: ShellStage, count: int, code: int) -> None:
    with stage.worker(slots=4):
        found = shared(stage, "exit {}", ":::", *["0"] * 5, *["1"] * count)
    assert found.returncode == code


def test_a_command_that_fails_in_silence_is_named(stage: ShellStage) -> None:
    with stage.worker():
        found = shared(stage, "exit {}", ":::", "7")
    assert found.stderr == b"hall: job 1 failed with code 7: exit 7\n"


def test_a_failed_command_is_tried_again_and_only_its_last_output_is_shown(stage: ShellStage) -> None:
    with stage.worker():
        found = shared(stage, "--retries", "2", "echo {} $HALL_ATTEMPT; test $HALL_ATTEMPT = 2", ":::", "x")
    assert (found.returncode, found.stdout) == (0, b"x 2\n")


def test_a_timeout_fails_the_job(stage: ShellStage) -> None:
    with stage.worker():
        found = shared(stage, "--timeout", "500ms", "sleep {}", ":::", "0", "60")
    assert found.returncode == 1
    assert b"code 124" in found.stderr


def test_tags_stand_before_each_line(stage: ShellStage) -> None:
    with stage.worker():
        found = shared(
            stage, "-k", "--tag", "printf '1\\n2'; echo; echo e >&2; : {}", ":::", "a", ":::", "x", "y"
        )
    assert found.stdout == b"a x\t1\na x\t2\na y\t1\na y\t2\n"
    assert found.stderr == b"a x\te\na y\te\n"


def test_commands_come_from_stdin_and_from_a_file(stage: ShellStage, tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"x\ny\n")
    with stage.worker():
        assert shared(stage, "-k", input=b"echo one\necho two\n").stdout == b"one\ntwo\n"
        assert shared(stage, "-k", "-a", "list", "echo").stdout == b"x\ny\n"
        assert shared(stage, "-k", "-0", "echo", input=b"a\0b").stdout == b"a\nb\n"


def test_an_input_that_is_slow_does_not_hold_up_what_is_there(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker():
        words = ("run", "--hall", stage.url, "--queue", stage.queue, "touch {}")
        process = stage.popen(*words, stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        wait_until((tmp_path / "first").exists, "the first command has run")
        process.stdin.write(b"second\n")
        process.stdin.close()
        assert process.wait(30) == 0
    assert (tmp_path / "second").exists()


def test_dry_run_prints_commands_and_opens_nothing(stage: ShellStage, tmp_path: Path) -> None:
    found = stage.hall("run", "--dry-run", "cp {} {.}.bak", ":::", "a b.txt")
    assert (found.returncode, found.stdout) == (0, b"cp 'a b.txt' 'a b'.bak\n")
    assert not list(tmp_path.iterdir())


def test_results_are_in_files_of_each_job(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker():
        shared(stage, "--results", "res", "echo {}; echo e >&2; exit {#}", ":::", "x\ny", "z")
    first = tmp_path / "res" / "1"
    assert (first / "stdout").read_bytes() == b"x\ny\n"
    assert (first / "stderr").read_bytes() == b"e\n"
    described = json.loads((first / "job.json").read_bytes())
    assert (described["code"], described["state"], described["arguments"]) == (1, "failed", ["x\ny"])
    assert described["seconds"] >= 0
    assert json.loads((tmp_path / "res" / "2" / "job.json").read_bytes())["code"] == 2


def test_json_has_a_line_for_each_job(stage: ShellStage) -> None:
    with stage.worker():
        found = shared(stage, "-k", "--json", r"printf '\377'; exit {}", ":::", "0", "3")
    first, second = [json.loads(line) for line in found.stdout.splitlines()]
    assert list(first) == [
        *("number", "id", "command", "arguments", "state", "code", "seconds", "error"),
        *("stdout", "stdout_base64", "stderr", "truncated"),
    ]
    assert (first["state"], first["code"], first["stdout_base64"]) == ("done", 0, "/w==")
    assert (second["number"], second["state"], second["code"]) == (2, "failed", 3)


def test_hostile_names_of_files_are_one_argument(stage: ShellStage, tmp_path: Path) -> None:
    names = [
        b"two words",
        b"it's",
        b"$(touch hacked)",
        b"; touch hacked",
        b"-rf",
        b"\xff\xfe",
        b"a\nb",
        b"\x1b[2J",
    ]
    folder = tmp_path / "names"
    folder.mkdir()
    for name in names:
        os.close(os.open(os.fsencode(folder) + b"/" + name, os.O_CREAT | os.O_WRONLY))
    with stage.worker():
        paths = b"\0".join(os.fsencode(folder) + b"/" + name for name in names)
        found = shared(stage, "-k", "-0", "test -f {} && printf '%s\\0' {/}", input=paths)
    assert found.stdout.split(b"\0")[:-1] == names
    assert found.returncode == 0
    assert not list(tmp_path.rglob("hacked"))


def test_a_closed_stdout_ends_the_run(stage: ShellStage) -> None:
    with stage.worker():
        words = ("run", "--hall", stage.url, "--queue", stage.queue, "yes {} | head -10000")
        process = stage.popen(
            *words, ":::", *map(str, range(2000)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.read(2) != b""
        process.stdout.close()
        assert process.wait(60) != 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
        process.stderr.close()


def test_the_first_ctrl_c_lets_running_commands_finish_and_the_rest_can_be_resumed(
    stage: ShellStage, tmp_path: Path
) -> None:
    command = "touch begun-{}; while [ ! -e go ]; do sleep 0.01; done; echo {} >> log"
    words = ("run", "--data", "own", "-j", "1", command, ":::", "1", "2", "3")
    process = stage.popen(*words, stderr=subprocess.PIPE)
    wait_until((tmp_path / "begun-1").exists, "the first command runs", 60)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"no more jobs" in process.stderr.readline()
    (tmp_path / "go").touch()
    assert process.wait(60) == 130
    assert b"--resume" in process.stderr.read()
    process.stderr.close()
    assert (tmp_path / "log").read_text() == "1\n"
    assert stage.hall("run", "--resume", *words[1:]).returncode == 0
    assert sorted((tmp_path / "log").read_text().split()) == ["1", "2", "3"]


def test_the_second_ctrl_c_ends_running_commands_and_the_hall(stage: ShellStage, tmp_path: Path) -> None:
    words = ("run", "--data", "own", "-j", "2", "echo $$ > pid-{}; sleep 600", ":::", "1", "2", "3")
    process = stage.popen(*words, stderr=subprocess.PIPE)
    for number in (1, 2):
        wait_until(lambda file=tmp_path / f"pid-{number}": file.exists() and file.read_text(), "it runs", 60)
    pids = [int((tmp_path / f"pid-{number}").read_text()) for number in (1, 2)]
    below = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    with process.stderr:
        # Two signals that wait at the same time are one.
        assert any(b"no more jobs" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    wait_until(lambda: not any(is_alive(pid) for pid in (*pids, *below)), "everything has ended")


def test_ctrl_c_ends_jobs_whose_submit_was_not_answered_yet(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker(), LateAnswers(stage.port) as hall:
        words = (
            "run",
            "--hall",
            hall.url,
            "--queue",
            stage.queue,
            "touch begun-{}; sleep 600",
            ":::",
            "1",
            "2",
        )
        process = stage.popen(*words, stderr=subprocess.PIPE)
        assert process.stderr is not None
        with process.stderr:
            for number in (1, 2):
                wait_until((tmp_path / f"begun-{number}").exists, "it runs", 60)
            for told in (b"no more jobs", b"ending the jobs"):
                process.send_signal(signal.SIGINT)
                assert told in process.stderr.readline()
            hall.release()
            assert process.wait(60) == 130


def test_a_run_whose_output_nobody_reads_hears_ctrl_c(stage: ShellStage, tmp_path: Path) -> None:
    words = ("head -c 100000 /dev/zero; echo {} >> log; sleep 0.05", ":::", *map(str, range(100)))
    with stage.worker():
        for signals, stderr in (([signal.SIGINT, signal.SIGINT], subprocess.PIPE), ([signal.SIGTERM], None)):
            (tmp_path / "log").unlink(missing_ok=True)
            process = stage.popen(
                "run",
                *("--hall", stage.url, "--queue", stage.queue),
                *words,
                stdout=subprocess.PIPE,
                stderr=stderr or subprocess.STDOUT,
            )
            assert process.stdout is not None
            wait_until(lambda pipe=process.stdout: unread(pipe) == PIPE_BYTES, "the pipe is full", 60)
            for number in signals:
                process.send_signal(number)
                if process.stderr is not None:
                    assert process.stderr.readline().startswith(b"hall: ")
            assert process.wait(60) == 130
            assert unread(process.stdout) == PIPE_BYTES
            assert (tmp_path / "log").read_text().count("\n") < 100
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def test_a_run_whose_hall_was_killed_hears_ctrl_c_while_nobody_reads_its_output(stage: ShellStage) -> None:
    words = ("run", "--data", "own", "-j", "2", ":::", "head -c 100000 /dev/zero", "sleep 600")
    process = stage.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    wait_until(lambda: unread(process.stdout) == PIPE_BYTES, "the pipe is full", 60)
    hall, worker = sorted(children_of(process.pid))
    os.kill(hall, signal.SIGKILL)
    assert process.stderr.readline().startswith(b"hall: lost the connection")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith(b"hall: ")
    assert process.wait(60) == 255
    assert b"go on with --resume" in process.stderr.read()
    wait_until(lambda: not is_alive(worker), "the worker has ended")
    process.stdout.close()
    process.stderr.close()


def unread(pipe: IO[bytes]) -> int:
    """How many bytes wait in it."""
    counted = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, counted)
    return counted[0]


def test_the_job_log_has_the_columns_of_gnu_parallel(stage: ShellStage, tmp_path: Path) -> None:
    before_s = time.time()
    words = ("-k", "--joblog", "log", "echo {}; sh -c {}; true", ":::", "exit 3", "kill -9 $$", "sleep 0.2")
    assert run(stage, *words).returncode == 0
    found = run(stage, "--joblog", "failed", "exit {}", ":::", "3", "137")
    assert found.returncode == 2
    heading, *lines = (tmp_path / "log").read_text().splitlines()
    assert heading.split() == [
        "Seq",
        "Host",
        "Starttime",
        "JobRuntime",
        "Send",
        "Receive",
        "Exitval",
        "Signal",
        "Command",
    ]
    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[1] for row in rows] == [":"] * 3
    assert all(before_s - 1 < float(row[2]) < time.time() for row in rows)
    assert float(rows[2][3]) >= 0.2
    assert rows[0][4:] == ["0", "7", "0", "0", "echo 'exit 3'; sh -c 'exit 3'; true"]
    told = sorted(line.split("\t")[6:] for line in (tmp_path / "failed").read_text().splitlines()[1:])
    assert told == [["0", "9", "exit 137"], ["3", "0", "exit 3"]]
    resumed = run(stage, "--resume", *words)
    assert resumed.returncode == 0
    again = [line.split("\t") for line in (tmp_path / "log").read_text().splitlines()[1:]]
    assert [row[3:] for row in again] == [row[3:] for row in rows]
    assert all(abs(float(new[2]) - float(old[2])) < 1 for new, old in zip(again, rows, strict=True))


def test_columns_and_several_arguments_fill_the_places(stage: ShellStage) -> None:
    found = run(stage, "-k", "--colsep", "[,;]", "--dry-run", "cp {1} {2/}", input=b"a,x/b\nc;d e\nf\n")
    assert found.stdout == b"cp a b\ncp c 'd e'\ncp f \n"
    found = run(stage, "-N", "2", "--dry-run", "echo {2} {1}", ":::", "1", "2", "3")
    assert found.stdout == b"echo 2 1\necho  3\n"


def test_halt_starts_nothing_more_after_so_many_failures(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker(slots=1):
        found = shared(stage, "-j", "1", "--halt", "2", "echo x >> log; false", ":::", *map(str, range(50)))
    assert found.returncode == 2
    assert b"--halt" in found.stderr
    assert len((tmp_path / "log").read_text().split()) < 10


def test_j_bounds_the_jobs_under_way_at_a_hall(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker(slots=8):
        command = "mkdir lock 2>/dev/null || echo twice; sleep 0.02; rmdir lock; : {}"
        found = shared(stage, "-j", "1", command, ":::", *map(str, range(20)))
    assert (found.returncode, found.stdout) == (0, b"")


def test_a_variable_is_given_to_commands_if_the_worker_allows_it(
    stage: ShellStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "red")
    with stage.worker("--env", "SHAPE"):
        assert b"--env" in shared(stage, "--env", "COLOUR", "echo $COLOUR", ":::", "x").stderr
    with stage.worker("--env", "COLOUR"):
        assert shared(stage, "--env", "COLOUR", "echo $COLOUR", ":::", "x").stdout == b"red x\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("echo {2}", ":::", "a"), "{2} has no argument"),
        (("echo", "::::", "missing"), "missing cannot be read"),
        (("--hall", "http://x", "echo", ":::", "a"), "not the URL of a hall"),
        (("--hall", "hall://127.0.0.1:1", "echo", ":::", "a"), "no hall answers"),
        (("--hall", "hall://127.0.0.1:1", "--data", "x", "echo", ":::", "a"), "--data"),
        (("--timeout", "soon", "echo", ":::", "a"), "--timeout"),
    ],
)
def test_what_cannot_run_is_told_in_one_line(stage: ShellStage, words: tuple[str, ...], reason: str) -> None:
    found = stage.hall("run", *words)
    assert found.returncode in {2, 255}
    assert reason in found.stderr.decode()
    assert found.stderr.count(b"\n") == 1
