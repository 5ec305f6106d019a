"""Whether the tasks of a file fit together, and the order in which they are submitted.

Invariant: in that order a task comes after all that it needs. Each step is linear in tasks and needs.
"""

from __future__ import annotations

from collections import deque
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from hiringhall.flows.tasks import FileError, shown

if TYPE_CHECKING:
    from hiringhall.flows.tasks import FlowFile, Task

SIMILAR_AMONG_MAX: Final = 10_000
"""With more tasks no similar name is looked for."""
CYCLE_SHOWN: Final = 8
"""Names of a cycle in a message."""


def in_order(file: FlowFile) -> list[Task]:
    """The tasks, each after those that it needs; otherwise as in the file. Raises FileError."""
    places = _places(file)
    children: list[list[int]] = [[] for _ in file.tasks]
    missing = [0] * len(file.tasks)
    for place, task in enumerate(file.tasks):
        for name in task.needs:
            parent = places.get(name)
            if parent is None:
                raise FileError(file.place, task.line, _unknown(task, name, places))
            children[parent].append(place)
        missing[place] = len(task.needs)
    ready = deque(place for place, count in enumerate(missing) if not count)
    ordered: list[Task] = []
    while ready:
        place = ready.popleft()
        ordered.append(file.tasks[place])
        for child in children[place]:
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    if len(ordered) < len(file.tasks):
        raise _cycle(file, places, missing)
    return ordered


def _places(file: FlowFile) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, task in enumerate(file.tasks):
        first = places.setdefault(task.name, place)
        if first != place:
            text = f"task {shown(task.name)} is there twice; first in line {file.tasks[first].line}"
            raise FileError(file.place, task.line, text)
    return places


def _unknown(task: Task, name: str, places: dict[str, int]) -> str:
    text = f"task {shown(task.name)} needs {shown(name)}, and there is no such task"
    similar = get_close_matches(name, places, 1) if len(places) <= SIMILAR_AMONG_MAX else []
    return f"{text}; did you mean {shown(similar[0])}?" if similar else text


def _cycle(file: FlowFile, places: dict[str, int], missing: list[int]) -> FileError:
    """Each task that is left needs another one that is left: following them comes back to one of them."""
    place = next(place for place, count in enumerate(missing) if count)
    seen: dict[int, int] = {}
    path: list[int] = []
    while place not in seen:
        seen[place] = len(path)
        path.append(place)
        place = next(places[name] for name in file.tasks[place].needs if missing[places[name]])
    cycle = [file.tasks[each] for each in path[seen[place] :]]
    names = [shown(task.name) for task in [*cycle, cycle[0]]]
    if len(names) > CYCLE_SHOWN:
        names[CYCLE_SHOWN // 2 : -CYCLE_SHOWN // 2] = [f"({len(names) - CYCLE_SHOWN} more)"]
    first = min(cycle, key=lambda task: task.line)
    text = f"tasks need each other in a circle: {' needs '.join(names)}"
    return FileError(file.place, first.line, text)
