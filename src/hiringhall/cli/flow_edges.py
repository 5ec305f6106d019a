"""The lines between two layers of a graph, in characters.

Invariant: lines join only where they belong together. Children with the same parents share a line; where lines
of others cross, the vertical one is drawn through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROWS_MAX: Final = 10
"""More rows than this say nothing to anybody."""
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_CROSSED: Final = 16
"""A vertical line goes through a horizontal one of others."""
_CHARACTERS: Final = {
    0: " ",
    _UP: "│",
    _DOWN: "│",
    _UP | _DOWN: "│",
    _LEFT: "─",
    _RIGHT: "─",
    _LEFT | _RIGHT: "─",
    _UP | _LEFT: "┘",
    _UP | _RIGHT: "└",
    _DOWN | _LEFT: "┐",
    _DOWN | _RIGHT: "┌",
    _UP | _LEFT | _RIGHT: "┴",
    _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _DOWN | _LEFT: "┤",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}


class Bundle(NamedTuple):
    """The columns of some parents and of all children that wait for exactly these."""

    parents: tuple[int, ...]
    children: tuple[int, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        return self.parents + self.children

    @property
    def straight(self) -> bool:
        return len(set(self.columns)) == 1


def bundles(edges: Iterable[tuple[int, int]], columns: Mapping[int, int]) -> list[Bundle]:
    """The edges between two layers, by columns."""
    parents: dict[int, list[int]] = {}
    for parent, child in edges:
        parents.setdefault(child, []).append(columns[parent])
    children: dict[tuple[int, ...], list[int]] = {}
    for child, above in parents.items():
        children.setdefault(tuple(sorted(above)), []).append(columns[child])
    return [Bundle(above, tuple(sorted(below))) for above, below in children.items()]


def edge_lines(found: Sequence[Bundle], width: int) -> list[str] | None:
    """The lines between two layers; None: there are too many."""
    rows = _rows(found)
    height = max((row for row in rows if row is not None), default=0) + 1
    if height > ROWS_MAX:
        return None
    grid = [[0] * width for _ in range(height)]
    owners: dict[tuple[int, int], int] = {}
    """Which bundle has the horizontal line at a row and a column."""
    for number, (bundle, row) in enumerate(zip(found, rows, strict=True)):
        if row is None:
            continue
        first, last = min(bundle.columns), max(bundle.columns)
        for column in range(first, last + 1):
            grid[row][column] |= (_LEFT if column > first else 0) | (_RIGHT if column < last else 0)
            owners[row, column] = number
    for number, (bundle, row) in enumerate(zip(found, rows, strict=True)):
        turn = 0 if row is None else row
        for column in bundle.parents:
            _go_down(grid, owners, found, column, range(turn), number)
        for column in bundle.children:
            _go_down(grid, owners, found, column, range(turn + (row is not None), height), number)
        if row is not None:
            for column in bundle.parents:
                grid[row][column] |= _UP
            for column in bundle.children:
                grid[row][column] |= _DOWN
    return ["".join(_character(cell) for cell in cells).rstrip() for cells in grid]


def _go_down(
    grid: list[list[int]],
    owners: Mapping[tuple[int, int], int],
    found: Sequence[Bundle],
    column: int,
    rows: range,
    number: int,
) -> None:
    for row in rows:
        owner = owners.get((row, column), number)
        if owner != number and column not in found[owner].columns:
            grid[row][column] |= _CROSSED
        grid[row][column] |= _UP | _DOWN


def _rows(found: Sequence[Bundle]) -> list[int | None]:
    """The row of each bundle's horizontal line; None: it goes straight down.

    If one bundle ends in a column in which another begins, the one that begins there turns first.
    """
    rows: list[int | None] = [None] * len(found)
    beginning: dict[int, list[int]] = {}
    for number, bundle in enumerate(found):
        if not bundle.straight:
            for column in bundle.parents:
                beginning.setdefault(column, []).append(number)
    taken: list[list[tuple[int, int]]] = []
    left = [number for number, bundle in enumerate(found) if not bundle.straight]
    left.sort(key=lambda number: min(found[number].columns))
    while left:
        number = next((each for each in left if not _before(found, beginning, each, left)), left[0])
        left.remove(number)
        earlier = [rows[other] for other in _earlier(found, beginning, number)]
        row = max((each + 1 for each in earlier if each is not None), default=0)
        first, last = min(found[number].columns), max(found[number].columns)
        while row < len(taken) and any(first <= end and begin <= last for begin, end in taken[row]):
            row += 1
        while len(taken) <= row:
            taken.append([])
        taken[row].append((first, last))
        rows[number] = row
    return rows


def _earlier(found: Sequence[Bundle], beginning: Mapping[int, list[int]], number: int) -> list[int]:
    """The bundles that begin in a column in which this one ends."""
    return [
        other
        for column in found[number].children
        for other in beginning.get(column, ())
        if other != number and column not in found[number].parents
    ]


def _before(
    found: Sequence[Bundle], beginning: Mapping[int, list[int]], number: int, left: Sequence[int]
) -> bool:
    return any(other in left for other in _earlier(found, beginning, number))


def _character(cell: int) -> str:
    return "│" if cell & _CROSSED else _CHARACTERS[cell]
