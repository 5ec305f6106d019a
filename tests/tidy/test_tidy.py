"""The rules of the house hold everywhere. A failure names the file, the line and what to do."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from session_rules import SESSION_RULES
from tidy_rules import PYTHON_RULES, Complaint, Source, sleeping, words

from hiringhall.core.states import STATE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "bench", "scripts", "docs", "examples", "deploy", ".ci")
TOP = ("*.md", "*.py", "*.toml", "Makefile", "LICENSE", ".gitignore")
TEXTS = (".py", ".md", ".toml", ".sql", ".c", ".js", ".pl", ".sh", ".txt", ".service", "")
PASSED_OVER = ("node_modules", "__pycache__", "build", ".clients", ".hypothesis")

MAY_SLEEP = {
    "tests/browser/shop.py": "job functions for pictures: to sleep is their work",
    "tests/system/hall_process.py": "waits for another process, which gives no signal; every wait has a limit",
    "tests/soak/flows.py": "lets the load run for a while between two kills, and waits for processes",
    "tests/soak/sdk.py": "lets the load run for a while between two kills, and waits for processes",
    "tests/soak/soak_flow_worker.py": "its hall was killed: it tries again after a moment",
    "tests/soak/soak_client.py": "waits for a hall that is being started",
    "tests/system/test_zmq_memory.py": "measures the CPU time that a hall uses in a second",
}
"""Files that may call time.sleep, and why."""


@cache
def files() -> tuple[Path, ...]:
    found: list[Path] = []
    for pattern in TOP:
        found += ROOT.glob(pattern)
    for folder in FOLDERS:
        found += (path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix in TEXTS)
    return tuple(
        sorted(path for path in found if not any(word in PASSED_OVER for word in path.relative_to(ROOT).parts))
    )


@cache
def sources() -> tuple[Source, ...]:
    return tuple(
        Source(str(path.relative_to(ROOT)), path.read_text()) for path in files() if path.suffix == ".py"
    )


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """Millions of nodes: each collection of garbage in a later test would go through them."""
    yield
    sources.cache_clear()


def nobody_complains(complaints: list[Complaint]) -> None:
    assert not complaints, "\n" + "\n".join(map(str, complaints))


def test_there_is_something_to_look_at() -> None:
    modules = [source.module for source in sources() if source.in_package]
    assert "core.scheduler" in modules
    assert "dialects.gearman.wire" in modules
    assert len(sources()) > 50


@pytest.mark.parametrize("rule", PYTHON_RULES + SESSION_RULES)
def test_rule(rule: Callable[[Source], Iterator[Complaint]]) -> None:
    nobody_complains([complaint for source in sources() for complaint in rule(source)])


def test_tests_do_not_sleep() -> None:
    in_tests = [source for source in sources() if source.path.startswith("tests/")]
    nobody_complains(
        [complaint for source in in_tests for complaint in sleeping(source) if source.path not in MAY_SLEEP]
    )
    sleepers = {source.path for source in in_tests if list(sleeping(source))}
    assert sorted(MAY_SLEEP) == sorted(sleepers & MAY_SLEEP.keys()), (
        "take those that no longer sleep off the list"
    )


def test_words() -> None:
    complaints: list[Complaint] = []
    for path in files():
        complaints += words(str(path.relative_to(ROOT)), path.read_text(errors="replace"))
    nobody_complains(complaints)


# --- what people read keeps up with the code


@cache
def pages() -> str:
    return "\n".join(path.read_text() for path in files() if path.suffix == ".md")


def undocumented(names: list[str]) -> list[str]:
    return [name for name in names if not re.search(rf"`{name}`|\b{name.upper()}\b", pages())]


def test_every_state_is_documented() -> None:
    assert undocumented(list(STATE_NAMES)) == [], "explain these states in ARCHITECTURE.md, as `state` or STATE"


def test_every_notice_is_documented() -> None:
    (peer,) = [source for source in sources() if source.module == "core.peer"]
    methods = [
        node
        for node in ast.walk(peer.tree)
        if isinstance(node, ast.FunctionDef) and node.name != "__init__" and not node.decorator_list
    ]
    assert len(methods) == 13
    assert undocumented([method.name for method in methods]) == [], (
        "explain these in ARCHITECTURE.md, as `notice`"
    )
    assert [method.name for method in methods if not ast.get_docstring(method)] == [], "give these a docstring"


def test_every_file_that_a_page_names_is_there() -> None:
    named = re.findall(r"`((?:src|tests|bench|docs|examples|scripts|deploy)/[\w./-]+\.\w+)`", pages())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == [], "these files have another name by now"


def test_every_dialect_has_its_page() -> None:
    dialects = sorted(path.parent.name for path in (ROOT / "src/hiringhall/dialects").glob("*/wire.py"))
    missing = [
        name for name in dialects if not (ROOT / "docs/protocols" / f"{name.replace('_', '-')}.md").exists()
    ]
    assert missing == [], "write docs/protocols/<name>.md for these dialects, with dashes"


def test_no_two_test_files_have_the_same_name() -> None:
    """They are imported by that name alone: the second would stop the run, long after the first tests."""
    paths = [path for path in files() if path.name.startswith("test_") and path.suffix == ".py"]
    names = Counter(path.name for path in paths)
    assert not [str(path.relative_to(ROOT)) for path in paths if names[path.name] > 1]
