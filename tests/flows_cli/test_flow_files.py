"""Flow files: what they say is read, and what is wrong with them is told with file and line."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING, Final

import pytest

from hiringhall.flows.checking import in_order
from hiringhall.flows.reading import read_file
from hiringhall.flows.tasks import FileError, Settings, Task

if TYPE_CHECKING:
    from pathlib import Path


TASK_FIELDS: Final = (
    "command, payload, needs, queue, retries, backoff, timeout, priority, on_parent_failure, cwd, env, "
    "resources"
)


def read(tmp_path: Path, text: str | bytes, ending: str = "yaml") -> list[Task]:
    file = tmp_path / f"flow.{ending}"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return in_order(read_file(str(file)))


def complaint(tmp_path: Path, text: str | bytes, ending: str = "yaml") -> str:
    with pytest.raises(FileError) as caught:
        read(tmp_path, text, ending)
    return str(caught.value).removeprefix(str(tmp_path))


def test_a_task_in_yaml_is_a_command_or_a_map(tmp_path: Path) -> None:
    text = """
name: nightly
defaults: {retries: 2, timeout: 10m, env: {LANG: C}}
tasks:
  plot:
    command: ./plot a b
    needs: [fetch, clean]
    retries: 0
    backoff: 1.5s
    priority: high
    on_parent_failure: run
    cwd: plots
    env: {SIZE: 3}
    resources: {mem: 8G, cpus: 2}
  fetch: curl example
  clean:
    command: |
      one
      two
    needs: fetch
  notice: {queue: mail, payload: "it is done", needs: plot}
