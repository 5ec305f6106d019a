"""Commands that ask a running hall: what they show, what they change, and how they end."""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import wait_until
from native_peer import NativePeer
from remote_stage import HOSTILE, RemoteStage
from rich.cells import cell_len
from running import ENVIRONMENT, HALL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE_TEXT: Final = HOSTILE.decode(errors="surrogateescape").replace("\0", "")
"""An argument cannot have a NUL."""
LOOKS: Final = (
    ("queues",),
    ("jobs",),
    ("jobs", "--count"),
    ("job", "done"),
    ("job", "failed"),
    ("job", "running"),
    ("job", "held"),
    ("workers",),
    ("doors",),
    ("result", "done"),
)
ENDED: Final = {
    ("job", "done"): 0,
    ("result", "done"): 0,
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteStage]:
    with RemoteStage(tmp_path_factory.mktemp("hall")) as stage:
        stage.fill()
        yield stage


def named(stage: RemoteStage, words: tuple[str, ...]) -> list[str]:
    """Names of jobs become their ids."""
    return [str(stage.ids.get(word, word)) for word in words]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_command_fits_the_terminal_and_shows_no_control_character(
    stage: RemoteStage, words: tuple[str, ...], width: int
) -> None:
    ended = stage.run(*named(stage, words), width=width)
    assert ended.exit_code == 0, ended.output
    if words[0] != "result":  # which is the bytes as they are, where stdout is no terminal
        assert ended.stdout.replace("\n", "").isprintable()
        assert max(map(cell_len, ended.stdout.splitlines())) <= width
    assert ended.stderr == ""


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_json_is_one_document_a_line_without_control_characters(
    stage: RemoteStage, words: tuple[str, ...]
) -> None:
    ended = stage.run(*named(stage, words), "--json")
    assert ended.stdout
    for line in ended.stdout.splitlines():
        assert isinstance(json.loads(line), dict)
        assert re.search("[\x00-\x1f\x7f-\x9f]", line) is None


