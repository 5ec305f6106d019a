"""The pytest plugin, in runs of pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MODULE: Final = "hiringhall.pytest_plugin"

APP: Final = """
from hiringhall import Hall

hall = Hall("hall://127.0.0.1:1")

@hall.job(retries=1, backoff=3600)
def greet(name: str) -> str:
    return f"hello {name}"
"""
USING: Final = """
import asyncio
from app import greet

def test_blocking(hall_stage):
    assert greet.submit("anna").result() == "hello anna"
    greet.options(delay=60).submit("bob")
    assert hall_stage.run_all() == 0
    hall_stage.advance(60)
    assert hall_stage.run_all() == 1
    assert [job.value for job in hall_stage.jobs(greet)] == ["hello anna", "hello bob"]

def test_each_test_has_a_hall_of_its_own(hall_stage):
    assert hall_stage.jobs() == []

def test_asyncio(hall_stage):
    async def main():
        return await (await greet.asubmit("carl"))
    assert asyncio.run(main()) == "hello carl"
"""
NOT_USING: Final = """
import sys

def test_nothing_of_the_hall_is_imported():
    assert "hiringhall.pytest_plugin" in sys.modules
    ours = {name for name in sys.modules if name.startswith("hiringhall")}
    assert ours == {"hiringhall", "hiringhall.pytest_plugin"}
    assert "msgspec" not in sys.modules
"""


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run this test file with the plugin and no other."""
    (folder / "app.py").write_text(APP)
    (folder / "test_app.py").write_text(test)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", MODULE, "-p", "no:cacheprovider", "-W", "error"],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_fixture_gives_each_test_a_hall_in_memory(tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, USING)
    assert re.search(r"^3 passed", ran.stdout, re.MULTILINE), ran.stdout + ran.stderr


def test_who_does_not_use_the_fixture_imports_nothing(tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, NOT_USING)
    assert re.search(r"^1 passed", ran.stdout, re.MULTILINE), ran.stdout + ran.stderr


def test_pytest_finds_the_plugin_where_hiringhall_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"hiringhall": MODULE}
