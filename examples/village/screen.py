"""The village in the terminal: a map on which people walk; or, without a terminal, a line for each news."""

from __future__ import annotations

import asyncio
from functools import cache
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from path import DOINGS, EATING, GOING, LEISURE, SLEEPING, SOLDIERING, WAITING, WORKING
from rich.console import Group
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from world import FIRST_H, HEIGHT, WIDTH, show_hour

if TYPE_CHECKING:
    from chronicle import News
    from rich.console import Console, RenderableType
    from summary import Summary
    from village import Village
    from world import Workplace

Cell = tuple[str, str]
"""A letter and its style."""

FRAME_S: Final = 0.15
NEAR_H: Final = 0.02
"""So near, people stand before a workplace and not somewhere on the map."""
BAR_WIDTH: Final = 20
STYLES: Final = {
    LEISURE: "white",
    GOING: "bright_cyan",
    WAITING: "bright_yellow",
    WORKING: "bold bright_green",
    EATING: "magenta",
    SLEEPING: "blue",
    SOLDIERING: "bold red",
}
PLACE_STYLES: Final = {"wanted": "black on yellow", "in work": "black on green", "": "white on grey23"}
NEWS_STYLES: Final = {
    "hired": "cyan",
    "done": "green",
    "quit": "yellow",
    "conscripted": "bold red",
    "dismissed": "magenta",
}


class Screen(Protocol):
    async def show(self, villages: list[Village]) -> None:
        """Until cancelled."""


def make_screen(console: Console, *, quiet: bool) -> Screen:
    if quiet:
        return Dark()
    return Cinema(console) if console.is_terminal else Crier(console)


class Dark:
    """Shows nothing."""

    async def show(self, villages: list[Village]) -> None:
        pass


class Crier:
    """Tells the news of the last village, line by line, and how all of them do on every third hour."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def show(self, villages: list[Village]) -> None:
        village = villages[-1]
        clock = village.clock
        told: News | None = None
        bell_h = FIRST_H
        while True:
            talk = list(village.book.talk)
            for news in talk[talk.index(told) + 1 if told in talk else 0 :]:
                self._print(f"{show_hour(news.hour)}  {news.text}")
                told = news
            if clock.now_h() >= bell_h:
                waits = ", ".join(f"{each.policy} {60 * each.book.mean_wait_h():.0f} min" for each in villages)
                self._print(f"{show_hour(bell_h)}  a job has been waited for: {waits}")
                bell_h += 3
            await asyncio.sleep(FRAME_S)

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)


class Cinema:
    """The last village as a map with people on it, and all of them in a race for the least waiting."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def show(self, villages: list[Village]) -> None:
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(frame(villages), refresh=True)
                await asyncio.sleep(FRAME_S)


def frame(villages: list[Village]) -> Layout:
    village = villages[-1]
    side = Layout(name="side")
    side.split_column(
        Layout(Panel(workplaces(village), title="workplaces"), size=16),
        Layout(Panel(race(villages), title="a job is waited for, in minutes")),
    )
    middle = Layout(name="middle", size=HEIGHT + 5)
    middle.split_row(
        Layout(Panel(Group(picture(village), legend()), title=title(village)), size=WIDTH + 4), side
    )
    layout = Layout()
    layout.split_column(middle, Layout(Panel(talk(village), title="the talk of the village")))
    return layout


def title(village: Village) -> str:
    now_h = village.clock.now_h()
    sky = "☀" if 6 <= now_h % 24 < 20 else "☾"
    return f"{sky} {show_hour(now_h)}  seed {village.world.seed}  {village.policy}"


