"""The write-ahead log after a crash: a torn tail is normal, damage and a missing log are refused."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from store_rows import NOW_US, batch, job

from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.sqlite import SqliteStore, open_history
from hiringhall.storage.sqlite.wal import find_damage, index_path, log_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER_BYTES = 32
FRAME_BYTES = 24 + 4096


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "data" / "hall.db", Retention(), pytest.fail)
    made.load(0)
    yield made
    made.close()


@pytest.fixture
def crashes(tmp_path: Path) -> Path:
    """A folder for what crashed halls have left."""
    folder = tmp_path / "crashes"
    folder.mkdir()
    return folder


def leave(store: SqliteStore, folder: Path) -> Path:
    """The files as they would be if the hall were killed now; gives the data file."""
    # Without the lock: that it is taken over is another story.
    shutil.copytree(store._path.parent, folder, ignore=shutil.ignore_patterns("*.lock"))
    return folder / store._path.name


def crash(store: SqliteStore) -> Path:
    """The store's own files as they would be if the hall were killed now; gives the data file."""
    path = store._path
    files = {file: file.read_bytes() for file in (path, log_path(path), index_path(path))}
    store.close()
    for file, content in files.items():
        file.write_bytes(content)
    return path


def submit(store: SqliteStore, *ids: int) -> None:
    for job_id in ids:
        store.commit(batch(inserts=[job(job_id, payload=b"p" * 3000)]), NOW_US)


def reopened(path: Path) -> list[int]:
    """The jobs that a hall finds."""
    store = SqliteStore(path, Retention(), pytest.fail)
    found = [row.id for row in store.load(0).jobs]
    store.close()
    return found


def generation_bytes(path: Path) -> int:
    """Up to where the log was written since it was last begun anew."""
    content = log_path(path).read_bytes()
    salts = content[16:24]
    end = HEADER_BYTES
    while content[end + 8 : end + 16] == salts:
        end += FRAME_BYTES
    return end


def flip(path: Path, position: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


class TestDamage:
    def test_one_flipped_bit_anywhere_in_the_log_is_found(self, store: SqliteStore, crashes: Path) -> None:
        submit(store, *range(1, 6))
        path = leave(store, crashes / "killed")
        assert find_damage(path) is None
        end = generation_bytes(path)
        chance = random.Random(3)
        fields = [at for frame in range(HEADER_BYTES, end, FRAME_BYTES) for at in range(frame, frame + 24, 3)]
        positions = [*range(HEADER_BYTES), *fields, *range(end - 24, end), *chance.sample(range(end), 100)]
        unnoticed = []
        for position in positions:
            bit = chance.randrange(8)
            flip(log_path(path), position, bit)
            if find_damage(path) is None:
                unnoticed.append((position, bit))
            flip(log_path(path), position, bit)
        assert unnoticed == []
        assert reopened(path) == [1, 2, 3, 4, 5]

    def test_a_damaged_log_is_refused_again_and_again_and_left_as_it_is(
        self, store: SqliteStore, crashes: Path
    ) -> None:
        submit(store, 1, 2, 3)
        path = leave(store, crashes / "killed")
        flip(log_path(path), generation_bytes(path) - 1, 0)
        before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".lock"}
        for _ in range(2):
            with pytest.raises(StoreError, match=r"hall.db-wal is damaged.*Certain.*Lost.*--accept-loss"):
                SqliteStore(path, Retention(), pytest.fail).load(0)
            with pytest.raises(StoreError, match=r"hall.db-wal is damaged"):
                open_history(path)
        after = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".lock"}
        assert after == before

    def test_commits_behind_a_damaged_one_tell_without_the_index(
        self, store: SqliteStore, crashes: Path
    ) -> None:
        submit(store, 1)
        damaged = generation_bytes(leave(store, crashes / "before")) + 100
        submit(store, 2, 3, 4)
        path = leave(store, crashes / "killed")
        index_path(path).unlink()
        assert find_damage(path) is None
        flip(log_path(path), damaged, 5)
        damage = find_damage(path)
        assert damage is not None
        assert damage.lost == "the 3 commits after that, or more"

    @pytest.mark.parametrize("left_bytes", [0, 31, 32, HEADER_BYTES + FRAME_BYTES])
    def test_a_log_that_was_cut_is_refused(self, store: SqliteStore, left_bytes: int) -> None:
        submit(store, 1, 2)
        path = crash(store)
        with log_path(path).open("r+b") as log:
            log.truncate(left_bytes)
        with pytest.raises(StoreError, match=r"hall.db-wal is .*--accept-loss"):
            SqliteStore(path, Retention(), pytest.fail).load(0)

    @pytest.mark.parametrize("without", [("-wal",), ("-wal", "-shm"), ("-wal", "-shm", ".lock")])
    def test_a_log_that_is_missing_is_refused(self, store: SqliteStore, without: tuple[str, ...]) -> None:
        submit(store, 1, 2)
        path = crash(store)
        for suffix in without:
            path.with_name(path.name + suffix).unlink()
        with pytest.raises(StoreError, match=r"hall.db-wal is missing.*Certain.*Lost.*--accept-loss"):
            SqliteStore(path, Retention(), pytest.fail).load(0)
        with pytest.raises(StoreError, match=r"hall.db-wal is missing"):
            open_history(path)


