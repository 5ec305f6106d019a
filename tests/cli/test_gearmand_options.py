"""Somebody swaps gearmand for hall-gearmand and keeps the command line."""

from __future__ import annotations

import logging
import socket
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from hiringhall.cli.gearmand.options import OPTIONS, UsageError, parse, usage
from hiringhall.cli.gearmand.translating import Plan, plan
from hiringhall.doors.gearman import GearmanDoorSettings
from stage.needs import skip_without

if TYPE_CHECKING:
    from pathlib import Path

GEARMAND_OPTIONS = """
backlog b, daemon d, exceptions, file-descriptors f, help h, job-retries j, job-handle-prefix,
hashtable-buckets, keepalive, keepalive-idle, keepalive-interval, keepalive-count, log-file l,
listen L, pid-file P, protocol r, round-robin R, queue-type q, config-file, syslog, coredump,
threads t, user u, verbose, version V, worker-wakeup w, check-args, http-port, port p, ssl,
ssl-ca-file, ssl-certificate, ssl-key, libmemcached-servers, libmemcached-prefix, libsqlite3-db,
store-queue-on-shutdown, libsqlite3-table, libpq-conninfo, libpq-table, redis-server, redis-port,
redis-password, redis-prefix, mysql-host, mysql-port, mysql-user, mysql-password, mysql-db, mysql-table
"""
"""All of gearmand 1.1.20's, with their short forms."""

LOOPBACK_NOTE = "listening on loopback only; -L 0.0.0.0 opens the port to other machines"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def given(*words: str) -> dict[str, list[str]]:
    return parse(list(words)).given


def planned(*words: str, environ: dict[str, str] | None = None) -> Plan:
    return plan(parse(list(words)), environ or {})


def notes(*words: str) -> list[str]:
    return [note for note in planned(*words).notes if note != LOOPBACK_NOTE]


def door(found: Plan) -> GearmanDoorSettings:
    settings = found.config.door[0]
    assert isinstance(settings, GearmanDoorSettings)
    return settings


# --- reading


def test_every_option_of_gearmand_is_known() -> None:
    for entry in GEARMAND_OPTIONS.split(","):
        name, _, short = entry.strip().partition(" ")
        assert OPTIONS[name].short == short
        assert f"--{name}" in usage()


