"""The file itself: versions, damage, locks, rows that cannot be read, and readers beside a running hall."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pytest
from store_rows import NOW_US, batch, end, job, plain_end, plain_job

from hiringhall.core.changes import Firing
from hiringhall.core.states import FAILED, LEASED
from hiringhall.storage.contract import HistoryQuery, Retention, StoreError
from hiringhall.storage.sqlite import FileInUse, SqliteStore, find_holder, open_history, schema
from hiringhall.storage.sqlite.lock import lock_path
from hiringhall.storage.sqlite.schema import APPLICATION_ID, migrate, migrations, pragma

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "hall.db"


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def store(path: Path, warnings: list[str]) -> Iterator[SqliteStore]:
    made = SqliteStore(path, Retention(), warnings.append)
    made.load(0)
    yield made
    made.close()


def edit(path: Path, *statements: str) -> None:
    """Change the file behind the hall's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


class TestVersions:
    def test_a_new_file_has_the_newest_version(self, store: SqliteStore, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            assert pragma(connection, "user_version") == migrations()[-1][0]
            assert pragma(connection, "application_id") == APPLICATION_ID

    def test_the_steps_are_numbered_without_gaps(self) -> None:
        assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))

    def test_an_older_file_is_brought_up_step_by_step(self, path: Path, store: SqliteStore) -> None:
        store.commit(batch(inserts=[job(1)]), NOW_US)
        store.close()
        newest = migrations()[-1][0]
        steps = [
            *migrations(),
            (newest + 1, "ALTER TABLE jobs ADD COLUMN colour TEXT; UPDATE jobs SET colour = 'red';"),
            (newest + 2, "CREATE INDEX by_colour ON jobs (colour);"),
        ]
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            migrate(connection, steps, path)
            assert pragma(connection, "user_version") == newest + 2
            assert connection.execute("SELECT id, colour FROM jobs").fetchall() == [(1, "red")]
            migrate(connection, steps, path)

    def test_a_step_that_fails_undoes_those_before_it(self, path: Path, store: SqliteStore) -> None:
        store.close()
        newest = migrations()[-1][0]
        steps = [*migrations(), (newest + 1, "DROP TABLE jobs;"), (newest + 2, "SELECT * FROM nowhere;")]
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            with pytest.raises(sqlite3.OperationalError, match="nowhere"):
                migrate(connection, steps, path)
            assert pragma(connection, "user_version") == newest
        assert list(store.load(0).jobs) == []

    def test_a_newer_file_is_refused(self, path: Path, store: SqliteStore) -> None:
        store.close()
        edit(path, "PRAGMA user_version = 999")
        with pytest.raises(StoreError, match=r"newer hiringhall .*version 999"):
            store.load(0)
        with pytest.raises(StoreError, match="newer hiringhall"):
            open_history(path)

    def test_the_views_are_for_people(self, path: Path, store: SqliteStore) -> None:
        waiting = job(3)._replace(started_us=0)
        held = job(1, key=b"k", holder=b"host", ready_us=NOW_US)
        runs = job(4, state=LEASED, worker=b"ann", tries=((1, 2, b"", 3, "wmp"),))
        fired = {"nightly": Firing(NOW_US, b"\x0a")}
        store.commit(batch(inserts=[held, waiting, runs], ends=[end(2, ready_us=0)], fired=fired), NOW_US)
        now = "2025-10-09T08:53:20.000Z"
        with closing(sqlite3.connect(path)) as connection:
            columns = "id, queue, key, state, holder, priority, created, ready, started, payload"
            lines = connection.execute(f"SELECT {columns} FROM jobs_readable WHERE id < 4").fetchall()
            assert lines == [
                (1, "reverse", "k", "queued", "host", "normal", now, now, "2025-10-09T08:53:20.000Z", "hello"),
                (3, "reverse", "", "queued", None, "normal", now, None, None, "hello"),
            ]
            columns = "state, worker, started, tries_msgpack"
            (line,) = connection.execute(f"SELECT {columns} FROM jobs_readable WHERE id = 4")
            assert line == ("leased", "ann", now, "91950102C40003A3776D70")
            lines = connection.execute("SELECT * FROM schedules_readable").fetchall()
            assert lines == [("nightly", now, "0A")]
            columns = "queue, state, worker, ready, ended, result"
            (line,) = connection.execute(f"SELECT {columns} FROM history_readable")
            assert line == ("reverse", "done", "ann", None, now, "olleh")


