"""The comparison of job systems: the best of the others is the bar, and every result is checked."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))
sys.path.append(str(Path(__file__).parents[2] / "bench" / "peers"))

from chart import groups
from figures import AT_LEAST, AT_MOST, Row
from job_systems import OTHERS, OURS
from load import IN_FLIGHT, AsyncPeer, BlockingPeer, check, run_async, run_blocking, times
from report import markdown
from scenarios import Stage
from servers import ServerError
from systems import PEERS, Turn, children_of_all, cpu_seconds, stat_fields

from sdk import (
    BEST,
    JOB_FUNCTIONS,
    JOBS_MIN,
    PARTS,
    ROUND_TRIP,
    TO_BEST,
    TURN_S,
    Rounds,
    add_best,
    jobs_for,
    versions_of_others,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load import Pair
    from systems import System

ROOT = Path(__file__).parents[2]
NAMES = tuple(system.name for system in OTHERS)
PAIRS = [(number, 1) for number in range(3 * IN_FLIGHT)]


class Adder(BlockingPeer):
    """Adds when the result is asked for, and counts the jobs in flight."""

    def __init__(self, *, threads: bool = False, error: int = 0) -> None:
        self.in_flight_threads = threads
        self.waiting = self.most = 0
        self._error = error

    def submit(self, function: str, pair: Pair) -> Pair:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        return pair

    def result(self, handle: Pair) -> int:
        self.waiting -= 1
        return sum(handle) + self._error

    def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        return [sum(pair) + self._error for pair in pairs]


class AsyncAdder(AsyncPeer):
    """As `Adder`; a result comes one pass of the loop later."""

    def __init__(self) -> None:
        self.waiting = self.most = 0

    async def start(self) -> None:
        """Nothing to do."""

    async def submit(self, function: str, pair: Pair) -> Pair:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        return pair

    async def result(self, handle: Pair) -> int:
        await asyncio.sleep(0)
        self.waiting -= 1
        return sum(handle)

    async def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        return [sum(pair) for pair in pairs]


def row(unit: str, **values: float) -> Row:
    return Row("sdk", "figure", unit, 5, dict(values))


def test_the_best_other_has_the_highest_rate() -> None:
    shown = add_best(row("jobs/s", hall=90.0, huey=20.0, rq=30.0), NAMES).must(AT_LEAST, 3.0, TO_BEST)
    assert (shown.values[BEST], shown.passed) == (30.0, True)


def test_the_best_other_has_the_lowest_time() -> None:
    shown = add_best(row("us", hall=11.0, huey=20.0, rq=30.0), NAMES, lowest=True).must(AT_MOST, 0.5, TO_BEST)
    assert (shown.values[BEST], shown.passed) == (20.0, False)


def test_without_others_there_is_no_best() -> None:
    shown = add_best(row("jobs/s", hall=90.0), NAMES).must(AT_LEAST, 3.0, TO_BEST)
    assert BEST not in shown.values
    assert shown.passed is None


def test_the_chart_shows_the_hall_beside_the_best_other() -> None:
    shown = add_best(row("jobs/s", hall=90.0, huey=20.0, rq=30.0), NAMES)
    facts = {"date": "today", "run": "5 rounds"}
    (group,) = groups(markdown([(JOB_FUNCTIONS, [shown])], facts))
    assert (group.pair, [bar.speed for bar in group.bars]) == ("hall : best other", [3.0])


@pytest.mark.parametrize(
    ("rate", "jobs"),
    [(1e9, 5000), (1000.0, int(1000 * TURN_S)), (1.0, JOBS_MIN)],
    ids=["fast", "slow", "slowest"],
)
def test_a_slow_system_gets_fewer_jobs(rate: float, jobs: int) -> None:
    assert jobs_for(5000, rate) == jobs


@pytest.mark.parametrize("load", ["map", "in flight", "round trip"])
@pytest.mark.parametrize("threads", [False, True])
def test_every_load_returns_the_time_of_all_jobs(load: str, threads: bool) -> None:
    assert run_blocking(Adder(threads=threads), load, "add", PAIRS)["seconds"] > 0
    assert asyncio.run(run_async(AsyncAdder(), load, "add", PAIRS))["seconds"] > 0


@pytest.mark.parametrize("load", ["map", "in flight", "round trip"])
def test_a_wrong_result_ends_the_client(load: str) -> None:
    with pytest.raises(SystemExit, match="wrong"):
        run_blocking(Adder(error=1), load, "add", PAIRS)


def test_a_missing_result_ends_the_client() -> None:
    with pytest.raises(SystemExit, match="missing"):
        check([1, 2], PAIRS[:3])


def test_64_jobs_are_in_flight() -> None:
    blocking, asynchronous = Adder(), AsyncAdder()
    run_blocking(blocking, "in flight", "add", PAIRS)
    asyncio.run(run_async(asynchronous, "in flight", "add", PAIRS))
    assert (blocking.most, asynchronous.most) == (IN_FLIGHT, IN_FLIGHT)


def test_the_percentiles_are_in_microseconds() -> None:
    figures = times(1.0, [number / 1e6 for number in range(100)])
    assert (round(figures["p50_us"]), round(figures["p99_us"])) == (50, 99)


def test_the_name_of_a_process_may_hold_spaces_and_brackets(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 1\n")
    fields = stat_fields(tmp_path)
    assert (fields[0], fields[1], fields[11:15]) == ("S", "1", ["11", "12", "13", "14"])


def test_this_process_is_a_child_of_its_parent_and_has_used_the_cpu() -> None:
    children = children_of_all()
    assert os.getpid() in children[os.getppid()]
    assert cpu_seconds([os.getpid()], {}) > 0
    assert cpu_seconds([os.getppid()], {os.getppid(): [os.getpid()]}) > cpu_seconds([os.getppid()], {})


def test_a_process_that_has_ended_has_used_nothing() -> None:
    assert cpu_seconds([1 << 30], {}) == 0.0


def test_the_other_sections_can_be_measured_without_the_other_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdk.ENVIRONMENTS", tmp_path)
    assert versions_of_others() == "not installed"


def test_a_system_that_is_not_installed_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("systems.ENVIRONMENTS", tmp_path / "none")
    (huey, *_) = OTHERS
    with pytest.raises(ServerError, match="huey is not installed: run scripts/install-bench-peers"):
        Turn(huey, tmp_path / "turn", sys.executable).__enter__()


class TurnOfFigures:
    """In place of a turn: its loads have these figures, or fail."""

    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""

    def run(self, load: str, function: str, jobs: int) -> dict[str, float]:
        if self._fails:
            raise ServerError(f"{load} of {function} failed after {jobs} jobs")
        return dict.fromkeys(("jobs_per_s", "p50_us", *(f"{part}_cpu_us" for part in PARTS)), 100.0)


class FailingRounds(Rounds):
    """The first turns of one system fail."""

    def __init__(self, folder: Path, system: System, failures: int) -> None:
        no_slap: Any = None  # job functions do without the load generator
        stage = Stage(no_slap, folder, sys.executable, 2, 1.0, lambda _: None)
        super().__init__("failing", stage, OURS + OTHERS)
        self._system = system
        self.failures = failures

    def _turn(self, system: System, *, asynchronous: bool = False, quick: bool = False) -> Any:
        fails = system is self._system and self.failures > 0
        self.failures -= fails
        return TurnOfFigures(fails)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_turn_of_another_system_that_fails_does_not_cost_the_table(tmp_path: Path, failures: int) -> None:
    rounds = FailingRounds(tmp_path, OTHERS[0], failures)
    rounds.measure_round_trip()
    assert rounds.failures == 0
    assert set(rounds.time(ROUND_TRIP, "p50").values) == {BEST, *(system.name for system in OURS + OTHERS)}


def test_a_system_of_which_no_turn_succeeds_is_not_left_out_silently(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"no turn succeeded of: huey$"):
        FailingRounds(tmp_path, OTHERS[0], 4).measure_round_trip()


def test_the_hall_gets_no_second_try(tmp_path: Path) -> None:
    rounds = FailingRounds(tmp_path, OURS[0], 1)
    with pytest.raises(ServerError, match="round trip of add failed"):
        rounds.measure_round_trip()


@pytest.mark.parametrize("system", OURS + OTHERS, ids=lambda system: system.name)
def test_every_system_has_its_module_its_column_and_its_settings_in_the_page(system: System) -> None:
    assert (PEERS / f"{system.module}.py").exists()
    assert system.name in JOB_FUNCTIONS.servers
    assert f"| {system.name} |" in (ROOT / "docs" / "benchmarks.md").read_text()


@pytest.mark.parametrize("system", OTHERS, ids=lambda system: system.name)
def test_every_other_system_is_installed_by_the_script_with_a_limit(system: System) -> None:
    script = (ROOT / "scripts" / "install-bench-peers").read_text()
    (line,) = [word for word in script.split('"') if word.partition(">")[0].partition("[")[0] == system.package]
    assert ",<" in line