class TestAcceptedLoss:
    def test_what_stands_before_the_damage_is_there(self, store: SqliteStore, crashes: Path) -> None:
        submit(store, 1, 2)
        damaged = generation_bytes(leave(store, crashes / "before")) + 100
        submit(store, 3, 4)
        path = leave(store, crashes / "killed")
        flip(log_path(path), damaged, 0)
        log = log_path(path).read_bytes()
        warnings: list[str] = []
        accepting = SqliteStore(path, Retention(), warnings.append, accept_loss=True)
        assert [row.id for row in accepting.load(0).jobs] == [1, 2]
        submit(accepting, 9)
        killed_again = leave(accepting, crashes / "again")
        accepting.close()
        (warning,) = warnings
        assert "the loss is accepted: hall.db-wal is damaged" in warning
        assert "kept as hall.db-wal.damaged-1" in warning
        assert path.with_name("hall.db-wal.damaged-1").read_bytes() == log
        assert reopened(path) == [1, 2, 9]
        assert reopened(killed_again) == [1, 2, 9]

    def test_without_its_log_the_data_file_is_taken_as_it_is(self, store: SqliteStore) -> None:
        submit(store, 1)
        assert store._connection is not None
        store._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        submit(store, 2)
        path = crash(store)
        log_path(path).unlink()
        warnings: list[str] = []
        accepting = SqliteStore(path, Retention(), warnings.append, accept_loss=True)
        assert [row.id for row in accepting.load(0).jobs] == [1]
        accepting.close()
        assert len(warnings) == 1
        assert reopened(path) == [1]

    def test_a_damaged_log_that_was_copied_already_is_left_out(self, store: SqliteStore, crashes: Path) -> None:
        submit(store, *range(1, 100))
        assert store._connection is not None
        store._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        path = leave(store, crashes / "killed")
        flip(log_path(path), HEADER_BYTES + 200 * FRAME_BYTES, 0)
        accepting = SqliteStore(path, Retention(), lambda _text: None, accept_loss=True)
        assert [row.id for row in accepting.load(0).jobs] == [*range(1, 100)]
        accepting.close()


class TestNoDamage:
    def test_a_commit_that_was_being_written_is_a_torn_tail_wherever_it_ends(
        self, store: SqliteStore, crashes: Path
    ) -> None:
        submit(store, 1, 2)
        path = leave(store, crashes / "killed")
        acknowledged = generation_bytes(path)
        submit(store, 3)
        later = log_path(leave(store, crashes / "later")).read_bytes()
        end = generation_bytes(crashes / "later" / path.name)
        assert end - acknowledged >= 3 * FRAME_BYTES
        before = log_path(path).read_bytes()
        chance = random.Random(5)
        for cut in [acknowledged + 24, end - 4096, *chance.sample(range(acknowledged, end), 30)]:
            log_path(path).write_bytes(later[:cut] + before[cut:])
            assert find_damage(path) is None
        log_path(path).write_bytes(later[: end - 4096] + before[end - 4096 :])
        assert reopened(path) == [1, 2]

    @pytest.mark.parametrize("with_index", [True, False])
    def test_a_loss_of_power_may_leave_any_part_of_the_last_commit(
        self, store: SqliteStore, crashes: Path, with_index: bool
    ) -> None:
        submit(store, 1, 2)
        path = leave(store, crashes / "killed")
        start = generation_bytes(path)
        submit(store, 3)
        later = log_path(leave(store, crashes / "later")).read_bytes()
        end = generation_bytes(crashes / "later" / path.name)
        if not with_index:
            index_path(path).unlink()
        for lost in range(start, end, FRAME_BYTES):
            zeroed = later[:lost] + bytes(FRAME_BYTES) + later[lost + FRAME_BYTES :]
            log_path(path).write_bytes(zeroed)
            assert find_damage(path) is None
        assert reopened(path) == [1, 2]

    def test_frames_of_an_earlier_generation_are_normal(self, store: SqliteStore, crashes: Path) -> None:
        submit(store, *range(1, 20))
        assert store._connection is not None
        store._connection.execute("PRAGMA wal_checkpoint(RESTART)")
        submit(store, 20)
        path = leave(store, crashes / "killed")
        end = generation_bytes(path)
        assert log_path(path).stat().st_size > end + FRAME_BYTES
        flip(log_path(path), end + 100, 0)
        assert find_damage(path) is None
        assert reopened(path) == [*range(1, 21)]

    def test_a_closed_file_needs_no_log(self, store: SqliteStore) -> None:
        submit(store, 1)
        store.close()
        assert not log_path(store._path).exists()
        assert reopened(store._path) == [1]

    @pytest.mark.parametrize("made_by", ["backup", "VACUUM INTO", "cp"])
    def test_a_copy_of_a_running_halls_file_is_opened_with_a_warning(
        self, store: SqliteStore, crashes: Path, made_by: str
    ) -> None:
        submit(store, 1)
        path = crashes / "copy.db"
        with closing(sqlite3.connect(store._path)) as source, closing(sqlite3.connect(path)) as copy:
            if made_by == "backup":
                source.backup(copy)
            elif made_by == "VACUUM INTO":
                source.execute("VACUUM INTO ?", (str(path),))
            else:
                shutil.copy(store._path, path)
        warnings: list[str] = []
        opened = SqliteStore(path, Retention(), warnings.append)
        assert [row.id for row in opened.load(0).jobs] == ([] if made_by == "cp" else [1])
        opened.close()
        (warning,) = warnings
        assert "copy.db is a copy of a file that a hall had open" in warning
        assert reopened(path) == ([] if made_by == "cp" else [1])

    def test_a_file_that_an_earlier_version_has_closed_needs_no_log(
        self, store: SqliteStore, crashes: Path
    ) -> None:
        """Such a version leaves the mark of a hall that was killed before it where it is."""
        submit(store, 1)
        path = leave(store, crashes / "killed")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'epoch'")
        assert not log_path(path).exists()
        assert reopened(path) == [1]