class TestForeignFiles:
    def test_garbage_is_refused_and_left_alone(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"this is a letter, not a database\n" * 1000)
        with pytest.raises(StoreError, match="not a hall's data file"):
            SqliteStore(path, Retention(), pytest.fail).load(0)
        assert path.read_bytes().startswith(b"this is a letter")

    def test_another_programs_database_is_refused(self, path: Path) -> None:
        path.parent.mkdir()
        edit(path, "CREATE TABLE songs (name)")
        with pytest.raises(StoreError, match="belongs to another program"):
            SqliteStore(path, Retention(), pytest.fail).load(0)

    def test_an_empty_file_is_a_new_store(self, path: Path) -> None:
        path.parent.mkdir()
        path.touch()
        made = SqliteStore(path, Retention(), pytest.fail)
        assert made.load(0).epoch == 1
        made.close()

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_text("a file, not a folder")
        with pytest.raises(StoreError, match=r"data folder .* cannot be created"):
            SqliteStore(tmp_path / "data" / "hall.db", Retention(), pytest.fail).load(0)

    @pytest.mark.parametrize("whole_check_bytes_max", [1 << 30, 0])
    def test_a_damaged_page_is_found_at_the_start(
        self, path: Path, store: SqliteStore, whole_check_bytes_max: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema, "WHOLE_CHECK_BYTES_MAX", whole_check_bytes_max)
        store.commit(batch(inserts=[job(i, payload=b"x" * 1000) for i in range(1, 200)]), NOW_US)
        store.close()
        content = bytearray(path.read_bytes())
        pages = [at for at in range(0, len(content), 4096) if b"x" * 1000 in content[at : at + 4096]]
        content[pages[5] : pages[5] + 64] = b"\xa5" * 64
        path.write_bytes(content)
        with pytest.raises(StoreError, match=r"hall.db is damaged.* backup"):
            store.load(0)

    @pytest.mark.parametrize(
        "change",
        [
            "DELETE FROM meta",
            "UPDATE meta SET value = 'one' WHERE name = 'epoch'",
            "UPDATE meta SET value = -1 WHERE name = 'epoch'",
            "UPDATE meta SET value = 134217727 WHERE name = 'epoch'",
        ],
    )
    def test_a_file_without_its_boot_number_is_refused(
        self, path: Path, store: SqliteStore, change: str
    ) -> None:
        store.close()
        edit(path, change)
        with pytest.raises(StoreError, match="has no valid boot epoch"):
            store.load(0)


class TestLock:
    def test_a_second_hall_on_the_same_folder_is_refused(self, path: Path, store: SqliteStore) -> None:
        second = SqliteStore(path, Retention(), pytest.fail)
        with pytest.raises(StoreError, match=r"another hall \(process \d+\) has .*data open: stop it"):
            second.load(0)
        second.close()
        store.commit(batch(inserts=[job(1)]), NOW_US)
        store.close()
        assert [row.id for row in second.load(0).jobs] == [1]
        second.close()

    @pytest.mark.parametrize(
        "content", [b"", b"\n", b"garbage\nhall\n", b"0\nhall\n", b"-1\nhall\n", b"\xff\xfe", b"12345678901\n"]
    )
    def test_a_lock_that_cannot_be_read_names_no_process(
        self, path: Path, store: SqliteStore, content: bytes
    ) -> None:
        """Whoever is named is told of new schedules by a signal."""
        lock_path(path).write_bytes(content)
        with pytest.raises(FileInUse, match=r"another hall \(process unknown\) has .*data open") as taken:
            SqliteStore(path, Retention(), pytest.fail).load(0)
        assert taken.value.holder.pid == 0
        assert find_holder(path) is None

    def test_it_is_refused_from_another_process_too(self, path: Path, store: SqliteStore) -> None:
        program = (
            "import sys, pathlib\n"
            "from hiringhall.storage.contract import Retention, StoreError\n"
            "from hiringhall.storage.sqlite import SqliteStore\n"
            "try: SqliteStore(pathlib.Path(sys.argv[1]), Retention(), print).load(0)\n"
            "except StoreError as error: print(error)\n"
        )
        search = {"PYTHONPATH": ":".join([entry for entry in sys.path if entry])}
        told = subprocess.run(
            [sys.executable, "-c", program, path], capture_output=True, text=True, check=True, env=search
        )
        assert "another hall" in told.stdout

    def test_a_refused_start_lets_go_of_its_lock(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"garbage" * 1000)
        for _ in range(2):
            with pytest.raises(StoreError, match="not a hall's data file"):
                SqliteStore(path, Retention(), pytest.fail).load(0)

    def test_a_closed_store_says_so(self, store: SqliteStore) -> None:
        store.close()
        with pytest.raises(StoreError, match="is closed"):
            store.commit(batch(inserts=[job(1)]), NOW_US)
        with pytest.raises(StoreError, match="is closed"):
            store.probe()


