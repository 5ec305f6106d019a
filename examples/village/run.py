"""Lets a village live on a hall: forty villagers who bid for the work of twelve workplaces, and get hungry.

With several policies the same village lives through the same time several times at once, on a hall each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from halls import doors_of, hall
from page import write_page
from rich.console import Console
from screen import make_screen, results
from summary import summarise
from village import Village
from world import Clock, found

from hiringhall.peers.hire import POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from screen import Screen
    from summary import Summary
    from village import Doors
    from world import World

PLAIN_WIDTH = 120
"""Of lines that go to no terminal."""
STOP = "told to stop"


def main() -> None:
    options = parse()
    on_signals(lambda: sys.exit(STOP))  # through every `finally`
    world = found(options.seed, options.days)
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="village-")))
        halls = [stack.enter_context(hall(folder / policy, policy)) for policy in options.policy]
        doors = dict(zip(options.policy, map(doors_of, halls), strict=True))
        try:
            villages = asyncio.run(live(world, doors, make_screen(console, quiet=options.json)))
        except asyncio.CancelledError:
            sys.exit(STOP)
        summaries = [summarise(village, folder / village.policy) for village in villages]
    if options.html is not None:
        write_page(options.html, world, villages, summaries)
    report(console, options, summaries)


def on_signals(act: Callable[[], object]) -> None:
    """What to do when somebody wants this to end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: act())


async def live(world: World, doors: dict[str, Doors], screen: Screen) -> list[Village]:
    """The same village under each policy, all at once."""
    clock = Clock()
    whole = asyncio.current_task()
    assert whole is not None
    loop = asyncio.get_running_loop()
    # Raised in the middle of a villager's task, it would be that villager's trouble.
    on_signals(lambda: loop.call_soon_threadsafe(whole.cancel))
    villages = [Village(world, clock, policy, each) for policy, each in doors.items()]
    watching = asyncio.create_task(screen.show(villages))
    try:
        await asyncio.gather(*(village.live() for village in villages))
        clock.stop()
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        on_signals(lambda: sys.exit(STOP))
    if not watching.cancelled():
        watching.result()
    return villages


def report(console: Console, options: argparse.Namespace, summaries: list[Summary]) -> None:
    if options.json:
        villages = [summary.as_json() for summary in summaries]
        print(json.dumps({"seed": options.seed, "days": options.days, "villages": villages}, indent=2))
        return
    console.print(results(summaries))
    if options.html is not None:
        console.print(f"The day as a picture: {options.html}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7, help="another seed is another village (7)")
    parser.add_argument("--days", type=days, default=1.0, help="how long it lives; a day takes 24 s (1)")
    parser.add_argument(
        "--policy",
        type=policies,
        default=list(POLICIES),
        metavar="NAME[,NAME]",
        help=f"whom to hire: {', '.join(POLICIES)}, or all (the default)",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write an animated picture of it")
    parser.add_argument("--json", action="store_true", help="print what came of it as JSON, and nothing else")
    return parser.parse_args()


def days(text: str) -> float:
    number = float(text)
    if not 0.1 <= number <= 30:
        raise argparse.ArgumentTypeError("a village lives from 0.1 to 30 days")
    return number


def policies(text: str) -> list[str]:
    names = list(POLICIES) if text == "all" else list(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in POLICIES]:
        raise argparse.ArgumentTypeError(f"no such policy: {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    main()
