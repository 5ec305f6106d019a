"""dwork's form of a graph: a line for each task, `task,predecessor,...`.

Empty lines, and lines that begin with `#`, are ignored, and so are blanks around names. What a task does is not
in the file: dwork's workers know it by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.flows.tasks import NEEDS_MAX, TASKS_MAX, FileError, FlowFile, Task, check_name

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_lines(place: str, lines: Iterable[str]) -> FlowFile:
    """The tasks of a file. Raises FileError."""
    tasks: list[Task] = []
    needs_count = 0
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, *needs = [part.strip() for part in stripped.split(",")]
        for each in (name, *needs):
            check_name(place, number, each)
        tasks.append(Task(name, number, tuple(dict.fromkeys(needs))))
        needs_count += len(needs)
        if len(tasks) > TASKS_MAX:
            raise FileError(place, number, f"a flow may have {TASKS_MAX:,} tasks")
        if needs_count > NEEDS_MAX:
            raise FileError(place, number, f"the tasks of a flow may have {NEEDS_MAX:,} predecessors together")
    return FlowFile(place, None, tasks)