class TestPermissions:
    def test_new_files_are_for_their_owner_alone(self, path: Path) -> None:
        before = os.umask(0)
        try:
            store = SqliteStore(path, Retention(), pytest.fail)
            store.load(0)
        finally:
            os.umask(before)
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert modes == {"hall.db": 0o600, "hall.db-wal": 0o600, "hall.db-shm": 0o600, "hall.db.lock": 0o600}
        assert path.parent.stat().st_mode & 0o777 == 0o700
        store.close()

    def test_files_that_an_earlier_version_made_for_all_are_closed_to_others(
        self, path: Path, store: SqliteStore
    ) -> None:
        store.close()
        for file in path.parent.iterdir():
            file.chmod(0o644)
        store.load(0)
        assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


class TestQuarantine:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ("UPDATE jobs SET queue = 'text' WHERE id = 2", "its queue must be bytes, not text"),
            (
                "UPDATE jobs SET queue = CAST(x'ff00' AS TEXT) WHERE id = 2",
                "its queue must be bytes, not text",
            ),
            ("UPDATE jobs SET key = NULL WHERE id = 2", "its key must be bytes, not nothing"),
            ("UPDATE jobs SET attempts = 'many' WHERE id = 2", "its attempts must be int, not text"),
            ("UPDATE jobs SET due_us = 1.5 WHERE id = 2", "its due_us must be int, not float"),
            ("UPDATE jobs SET state = 4 WHERE id = 2", "state 4 is not a state of a live job"),
            ("UPDATE jobs SET terms = 77 WHERE id = 2", "its terms 77 are unknown"),
            ("UPDATE jobs SET parents = x'c1' WHERE id = 2", "its parents cannot be read"),
            ("UPDATE jobs SET parents = x'92a161a162' WHERE id = 2", "its parents cannot be read"),
            ("UPDATE jobs SET extras = x'81a1ffc400' WHERE id = 2", "its extras cannot be read"),
            ("UPDATE jobs SET extras = x'93010203' WHERE id = 2", "its extras cannot be read"),
            ("UPDATE jobs SET parents = 'text' WHERE id = 2", "its parents must be bytes, not text"),
            ("UPDATE jobs SET holder = 'host' WHERE id = 2", "its holder must be bytes, not text"),
            ("UPDATE jobs SET holder = NULL WHERE id = 2", "its holder must be bytes, not nothing"),
            ("UPDATE jobs SET holder = 7 WHERE id = 2", "its holder must be bytes, not int"),
            ("UPDATE jobs SET worker = NULL WHERE id = 2", "its worker must be bytes, not nothing"),
            ("UPDATE jobs SET tries = 7 WHERE id = 2", "its tries must be bytes, not int"),
            ("UPDATE jobs SET tries = x'9193010203' WHERE id = 2", "its tries cannot be read"),
            ("UPDATE jobs SET ready_us = 'soon' WHERE id = 2", "its ready_us must be int, not text"),
            ("UPDATE jobs SET started_us = 1.5 WHERE id = 2", "its started_us must be int, not float"),
            ("UPDATE jobs SET started_us = NULL WHERE id = 2", "its started_us must be int, not nothing"),
        ],
    )
    def test_a_bad_job_does_not_stop_the_start(
        self, path: Path, store: SqliteStore, warnings: list[str], change: str, reason: str
    ) -> None:
        store.commit(batch(inserts=[job(1), job(2, key=b"k"), job(3)]), NOW_US)
        store.close()
        edit(path, change)
        assert [row.id for row in store.load(0).jobs] == [1, 3]
        assert len(warnings) == 1
        assert warnings[0].startswith(f"job 2 in table jobs of {path} was moved to the quarantine: {reason}")
        assert store.count() == (2, 0)
        store.close()
        assert [row.id for row in store.load(0).jobs] == [1, 3]
        assert len(warnings) == 1
        with closing(open_history(path)) as reader:
            (aside,) = reader.quarantined()
            assert (aside.source, aside.id) == ("jobs", 2)
            assert aside.reason.startswith(reason)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT payload FROM quarantine").fetchall() == [(b"hello",)]

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE terms SET priority = 9",
            "UPDATE terms SET backoff_us = -1",
            "UPDATE terms SET on_parent_failure = 3",
            "UPDATE terms SET run_us = 'long'",
            "UPDATE terms SET expire_us = -1",
            "UPDATE terms SET logged = NULL",
            "DELETE FROM terms",
        ],
    )
    def test_terms_that_make_no_sense_are_unknown(
        self, path: Path, store: SqliteStore, warnings: list[str], change: str
    ) -> None:
        store.commit(batch(inserts=[job(1)]), NOW_US)
        store.close()
        edit(path, change)
        assert list(store.load(0).jobs) == []
        assert "its terms 1 are unknown" in warnings[0]
        store.commit(batch(inserts=[job(2)]), NOW_US)
        store.close()
        assert [plain_job(row) for row in store.load(0).jobs] == [plain_job(job(2))]

    def test_a_bad_line_of_history_is_set_aside_when_it_is_met(
        self, path: Path, store: SqliteStore, warnings: list[str]
    ) -> None:
        store.commit(batch(ends=[end(i) for i in range(1, 8)]), NOW_US)
        store.close()
        edit(
            path,
            "UPDATE history SET state = 2 WHERE id = 2",
            "UPDATE history SET worker = 5 WHERE id = 4",
            "UPDATE history SET ready_us = 'soon' WHERE id = 5",
            "UPDATE history SET extras = x'c1' WHERE id = 6",
            "UPDATE history SET tries = x'c1' WHERE id = 7",
        )
        with closing(open_history(path)) as reader:
            assert [row.id for row in reader.history(HistoryQuery())] == [3, 1]
        assert [row.id for row in store.load(5).ended] == [3]
        assert [row.id for row in store.history(HistoryQuery())] == [3, 1]
        assert store.count() == (0, 2)
        assert len(warnings) == 5

    def test_a_bad_row_is_kept_as_it_was(self, path: Path, store: SqliteStore, warnings: list[str]) -> None:
        odd = job(
            1, holder=b"host", worker=b"ann", ready_us=8, extras={"a": b"b"}, tries=((1, 2, b"", 3, "wmp"),)
        )
        store.commit(batch(inserts=[odd]), NOW_US)
        store.close()
        edit(path, "UPDATE jobs SET holder = 'west', started_us = 'soon'")
        assert list(store.load(0).jobs) == []
        assert len(warnings) == 1
        with closing(sqlite3.connect(path)) as connection:
            columns = "holder, worker, ready_us, started_us, extras, tries"
            aside = connection.execute(f"SELECT {columns} FROM quarantine").fetchall()
        packed = (b"\x81\xa1a\xc4\x01b", b"\x91\x95\x01\x02\xc4\x00\x03\xa3wmp")
        assert aside == [("west", b"ann", 8, "soon", *packed)]

    def test_bad_rows_among_many_that_are_held(
        self, path: Path, store: SqliteStore, warnings: list[str]
    ) -> None:
        jobs = [job(i, holder=b"host %d" % (i % 7) if i % 3 else b"") for i in range(1, 1501)]
        store.commit(batch(inserts=jobs), NOW_US)
        store.close()
        edit(path, "UPDATE jobs SET holder = 'west' WHERE id IN (1, 700)")
        kept = [plain_job(row) for row in jobs if row.id not in {1, 700}]
        assert [plain_job(row) for row in store.load(0).jobs] == kept
        assert len(warnings) == 2


