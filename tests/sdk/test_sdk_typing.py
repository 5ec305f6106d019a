"""What mypy --strict and pyright make of every form of the SDK: the types of results, and wrong calls."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).with_name("typing_sample.py")
PYRIGHT = ROOT / ".clients" / "node_modules" / "pyright" / "index.js"
MARK = re.compile(r"  # (.+)$")
QUALIFIED = re.compile(r"[A-Za-z_][\w.]*\.(?=[A-Za-z_])")


def expected(checker: str) -> dict[int, str]:
    """What stands behind the lines of the sample: a type, or "an error"; some errors only one of them sees."""
    lines = enumerate(SAMPLE.read_text().splitlines(), 1)
    marks = {number: mark[1] for number, line in lines if (mark := MARK.search(line))}
    return {
        number: mark.removesuffix(f" for {checker}")
        for number, mark in marks.items()
        if " for " not in mark or mark.endswith(checker)
    }


def plain(revealed: str) -> str:
    """A type without modules, in one spelling."""
    return QUALIFIED.sub("", revealed).strip('"').replace("builtins.", "")


def test_mypy_strict() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull, str(SAMPLE)],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        cwd=SAMPLE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[int, str] = {}
    for line in ran.stdout.splitlines():
        if match := re.match(r'\S*typing_sample\.py:(\d+): (error|note): (?:Revealed type is "(.+)")?', line):
            if match[3]:
                found[int(match[1])] = plain(match[3])
            elif match[2] == "error":
                found[int(match[1])] = "an error"
    assert found == expected("mypy"), ran.stdout + ran.stderr


def test_pyright() -> None:
    if not PYRIGHT.exists() or shutil.which("node") is None:
        pytest.skip("missing: pyright; get it with scripts/install-test-clients")
    settings = ["--pythonpath", sys.executable, "--outputjson", str(SAMPLE)]
    ran = subprocess.run(
        ["node", str(PYRIGHT), *settings],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[int, str] = {}
    for told in json.loads(ran.stdout)["generalDiagnostics"]:
        number = told["range"]["start"]["line"] + 1
        if match := re.match(r'Type of ".+" is "(.+)"', told["message"], re.DOTALL):
            found[number] = plain(match[1])
        elif told["severity"] == "error":
            found[number] = "an error"
    assert found == expected("pyright"), ran.stdout