def test_what_gearmand_itself_lists_is_known_with_its_default() -> None:
    skip_without("gearmand")
    listed = subprocess.run(["gearmand", "--help"], capture_output=True, text=True, check=True).stdout
    entries = [line.strip() for line in listed.splitlines() if line.startswith("  -")]
    assert len(entries) > 40
    for entry in entries:
        option = OPTIONS[entry.partition("--")[2].split()[0]]
        if entry.startswith("-") and entry[1] != "-":
            assert option.short == entry[1]
        assert (option.takes == "flag") == (" arg" not in entry)
        default = entry.partition("(=")[2].partition(")")[0]
        if option.about != "Accepted.":
            assert option.default == default or not default


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-p", "4731"], {"port": ["4731"]}),
        (["-p4731"], {"port": ["4731"]}),
        (["--port", "4731"], {"port": ["4731"]}),
        (["--port=4731"], {"port": ["4731"]}),
        (["-dRp4731"], {"daemon": [""], "round-robin": [""], "port": ["4731"]}),
        (["-dRp", "4731"], {"daemon": [""], "round-robin": [""], "port": ["4731"]}),
        (["--keepalive-idle", "-1"], {"keepalive-idle": ["-1"]}),
        (["-vvv", "-v"], {"v": ["", "", "", ""]}),
        (["--job-handle-prefix=a=b"], {"job-handle-prefix": ["a=b"]}),
        (["--libpq-conninfo", "host=a dbname=b"], {"libpq-conninfo": ["host=a dbname=b"]}),
    ],
)
def test_words_are_read_as_gearmand_reads_them(words: list[str], expected: dict[str, list[str]]) -> None:
    assert given(*words) == expected


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["foo"], "unrecognised option 'foo'"),
        (["--nonsense"], "unrecognised option '--nonsense'"),
        (["--por", "4731"], "unrecognised option '--por'; did you mean --port?"),
        (["-x"], "unrecognised option '-x'"),
        (["-dx"], "unrecognised option '-x'"),
        (["--"], "unrecognised option '--'"),
        (["--v"], "unrecognised option '--v'"),
        (["-p"], "the required argument for option '--port' is missing"),
        (["--port="], "the argument for option '--port' should follow immediately after the equal sign"),
        (["--daemon=1"], "option '--daemon' does not take any arguments"),
        (["-p1", "--port=2"], "option '--port' cannot be specified more than once"),
        (
            ["-b", "abc"],
            "the argument ('abc') for option '--backlog' is invalid; it takes a whole number from 1",
        ),
        (["-b", "-5"], "the argument ('-5') for option '--backlog' is invalid; it takes a whole number from 1"),
        (["-j", "99999999999"], "the argument ('99999999999') for option '--job-retries' is invalid"),
        (["--keepalive-count", "128"], "the argument ('128') for option '--keepalive-count' is invalid"),
        (["--hashtable-buckets=0"], "hashtable-buckets has to be greater than 0"),
        (["--verbose=debug"], "Invalid value for --verbose supplied; it takes one of FATAL, ALERT, "),
        (["--config-file=nowhere"], "Could not open configuration file nowhere: "),
        (
            ["-q", "redis"],
            "--queue-type=redis is not supported: the jobs would not be stored where you expect them.",
        ),
        (
            ["-q", "MySQL"],
            "--queue-type=MySQL is not supported: the jobs would not be stored where you expect them.",
        ),
        (["-q", "nonsense"], "Error while initializing the queue : nonsense; it takes builtin or libsqlite3"),
        (["-q", "libsqlite3"], "--queue-type=libsqlite3 needs --libsqlite3-db: "),
        (["-r", "nonsense"], "Unknown protocol module : nonsense"),
        (["-p", "abc"], "--port: 'abc' is neither a port number up to 65535 nor a known service"),
        (["-p", "70000"], "--port: '70000' is neither a port number up to 65535 nor a known service"),
        (["--ssl-key=k"], "--ssl-key needs --ssl: add --ssl, or remove --ssl-key to serve without TLS"),
        (["--ssl", "--ssl-ca-file=n.pem"], "--ssl: n.pem does not exist; give the file with --ssl-ca-file"),
        (["--job-handle-prefix", "a b"], "--job-handle-prefix: takes printable ASCII characters"),
        (["--job-handle-prefix", "a" * 44], "--job-handle-prefix: at most 43 characters are allowed"),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_words(words: list[str], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        planned(*words)
    assert str(caught.value).startswith(problem)


def test_an_address_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--listen: 300\.1\.1\.1 cannot be resolved: "):
        planned("-L", "300.1.1.1")


# --- configuration files


def test_a_configuration_file_holds_the_same_words_and_loses_against_them(folder: Path) -> None:
    (folder / "gearmand.conf").write_text("--port=4799 --threads\n 2 # two\n\n-Rb\n7\n", encoding="utf-8")
    for words in (["--config-file=gearmand.conf"], ["@gearmand.conf"], ["--config-file", "gearmand.conf"]):
        found = parse([*words, "--backlog=9"])
        assert (found.text("port"), found.text("threads"), found.text("backlog")) == ("4799", "2", "9")
        assert found.has("round-robin")


@pytest.mark.parametrize(
    ("written", "note"),
    [
        ("port=4799", "c: port=4799 is not an option and is ignored; write --name=value"),
        ("# --port=4799", "c: --port=4799 is in a comment and is ignored, but gearmand would use it"),
    ],
)
def test_what_a_configuration_file_says_in_vain_is_noted(folder: Path, written: str, note: str) -> None:
    (folder / "c").write_text(written, encoding="utf-8")
    found = parse(["@c"])
    assert (found.text("port"), found.notes) == ("4730", [note])


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("--nonsense", "c: unrecognised option '--nonsense'"),
        ("--check-args", "c: unrecognised option '--check-args'; it belongs on the command line"),
        ("@d", "c: unrecognised option '--config-file'; it belongs on the command line"),
        ("-dRb", "c: the required argument for option '--backlog' is missing"),
    ],
)
def test_a_configuration_file_that_is_wrong_is_named(folder: Path, written: str, problem: str) -> None:
    (folder / "c").write_text(written, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        parse(["@c"])
    assert str(caught.value) == problem


# --- meaning


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-t", "3"], ["--threads has no effect: one thread serves every connection"]),
        (["--hashtable-buckets=5"], ["--hashtable-buckets has no effect: tables grow by themselves"]),
        (["--http-port=1"], ["--http-port has no effect: there is no HTTP door here"]),
        (["-r", "http"], ["--protocol=http has no effect: there is no HTTP door, only the Gearman door"]),
        (["-w", "0"], ["--worker-wakeup has no effect: one worker is woken for one job"]),
        (["-w", "1"], []),
        (["--mysql-host=h"], ["--mysql-host has no effect: this kind of queue is not supported"]),
        (["--redis-port", "1"], ["--redis-port has no effect: this kind of queue is not supported"]),
        (
            ["--store-queue-on-shutdown"],
            ["--store-queue-on-shutdown has no effect: jobs are stored before they are acknowledged"],
        ),
        (["--libsqlite3-table=t"], ["--libsqlite3-table has no effect: the table names are fixed"]),
        (["-b", "5", "-R", "--exceptions", "-j2", "--keepalive", "--coredump", "--syslog", "-f", "100"], []),
    ],
)
def test_an_option_without_meaning_costs_exactly_one_line(words: list[str], expected: list[str]) -> None:
    assert notes(*words) == expected


