"""Graphs in the terminal and as SVG: they fit, they are not ambiguous, and a large one is folded."""

from __future__ import annotations

import random
import time
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Final

import pytest
from rich.cells import cell_len
from rich.color import ColorSystem

from hiringhall.cli.flow_drawing import draw
from hiringhall.flows.folding import fold
from hiringhall.flows.graph import STATES, Node, layers
from hiringhall.flows.svg import svg_lines

SVG: Final = "{http://www.w3.org/2000/svg}"
MANY: Final = 100_000


def graph(text: str) -> list[Node]:
    """Lines such as `plot:held,clean,fetch`: a name and its state, and what it waits for."""
    lines = [line.split(",") for line in text.split()]
    places = {line[0].partition(":")[0]: place for place, line in enumerate(lines)}
    return [
        Node(*line[0].split(":", 1), parents=[places[parent] for parent in line[1:]])  # type: ignore[misc]
        for line in lines
    ]


def picture(nodes: list[Node], width: int = 80) -> list[str]:
    """Without the legend."""
    lines = list(draw(nodes, width, None))
    assert max(map(cell_len, lines)) <= width
    return lines[: lines.index("")]


def chain(count: int) -> list[Node]:
    return [Node(f"n{number}", "done", [number - 1] if number else []) for number in range(count)]


def tangle(count: int, seed: int, far: int = 8) -> list[Node]:
    """A graph by chance: each task waits for some of those before it."""
    chance = random.Random(seed)
    return [
        Node(
            f"task-{number}",
            chance.choice(STATES),
            sorted({chance.randrange(max(0, number - far), number) for _ in range(chance.randrange(4))})
            if number
            else [],
        )
        for number in range(count)
    ]


def test_a_small_graph_is_drawn_with_its_edges() -> None:
    nodes = graph(
        "fetch:done clean-a:done,fetch clean-b:failed,fetch clean-c:running,fetch"
        " plot:held,clean-a,clean-b,clean-c mail:held,plot,fetch"
    )
    assert list(draw(nodes, 80, None)) == [
        "✓ fetch",
        "├──────────┬──────────┐",
        "✓ clean-a  ✗ clean-b  ▸ clean-c",
        "└──────────┼──────────┘",
        "           · plot",
        "           │",
        "           · mail",
        "",
        "✗ failed  ▸ running  · held  ✓ done",
    ]


def test_lines_of_different_tasks_do_not_join() -> None:
    assert picture(graph("a:done b:done c:done,a d:done,b e:done,a,b")) == [
        "✓ a  ✓ b",
        "├─┐  ├──────┐",
        "└─│──┴─┐    │",
        "  ✓ c  ✓ e  ✓ d",
    ]


def test_an_edge_passes_the_layers_between() -> None:
    assert picture(graph("a:done b:done c:done,a d:done,c e:done,d,b")) == [
        "✓ a  ✓ b",
        "│    │",
        "✓ c  │",
        "│    │",
        "✓ d  │",
        "└─┬──┘",
        "  ✓ e",
    ]


def test_a_wide_layer_is_folded_and_says_how_much_is_done() -> None:
    parts = " ".join(f"part-{n}:{'done' if n < 7 else 'failed' if n < 9 else 'held'},split" for n in range(50))
    join = "join:held," + ",".join(f"part-{n}" for n in range(50))
    nodes = graph(f"split:done {parts} {join}")
    assert picture(nodes, 40) == ["✓ split", "│", "✗ part-0 … part-49 7/50 2✗", "│", "· join"]
    assert picture(nodes, 24) == ["✓ split", "│", "✗ part-0 … part… 7/50 2✗", "│", "· join"]


def test_a_deep_graph_is_folded() -> None:
    lines = picture(chain(5000))
    assert len(lines) < 110
    assert lines[0] == "✓ n0 … n99 100/100"


