"""`hall migrate` moves a stopped hall from its data folder to PostgreSQL, and back."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hall_process import CODE, HallProcess

from hiringhall.access.audit_log import FILE as AUDIT
from hiringhall.access.tokens import TokenList
from hiringhall.schedules.book import Book
from hiringhall.schedules.plan import Plan
from hiringhall.storage.opening import open_documents
from stage import forking
from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


@pytest.fixture
def url() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))  # its user cannot enter the folders of pytest
    server = PostgresServer(folder)
    server.create()
    server.start()
    server.sql("CREATE DATABASE moved")
    yield server.url("moved")
    server.remove()
    shutil.rmtree(folder, ignore_errors=True)


def migrate(folder: Path, source: str, target: str) -> subprocess.CompletedProcess[str]:
    return forking.run(
        [*forking.HALL, "migrate", "--from", source, "--to", target, "--json"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": CODE},
        timeout=120,
    )


def fill(place: str) -> object:
    with closing(open_documents(place)) as documents:
        Book(documents).add(Plan(name="hourly", queue="q", cron="0 * * * *"))
        TokenList(documents).add("anna", "viewer", datetime.now(UTC), None)
        documents.append(AUDIT, [b'{"n": %d}' % number for number in range(2500)])
    return content(place)


def content(place: str) -> object:
    with closing(open_documents(place)) as documents:
        return Book(documents).read_all(), TokenList(documents).read(), documents.tail(AUDIT, 10_000)


@pytest.mark.sqlite
def test_jobs_move_to_postgresql_and_back(tmp_path: Path, url: str) -> None:
    with HallProcess(tmp_path) as hall:
        with hall.client() as client:
            handles = {client.submit_background("keep", b"%d" % number).handle for number in range(5)}
        data = hall.data
    kept = [fill(str(data))]
    there = migrate(tmp_path, str(data), url)
    assert there.returncode == 0, there.stderr
    told = json.loads(there.stdout)
    assert set(told) == {"jobs", "history", "documents", "to"}
    assert told["documents"] == ["schedules.json", "tokens.json", "audit.jsonl"]
    assert told["jobs"] == len(handles) == 5
    assert "secret" not in there.stdout + there.stderr
    again = migrate(tmp_path, str(data), url)
    assert again.returncode != 0
    assert "not empty" in again.stderr
    kept.append(content(url))
    back = migrate(tmp_path, url, str(tmp_path / "back"))
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["jobs"] == 5
    kept.append(content(str(tmp_path / "back")))
    assert kept == kept[:1] * 3