def test_the_door_follows_the_options() -> None:
    words = "-p 0 -b 77 -j 5 -R --exceptions --job-handle-prefix H:mine"
    words += " --keepalive --keepalive-idle 11 --keepalive-interval 12 --keepalive-count 13"
    settings = door(planned(*words.split()))
    assert settings == GearmanDoorSettings(
        address=settings.address,
        backlog=77,
        losses_max=5,
        round_robin=True,
        exceptions=True,
        handle_prefix="H:mine",
        background="memory",
        timeout_unit="ms",
        timeout_min_s=1.0,
        on_timeout="requeue",
        keepalive_idle_s=11,
        keepalive_interval_s=12,
        keepalive_count=13,
    )


@pytest.mark.parametrize(
    ("asked", "losses_max", "note"),
    [
        ("0", 0, None),
        ("3", 3, None),
        ("255", 255, None),
        ("-1", 255, "--job-retries=-1 means 255 lost workers: as in gearmand, only its lowest byte is used"),
        ("256", 0, "--job-retries=256 means no limit: as in gearmand, only its lowest byte is used"),
        ("300", 44, "--job-retries=300 means 44 lost workers: as in gearmand, only its lowest byte is used"),
    ],
)
def test_job_retries_count_as_with_gearmand(asked: str, losses_max: int, note: str | None) -> None:
    found = planned("-L", "127.0.0.1", "-j", asked)
    assert (door(found).losses_max, found.notes) == (losses_max, [note] if note else [])


def test_without_options_it_is_as_gearmand_but_on_loopback() -> None:
    found = planned()
    addresses = [settings.address for settings in found.config.door]
    assert addresses[0] == "127.0.0.1:4730"
    assert set(addresses) <= {"127.0.0.1:4730", "[::1]:4730"}
    assert found.notes == [LOOPBACK_NOTE]
    assert (door(found).losses_max, door(found).handle_prefix) == (0, f"H:{socket.gethostname()}"[:43])
    assert (found.config.hall.storage, found.config.hall.drain_grace_s) == ("memory", 0)
    assert (found.log_file, str(found.pid_file)) == ("/var/log/gearmand.log", "/var/gearmand.pid")
    assert (found.pid_file_required, found.daemon, found.log_level) == (False, False, logging.ERROR)


def test_an_address_is_taken_as_the_wish_and_said_aloud() -> None:
    found = planned("-L", "0.0.0.0", "-p", "4731")
    assert [(settings.address, settings.insecure) for settings in found.config.door] == [("0.0.0.0:4731", True)]
    assert found.notes == [
        "0.0.0.0:4731: open to other machines without TLS; anyone who can connect can submit and take jobs"
    ]
    assert planned("-L", "localhost").notes == []


@pytest.mark.parametrize(
    ("words", "level"),
    [
        (["--verbose=FATAL"], logging.CRITICAL),
        (["--verbose", "NOTICE"], logging.INFO),
        (["-v"], logging.WARNING),
        (["-vv"], logging.INFO),
        (["-vvvvvv"], logging.DEBUG),
        (["--verbose=DEBUG", "-v"], logging.DEBUG),
    ],
)
def test_more_v_is_more_to_read(words: list[str], level: int) -> None:
    assert planned(*words).log_level == level


def test_the_port_is_a_number_a_service_or_a_variable() -> None:
    assert door(planned("-p", "http")).address.port == 80
    assert door(planned(environ={"GEARMAND_PORT": "4999"})).address.port == 4999
    assert door(planned("-p", "4731", environ={"GEARMAND_PORT": "4999"})).address.port == 4731


def test_the_sqlite_queue_is_kept_in_a_folder_beside_its_file(folder: Path) -> None:
    found = planned("-q", "libsqlite3", "--libsqlite3-db", "queue.db", "-L", "127.0.0.1")
    assert (found.config.hall.storage, found.config.hall.data) == ("sqlite", f"{folder}/queue.db.hall")
    assert door(found).background == "durable"
    assert found.notes == [f"--libsqlite3-db: the jobs are stored in the folder {folder}/queue.db.hall"]


def test_jobs_that_gearmand_left_behind_are_not_forgotten(folder: Path) -> None:
    words = ("-q", "libsqlite3", "--libsqlite3-db=queue.db", "-L", "127.0.0.1")
    with closing(sqlite3.connect("queue.db")) as connection:
        connection.execute("CREATE TABLE gearman_queue (unique_key TEXT, function_name TEXT, data BLOB)")
        connection.commit()
        assert len(notes(*words)) == 1
        connection.execute("INSERT INTO gearman_queue VALUES ('u', 'f', 'd')")
        connection.commit()
    with pytest.raises(UsageError) as caught:
        planned(*words)
    assert str(caught.value) == (
        f"{folder}/queue.db still has 1 jobs of gearmand, which hall-gearmand cannot read: "
        "let gearmand run them first, or move the file away; `hall gearmand-import` takes them over from there"
    )


def test_with_client_certificates_whoever_comes_in_is_an_admin(folder: Path) -> None:
    for name in ("ca.pem", "server.pem", "server.key"):
        (folder / name).touch()
    shielded = ("--ssl", "--ssl-ca-file=ca.pem", "--ssl-certificate=server.pem", "--ssl-key=server.key")
    assert door(planned(*shielded)).admin_from == "anywhere"
    assert door(planned()).admin_from == "loopback"
