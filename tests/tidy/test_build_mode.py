"""Compiled or plain: the Makefile expects what setup.py makes of the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOWHERE = "no-such-compiler"


def output(command: list[str], more: dict[str, str]) -> str:
    environment = {**os.environ, **more}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return ended.stdout


def expected_by_make(**more: str) -> list[str]:
    """The modes of the runs of `make test` on the usual data, which is not run."""
    said = output(["make", "--dry-run", "--no-print-directory", f"VENV={sys.prefix}", "test"], more)
    return re.findall(r"^TEST_MODE=(\w*) ", said, re.MULTILINE)


def made_by_setup(**more: str) -> str:
    return output([sys.executable, "-B", "-c", "import setup; print(setup.mode())"], more).strip()


@pytest.mark.parametrize("more", [{"HALL_COMPILE": "0"}, {"CC": NOWHERE}, {"HALL_COMPILE": "1"}])
def test_make_expects_what_setup_makes(more: dict[str, str]) -> None:
    made = made_by_setup(**more)
    assert expected_by_make(**more) == [made, "plain"]


def test_without_a_compiler_or_when_it_is_not_wanted_the_package_is_plain() -> None:
    assert (made_by_setup(HALL_COMPILE="0"), made_by_setup(CC=NOWHERE)) == ("plain", "plain")


def test_make_says_before_it_compiles_that_it_does_and_for_about_how_long() -> None:
    def notice(**more: str) -> str:
        return output([sys.executable, "-B", "-c", "import setup; print(setup.notice())"], more)

    if made_by_setup() == "compiled":
        assert "compiled once, which takes some minutes" in notice()
    assert "plain Python" in notice(CC=NOWHERE)
    # As if nothing were installed yet: the notice comes before the silence of the installer.
    said = output(["make", "--dry-run", "--no-print-directory", "VENV=no-such-folder", "serve"], {})
    assert 0 < said.index("setup.notice()") < said.index("pip install -q --upgrade .")
