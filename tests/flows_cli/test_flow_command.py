"""`hall flow`: files become flows, and flows are listed, shown, cancelled and retried."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest
from dwork_peer import Asker
from flow_stage import FlowStage
from hall_process import HallProcess, wait_until
from remote_stage import HOSTILE
from rich.cells import cell_len
from typer.testing import CliRunner

from hiringhall.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowStage]:
    with FlowStage(tmp_path_factory.mktemp("hall")) as stage:
        yield stage


@pytest.fixture(autouse=True)
def _in_folder(stage: FlowStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stage.work)


def log(stage: FlowStage, name: str) -> list[str]:
    file = stage.work / name
    return file.read_text().split() if file.exists() else []


GOOD = """
tasks:
  fetch: echo fetch >> {log}
  left: {{command: "echo left >> {log}", needs: fetch}}
  right: {{command: "echo $WORD >> {log}", needs: fetch, env: {{WORD: right}}}}
  join: {{command: "echo join >> {log}", needs: [left, right]}}
"""


def test_tasks_run_in_order_and_the_exit_code_is_0(stage: FlowStage) -> None:
    ended = stage.flow("run", stage.file("good.yaml", GOOD.format(log="good")))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert re.fullmatch(r"flow good: done in [0-9.]+ m?s; 4 done\n", ended.stdout)
    first, *middle, last = log(stage, "good")
    assert (first, sorted(middle), last) == ("fetch", ["left", "right"], "join")


def test_a_file_that_is_run_again_does_nothing_again(stage: FlowStage) -> None:
    file = stage.file("twice.yaml", GOOD.format(log="twice"))
    for _ in range(2):
        assert stage.flow("run", file).exit_code == 0
    assert len(log(stage, "twice")) == 4
    assert stage.flow("run", file, "--name", "another").exit_code == 0
    assert len(log(stage, "twice")) == 8


def test_a_failure_is_told_and_what_needs_it_does_not_run(stage: FlowStage) -> None:
    text = "tasks:\n  a: echo oh >&2; exit 3\n  b: {command: echo b >> bad, needs: a}\n  c: echo c >> bad\n"
    ended = stage.flow("run", stage.file("bad.yaml", text))
    assert ended.exit_code == 1
    assert re.fullmatch(r"flow bad: failed in [0-9.]+ m?s; 1 done, 2 failed\n", ended.stdout)
    assert ended.stderr.startswith("hall: a: ")
    assert "oh" in ended.stderr
    assert log(stage, "bad") == ["c"]


def test_a_command_that_was_corrected_runs_and_what_was_done_does_not(stage: FlowStage) -> None:
    text = "tasks:\n  a: echo a >> fixed\n  b: {{command: {}, needs: a}}\n"
    text += "  c: {{command: echo c >> fixed, needs: b}}\n"
    assert stage.flow("run", stage.file("fixed.yaml", text.format("exit 1"))).exit_code == 1
    ended = stage.flow("run", stage.file("fixed.yaml", text.format("echo b >> fixed")))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert log(stage, "fixed") == ["a", "b", "c"]
    [flow, *nodes] = stage.json("flow", "show", "fixed")
    assert (flow["state"], flow["jobs"], len(nodes)) == ("done", 3, 3)


def test_a_flow_that_was_cancelled_goes_on_when_its_file_is_run_again(stage: FlowStage) -> None:
    file = stage.file(
        "stopped.yaml", "tasks:\n  a: {queue: nobody}\n  b: {command: echo b >> stopped, needs: a}\n"
    )
    assert stage.flow("run", file, "--no-wait").exit_code == 0
    assert stage.flow("cancel", "stopped").exit_code == 0
    stage.file("stopped.yaml", "tasks:\n  a: {queue: nobody}\n  b: echo b >> stopped\n")
    assert stage.flow("run", file, "--wait-for", "50ms").exit_code == 3
    assert stage.flow("cancel", "stopped").exit_code == 0
    stage.file("stopped.yaml", "tasks:\n  b: echo b >> stopped\n")
    assert stage.flow("run", file).exit_code == 1, "task a is not in the file, and stays cancelled"
    assert log(stage, "stopped") == ["b"]


def test_lines_run_a_command_with_the_name_of_the_task(stage: FlowStage) -> None:
    file = stage.file("lines.txt", "b c,a\na\n'd;,b c\n")
    ended = stage.flow("run", file, "--command", "echo {} | tr ' ' _ >> lines")
    assert ended.exit_code == 0, ended.output
    assert log(stage, "lines") == ["a", "b_c", "'d;"]


def test_lines_without_a_command_are_dwork_tasks(stage: FlowStage) -> None:
    ended = stage.flow("run", stage.file("names.txt", "second,first\nfirst\n"), "--no-wait")
    assert ended.exit_code == 0
    nodes = stage.json("flow", "show", "names")[1:]
    assert [(node["task"], node["queue"], node["state"]) for node in nodes] == [
        ("first", "dwork", "ready"),
        ("second", "dwork", "held"),
    ]
    assert stage.peer.ask("job", [int(nodes[0]["id"])])["key"] == b"first"


def test_a_dwork_worker_is_given_the_names_in_order(tmp_path: Path) -> None:
    dwork = '[[door]]\ndialect = "dwork"\naddress = "127.0.0.1:0"\n'
    with HallProcess(tmp_path, door={"dialect": "native"}, more=dwork) as hall:
        file = tmp_path / "dinner.txt"
        file.write_text("serve,cook\ncook,buy\nbuy\n")
        environment = {"HALL_URL": f"hall://{hall.address}"}
        ended = CliRunner().invoke(app, ["flow", "run", str(file), "--no-wait"], env=environment)
        assert ended.exit_code == 0, ended.output
        stolen = []
        with Asker(f"127.0.0.1:{hall.ports[1]}") as worker:
            for _ in range(3):
                _, [name] = worker.steal(b"here")
                stolen.append(name)
                worker.complete(b"here", [name])
        assert stolen == [b"buy", b"cook", b"serve"]
        ended = CliRunner().invoke(app, ["flow", "run", str(file)], env=environment)
        assert (ended.exit_code, ended.stdout.split(";")[1]) == (0, " 3 done\n")


def test_tasks_come_from_stdin(stage: FlowStage) -> None:
    process = stage.popen("run", "-", "--name", "piped", "--command", "echo {} >> piped")
    out, errors = process.communicate("a\nb,a\n", timeout=60)
    assert (process.returncode, errors) == (0, ""), errors
    assert out.startswith("flow piped: done in ")
    assert log(stage, "piped") == ["a", "b"]


def test_ctrl_c_leaves_the_flow_running_and_says_so(stage: FlowStage) -> None:
    process = stage.popen("run", stage.file("left.yaml", "tasks:\n  a: {queue: nobody}\n"))
    wait_until(lambda: stage.flow("show", "left").exit_code == 0, "the flow is there", 60)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    told = "hall: what was submitted goes on; see hall flow show 'left', hall flow cancel 'left'\n"
    assert (process.returncode, out, errors) == (130, "", told)
    [flow, _] = stage.json("flow", "show", "left")
    assert flow["state"] == "running"


def test_a_flow_that_does_not_end_in_time_is_told_by_the_exit_code(stage: FlowStage) -> None:
    file = stage.file("late.yaml", "tasks:\n  a: {queue: nobody}\n")
    ended = stage.flow("run", file, "--wait-for", "100ms")
    assert (ended.exit_code, ended.stdout) == (3, "flow late: running; 1 ready\n")


def test_a_wrong_file_is_refused_with_file_and_line(stage: FlowStage) -> None:
    file = stage.file("circle.yaml", "tasks:\n  a: {command: x, needs: b}\n  b: {command: x, needs: a}\n")
    ended = stage.flow("run", file)
    told = f'hall: {file}:2: tasks need each other in a circle: "a" needs "b" needs "a"\n'
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", told)
    assert stage.flow("show", "circle").exit_code == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "missing.yaml"), "hall: missing.yaml cannot be read: No such file or directory\n"),
        (("run", "-"), "hall: a flow from stdin needs a --name\n"),
        (("run", "empty.yaml"), "hall: empty.yaml has no tasks\n"),
        (("run", "empty.yaml", "--format", "x"), 'hall: --format: "x" is not allowed; it takes lines, yaml\n'),
        (
            ("run", "empty.yaml", "--name", "n" * 201),
            "hall: the name of a flow has 1 to 200 bytes; give one with --name\n",
        ),
        (
            ("list", "--state", "x"),
            'hall: --state: "x" is not allowed; it takes running, stuck, done, failed, cancelled\n',
        ),
    ],
)  # fmt: skip
def test_wrong_use_is_told_in_a_line(stage: FlowStage, words: tuple[str, ...], told: str) -> None:
    stage.file("empty.yaml", "")
    ended = stage.flow(*words)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", told)


@pytest.mark.parametrize("verb", ["show", "cancel", "retry"])
def test_an_unknown_flow_is_told(stage: FlowStage, verb: str) -> None:
    ended = stage.flow(verb, "nowhere")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (1, "", "hall: no flow has the name 'nowhere'\n")


def test_a_dry_run_prints_the_tasks_in_order(stage: FlowStage) -> None:
    file = stage.file("dry.yaml", "tasks:\n  b: {command: x, needs: a}\n  a: y\n")
    assert stage.flow("run", file, "--dry-run").stdout == "a\nb  needs a\n"
    assert stage.json("flow", "run", file, "--dry-run") == [
        {"task": "a", "line": 3, "needs": [], "command": "y"},
        {"task": "b", "line": 2, "needs": ["a"], "command": "x"},
    ]
    assert stage.flow("show", "dry").exit_code == 1


def test_show_draws_the_flow(stage: FlowStage) -> None:
    assert stage.flow("run", stage.file("drawn.yaml", GOOD.format(log="drawn"))).exit_code == 0
    shown = stage.flow("show", "drawn").stdout.splitlines()
    assert shown[:3] == ["flow      drawn", "state     done", "jobs      4: 4 done"]
    picture = shown[shown.index("") + 1 :]
    assert picture[:5] == ["✓ fetch", "├───────┐", "✓ left  ✓ right", "└───┬───┘", "    ✓ join"]


def test_show_writes_svg(stage: FlowStage) -> None:
    assert stage.flow("run", stage.file("pic.yaml", GOOD.format(log="pic"))).exit_code == 0
    ended = stage.flow("show", "pic", "--svg", "pic.svg")
    assert (ended.exit_code, ended.output) == (0, "")
    text = (stage.work / "pic.svg").read_text()
    assert text.startswith("<?xml")
    assert text.count('<rect class="done"') == 4
    ended = stage.flow("show", "pic", "--svg", "nowhere/pic.svg")
    told = "hall: nowhere/pic.svg cannot be written: No such file or directory\n"
    assert (ended.exit_code, ended.stderr) == (1, told)


def test_cancel_ends_all_jobs_of_a_flow(stage: FlowStage) -> None:
    file = stage.file("off.yaml", "tasks:\n  a: {queue: nobody}\n  b: {queue: nobody, needs: a}\n")
    assert stage.flow("run", file, "--no-wait").stdout == "flow off: 2 tasks submitted\n"
    assert stage.flow("cancel", "off", "--reason", "no").stdout == "flow off: 2 jobs cancelled\n"
    [flow, *nodes] = stage.json("flow", "show", "off")
    assert flow["state"] == "cancelled"
    assert [node["state"] for node in nodes] == ["cancelled", "cancelled"]
    assert stage.json("flow", "cancel", "off") == [{"cancelled": 0}]


def test_retry_runs_what_failed_and_what_needs_it(stage: FlowStage) -> None:
    text = "tasks:\n  a: test -e go\n  b: {command: echo b >> again, needs: a}\n"
    assert stage.flow("run", stage.file("again.yaml", text)).exit_code == 1
    (stage.work / "go").touch()
    assert stage.flow("retry", "again").stdout == "flow again: 2 jobs retried\n"
    assert stage.flow("run", str(stage.work / "again.yaml")).exit_code == 0
    assert log(stage, "again") == ["b"]


def test_the_list_has_counts(stage: FlowStage) -> None:
    assert stage.flow("run", stage.file("counted.yaml", GOOD.format(log="counted"))).exit_code == 0
    heading, line, *rest = stage.flow("list", "count", "--state", "done").stdout.splitlines()
    assert heading.split()[:6] == ["flow", "state", "jobs", "done", "failed", "running"]
    assert line.split()[:6] == ["counted", "done", "4", "4", "0", "0"]
    assert rest == []
    ended = stage.flow("list", "nothing has this name")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "", "hall: no flow matches\n")


def test_the_shapes_of_json(stage: FlowStage) -> None:
    file = stage.file("shape.yaml", "tasks:\n  a: exit 4\n  b: {command: x, needs: a}\n")
    ended = stage.flow("run", file, "--json")
    assert ended.exit_code == 1
    run = json.loads(ended.stdout)
    [failure] = run.pop("failures")
    assert (failure["task"], failure["state"], failure["code"]) == ("a", "failed", 4)
    [listed] = stage.json("flow", "list", "shape")
    assert run == listed
    assert set(listed) == {
        "name", "created", "ended", "state", "jobs",
        "held", "delayed", "ready", "running", "done", "failed", "cancelled",
    }  # fmt: skip
    flow, first, second = stage.json("flow", "show", "shape")
    assert flow == listed
    assert first == {"id": failure["id"], "task": "a", "queue": "shell", "state": "failed", "parents": []}
    assert second["parents"] == [first["id"]]
    assert stage.json("flow", "retry", "shape") == [{"retried": 2, "refused": 0}]


@pytest.fixture(scope="module")
def hostile(stage: FlowStage) -> bytes:
    """A flow with names of control characters."""
    name = HOSTILE[:150].replace(b"\0", b"")
    jobs = [
        [
            HOSTILE,
            b"",
            {"flow": name},
            HOSTILE + b"%d" % number,
            0,
            [[HOSTILE, HOSTILE + b"0"]] if number else [],
        ]
        for number in range(7)
    ]
    stage.peer.ask("submit", [0, jobs])
    return name


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("words", [("list",), ("show",), ("list", "--json"), ("show", "--json")], ids=" ".join)
def test_hostile_names_do_not_reach_the_terminal(
    stage: FlowStage, hostile: bytes, words: tuple[str, ...], width: int
) -> None:
    name = [hostile.decode(errors="surrogateescape")] if words[0] == "show" else []
    ended = stage.flow(*words, *name, width=width)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.replace("\n", "").isprintable()
    if "--json" not in words:
        assert max(map(cell_len, ended.stdout.splitlines())) <= width


def test_hostile_names_are_text_in_svg(stage: FlowStage, hostile: bytes) -> None:
    ended = stage.flow("show", hostile.decode(errors="surrogateescape"), "--svg", "hostile.svg")
    assert ended.exit_code == 0
    assert (stage.work / "hostile.svg").read_text().replace("\n", "").isprintable()


def test_a_hall_that_is_down_is_told(tmp_path: Path, stage: FlowStage) -> None:
    file = stage.file("down.yaml", "tasks:\n  a: x\n")
    ended = stage.flow("run", file, "--hall", f"hall+unix://{tmp_path}/none")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("hall: no hall answers at hall+unix://")
