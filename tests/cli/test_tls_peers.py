"""Our own peers come in at a door that speaks TLS and wants to see a certificate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from moving_stage import write
from running import HALL, Running, run

from hiringhall.peers import gearman, gearman_draft
from hiringhall.peers.gearman_draft import blocking as draft
from hiringhall.peers.tls import client_tls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Authority

DEADLINE_S = 20.0


@pytest.fixture
def server(tmp_path: Path, authority: Authority) -> Iterator[str]:
    """The address of a door that lets in whoever has a certificate of our authority."""
    (tmp_path / "hall.toml").write_text(
        f"""
        [hall]
        data = "data"
        [[door]]
        dialect = "gearman"
        address = "127.0.0.1:0"
        [door.tls]
        certificate = "{authority.server}"
        key = "{authority.server_key}"
        ca = "{authority.ca}"
        verify_client = true
        """,
        encoding="utf-8",
    )
    with Running(HALL, "serve", "--json", cwd=tmp_path) as hall:
        yield "localhost:" + hall.opened()["doors"][0]["address"].rpartition(":")[2]


def test_the_gearman_client_and_worker_speak_tls(server: str, authority: Authority) -> None:
    tls = client_tls(authority.ca, authority.client, authority.client_key)
    worker = gearman.Worker(server, tls=tls)
    worker.register("reverse", lambda job: job.data[::-1])
    with worker, gearman.Client(server, timeout_s=DEADLINE_S, tls=tls) as client:
        assert client.run("reverse", b"x" * 1_000_000) == b"x" * 1_000_000
        assert client.admin("version")[0].startswith("OK ")


def test_the_draft_client_worker_and_result_log_speak_tls(server: str, authority: Authority) -> None:
    tls = client_tls(authority.ca, authority.client, authority.client_key)
    worker = draft.Worker(server, tls=tls)
    worker.can_do("reverse", lambda task: task.args[::-1])
    with (
        worker,
        draft.Client(server, timeout_s=DEADLINE_S, tls=tls) as client,
        draft.ResultLog(server, timeout_s=DEADLINE_S, tls=tls) as log,
    ):
        assert client.run("reverse", b"hello") == b"olleh"
        assert client.wait(client.submit("reverse", b"hello")).data == b"olleh"
        assert log.register_task_result(("backup", "today")).startswith(b"H:hall:")


def test_who_shows_no_certificate_or_trusts_another_authority_does_not_come_in(
    server: str, authority: Authority, stranger: Authority
) -> None:
    for tls in (
        None,
        client_tls(authority.ca),
        client_tls(stranger.ca, authority.client, authority.client_key),
        client_tls(authority.ca, stranger.client, stranger.client_key),
    ):
        with (
            gearman.Client(server, timeout_s=DEADLINE_S, tls=tls) as client,
            pytest.raises(gearman.ConnectionLost),
        ):
            client.echo(b"")
        with (
            draft.Client(server, timeout_s=DEADLINE_S, tls=tls) as drafted,
            pytest.raises(gearman_draft.ConnectionLost),
        ):
            drafted.submit("reverse")


def test_jobs_are_imported_at_a_door_that_speaks_tls(tmp_path: Path, server: str, authority: Authority) -> None:
    write(tmp_path / "jobs.jsonl", *({"queue": "mail", "key": f"k{number}"} for number in range(10)))
    ours = ("--tls-ca", str(authority.ca), "--tls-certificate", str(authority.client))
    words = ("import", "jobs.jsonl", "--door", server, "--json")
    sent = run(HALL, *words, *ours, "--tls-key", str(authority.client_key), cwd=tmp_path)
    assert (sent.returncode, sent.stderr) == (0, "")
    assert json.loads(sent.stdout) == {"sent": 10, "door": server}
    refused = run(HALL, *words, cwd=tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.rstrip().endswith("no job was sent")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--tls-ca=ca.pem"], "--tls-ca: needs --door, the door to connect to"),
        (
            ["--door=localhost:4730", "--tls-key=key.pem"],
            "--tls-key: needs --tls-certificate, the certificate of this key",
        ),
        (["--door=localhost:4730", "--tls-ca=nowhere.pem"], "--tls-ca: there is no file nowhere.pem"),
        (["--door=localhost:4730", "--tls-ca=jobs.jsonl"], "--tls-ca: cannot be used: "),
    ],
)
def test_files_for_tls_that_cannot_be_used_are_named(tmp_path: Path, words: list[str], problem: str) -> None:
    write(tmp_path / "jobs.jsonl", {"queue": "mail"})
    said = run(HALL, "import", "jobs.jsonl", *words, cwd=tmp_path)
    assert said.returncode == 2
    assert problem in said.stderr