def test_a_schedule_that_cannot_be_read_begins_anew(
    path: Path, store: SqliteStore, warnings: list[str]
) -> None:
    fired = {name: Firing(1, b"p") for name in ("good", "late", "odd")}
    store.commit(batch(fired=fired), NOW_US)
    store.close()
    edit(
        path,
        "UPDATE schedules SET due_us = 'soon' WHERE name = 'late'",
        "UPDATE schedules SET name = x'6f', plan = 'text' WHERE name = 'odd'",
    )
    assert store.load(0).fired == {"good": Firing(1, b"p")}
    assert warnings == [f"schedule {name} in {path} cannot be read: it starts over" for name in ("late", "o")]
    store.commit(batch(fired={"late": Firing(2, b"q")}), NOW_US)
    with closing(open_history(path)) as reader:
        assert reader.firings() == {"good": Firing(1, b"p"), "late": Firing(2, b"q")}


class TestReader:
    def test_it_looks_while_a_hall_runs(self, path: Path, store: SqliteStore) -> None:
        store.commit(batch(inserts=[job(1), job(2)], ends=[end(3), end(4, state=FAILED, payload=b"p")]), NOW_US)
        with closing(open_history(path)) as reader:
            assert reader.count() == (2, 2)
            assert [plain_job(row) for row in reader.live()] == [plain_job(job(1)), plain_job(job(2))]
            assert [plain_end(row) for row in reader.history(HistoryQuery(id=3))] == [plain_end(end(3))]
            assert reader.quarantined() == []
            store.commit(batch(ends=[end(1)], deletes=[1]), NOW_US)
            assert reader.count() == (1, 3)

    def test_it_looks_when_no_hall_runs(self, path: Path, store: SqliteStore) -> None:
        store.commit(batch(inserts=[job(1)]), NOW_US)
        store.close()
        with closing(open_history(path)) as reader:
            assert [row.id for row in reader.live()] == [1]

    def test_it_looks_where_nothing_can_be_made_beside_the_file(self, path: Path, store: SqliteStore) -> None:
        store.commit(batch(inserts=[job(1)]), NOW_US)
        store.close()
        path.with_name(f"{path.name}-shm").symlink_to("nowhere/at-all")  # so SQLite cannot make it
        with closing(open_history(path)) as reader:
            assert [row.id for row in reader.live()] == [1]
        path.with_name(f"{path.name}-wal").write_bytes(b"changes")
        with pytest.raises(StoreError, match="cannot be opened"):
            open_history(path)
        path.with_name(f"{path.name}-wal").unlink()
        path.with_name(f"{path.name}-shm").unlink()

    def test_it_cannot_write(self, path: Path, store: SqliteStore) -> None:
        with closing(open_history(path)) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM jobs")

    def test_where_there_is_nothing_to_read(self, path: Path) -> None:
        with pytest.raises(StoreError, match="does not exist"):
            open_history(path)
        path.parent.mkdir()
        path.touch()
        with pytest.raises(StoreError, match="start a hall on it once"):
            open_history(path)
        path.write_bytes(b"garbage" * 1000)
        with pytest.raises(StoreError, match="not a hall's data file"):
            open_history(path)


