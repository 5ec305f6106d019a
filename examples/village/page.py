"""The page at the end: the day as an animated picture, and what each policy came to; it needs nothing else."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path as File
from random import Random
from typing import TYPE_CHECKING, Final

from charts import bars, curves
from path import DOINGS
from world import FIRST_H, HEIGHT, WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from path import Path
    from summary import Summary
    from village import Village
    from world import World

TEMPLATE: Final = File(__file__).parent / "page.html"
TREES: Final = 90


def write_page(file: File, world: World, villages: Sequence[Village], summaries: Sequence[Summary]) -> None:
    # Closing tags in data would end the script that holds it.
    data = json.dumps(picture(world, villages), separators=(",", ":")).replace("</", "<\\/")
    parts = {
        "SEED": str(world.seed),
        "JOBS": str(len(world.needs)),
        "BARS": bars(summaries),
        "CURVES": curves(summaries),
        "ROWS": "\n".join(map(_row, summaries)),
        "DATA": data,
    }
    page = TEMPLATE.read_text()
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text)
    file.write_text(page)


def picture(world: World, villages: Sequence[Village]) -> dict[str, object]:
    """All that the animation shows."""
    chance = Random(world.seed)  # noqa: S311 (a village, not a secret)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "first": FIRST_H,
        "last": round(villages[0].clock.now_h(), 2),
        "doings": DOINGS,
        "places": [[place.name, *place.spot, place.announces] for place in world.workplaces],
        "people": [person.name for person in world.people],
        "homes": [person.home for person in world.people],
        "trees": [
            [round(chance.uniform(0, WIDTH), 1), round(chance.uniform(0, HEIGHT), 1)] for _ in range(TREES)
        ],
        "villages": [_village(world, village) for village in villages],
    }


def _village(world: World, village: Village) -> dict[str, object]:
    places = [place.name for place in world.workplaces]
    return {
        "policy": village.policy,
        "paths": [_path(villager.path) for villager in village.villagers],
        "tasks": [
            [places.index(task.place.name), task.due_h, task.done_h, _hours(task.begun_h), _hours(task.left_h)]
            for task in village.book.tasks.values()
        ],
        "news": [[round(news.hour, 2), news.kind, news.text] for news in village.book.talk],
    }


def _path(path: Path) -> list[list[float]]:
    return [
        [*_hours([leg.from_h, leg.to_h, *leg.start, *leg.end]), DOINGS.index(leg.doing)] for leg in path.legs
    ]


def _hours(numbers: Sequence[float]) -> list[float]:
    return [round(number, 2) for number in numbers]


def _row(each: Summary) -> str:
    cells = [
        f"{each.ahead_min:.0f} min" if each.ahead_min else "when due",
        *(f"{wait_min:.0f} min" for wait_min in each.waiting_min[:3]),
        f"{each.standing_min:.0f} min",
        f"{each.skill:.0f}",
        f"{each.done} of {each.jobs}",
        str(each.counts["quit"]),
    ]
    name = f'<th scope="row"><i class="swatch {each.policy}"></i>{escape(each.policy)}</th>'
    return f"<tr>{name}{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
