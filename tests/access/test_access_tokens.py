"""The file of tokens: only digests, whole at every moment, for its owner alone."""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hiringhall.access import tokens as tokens_module
from hiringhall.access.tokens import FILE, TokenList, TokensError
from hiringhall.storage.data_folder import DataFolder

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_token_is_kept_as_a_digest(tmp_path: Path) -> None:
    file = TokenList(DataFolder(tmp_path / "data"))
    token = file.add("anna", "operator", NOW, NOW + timedelta(days=7))
    assert re.fullmatch(r"hall_[A-Za-z0-9_-]{43}", token)
    assert token not in Path(file.where).read_text()
    (kept,) = (file.read() or {}).values()
    assert kept.digest == hashlib.sha256(token.encode()).hexdigest()
    assert (kept.name, kept.role, kept.made, kept.used) == ("anna", "operator", NOW, None)
    assert not kept.has_expired(NOW + timedelta(days=6.9))
    assert kept.has_expired(NOW + timedelta(days=7))


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    file = TokenList(DataFolder(tmp_path / "data"))
    file.add("anna", "viewer", NOW, None)
    file.add("bob", "viewer", NOW, None)
    assert stat.S_IMODE(Path(file.where).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(file.where).parent.stat().st_mode) == 0o700
    assert [path.name for path in Path(file.where).parent.iterdir()] == [FILE]


def test_a_revoked_token_is_gone_and_its_name_is_free(tmp_path: Path) -> None:
    file = TokenList(DataFolder(tmp_path))
    assert not file.revoke("anna")
    file.add("anna", "viewer", NOW, None)
    with pytest.raises(TokensError, match='already a token "anna"'):
        file.add("anna", "admin", NOW, None)
    assert file.revoke("anna")
    assert not file.revoke("anna")
    assert file.read() == {}
    file.add("anna", "admin", NOW, None)


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "local", "anonymous", "a" * 65, "a\n", "ä", "../x"])
def test_a_name_that_would_mislead_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TokensError, match="cannot be the name"):
        TokenList(DataFolder(tmp_path)).add(name, "viewer", NOW, None)


def test_there_is_a_limit_of_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "TOKENS_MAX", 1)
    file = TokenList(DataFolder(tmp_path))
    file.add("anna", "viewer", NOW, None)
    with pytest.raises(TokensError, match="revoke some first"):
        file.add("bob", "viewer", NOW, None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}x",
        b'{"version": 2}',
        b'{"version": 1, "tokens": [{"name": "x"}]}',
        b'{"version": 1, "tokens": [], "more": 1}',
        b"\xff\xfe",
        b"[" * 10_000,
        b'{"version": 1, "tokens": ['
        + b",".join([b'{"name": "a", "role": "admin", "digest": "d", "made": "2026-01-01T00:00:00Z"}'] * 2)
        + b"]}",
    ],
)
def test_a_damaged_file_is_an_error_that_names_it_and_is_left_alone(content: bytes, tmp_path: Path) -> None:
    file = TokenList(DataFolder(tmp_path))
    Path(file.where).write_bytes(content)
    for change in (
        file.read,
        lambda: file.add("anna", "viewer", NOW, None),
        lambda: file.revoke("anna"),
        lambda: file.note_uses({"d": NOW}),
    ):
        with pytest.raises(TokensError, match=r"tokens\.json"):
            change()
    assert Path(file.where).read_bytes() == content


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "BYTES_MAX", 10)
    file = TokenList(DataFolder(tmp_path))
    Path(file.where).write_bytes(b" " * 11)
    with pytest.raises(TokensError, match="longer than 10 bytes"):
        file.read()


def test_the_last_use_is_noted_for_tokens_that_are_still_there(tmp_path: Path) -> None:
    file = TokenList(DataFolder(tmp_path))
    file.note_uses({"gone": NOW})
    assert file.read() is None
    file.add("anna", "viewer", NOW, None)
    (digest,) = (token.digest for token in (file.read() or {}).values())
    file.note_uses({digest: NOW, "gone": NOW})
    assert [token.used for token in (file.read() or {}).values()] == [NOW]


def _add_many(folder: Path, first: int) -> None:
    for number in range(first, first + 10):
        TokenList(DataFolder(folder)).add(f"t{number}", "viewer", NOW, None)


def test_tokens_that_are_added_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    adding = [spawn.Process(target=_add_many, args=(tmp_path, first)) for first in (0, 10, 20)]
    for process in adding:
        process.start()
    for process in adding:
        process.join()
    assert sorted(TokenList(DataFolder(tmp_path)).read() or {}) == sorted(f"t{number}" for number in range(30))