def picture(village: Village) -> Text:
    """The map: the ground, who walks about on it, the workplaces, and who stands before them."""
    cells = [list(row) for row in ground(village.world.seed)]
    crowds: dict[Workplace, list[Cell]] = {place: [] for place in village.world.workplaces}
    for villager in village.villagers:
        spot = villager.path.here()
        cell = (villager.person.name[0], STYLES[villager.path.doing])
        place = next((place for place in crowds if spot.way_h(place.spot) < NEAR_H), None)
        if place is not None:
            crowds[place].append(cell)
        else:
            cells[round(spot.y)][min(round(spot.x), WIDTH - 1)] = cell
    for place, crowd in crowds.items():
        x, y = int(place.spot.x) - len(place.name) // 2 - 1, int(place.spot.y)
        style = PLACE_STYLES[village.state_of(place)]
        cells[y][x : x + len(place.name) + 2] = [(letter, style) for letter in f" {place.name} "]
        cells[y + 1][x + 1 : x + 1 + len(crowd)] = crowd
    text = Text()
    for row in cells:
        for style, run in groupby(row, key=itemgetter(1)):  # a piece of text for each style, for speed
            text.append("".join(letter for letter, _ in run), style)
        text.append("\n")
    return text


@cache
def ground(seed: int) -> tuple[tuple[Cell, ...], ...]:
    """Grass with a few trees, always the same."""
    chance = Random(seed)  # noqa: S311 (a village, not a secret)
    kinds = ((" ", ""), (".", "grey30"), ("♣", "dark_green"))
    return tuple(tuple(chance.choices(kinds, (60, 6, 1), k=WIDTH)) for _ in range(HEIGHT))


def legend() -> Text:
    text = Text()
    for doing in DOINGS:
        text.append("●\N{NO-BREAK SPACE}", STYLES[doing]).append(
            doing.replace(" ", "\N{NO-BREAK SPACE}") + "  "
        )
    return text


def workplaces(village: Village) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    for heading in ("", "now", "done", "due"):
        table.add_column(heading, justify="left" if heading in ("", "now") else "right")
    due = village.book.due()
    for place in village.world.workplaces:
        mine = [task for task in due if task.place is place]
        done = sum(task.done_h is not None for task in mine)
        state = village.state_of(place)
        table.add_row(
            place.name + (" *" if place.announces else ""),
            Text(state, PLACE_STYLES[state] if state else ""),
            str(done),
            str(len(mine)),
        )
    table.add_row(Text("* announces its jobs itself", "dim"))
    return table


def race(villages: list[Village]) -> Table:
    waits_min = {village.policy: 60 * village.book.mean_wait_h() for village in villages}
    table = Table.grid(padding=(0, 1))
    for policy, wait_min in waits_min.items():
        table.add_row(policy, bar(wait_min, max(waits_min.values())), f"{wait_min:.0f}")
    return table


def bar(value: float, longest: float) -> Text:
    return Text("█" * round(BAR_WIDTH * value / longest) if longest else "", "yellow")


def talk(village: Village) -> RenderableType:
    """The counters, and the latest news in two columns."""
    counts = Text("  ".join(f"{kind} {number}" for kind, number in village.book.counts.items()), "bold")
    latest = list(village.book.talk)[-14:]
    table = Table.grid(expand=True)
    for left, right in zip(latest[: len(latest) // 2], latest[len(latest) // 2 :], strict=False):
        table.add_row(_news(left), _news(right))
    return Group(counts, table)


def _news(news: News) -> Text:
    return Text(f"{show_hour(news.hour)}  ", "dim").append(news.text, NEWS_STYLES[news.kind])


def results(summaries: list[Summary]) -> Table:
    """What came of it, policy by policy."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.add_column("policy")
    table.add_column("a job is waited for")
    for heading in ("mean", "median", "worst", "a worker stands", "skill", "jobs", "done", "quits"):
        table.add_column(heading, justify="right")
    longest = max(each.waiting_min.mean for each in summaries)
    for each in summaries:
        table.add_row(
            each.policy,
            bar(each.waiting_min.mean, longest),
            *(f"{wait_min:.0f} min" for wait_min in each.waiting_min[:3]),
            f"{each.standing_min:.0f} min",
            f"{each.skill:.0f}",
            str(each.jobs),
            str(each.done),
            str(each.counts["quit"]),
        )
    return table
