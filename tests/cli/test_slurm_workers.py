"""`hall work --slurm` with real workers, which a stand-in for Slurm starts and ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hall_process import wait_until
from slurm_stage import PATIENCE_S, SlurmStage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[SlurmStage]:
    with SlurmStage(tmp_path) as stage:
        yield stage


def test_workers_come_with_the_jobs_and_end_when_they_are_idle(stage: SlurmStage) -> None:
    with stage.manager("--max-workers", "2", "--jobs-per-worker", "2", "--idle", "2s") as manager:
        manager.wait_for("started")
        go = stage.folder / "go"
        ids = stage.submit(8, str(go), b"app.wait_for")
        manager.wait_for("submitted", 2)
        go.touch()
        stage.wait_done(ids)
        manager.wait_for("ended", 2)
        assert stage.alive() == []
        assert manager.stop() == 0
    assert stage.attempts(ids) == [1] * 8, "no job was lost when its worker ended"
    assert len(stage.calls("sbatch")) == 2, "four are needed, two are allowed"
    assert [event["allocation"] for event in manager.named("submitted")] == ["1", "2"]
    assert manager.events[-1]["allocations"] == []


def test_without_jobs_nothing_is_submitted_and_squeue_is_asked_once(stage: SlurmStage) -> None:
    with stage.manager() as manager:
        wait_until(lambda: stage.calls("squeue"), "it looks for what an earlier run has left", PATIENCE_S)
        stage.submit(1, queue=b"another")
        assert manager.stop() == 0
    assert stage.calls("sbatch") == []
    assert len(stage.calls("squeue")) == 1


def test_sbatch_that_fails_is_told_and_tried_again_later(stage: SlurmStage) -> None:
    stage.go_wrong("sbatch", "fail", "fail")
    with stage.manager() as manager:
        stage.wait_done(stage.submit(1))
        first, second, *_ = manager.wait_for("failed", 2)
        assert manager.stop() == 0
    assert "Slurm is busy; again in 1.0 s" in first["text"]
    assert "\x1b" not in first["text"]
    assert (first["program"], first["again_s"], second["reason"][:6]) == ("sbatch", 1.0, "sbatch")
    assert len(stage.jobs()) == 1


@pytest.mark.parametrize("fault", ["lose", "hang"])
def test_a_job_that_slurm_took_though_sbatch_failed_is_not_submitted_twice(
    stage: SlurmStage, fault: str
) -> None:
    stage.go_wrong("sbatch", fault)
    # A program that hangs is waited for; the others are in time, also where the machine is busy.
    with stage.manager("--slurm-timeout", "5s" if fault == "hang" else "60s") as manager:
        stage.wait_done(stage.submit(2))
        assert manager.stop() == 0
    assert len(stage.jobs()) == 1
    assert len(stage.calls("sbatch")) == 1


def test_nothing_is_submitted_before_squeue_has_answered(stage: SlurmStage) -> None:
    stage.go_wrong("squeue", "fail", "fail")
    with stage.manager() as manager:
        ids = stage.submit(1)
        manager.wait_for("failed", 2)
        assert stage.calls("sbatch") == []
        stage.wait_done(ids)
        assert manager.stop() == 0


def test_what_it_leaves_running_is_told_and_found_by_the_next_run(stage: SlurmStage) -> None:
    with stage.manager("--idle", "1h") as manager:
        stage.wait_done(stage.submit(1))
        manager.wait_for("came")
        assert manager.stop() == 0
    last = manager.events[-1]
    assert (last["allocations"], last["text"]) == (
        ["1"],
        "1 allocation left running; to end them: scancel 1",
    )
    assert stage.alive() == ["1"]
    with stage.manager("--idle", "1h", "--end-workers") as manager:
        manager.wait_for("found")
        stage.wait_done(stage.submit(1))
        assert manager.stop() == 0
    assert len(stage.calls("sbatch")) == 1
    wait_until(lambda: stage.alive() == [], "its allocation has ended", PATIENCE_S)
    assert manager.events[-1]["text"] == "0 allocations left running"


def test_workers_that_never_come_are_submitted_less_and_less_often(stage: SlurmStage) -> None:
    stage.go_wrong("sbatch", *["break"] * 20)
    with stage.manager() as manager:
        stage.submit(1)
        first, second, third, *_ = manager.wait_for("broken", 3)
        assert manager.stop() == 0
    assert "ended before its worker came to the hall" in first["text"]
    assert third["at"] - second["at"] >= 2.0
    assert second["at"] - first["at"] >= 1.0


def test_a_scancel_that_fails_is_repeated_and_the_worker_gets_jobs_meanwhile(stage: SlurmStage) -> None:
    stage.go_wrong("scancel", "fail")
    with stage.manager("--idle", "3s") as manager:
        stage.wait_done(stage.submit(1))
        manager.wait_for("failed")
        stage.wait_done(stage.submit(1))
        manager.wait_for("ended")
        assert manager.stop() == 0
    assert len(stage.jobs()) == 1


def test_while_the_hall_is_away_nothing_is_submitted_or_ended(stage: SlurmStage) -> None:
    with stage.manager("--idle", "1s") as manager:
        stage.wait_done(stage.submit(1))
        manager.wait_for("came")
        stage.hall.kill()
        manager.wait_for("disconnected")
        called = len(stage.calls("scancel"))
        stage.hall.start()
        manager.wait_for("connected")
        assert len(stage.calls("scancel")) == called
        stage.wait_done(stage.submit(1))
        assert manager.stop() == 0


def test_a_dry_run_prints_the_script_and_submits_nothing(stage: SlurmStage) -> None:
    stage.submit(3)
    words = ("app", "--processes", "2", "--slurm", "--dry-run", "--sbatch=--time=10", "--name", "it's")
    shown = stage.run(*words)
    assert shown.returncode == 0, shown.stderr
    heading, sbatch, shell, command, end = shown.stdout.splitlines()
    assert heading == "# 3 jobs ready: 3 workers wanted, each with"
    assert sbatch.startswith("sbatch --parsable --job-name=hall-")
    assert sbatch.endswith("--time=10 <<'END'")
    assert (shell, end) == ("#!/bin/sh", "END")
    assert command.endswith(
        f"work app --processes=2 --hall {stage.environment['HALL_URL']} --stays 540 "
        "--name 'it'\"'\"'s'\" $SLURM_JOB_ID\""
    )
    document = json.loads(stage.run(*words, "--json").stdout)
    assert set(document) == {"ready", "workers", "sbatch", "script"}
    assert (document["ready"], document["workers"]) == (3, 3)
    assert stage.calls("sbatch") == []


def test_shell_workers_are_submitted_for_their_queue(stage: SlurmStage) -> None:
    stage.submit(2, queue=b"night")
    shown = stage.run("--shell", "--queue", "night", "--slots", "4", "--slurm", "--dry-run")
    assert shown.stdout.startswith("# 2 jobs ready: 2 workers wanted")
    assert "work --shell --queue=night --slots=4 --hall" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("app", "--slurm", "--max-workers", "0"),
            "hall: --max-workers: 0 is not allowed; it takes 1 to 10000",
        ),
        (("app", "--slurm", "--poll", "10ms"), 'hall: --poll: "10ms" is not allowed; it takes 1s or more'),
        (("app", "--slurm", "--idle", "soon"), 'hall: --idle: "soon" is not allowed'),
        (("app", "--dry-run"), "hall: --dry-run is for workers in Slurm: use it with --slurm"),
        (("app", "--slurm", "--only", "walk"), "hall: app has no function of --only walk"),
    ],
)
def test_wrong_use_is_told_in_one_line(stage: SlurmStage, words: tuple[str, ...], said: str) -> None:
    ended = stage.run(*words)
    assert ended.returncode == 2
    assert said in ended.stderr


def test_a_machine_without_slurm_is_told_in_one_line(stage: SlurmStage) -> None:
    for program in ("sbatch", "squeue", "scancel"):
        (stage.folder / "bin" / program).unlink()
    ended = stage.run("app", "--slurm")
    assert ended.returncode == 1
    assert ended.stderr.startswith("hall: sbatch, squeue, scancel: not found on this machine")
