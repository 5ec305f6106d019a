"""Tests receive what the engine delivers: none of them changes the output of a session by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
BY_HAND: Final = re.compile(
    r"\.out(\.clear\(|\[.*\] = |_bytes = )"
    r"|\bsession\.(pledges|sealed|sealed_pledges) = "
    r"|\boutbox(\.remove\(|\.clear\(| = )"
)
PLANTED: Final = re.compile(r"planted\w*\.py")
"""Bugs that are planted on purpose."""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("guest.session.out" + ".clear()", True),
        ("session.pledges" + " = None", True),
        ("room.outbox" + ".remove(session)", True),
        ("self.session.outbox" + " = room.outbox", True),
        ("assert client.session.pledges is None", False),
        ("guest.session.out_bytes_max = 10_000", False),
    ],
)
def test_what_counts_as_by_hand(line: str, found: bool) -> None:
    assert bool(BY_HAND.search(line)) == found


def test_no_test_changes_the_output_of_a_session() -> None:
    for path in TESTS.rglob("*.py"):
        if not PLANTED.fullmatch(path.name):
            found = [line for line in path.read_text().splitlines() if BY_HAND.search(line)]
            assert not found, f"{path.relative_to(TESTS)}: use a guest of tests/stage: {found}"