@pytest.mark.parametrize("width", [24, 40, 80, 200])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_graph_is_it_fits(seed: int, width: int) -> None:
    nodes = tangle(5 + seed * 9, seed, far=3 + seed * 3)
    lines = picture(nodes, width)
    if not fold(nodes, 2, 50).folded:
        assert all(node.name in "\n".join(lines) for node in nodes)


def test_wide_characters_count_as_they_are_shown() -> None:
    picture(graph("".join(f"{'漢字' * 9}{n}:done " for n in range(4))), 40)


def test_states_have_their_colours() -> None:
    [line, *_] = draw(graph("a:done b:failed"), 80, ColorSystem.STANDARD)
    assert line == "\x1b[32m✓ a\x1b[0m  \x1b[31m✗ b\x1b[0m"


@pytest.mark.parametrize("seed", range(5))
def test_a_folded_picture_has_each_task_once_and_edges_that_lead_down(seed: int) -> None:
    nodes = tangle(700, seed, far=60)
    found = fold(nodes, 6, 30)
    assert sorted(place for box in found.boxes for place in box.members) == list(range(700))
    assert max(map(len, found.layers)) <= 6
    assert len(found.layers) <= 30
    assert all(found.boxes[parent].layer < found.boxes[child].layer for parent, child in found.edges)


def test_a_task_is_below_what_it_waits_for() -> None:
    nodes = tangle(2000, 3, far=100)
    found = layers(nodes)
    assert all(found[parent] < found[place] for place, node in enumerate(nodes) for parent in node.parents)


def test_a_circle_does_not_hang() -> None:
    nodes = [Node("a", "done", []), Node("b", "done", [2, 0]), Node("c", "done", [1])]
    assert layers(nodes) == [0, 2, 2]
    picture(nodes)


@pytest.mark.parametrize("shape", ["chain", "wide", "tangle"])
def test_a_large_graph_is_drawn_within_some_seconds(shape: str) -> None:
    nodes = {
        "chain": lambda: chain(MANY),
        "wide": lambda: [Node(f"n{n}", "done", [0] if n else []) for n in range(MANY)],
        "tangle": lambda: tangle(MANY, 1, far=1000),
    }[shape]()
    began_s = time.process_time()
    assert len(picture(nodes)) < 400
    assert sum(map(len, svg_lines(nodes, "large", ""))) < 10_000_000
    assert time.process_time() - began_s < 6, "it takes about one second"


def test_the_svg_is_xml_and_names_are_text_in_it() -> None:
    nodes = [Node('<script>"&', "done", []), Node("b", "failed", [0]), Node("c", "held", [0, 1])]
    root = ET.fromstring("\n".join(svg_lines(nodes, "a <flow>", "2 done & more")))
    assert root.findtext(f"{SVG}title") == "a <flow>"
    assert root.findtext(f"{SVG}desc") == "2 done & more"
    assert [box.findtext(f"{SVG}title") for box in root.iter(f"{SVG}g")] == [
        '<script>"&: done',
        "b: failed",
        "c: held",
    ]
    assert [box.get("class") for box in root.iter(f"{SVG}rect")] == ["done", "failed", "held"]
    assert len(list(root.iter(f"{SVG}path"))) == 2
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")


def test_the_boxes_of_an_svg_do_not_overlap() -> None:
    root = ET.fromstring("\n".join(svg_lines(tangle(600, 2, far=50), "t", "")))
    width, height = (float(root.get(name) or 0) for name in ("width", "height"))
    columns: dict[float, list[float]] = {}
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.get("x") or 0), float(box.get("y") or 0)
        assert 0 <= x <= width - 190
        assert 60 <= y <= height - 26
        columns.setdefault(x, []).append(y)
    for column in columns.values():
        column.sort()
        assert all(below - above >= 26 for above, below in pairwise(column))


def test_an_svg_draws_5000_tasks_and_folds_more() -> None:
    assert "\n".join(svg_lines(tangle(5000, 1, far=300), "t", "")).count("<rect") == 5000
    assert "\n".join(svg_lines(tangle(5001, 1, far=300), "t", "")).count("<rect") < 5000
