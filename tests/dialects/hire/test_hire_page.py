"""The page that others write their peers from: every line on it is what we read and write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hire_script import SCRIPTS

from hiringhall.core.bidding.markets import Ask, Offer
from hiringhall.core.bidding.policies import POLICIES
from hiringhall.core.peer import Peer
from hiringhall.core.workers import Worker
from hiringhall.dialects.hire import wire
from hiringhall.doors.policies import find_policy

PAGE = (Path(__file__).parents[3] / "docs/protocols/hire.md").read_text()
BLOCKS = [block.splitlines() for block in re.findall(r"^```lines\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)]
LONG, COMPACT, SWITCHBOARD, COMMENTS = BLOCKS


@pytest.mark.parametrize("text", LONG + COMPACT + SWITCHBOARD)
def test_each_line_is_read_and_written_as_it_stands(text: str) -> None:
    line = wire.read_line(text.encode())
    assert wire.write_line(line, compact=text.startswith("!")).decode() == text


def test_the_long_and_the_compact_example_say_the_same() -> None:
    assert [wire.read_line(text.encode()) for text in LONG] == [
        wire.read_line(text.encode()) for text in COMPACT
    ]


def test_the_sizes_that_the_page_names_are_those_of_the_example() -> None:
    assert f"{len(COMPACT[0])} bytes instead of {len(LONG[0])} for the ANNOUNCE above" in PAGE


def test_the_examples_are_dialogues_that_are_played_elsewhere() -> None:
    said = {
        step.text(compact=compact).decode()
        for script in SCRIPTS
        for step in script.steps
        if step.verb
        for compact in (False, True)
    }
    missing = [text for text in LONG + COMPACT + SWITCHBOARD if text not in said]
    assert missing == []


def test_comments_begin_as_comments_do() -> None:
    assert all(text.startswith("# ") for text in COMMENTS)


def test_every_policy_is_on_the_page() -> None:
    row = r"^\| `(\w+)` \| (?:the worker (?:that|with|whose)|among those)"
    assert re.findall(row, PAGE, re.MULTILINE) == list(POLICIES)


def test_the_policy_of_the_page_chooses_who_is_just_good_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "village_policies.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    policy = find_policy("village_policies:apprentice")
    offers = [Offer(Worker(skill, Peer(), 1), skill, 1) for skill in (9, 4, 2, 5)]
    assert policy(offers, Ask(4, 1, 1)) is offers[1]
    assert policy(offers, Ask(10, 1, 1)) is None
