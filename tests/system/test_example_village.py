"""The example of a village: it lives on real halls, no job is lost, and least_waiting keeps its word."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from hall_process import CODE

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "village"
TIME_S: Final = 90.0
VOID: Final = ("meta", "input")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, str(EXAMPLE / "run.py"), *map(str, arguments)]


def surroundings(folder: Path) -> dict[str, str]:
    """An environment by which the example's processes can be told, and its temporary files."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "PYTHONPATH": CODE, "PYTHONWARNINGS": "error", "TMPDIR": str(temporary)}


def left_over(folder: Path) -> list[int]:
    """Processes of the example that are there still."""
    mark = f"TMPDIR={folder / 'temporary'}\0".encode()
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark in (process / "environ").read_bytes()
        except OSError:  # it has just ended, or is not ours
            continue
        if marked:
            pids.append(int(process.name))
    return pids


def run(folder: Path, *arguments: str | Path) -> str:
    """Run the example to its end; what it printed."""
    ended = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=surroundings(folder),
        capture_output=True,
        text=True,
        timeout=TIME_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert left_over(folder) == []
    assert list((folder / "temporary").iterdir()) == []
    return ended.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("village")


@pytest.fixture(scope="module")
def villages(place: Path) -> dict[str, Any]:
    """One morning under two policies, for all the tests that look at what came of it."""
    printed = run(
        place, "--days", "0.3", "--policy", "soonest,least_waiting", "--json", "--html", "village.html"
    )
    return {village["policy"]: village for village in json.loads(printed)["villages"]}


@pytest.fixture(scope="module")
def page(place: Path, villages: dict[str, Any]) -> str:
    return (place / "village.html").read_text()


@pytest.mark.parametrize("policy", ["soonest", "least_waiting"])
def test_every_job_is_accounted_for(villages: dict[str, Any], policy: str) -> None:
    village = villages[policy]
    assert village["jobs"] == villages["soonest"]["jobs"] > 20
    assert village["done"] + village["open"] == village["jobs"]
    assert village["done"] == village["counts"]["done"] == village["jobs"]
    assert len(village["waiting_min"]["each"]) == village["jobs"]
    # Those of workplaces that announce themselves are jobs of the hall too, but nothing for its disk.
    assert set(village["log"]) == {"done"}
    assert 15 < village["log"]["done"] < village["jobs"]
    # Whoever was hired has done the job, or has quit, or was sent away.
    counts = village["counts"]
    assert counts["hired"] == counts["done"] + counts["quit"] + counts["dismissed"]
    assert counts["conscripted"] >= 1


def test_announcing_ahead_halves_the_waiting_at_least(villages: dict[str, Any]) -> None:
    soonest, least = villages["soonest"], villages["least_waiting"]
    assert least["waiting_min"]["mean"] <= soonest["waiting_min"]["mean"] / 2
    assert least["waiting_min"]["median"] <= soonest["waiting_min"]["median"] / 2
    # And the price of it is not hidden.
    assert (soonest["ahead_min"], least["ahead_min"]) == (0, 90)
    assert soonest["standing_min"] < least["standing_min"]


class Balance(HTMLParser):
    """Every tag is closed by its own."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count = 0
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count += 1
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count += 1
        assert tag in (*VOID, "rect", "line", "path"), f"<{tag}/> closes nothing in HTML"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_needs_nothing_else(page: str) -> None:
    balance = Balance()
    balance.feed(page)
    balance.close()
    assert (balance.open, balance.links) == ([], [])
    assert balance.count > 100
    assert "<!--" not in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_the_page_holds_the_day(page: str, villages: dict[str, Any]) -> None:
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert [len(data[name]) for name in ("people", "homes", "places", "villages")] == [40, 40, 12, 2]
    for village in data["villages"]:
        told = villages[village["policy"]]
        assert len(village["tasks"]) == told["jobs"]
        assert [kind for _, kind, _ in village["news"]].count("hired") == told["counts"]["hired"]
        for path in village["paths"]:
            assert path[0][0] <= data["first"]
            for leg, following in pairwise(path):
                assert following[0] == pytest.approx(leg[1], abs=0.02)  # no gaps in time
                assert following[2:4] == pytest.approx(leg[4:6], abs=0.3)  # and nobody jumps
        for _, due, done, begun, left in village["tasks"]:
            assert len(begun) == len(left) >= 1
            assert due - 0.02 <= begun[0] <= left[-1] == pytest.approx(done, abs=0.01)


def test_the_charts_show_every_policy(page: str, villages: dict[str, Any]) -> None:
    charts = [f"<svg{part.partition('</svg>')[0]}</svg>" for part in page.split("<svg")[1:]]
    bars, curves = (ET.fromstring(chart) for chart in charts)
    space = "{http://www.w3.org/2000/svg}"
    width = {
        (bar.get("class") or "").split()[1]: float(bar.get("width") or 0) for bar in bars.iter(f"{space}rect")
    }
    means = {policy: village["waiting_min"]["mean"] for policy, village in villages.items()}
    assert width["least_waiting"] / width["soonest"] == pytest.approx(
        means["least_waiting"] / means["soonest"], abs=0.01
    )
    for chart in (bars, curves):
        words = [text.text for text in chart.iter(f"{space}text")]
        assert {"soonest", "least_waiting"} <= set(words)
        assert any("minutes" in (word or "") for word in words)
    assert len(list(curves.iter(f"{space}path"))) == 2


def test_without_a_terminal_the_news_comes_in_lines(tmp_path: Path) -> None:
    *news, header, row = run(tmp_path, "--days", "0.15", "--policy", "best_skill", "--seed", "11").splitlines()
    assert any(line.endswith(" is hired by the bakery") for line in news)
    assert any("a job has been waited for: best_skill" in line for line in news)
    assert header.split()[:2] == ["policy", "a"]
    assert row.split()[0] == "best_skill"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_takes_its_halls_along(tmp_path: Path, how: signal.Signals) -> None:
    with subprocess.Popen(
        command("--policy", "soonest"),
        cwd=tmp_path,
        env={**surroundings(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as example:
        try:
            assert example.stdout is not None
            assert "hired" in next(line for line in example.stdout if "hired" in line)
            example.send_signal(how)
            assert (example.communicate(timeout=TIME_S)[1], example.returncode) == ("told to stop\n", 1)
        finally:
            example.kill()
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("arguments", [("--days", "0"), ("--policy", "cheapest"), ("--policy", "soonest,")])
def test_what_makes_no_village_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ended = subprocess.run(
        command(*arguments),
        cwd=tmp_path,
        env=surroundings(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "a village lives" in ended.stderr or "no such policy" in ended.stderr