"""
    defaults = Settings(retries=2, timeout_us=600_000_000, env={"LANG": "C"})
    assert read(tmp_path, text) == [
        Task("fetch", 15, command="curl example", settings=defaults),
        Task("clean", 16, ("fetch",), "one\ntwo\n", settings=defaults),
        Task(
            "plot",
            5,
            ("fetch", "clean"),
            "./plot a b",
            settings=Settings(
                retries=0,
                backoff_us=1_500_000,
                timeout_us=600_000_000,
                priority="high",
                on_parent_failure="run",
                cwd="plots",
                env={"LANG": "C", "SIZE": "3"},
                resources="cpus=2 mem=8G",
            ),
        ),
        Task(
            "notice",
            21,
            ("plot",),
            payload="it is done",
            settings=Settings(queue="mail", retries=2, timeout_us=600_000_000, env={"LANG": "C"}),
        ),
    ]
    assert read_file(str(tmp_path / "flow.yaml")).name == "nightly"


def test_words_that_yaml_takes_for_other_things_stay_text(tmp_path: Path) -> None:
    tasks = read(tmp_path, "tasks:\n  yes: 2026-03-01\n  1.0: no\n  ~: {command: null, needs: [yes, 1.0]}\n")
    assert [(task.name, task.command) for task in tasks] == [
        ("yes", "2026-03-01"),
        ("1.0", "no"),
        ("~", "null"),
    ]


def test_an_alias_stands_for_what_its_anchor_names(tmp_path: Path) -> None:
    text = "tasks:\n  a: x\n  b: {command: y, needs: &all [a]}\n  c: {command: z, needs: *all}\n"
    assert [task.needs for task in read(tmp_path, text)] == [(), ("a",), ("a",)]


def test_lines_name_a_task_and_its_predecessors(tmp_path: Path) -> None:
    text = b"# dinner\nserve, cook ,lay\n\n  cook,buy\nlay\nbuy\nstrange\xff,buy,buy\n"
    assert [(task.name, task.line, task.needs) for task in read(tmp_path, text, "txt")] == [
        ("lay", 5, ()),
        ("buy", 6, ()),
        ("cook", 4, ("buy",)),
        ("strange\udcff", 7, ("buy",)),
        ("serve", 2, ("cook", "lay")),
    ]


@pytest.mark.parametrize("ending", ["txt", "yaml"])
def test_an_empty_file_has_no_tasks(tmp_path: Path, ending: str) -> None:
    assert read(tmp_path, "# nothing\n", ending) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tasks:\n  a: {command: x, needs: b}\n  b: {command: y, needs: c}\n  c: {command: z, needs: a}\n",
         '/flow.yaml:2: tasks need each other in a circle: "a" needs "b" needs "c" needs "a"'),
        ("tasks:\n  a: {command: x, needs: a}\n",
         '/flow.yaml:2: tasks need each other in a circle: "a" needs "a"'),
        ("tasks:\n  clean: x\n  b: {command: y, needs: claen}\n",
         '/flow.yaml:3: task "b" needs "claen", and there is no such task; did you mean "clean"?'),
        ("tasks:\n  a: x\n  b: y\n  a: z\n", '/flow.yaml:4: task "a" is there twice; first in line 2'),
        ("tasks:\n  a: {comand: x}\n",
         f'/flow.yaml:2: task "a" has no field "comand"; it takes {TASK_FIELDS}'),
        ("taks: {}\n", '/flow.yaml:1: the file has no field "taks"; it takes name, defaults, tasks'),
        ("name: x\n", '/flow.yaml:1: the file has no "tasks"'),
        ("- a\n", '/flow.yaml:1: the file must be a map, with a line "NAME: VALUE" each'),
        ("tasks:\n  a:\n    needs: []\n",
         '/flow.yaml:2: task "a" has no command; give it one, or a "queue" whose workers know what to do'),
        ("tasks:\n  a: ''\n", "/flow.yaml:2: command is empty"),
        ("tasks:\n  a: {command: x, payload: y}\n",
         '/flow.yaml:2: task "a" has a command and a payload; it can have one'),
        ("tasks:\n  a: {command: x, command: y}\n", '/flow.yaml:2: task "a" has "command" twice'),
        ("tasks:\n  a: {command: [x]}\n", "/flow.yaml:2: command must be a text"),
        ("tasks:\n  a:\n    command: x\n    timeout: 3y\n",
         "/flow.yaml:4: timeout must be a time such as 500ms, 90s, 15m, 6h or 1d"),
        ("tasks:\n  a:\n    command: x\n    retries: -1\n",
         "/flow.yaml:4: retries must be a number from 0 to 1,000,000"),
        ("tasks:\n  a: {command: x, priority: now}\n",
         '/flow.yaml:2: priority cannot be "now"; it takes high, normal, low'),
        ("tasks:\n  a: {command: x, needs: {b: c}}\n",
         "/flow.yaml:2: needs must be the name of a task, or a list of names"),
        ("tasks:\n  a: {command: x, env: {'A=B': c}}\n", '/flow.yaml:2: "A=B" is no name of a variable'),
        (
            "tasks:\n  a: {command: x, resources: cpus}\n",
            "/flow.yaml:2: resources: 'cpus' must be NAME=AMOUNT, such as cpus=2 or mem=32G",
        ),
        ("tasks:\n  a: &x {env: *x}\n", "/flow.yaml:2: the alias *x has no anchor before it"),
        ("tasks:\n  ? [a]\n  : b\n", "/flow.yaml:2: the key of a map must be a text"),
        ("tasks: {}\n---\ntasks: {}\n", "/flow.yaml:3: the file has a second document; a flow is one document"),
        ("tasks:\n  '': x\n", "/flow.yaml:2: the name of a task is missing"),
        (f"tasks:\n  ? {'n' * 3801}\n  : x\n", "/flow.yaml:2: the name of a task may have 3800 bytes"),
        (b"tasks:\n  a: \xff\n", "/flow.yaml:2: the file is not UTF-8"),
    ],
)  # fmt: skip
def test_a_mistake_in_yaml_is_told_with_its_line(tmp_path: Path, text: str | bytes, told: str) -> None:
    assert complaint(tmp_path, text) == told


@pytest.mark.parametrize(
    "text",
    ["tasks:\n  a: [", "tasks:\n\ta: b", "\0", "tasks: {a: b", "'", "%FOO\n---", "!!python/object:x {}\n"],
)
def test_what_is_no_yaml_is_told_with_its_line(tmp_path: Path, text: str) -> None:
    assert complaint(tmp_path, text).startswith("/flow.yaml:")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\nb,a\n", '/flow.txt:1: tasks need each other in a circle: "a" needs "b" needs "a"'),
        ("a\nb,c\n", '/flow.txt:2: task "b" needs "c", and there is no such task'),
        ("a\nb\n\na\n", '/flow.txt:4: task "a" is there twice; first in line 1'),
        ("a,,b\n", "/flow.txt:1: the name of a task is missing"),
        (",a\n", "/flow.txt:1: the name of a task is missing"),
    ],
)
def test_a_mistake_in_lines_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    assert complaint(tmp_path, text, "txt") == told


def test_a_long_circle_is_told_in_short(tmp_path: Path) -> None:
    count = 50_000
    text = "".join(f"t{number},t{(number + 1) % count}\n" for number in range(count))
    told = complaint(tmp_path, text, "txt")
    assert told.startswith('/flow.txt:1: tasks need each other in a circle: "t0" needs "t1" needs')
    assert "(49993 more)" in told
    assert len(told) < 300


@pytest.mark.parametrize("text", ["[" * 200_000, "a: " * 200_000, "{a: " * 200_000])
def test_a_deep_document_is_refused(tmp_path: Path, text: str) -> None:
    assert complaint(tmp_path, text)


def test_aliases_of_aliases_take_no_memory(tmp_path: Path) -> None:
    lines = ["x0: &x0 [a, a, a, a, a, a, a, a]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 8)}]" for n in range(1, 40)]
    tracemalloc.start()
    try:
        assert complaint(tmp_path, "\n".join(lines)).startswith('/flow.yaml:1: the file has no field "x0"')
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_tasks_come_after_what_they_need(tmp_path: Path) -> None:
    chance = random.Random(5)
    numbers = list(range(3000))
    chance.shuffle(numbers)
    lines = [
        ",".join(f"t{each}" for each in (number, *{chance.randrange(number) for _ in range(min(number, 3))}))
        for number in numbers
    ]
    seen: set[str] = set()
    for task in read(tmp_path, "\n".join(lines), "txt"):
        assert seen.issuperset(task.needs)
        seen.add(task.name)
    assert len(seen) == 3000
