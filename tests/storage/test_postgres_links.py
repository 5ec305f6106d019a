"""The way to PostgreSQL: TLS, a network that loses packets, poolers, and settings that would lose commits."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from store_house import ignore
from store_rows import NOW_US, batch, job

from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.postgres.safety import risks_of
from stage.authority import Authority, make_authority
from stage.databases import postgres_server, postgres_url
from stage.needs import skip_without
from stage.ports import free_port
from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

POOLER_START_S = 20.0


def opened(url: str) -> PostgresStore:
    store = PostgresStore(url, Retention(), ignore, Member("test"))
    store.load(0)
    return store


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"), "own")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[PostgresServer]:
    """It takes no connection without TLS."""
    folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))
    made = PostgresServer(folder, ssl="on")
    made.create()
    made.add_certificate(authority.server, authority.server_key)
    made.allow("hostssl all all all scram-sha-256")
    made.start()
    yield made
    made.remove()
    shutil.rmtree(folder, ignore_errors=True)


class TestTls:
    @pytest.fixture
    def url(self, server: PostgresServer) -> str:
        return server.url().replace("127.0.0.1", "localhost")

    def test_a_server_that_proves_who_it_is_is_used_encrypted(
        self, url: str, server: PostgresServer, authority: Authority
    ) -> None:
        with closing(opened(f"{url}?sslmode=verify-full&sslrootcert={authority.ca}")) as store:
            store.commit(batch(inserts=[job(1)]), NOW_US)
            backend = server.sql("SELECT backend FROM hiringhall.writer")
            assert server.sql(f"SELECT ssl FROM pg_stat_ssl WHERE pid = {backend}") == "t"

    def test_a_server_that_does_not_is_refused(self, url: str, tmp_path: Path) -> None:
        other = make_authority(tmp_path, "other")
        with pytest.raises(StoreError, match=r"the certificate of .* is not trusted: check sslrootcert"):
            opened(f"{url}?sslmode=verify-full&sslrootcert={other.ca}")

    def test_a_name_that_the_certificate_does_not_have_is_refused(
        self, server: PostgresServer, authority: Authority
    ) -> None:
        with pytest.raises(StoreError, match=r"the certificate of .* is not trusted"):
            opened(f"{server.url()}?sslmode=verify-full&sslrootcert={authority.ca}")

    def test_nothing_is_sent_in_clear_if_the_server_wants_tls(self, url: str) -> None:
        with pytest.raises(StoreError, match=r"refuses this user: .* pg_hba\.conf"):
            opened(f"{url}?sslmode=disable")


def test_both_sides_give_a_silent_connection_up(tmp_path: Path) -> None:
    with closing(opened(postgres_url(tmp_path))) as store:
        database = store._database
        with socket.fromfd(database._connection.socket_fileno, socket.AF_INET, socket.SOCK_STREAM) as own:
            assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
            idle = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            tries = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) * own.getsockopt(
                socket.IPPROTO_TCP, socket.TCP_KEEPCNT
            )
            assert idle + tries <= 12
        names = ("tcp_user_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
        theirs = [database.run(database.fetch(f"SHOW {name}"))[0][0] for name in names]
        assert theirs == ["10000", "5", "2", "3"]


@contextmanager
def pooler(folder: Path, url: str, mode: str) -> Iterator[str]:
    """PgBouncer before a database, which has two connections to it; its URL."""
    skip_without("pgbouncer")
    port, name = free_port(), url.rpartition("/")[2]
    target = f"host=127.0.0.1 port={postgres_server().port} dbname={name} user=hall password=secret"
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\nhall = {target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = 4\n"
    )
    settings.chmod(0o644)
    started = subprocess.Popen(
        ["pgbouncer", "-q", str(settings)], stderr=subprocess.PIPE, **postgres_server().as_owner()
    )
    try:
        deadline_s = time.monotonic() + POOLER_START_S
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert started.poll() is None, started.communicate()[1].decode()
            assert time.monotonic() < deadline_s
        yield f"postgresql://hall@127.0.0.1:{port}/hall"
    finally:
        started.terminate()
        started.communicate()


@pytest.fixture
def pooler_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hall-pooler-"))  # its user cannot enter the folders of pytest
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_changes_backends_is_refused(tmp_path: Path, pooler_folder: Path, mode: str) -> None:
    with (
        pooler(pooler_folder, postgres_url(tmp_path), mode) as url,
        pytest.raises(StoreError, match="is a pooler that changes the backend between two statements"),
    ):
        opened(url)


def test_a_standby_refuses_such_a_pooler_when_it_starts(tmp_path: Path, pooler_folder: Path) -> None:
    with pooler(pooler_folder, postgres_url(tmp_path), "transaction") as url:
        store = PostgresStore(url, None, lambda _: None, Member("ann"))
        with pytest.raises(StoreError, match="pooler") as caught:
            store.migrate()
        store.close()
    assert "asyncpg connection object" not in str(caught.value)


def test_a_pooler_in_session_mode_is_used(tmp_path: Path, pooler_folder: Path) -> None:
    with pooler(pooler_folder, postgres_url(tmp_path), "session") as url, closing(opened(url)) as store:
        store.commit(batch(inserts=[job(1)]), NOW_US)
        assert [row.id for row in store.live()] == [1]


SAFE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "synchronous_standby_names": ""}


@pytest.mark.parametrize(
    ("changed", "replicas", "words"),
    [
        ({}, 0, []),
        ({"synchronous_commit": "local"}, 0, []),
        ({"synchronous_standby_names": "*"}, 1, []),
        ({"synchronous_standby_names": "*", "synchronous_commit": "remote_write"}, 1, []),
        ({"synchronous_commit": "off"}, 0, ["synchronous_commit is off: a crash of the server loses"]),
        ({"fsync": "off"}, 0, ["a crash of its machine loses everything"]),
        ({"full_page_writes": "off"}, 0, ["a crash of its machine loses everything"]),
        ({}, 1, ["it has replicas, and synchronous_standby_names is empty"]),
        (
            {"synchronous_standby_names": "*", "synchronous_commit": "local"},
            1,
            ["synchronous_commit is local: a commit does not wait for the replicas"],
        ),
    ],
)
def test_settings_with_which_acknowledged_jobs_get_lost_are_told(
    changed: dict[str, str], replicas: int, words: list[str]
) -> None:
    found = risks_of({**SAFE, **changed}, replicas)
    assert len(found) == len(words)
    for line, expected in zip(found, words, strict=True):
        assert expected in line
