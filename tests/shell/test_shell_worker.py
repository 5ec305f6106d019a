"""`hall work --shell`: commands run, and what the hall is told of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hall_process import wait_until
from worker_process import is_alive

if TYPE_CHECKING:
    from shell_stage import ShellStage
    from worker_process import WorkerProcess


def pid_in(file: Path) -> int:
    """The pid that a command has written to a file."""
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"), f"a pid is in {file}")
    return int(file.read_text())


def descriptors(worker: WorkerProcess) -> int:
    return len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))


def test_a_command_that_succeeds_is_done_and_its_output_is_kept(stage: ShellStage) -> None:
    with stage.worker():
        job = stage.submit("echo out; echo err >&2; echo more")
        end = stage.end(job)
    assert (end.state, end.code, end.result["exit"]) == ("done", 0, 0)
    assert end.result["seconds"] >= 0
    assert stage.output(job) == (b"out\nmore\n", b"err\n")


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("echo first >&2; echo last >&2; exit 7", 7, "first\nlast"),
        ("no-such-program-anywhere", 127, "no-such-program-anywhere: not found"),
        ("kill -9 $$", 137, ""),
        ("kill -SEGV $$", 139, ""),
        ("if", 2, "Syntax error"),
    ],
)
def test_a_command_that_fails_has_its_exit_code_and_the_end_of_stderr(
    stage: ShellStage, command: str, code: int, text: str
) -> None:
    with stage.worker():
        end = stage.run(command)
    assert (end.state, end.code, end.result["type"]) == ("failed", code, f"exit {code}")
    assert text in end.result["text"]


def test_a_failed_command_is_retried_as_the_job_says(stage: ShellStage, tmp_path: Path) -> None:
    command = f"echo $HALL_ATTEMPT >> {tmp_path}/tries; test $HALL_ATTEMPT = 3"
    with stage.worker():
        end = stage.run(command, retries=5, backoff_us=1000)
    assert end.state == "done"
    assert (tmp_path / "tries").read_text().split() == ["1", "2", "3"]


def test_the_last_lines_of_a_long_stderr_are_the_text_of_the_failure(stage: ShellStage) -> None:
    with stage.worker():
        end = stage.run("seq 100000 >&2; exit 1")
    lines = end.result["text"].splitlines()
    assert lines[-1] == "100000"
    assert lines[0] == str(100001 - len(lines))


def test_binary_output_arrives_as_it_is(stage: ShellStage) -> None:
    with stage.worker():
        job = stage.submit(r"printf '\000\377\001\n\200'")
        assert stage.end(job).state == "done"
    assert stage.output(job)[0] == b"\0\xff\x01\n\x80"


def test_huge_output_does_not_grow_the_worker(stage: ShellStage) -> None:
    with stage.worker() as worker:
        stage.run("true")
        before = worker.resident_bytes()
        assert stage.run("head -c 200000000 /dev/zero").state == "done"
        assert worker.resident_bytes() < before + (40 << 20)


def test_a_command_that_is_not_utf8_runs(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker():
        end = stage.run(b"echo x > " + os.fsencode(tmp_path) + b"/\xff\xfe")
    assert end.state == "done"
    assert (os.fsencode(tmp_path) + b"/\xff\xfe") in [entry.path for entry in os.scandir(os.fsencode(tmp_path))]


def test_a_command_runs_in_its_folder_with_its_variables(stage: ShellStage, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    with stage.worker("--env", "COLOUR"):
        job = stage.submit("pwd; echo $COLOUR $HALL_SLOT", cwd=str(tmp_path / "below"), env={"COLOUR": "red"})
        stage.end(job)
        other = stage.submit("pwd")
        stage.end(other)
    assert stage.output(job)[0].decode() == f"{tmp_path}/below\nred 1\n"
    assert stage.output(other)[0].decode() == f"{tmp_path}\n"


def test_a_variable_that_the_operator_did_not_allow_is_refused(stage: ShellStage) -> None:
    with stage.worker("--env", "COLOUR"):
        end = stage.run("env", env={"LD_PRELOAD": "x"}, retries=3)
    assert (end.state, end.code) == ("failed", 126)
    assert "LD_PRELOAD" in end.result["text"]
    assert "--env" in end.result["text"]


def test_commands_see_the_allowed_variables_of_the_worker_and_never_its_token(
    stage: ShellStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hidden")
    monkeypatch.setenv("SHOWN", "seen")
    with stage.worker("--env", "SHOWN"):
        job = stage.submit("env")
        stage.end(job)
    names = {line.partition(b"=")[0] for line in stage.output(job)[0].splitlines()}
    assert {b"PATH", b"SHOWN", b"HALL_JOB", b"HALL_SLOT", b"HALL_ATTEMPT"} <= names
    assert not {b"SECRET", b"PYTHONPATH", b"HALL_TOKEN"} & names


def test_a_folder_that_is_not_below_the_allowed_one_is_refused(stage: ShellStage, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    (allowed / "inner").mkdir(parents=True)
    (tmp_path / "allowed-not").mkdir()
    (allowed / "out").symlink_to(tmp_path)
    with stage.worker("--cwd-below", str(allowed)):
        assert stage.run("true", cwd=str(allowed / "inner")).state == "done"
        for folder in (tmp_path, tmp_path / "allowed-not", allowed / "out", allowed / ".."):
            end = stage.run("true", cwd=str(folder))
            assert (end.state, end.code) == ("failed", 126)
            assert "--cwd-below" in end.result["text"]
        job = stage.submit("pwd")
        stage.end(job)
    assert stage.output(job)[0].decode() == f"{allowed}\n"


@pytest.mark.parametrize(
    ("payload", "word"),
    [
        (b"", "not a shell command"),
        (b"\xff\x00", "not a shell command"),
        (b"[1]", "not a shell command"),
        (b'{"command": 7}', "command"),
        (b'{"cwd": "/"}', "no command"),
        (b'{"command": "  "}', "no command"),
        (b'{"command": "a\\u0000b"}', "NUL"),
        (b'{"command": "true", "cwd": "here"}', "absolute"),
        (b'{"command": "true", "env": {"a=b": "c"}}', "env"),
        (b'{"command": "' + b"x" * 200_000 + b'"}', "200000 bytes"),
        (b"[" * 100_000, "not a shell command"),
    ],
    ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_payload_that_is_no_command_fails_and_the_next_job_runs(
    stage: ShellStage, payload: bytes, word: str
) -> None:
    with stage.worker():
        end = stage.end(stage.submit_payload(payload, retries=3))
        assert stage.run("true").state == "done"
    assert (end.state, end.code, end.result["type"]) == ("failed", 2, "BadCommand")
    assert word in end.result["text"]


def test_a_missing_folder_fails_the_job_with_its_name(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker():
        end = stage.run("true", cwd=f"{tmp_path}/nowhere")
    assert (end.state, end.code) == ("failed", 126)
    assert f"{tmp_path}/nowhere" in end.result["text"]


def test_a_timeout_ends_the_whole_process_group(stage: ShellStage, tmp_path: Path) -> None:
    command = f"(trap '' TERM; sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600') & wait; wait"
    with stage.worker():
        end = stage.run(command, timeout_us=1_000_000)
        assert (end.state, end.code) == ("failed", 124)
        pid = pid_in(tmp_path / "pid")
        wait_until(lambda: not is_alive(pid), "the grandchild has ended")


def test_a_cancelled_job_ends_with_its_grandchildren(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker():
        job = stage.submit(f"sh -c 'echo $$ > {tmp_path}/pid; trap \"\" TERM; while :; do sleep 1; done'; true")
        pid = pid_in(tmp_path / "pid")
        stage.cancel(job)
        assert stage.end(job).state == "cancelled"
        wait_until(lambda: not is_alive(pid), "the grandchild has ended")


def test_what_a_command_leaves_in_the_background_ends_with_it(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker():
        left = f"sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; sleep 600; sleep 600'"
        job = stage.submit(f"{left} & echo started; while [ ! -s {tmp_path}/pid ]; do sleep 0.01; done")
        end = stage.end(job)
        pid = pid_in(tmp_path / "pid")
        assert end.state == "done"
        wait_until(lambda: not is_alive(pid), "the process in the background has ended")
    assert stage.output(job)[0] == b"started\n"


def test_a_process_that_left_its_group_does_not_hold_up_the_job(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker():
        left = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600'"
        end = stage.run(f"{left} & while [ ! -s {tmp_path}/pid ]; do sleep 0.01; done")
        assert end.state == "done"
        os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)


def test_a_stopped_command_can_be_cancelled(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker():
        job = stage.submit(f"echo $$ > {tmp_path}/pid; kill -STOP $$; sleep 600")
        pid = pid_in(tmp_path / "pid")
        stage.cancel(job)
        assert stage.end(job).state == "cancelled"
        wait_until(lambda: not is_alive(pid), "the command has ended")


def test_no_descriptor_stays_open_in_the_worker(stage: ShellStage) -> None:
    with stage.worker() as worker:
        stage.run("true")
        before = descriptors(worker)
        for job in [stage.submit("echo x; echo y >&2; exit 3") for _ in range(100)]:
            stage.end(job)
        wait_until(lambda: descriptors(worker) <= before, "the descriptors of all commands are closed")


def test_a_command_inherits_its_three_streams_only(stage: ShellStage) -> None:
    with stage.worker():
        running = stage.submit("sleep 600")
        job = stage.submit("ls /proc/$$/fd; true")
        stage.end(job)
        stage.cancel(running)
    numbers = [int(word) for word in stage.output(job)[0].split()]
    assert numbers == [0, 1, 2]


def test_sigpipe_and_sigint_are_as_a_shell_expects(stage: ShellStage) -> None:
    with stage.worker():
        end = stage.run("yes | head -1; sh -c 'kill -PIPE $$'")
    assert end.code == 141


def test_at_most_slots_commands_run_at_a_time(stage: ShellStage, tmp_path: Path) -> None:
    command = f"mkdir {tmp_path}/slot-$HALL_SLOT && sleep 0.05 && rmdir {tmp_path}/slot-$HALL_SLOT"
    with stage.worker(slots=3):
        ends = [stage.end(job) for job in [stage.submit(command) for _ in range(30)]]
    assert [end.state for end in ends] == ["done"] * 30
    assert not list(tmp_path.glob("slot-*"))


def test_sigterm_lets_commands_finish_and_gives_the_rest_back(stage: ShellStage, tmp_path: Path) -> None:
    with stage.worker(slots=1) as worker:
        running = stage.submit(f"echo $$ > {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
        waiting = stage.submit("true")
        pid_in(tmp_path / "pid")
        worker.signal(signal.SIGTERM)
        worker.wait_for("draining", running=1)
        (tmp_path / "go").touch()
        assert worker.wait() == 0
    assert stage.end(running).state == "done"
    with stage.worker():
        assert stage.end(waiting).state == "done"


def test_a_second_signal_ends_commands_and_gives_them_back(stage: ShellStage, tmp_path: Path) -> None:
    job = stage.submit(f"echo $$ > {tmp_path}/pid-$HALL_ATTEMPT; test -e {tmp_path}/go || sleep 600")
    with stage.worker() as worker:
        pid = pid_in(tmp_path / "pid-1")
        worker.signal(signal.SIGINT)
        worker.wait_for("draining")
        worker.signal(signal.SIGINT)
        assert worker.wait() == 130
    wait_until(lambda: not is_alive(pid), "the command has ended")
    (tmp_path / "go").touch()
    with stage.worker():
        assert stage.end(job).state == "done"


def test_the_commands_of_a_killed_worker_end_and_run_again_elsewhere(stage: ShellStage, tmp_path: Path) -> None:
    command = f"echo $$ > {tmp_path}/pid-$HALL_ATTEMPT; test -e {tmp_path}/go || (trap '' TERM; sleep 600)"
    with stage.worker() as worker:
        job = stage.submit(command)
        pid = pid_in(tmp_path / "pid-1")
        worker.signal(signal.SIGKILL)
        assert worker.wait() == -signal.SIGKILL
        wait_until(lambda: not is_alive(pid), "the command of the killed worker has ended")
    (tmp_path / "go").touch()
    with stage.worker():
        assert stage.end(job).state == "done"


@pytest.mark.parametrize(
    "words",
    [
        ("app", "--shell"),
        (),
        ("app", "--slots", "3"),
        ("--shell", "--slots", "0"),
        ("--shell", "--env", "a=b"),
        ("--shell", "--cwd-below", "nowhere"),
        ("--shell", "--kill-after", "-1"),
        ("--shell", "--hall", "http://x"),
    ],
    ids=" ".join,
)
def test_wrong_use_is_told_before_anything_is_run(stage: ShellStage, words: tuple[str, ...]) -> None:
    found = stage.hall("work", *words)
    assert found.returncode == 2
    assert found.stderr.startswith(b"hall: ")
    assert b"Traceback" not in found.stderr
