"""`make soak`, its part about several halls on PostgreSQL: each scenario is a kind of fault.

Progress goes to stderr. The last line on stdout is a verdict as JSON. The exit code is 0 if every promise was
kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster_away import away
from cluster_cuts import cuts
from cluster_doors import doors
from cluster_failover import failover, failover_async
from cluster_kills import kills
from cluster_netns import Networks
from cluster_networks import HOSTS, networks, networks_unfenced
from cluster_stage import Stage
from cluster_stops import stops, stops_unfenced
from cluster_switches import switches

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Scenario = Callable[[Stage, int, int], Coroutine[None, None, dict[str, object]]]


THREADS: Final = 64


class Size(NamedTuple):
    """A scenario, and how large it is unless told otherwise."""

    run: Scenario
    rounds: int
    live: int = 0
    """Jobs that stay live all the time."""
    in_networks: bool = False
    """Each hall has a network of its own. Needs root."""


SCENARIOS: Final = {
    "kills": Size(kills, 300, 300_000),
    "cuts": Size(cuts, 2000),
    "away": Size(away, 50),
    "failover": Size(failover, 20),
    "failover-async": Size(failover_async, 5),
    "switches": Size(switches, 20),
    "stops": Size(stops, 200),
    "stops-unfenced": Size(stops_unfenced, 5),
    "doors": Size(doors, 3),
    "networks": Size(networks, 70, in_networks=True),
    "networks-unfenced": Size(networks_unfenced, 6, in_networks=True),
}


def play(
    name: str, seed: int, rounds: int = 0, live: int = -1, minutes: float = 0.0, *, quiet: bool = False
) -> dict[str, object]:
    """Run one scenario: its verdict. Raises AssertionError if a promise was broken."""
    size = SCENARIOS[name]

    async def story(stage: Stage) -> dict[str, object]:
        # Many parts of the load are threads that wait; the default is a few threads a core.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
        return await size.run(stage, rounds or size.rounds, size.live if live < 0 else live)

    with (
        Networks(HOSTS) if size.in_networks else nullcontext() as hosts,
        Stage(name, seed, quiet=quiet, networks=hosts) as stage,
    ):
        if minutes:
            stage.seconds_max = 60 * minutes
        return asyncio.run(story(stage))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=f"any of {', '.join(SCENARIOS)}")
    parser.add_argument("--rounds", type=int, default=0, help="instead of the usual number of each scenario")
    parser.add_argument(
        "--live", type=int, default=-1, help="jobs that stay live, for scenarios that have some"
    )
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="begin no round of a scenario after this time"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the halls end too
    logging.disable(logging.WARNING)  # that a hall is gone is what this is about
    verdicts: dict[str, object] = {}
    broken = False
    for name in arguments.scenarios or SCENARIOS:
        try:
            verdicts[name] = play(name, arguments.seed, arguments.rounds, arguments.live, arguments.minutes)
        except Exception as error:  # noqa: BLE001 (told in the verdict)
            traceback.print_exc()
            verdicts[name] = {"broken": f"{type(error).__name__}: {error}"[:2000]}
            broken = True
    sys.stdout.write(f"{json.dumps(verdicts)}\n")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