@pytest.mark.parametrize("words", [("queues",), ("job", "running"), ("jobs", "--json")], ids=" ".join)
def test_a_closed_pipe_ends_a_command_quietly(stage: RemoteStage, words: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ended = stage.command(*named(stage, words), stdout=write_end)
    finally:
        os.close(write_end)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_queues_are_shown_with_their_jobs(stage: RemoteStage) -> None:
    shapes = {shape["name"]: shape for shape in stage.json("queues")}
    assert shapes["mail"]["held"] == 1
    assert shapes["mail"]["delayed"] == 1
    assert shapes["mail"]["done_total"] == 1
    assert shapes["nobody"]["workers"] == 0
    assert set(shapes["mail"]) == {
        *("name", "ready", "parked", "running", "held", "delayed", "failed", "workers", "paused", "oldest"),
        *("oldest_s", "average_run_s", "done_total", "failed_total", "cancelled_total", "rules", "rules_set"),
    }
    [found] = stage.json("queues", "nob")
    assert found["name"] == "nobody"


def test_a_job_says_why_it_is_not_running(stage: RemoteStage) -> None:
    assert "why       its queue has no workers" in stage.run("job", str(stage.ids["alone"])).stdout
    assert f"{stage.ids['running']} (running)" in stage.run("job", str(stage.ids["held"])).stdout.replace(
        "leased", "running"
    )
    [shape] = stage.json("job", str(stage.ids["alone"]))
    assert (shape["id"], shape["situation"]) == (str(stage.ids["alone"]), "no_workers")
    [shape] = stage.json("job", str(stage.ids["running"]))
    assert [line["kind"] for line in shape["output"]] == ["data", "log"]
    assert shape["progress"] == [1, 3]


def test_the_exception_of_a_failed_job_is_shown(stage: RemoteStage) -> None:
    shown = stage.run("job", str(stage.ids["failed"])).stdout
    assert "state     failed, code 7" in shown
    assert "error     ValueError: no\\x1b[2J" in shown
    assert "    here\\x1b[2J" in shown


def test_jobs_are_filtered_counted_and_paged(stage: RemoteStage) -> None:
    assert [shape["queue"] for shape in stage.json("jobs", "--state", "no_workers")] == ["nobody"]
    assert [shape["queue"] for shape in stage.json("jobs", "--text", "text of")] == ["nobody"]
    assert [shape["state"] for shape in stage.json("jobs", "--queue", "mail")] == ["held", "delayed"]
    assert stage.run("jobs", "--count").stdout == "4\n"
    first = stage.run("jobs", "--limit", "2", "--json")
    last = json.loads(first.stdout.splitlines()[-1])["id"]
    assert first.stderr == f"hall: there are more jobs (see --limit); next page: --after {last}\n"
    assert len(stage.json("jobs", "--after", last)) == 2


def test_an_unknown_state_is_one_line(stage: RemoteStage) -> None:
    ended = stage.run("jobs", "--state", "sideways")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith('hall: --state: "sideways" is not allowed; it takes one of held, ')


def test_a_hall_that_is_down_is_one_line_that_says_what_to_do(stage: RemoteStage) -> None:
    ended = stage.run("queues", "--hall", "hall://127.0.0.1:1")
    assert ended.exit_code == 2
    assert ended.stderr == (
        "hall: no hall answers at hall://127.0.0.1:1 (Connection refused): "
        "start one with `hall serve`, or name another with --hall or HALL_URL; it needs a native door\n"
    )
    ended = stage.run("queues", "--hall", "http://x")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("hall: --hall: 'http://x' is not the URL of a hall")


def test_a_lost_connection_is_a_line_of_the_command_that_waits(tmp_path: Path) -> None:
    with RemoteStage(tmp_path) as stage:
        waiting = subprocess.Popen(
            [*HALL, "submit", "nobody", "payload", "--wait-for", "60s"],
            env={**ENVIRONMENT, "HALL_URL": stage.url, "PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.PIPE,
        )
        try:
            wait_until(lambda: stage.json("jobs") != [], "the job is submitted")
            stage.kill()
            assert waiting.stderr is not None
            assert waiting.stderr.readline().startswith(b"hall: lost the connection to hall://")
        finally:
            waiting.kill()
            waiting.communicate()


def test_an_unknown_job_is_one_line(stage: RemoteStage) -> None:
    ended = stage.run("job", "77")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == 1
    assert stage.run("job", "x1").exit_code == 2


def test_results_are_the_bytes_of_the_job(stage: RemoteStage) -> None:
    assert stage.command("result", str(stage.ids["done"])).stdout == b"sent\x1b[2J"
    failed = stage.run("result", str(stage.ids["failed"]))
    assert failed.exit_code == 1
    assert "ValueError: no\\x1b[2J" in failed.stderr
    waiting = stage.run("result", str(stage.ids["alone"]))
    assert (waiting.exit_code, waiting.stdout) == (3, "")
    assert "has not ended: its queue has no workers" in waiting.stderr
    assert stage.run("result", str(stage.ids["alone"]), "--wait-for", "50ms").exit_code == 3


def test_queues_are_paused_and_resumed(stage: RemoteStage) -> None:
    [shape] = stage.json("pause", "nobody")
    assert shape["paused"] is True
    assert "paused" in stage.run("queues", "nobody").stdout
    assert stage.run("resume", "nobody").stdout == "queue nobody is not paused\n"
    assert stage.json("queues", "nobody")[0]["paused"] is False


def test_limits_are_shown_set_merged_and_cleared(stage: RemoteStage) -> None:
    assert stage.run("limit", "bounded", "--running-max", "5").stdout == (
        "queue bounded: at most 5 running, set at run time\n"
    )
    [shape] = stage.json("limit", "bounded", "--starts-per-second", "2.5", "--burst", "3", "--fair")
    assert shape["set"] is True
    assert shape["rules"] == {"running_max": 5, "starts_per_second": 2.5, "burst": 3, "fair": True}
    stage.run("limit", "bounded", "--tenant-weight", "acme=3", "--age-max", "1h", "--key-running-max", "2")
    said = stage.run("limit", "bounded").stdout
    assert "at most 2 running for each key, 2.5 starts a second, burst 3, fair with acme=3, cancelled" in said
    assert "at most 5 running" in stage.run("queues", "bounded").stdout
    [listed] = [shape for shape in stage.json("limit") if shape["queue"] == "bounded"]
    assert listed["rules"]["tenant_weights"] == {"acme": 3}
    stage.run(
        "limit", "bounded", "--starts-per-second", "0", "--no-fair", "--age-max", "0", "--key-running-max", "0"
    )
    assert stage.json("limit", "bounded")[0]["rules"] == {"running_max": 5}
    assert "run time" in stage.run("limit").stdout
    [line] = stage.peer.ask("audit", [1])
    assert (line["what"], line["queue"]) == ("limit", "bounded")
    assert "running_max=5" in line["rules"]
    assert stage.run("limit", "bounded", "--clear").stdout == "queue bounded: no limits\n"
    assert stage.run("limit", "--clear").exit_code == 2
    assert stage.run("limit", "bounded", "--clear", "--fair").exit_code == 2
    assert stage.run("limit", "bounded", "--tenant-weight", "acme").exit_code == 2


def test_a_submit_is_debounced_or_throttled_by_its_key(stage: RemoteStage) -> None:
    first = stage.run("submit", "spaced", "1", "--key", "k", "--debounce", "1h", "--debounce-max", "2h").stdout
    assert stage.run("submit", "spaced", "2", "--key", "k", "--debounce", "1h").stdout == first
    assert "it is debounced and waits for 3600 s" in stage.run("job", first.strip()).stdout
    once = stage.run("submit", "spaced", "1", "--key", "t", "--throttle", "1h").stdout
    stage.run("cancel", once.strip())
    assert stage.run("submit", "spaced", "2", "--key", "t", "--throttle", "1h").stdout == once
    assert "must have a key" in stage.run("submit", "spaced", "3", "--throttle", "1h").stderr


def test_workers_are_drained_by_number(stage: RemoteStage) -> None:
    [worker] = stage.json("workers", "--queue", "mail")
    [drained] = stage.json("workers", "--drain", worker["number"])
    assert drained["draining"] is True
    assert stage.peer.hear("drain") is True
    assert "draining" in stage.run("workers").stdout
    [drained] = stage.json("workers", "--undrain", worker["number"])
    assert drained["draining"] is False
    assert stage.run("workers", "--drain", "999").exit_code == 1


# --- changes


def test_a_job_is_submitted_with_its_terms(stage: RemoteStage) -> None:
    ended = stage.run(
        *("submit", "later", HOSTILE_TEXT, "--key", "k", "--priority", "high", "--retries", "2"),
        *("--delay", "1h", "--timeout", "90s", "--parent", str(stage.ids["alone"]), "--flow", "nightly"),
    )
    assert (ended.exit_code, ended.stderr) == (0, "")
    described = stage.peer.ask("job", [int(ended.stdout)])
    assert (described["queue"], described["key"]) == (b"later", b"k")
    assert described["payload"] == HOSTILE.replace(b"\0", b"")
    assert described["flow"] == b"nightly"
    assert described["terms"]["timeout_us"] == 90_000_000
    assert (described["priority"], described["terms"]["retries"]) == ("high", 2)
    assert stage.run("cancel", ended.stdout.strip()).stdout == "1 job cancelled\n"


def test_a_payload_comes_from_a_file_or_stdin_but_not_both(stage: RemoteStage, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"\x00\xff from a file")
    [answer] = stage.json("submit", "filed", "--file", str(file))
    assert stage.peer.ask("job", [int(answer["ids"][0])])["payload"] == b"\x00\xff from a file"
    typed = stage.run("submit", "filed", "--stdin", typed="typed")
    assert stage.peer.ask("job", [int(typed.stdout)])["payload"] == b"typed"
    assert stage.run("submit", "filed", "text", "--stdin").exit_code == 2
    assert stage.run("submit", "filed", "--file", str(tmp_path / "none")).exit_code == 1
    ended = stage.run("submit", "filed", "--delay", "soon")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith('hall: --delay: "soon" is not allowed; it takes a time such as 500ms')
    assert stage.run("cancel", "--queue", "filed", "--yes").stdout == "2 jobs cancelled\n"


def test_a_submit_that_waits_ends_with_the_job(stage: RemoteStage) -> None:
    ended = stage.run("submit", "unwanted", "--expire", "1ms", "--wait")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "(unwanted) was cancelled (code 130)" in ended.stderr
    assert stage.run("submit", "unwanted", "--wait-for", "1ms").exit_code == 3
    stage.run("cancel", "--queue", "unwanted", "--yes")


def test_a_change_of_many_jobs_is_confirmed_by_their_number(stage: RemoteStage) -> None:
    ids = [stage.submit(b"many") for _ in range(3)]
    asked = stage.run("cancel", "--queue", "many")
    assert asked.exit_code == 2
    assert asked.stderr == "hall: 3 jobs would be changed; add --yes to cancel them\n"
    [changed] = stage.json("cancel", "--queue", "many", "--reason", "not needed", "--yes")
    assert changed == {"changed": 3, "failed": [], "failed_count": 0}
    assert stage.peer.ask("job", [ids[0]])["result"] == b"not needed"
    nothing = stage.run("cancel", "--queue", "many", "--yes")
    assert (nothing.exit_code, nothing.stderr) == (1, "hall: no job matches; nothing was changed\n")


def test_dead_letters_of_a_queue_run_again(stage: RemoteStage) -> None:
    with NativePeer(stage.port).work(b"sick") as worker:
        ids = [stage.submit(b"sick") for _ in range(2)]
        for _ in ids:
            worker.ask("fail", [worker.hear("assign")[0], 1, b"", False])
        assert stage.run("retry", str(ids[0])).stdout == "1 job retried\n"
        worker.ask("fail", [worker.hear("assign")[0], 1, b"", False])
        [changed] = stage.json("retry", "--queue", "sick", "--yes")
        assert changed == {"changed": 2, "failed": [], "failed_count": 0}
        for _ in ids:
            worker.ask("finish", [worker.hear("assign")[0], b""])
    refused = stage.run("retry", str(ids[0]))
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"hall: job {ids[0]} was not retried: ")


def test_a_change_needs_ids_or_a_filter(stage: RemoteStage) -> None:
    assert stage.run("cancel", "--yes").exit_code == 2
    assert stage.run("retry", "--yes").exit_code == 2
    assert stage.run("cancel", "5", "--queue", "x", "--yes").exit_code == 2


def test_changes_are_in_the_audit_log_with_the_name_of_the_user(stage: RemoteStage) -> None:
    stage.run("pause", "audited")
    [line] = stage.peer.ask("audit", [1])
    assert (line["who"], line["what"], line["queue"]) == (getpass.getuser(), "pause", "audited")


# --- the history, as the hall tells it


def test_the_history_is_asked_of_a_hall_without_its_data_folder(stage: RemoteStage) -> None:
    asked = ("history", "--hall", stage.url)
    shapes = stage.json(*asked, "--queue", "mail", "--state", "done")
    assert [(shape["id"], shape["state"]) for shape in shapes] == [(str(stage.ids["done"]), "done")]
    [shape] = stage.json(*asked, "--id", str(stage.ids["done"]))
    assert shape["result"] == "sent\x1b[2J"
    for width in (40, 80):
        shown = stage.run(*asked, "--state", "failed", width=width)
        assert shown.exit_code == 0
        assert shown.stdout.replace("\n", "").isprintable()
        assert max(map(cell_len, shown.stdout.splitlines())) <= width
    assert stage.run(*asked, "--state", "held").exit_code == 2
    assert stage.run(*asked, "--data", "x").exit_code == 2
