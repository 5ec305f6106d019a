"""Somebody makes, lists and revokes tokens at the command line, where no hall is running."""

from __future__ import annotations

import json
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from running import HALL, run

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def token(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(HALL, "token", *words, "--data", "data", cwd=folder)


def listed(folder: Path) -> list[dict[str, str | None]]:
    ended = token(folder, "list", "--json")
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_token_is_printed_once_and_listed_without_it(tmp_path: Path) -> None:
    added = token(tmp_path, "add", "anna", "--role", "operator", "--expires", "0.5")
    assert re.fullmatch(r"hall_[\w-]{43}\n", added.stdout), added.stderr
    assert "not shown again" in added.stderr
    (line,) = listed(tmp_path)
    assert (line["name"], line["role"], line["used"]) == ("anna", "operator", None)
    assert line["expires"] is not None
    shown = token(tmp_path, "list").stdout
    assert added.stdout.strip() not in shown + json.dumps(line)
    assert re.search(r"anna +operator +\d{4}-\d\d-\d\d \d\d:\d\d +\d{4}-\d\d-\d\d \d\d:\d\d +never", shown)
    assert stat.S_IMODE((tmp_path / "data/tokens.json").stat().st_mode) == 0o600


def test_a_revoked_token_is_not_listed(tmp_path: Path) -> None:
    token(tmp_path, "add", "anna", "--role", "viewer")
    revoked = token(tmp_path, "revoke", "anna")
    assert (revoked.returncode, revoked.stdout, revoked.stderr) == (0, 'token "anna" is revoked\n', "")
    again = token(tmp_path, "revoke", "anna")
    assert (again.returncode, again.stdout) == (1, "")
    assert 'no token "anna"' in again.stderr
    assert "has no tokens" in token(tmp_path, "list").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "anna", "--role", "king"), '--role: "king" is not allowed; it takes viewer, operator, admin'),
        (("add", "anna", "--role", "viewer", "--expires", "0"), "--expires: 0 is not allowed"),
        (("add", "anna", "--role", "viewer", "--expires", "nan"), "--expires: nan is not allowed"),
        (("add", "a b", "--role", "viewer"), "'a b' cannot be the name of a token"),
        (("add", "local", "--role", "viewer"), "'local' cannot be the name of a token"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_nothing_is_made(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ended = token(tmp_path, *words)
    assert (ended.returncode, ended.stdout) == (2 if said.startswith("--") else 1, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "data/tokens.json").exists()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/tokens.json").write_text("{")
    for words in (("list",), ("add", "anna", "--role", "viewer"), ("revoke", "anna")):
        ended = token(tmp_path, *words)
        assert ended.returncode == 1
        assert "data/tokens.json was not written by `hall token`" in ended.stderr


def test_a_hall_in_memory_has_none(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text('[hall]\nstorage = "memory"\n')
    ended = run(HALL, "token", "list", cwd=tmp_path)
    assert ended.returncode == 1
    assert "hall.storage is memory" in ended.stderr


def test_tokens_that_are_added_at_once_are_all_there(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as threads:
        ends = list(threads.map(lambda name: token(tmp_path, "add", name, "--role", "viewer"), "abc"))
    assert [ended.returncode for ended in ends] == [0, 0, 0]
    assert len({ended.stdout for ended in ends}) == 3
    assert [line["name"] for line in listed(tmp_path)] == ["a", "b", "c"]