def test_terms_that_nobody_uses_are_swept(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hiringhall.core.terms import Terms
    from hiringhall.storage.sqlite import store as module

    monkeypatch.setattr(module, "TERMS_MAX", 5)
    kinds = [Terms(durable=True, lease_us=i) for i in range(1, 11)]
    store.commit(
        batch(inserts=[job(i, terms=kinds[i]) for i in range(10)][1:], ends=[end(50, terms=kinds[0])]), NOW_US
    )
    store.commit(batch(ends=[end(i) for i in range(1, 9)], deletes=range(1, 9)), NOW_US)
    store.close()
    (row,) = store.load(0).jobs
    assert row.terms.as_tuple() == kinds[9].as_tuple()
    assert sorted(terms.lease_us for terms in store._writer.terms.by_id.values()) == [0, 1, 10]


def test_attempts_that_were_written_without_a_dialect_are_read(
    path: Path, store: SqliteStore, warnings: list[str]
) -> None:
    tried = job(1, tries=((1, 2, b"", 3, "wmp"),))
    store.commit(batch(inserts=[tried], ends=[end(2)]), NOW_US)
    store.close()
    old = msgspec.msgpack.encode(((1, 2, b"ann", 125), (3, 0, b"", 7))).hex()
    edit(path, f"UPDATE jobs SET tries = x'{old}'", f"UPDATE history SET tries = x'{old}'")
    with closing(SqliteStore(path, Retention(), warnings.append)) as again:
        loaded = again.load(10)
        rows = [*loaded.jobs, *loaded.ended]
    assert [row.tries for row in rows] == [((1, 2, b"ann", 125, ""), (3, 0, b"", 7, ""))] * 2
    assert warnings == []
