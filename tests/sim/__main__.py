"""Runs seeds: `python -m tests.sim --seed 42 --verbose`, or many: `--seed 0 --seeds 1000`, or `--long`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from hashlib import sha256
from typing import TYPE_CHECKING

from rich.console import Console

from . import long, planted
from .runs import LOG_TAIL, run_of
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from the first one on")
    parser.add_argument("--verbose", action="store_true", help="print the whole log of each")
    parser.add_argument("--keep-going", action="store_true", help="count broken laws instead of stopping")
    parser.add_argument("--long", action="store_true", help="play them on all cores, with a progress bar")
    parser.add_argument("--planted", metavar="BUG", help="plant a bug and look for it; `all`: one by one")
    parser.add_argument("--planted-from-stdin", action="store_true", help="bugs are read, each line is one")
    arguments = parser.parse_args()
    if arguments.planted:
        bugs = list(planted.BUGS) if arguments.planted == "all" else [arguments.planted]
        found = [_find(bug) for bug in bugs]
        return 0 if all(found) else 1
    if arguments.planted_from_stdin:
        return _find_each(sys.stdin)
    if arguments.long:
        return long.run(arguments.seed, arguments.seeds, os.cpu_count() or 1, Console())
    return _run(arguments.seed, arguments.seeds, verbose=arguments.verbose, keep_going=arguments.keep_going)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _run(first: int, count: int, *, verbose: bool, keep_going: bool) -> int:
    started = time.perf_counter()
    broken: dict[str, list[int]] = {}
    digest = sha256()
    turns = 0
    for seed in range(first, first + count):
        run = run_of(seed)
        try:
            run.play()
        except Exception as error:
            law = error.law if isinstance(error, Violation) else type(error).__name__
            broken.setdefault(law, []).append(seed)
            if not keep_going:
                _say("\n".join(run.world.log if verbose else run.world.log[-LOG_TAIL:]))
                _say(f"seed {seed} breaks a law: {error}")
                if not isinstance(error, Violation):
                    raise
                return 1
        if verbose:
            _say("\n".join(run.world.log))
        digest.update(run.digest().encode())
        turns += run.turns
    for law, seeds in broken.items():
        _say(f"{law}: {len(seeds)} seeds, {seeds[:8]}")
    spent_s = time.perf_counter() - started
    _say(f"{count} seeds, {turns} turns, {spent_s:.1f} s: {sum(map(len, broken.values()))} broke a law")
    _say(f"digest {digest.hexdigest()}")
    return 1 if broken else 0


def _find(bug: str) -> bool:
    """Without the core's own audit, and where that was, with all laws."""
    if not planted.plain():
        _say("bugs can only be planted in plain Python: run with PYTHONPATH=src, without extensions there")
        return False
    outside = planted.find(bug, audited=False)
    if outside is None:
        _say(f"{bug}: not found by the laws outside the core in {planted.seeds_max(bug)} seeds")
        return False
    _say(f"{bug}: found by the laws outside the core at seed {outside.seed}, law: {outside.law}")
    found = planted.find(bug, found=outside.seed)
    _say(f"{bug}: {f'found by all laws: {found.law}' if found is not None else 'not found by all laws there'}")
    return found is not None


def _find_each(bugs: Iterable[str]) -> int:
    """A forked process for each bug, so nothing is imported again. Each ends with a line: its exit code."""
    for bug in bugs:
        pid = os.fork()
        if pid == 0:
            return 0 if _find(bug.rstrip("\n")) else 1
        _, status = os.waitpid(pid, 0)
        _say(f"exit {os.waitstatus_to_exitcode(status)}")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
