"""hall-gearmand as a process: in front, in the background, as another user, behind TLS."""

from __future__ import annotations

import os
import pwd
import signal
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import HALL, HALL_GEARMAND, Running, ask, connect, run, wait_for_end

from hiringhall import __version__
from hiringhall.cli.gearmand import _main
from stage.needs import skip_without

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Authority

IN_FRONT = ("-L", "127.0.0.1", "-p", "0", "-l", "stderr", "--verbose=INFO", "-P", "hall.pid")


def listening(running: Running) -> str:
    return running.line_like(r"Listening on (\S+)")[1]


def address_in(log: Path) -> str:
    return log.read_text(encoding="utf-8").partition("Listening on ")[2].split()[0]


def answer_or_refusal(address: str, context: ssl.SSLContext) -> str:
    """With TLS 1.3 a client hears of its refusal when it reads: as an alert, a reset or an early end."""
    try:
        return ask(address, "getpid", context) or "refused"
    except (ssl.SSLError, ConnectionError):
        return "refused"


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Path]:
    """A folder for a daemon whose pid file is `hall.pid`; ends what is left of it."""
    tmp_path.chmod(0o777)
    yield tmp_path
    if (tmp_path / "hall.pid").exists():
        pid = int((tmp_path / "hall.pid").read_text(encoding="ascii"))
        os.kill(pid, signal.SIGKILL)
        wait_for_end(pid)


# --- what is printed


def test_the_version_reads_like_gearmands(tmp_path: Path) -> None:
    for flag in ("-V", "--version"):
        printed = run(HALL_GEARMAND, flag, cwd=tmp_path)
        assert (printed.returncode, printed.stderr) == (0, "")
        assert printed.stdout == f"\ngearmand 1.1.20 - hall-gearmand, hiringhall {__version__}\n"


def test_the_help_lists_the_options(tmp_path: Path) -> None:
    printed = run(HALL_GEARMAND, "-h", cwd=tmp_path)
    assert printed.returncode == 0
    assert "-p [ --port ] arg (=4730)" in printed.stdout


def test_arguments_are_checked_without_opening_anything(tmp_path: Path) -> None:
    fine = run(HALL_GEARMAND, "--check-args", "-L", "127.0.0.1", "-t4", cwd=tmp_path)
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "", "")
    wrong = run(HALL_GEARMAND, "--check-args", "-t", "four", cwd=tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("hall-gearmand: the argument ('four') for option '--threads' is invalid")
    assert wrong.stderr.count("\n") == 1


CHECKED = """
--help | --version | --nonsense | loose | --check-args | --port=abc | --port= | --port=99999 | --ssl
--ssl-key=/nowhere | -q nonsense | -q redis | -q libsqlite3 | --protocol=foo | --verbose=LOUD
--hashtable-buckets=0 | --hashtable-buckets=-1 | --listen=300.1.1.1 | -j abc | -j -1 | -j 0 | -j 99999999999
-t -1 | -t abc | -b -5 | -b 0 | -f 0 | -w -1 | --config-file=/nowhere | --keepalive-idle=-5
--keepalive-count=99999 | -R -R | --http-port=abc | -u nobody-of-that-name
"""


def test_arguments_are_checked_as_gearmand_checks_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    skip_without("gearmand")
    codes: dict[str, tuple[int, int]] = {}
    for words in CHECKED.replace("\n", "|").split("|"):
        if words.strip():
            line = ["--check-args", *words.split()]
            theirs = run(("gearmand",), *line, cwd=tmp_path)
            codes[words.strip()] = (theirs.returncode, _main(line))
            assert bool(theirs.stderr) == bool(capfd.readouterr().err), words
    assert [words for words, (theirs, ours) in codes.items() if theirs != ours] == []
    assert {theirs for theirs, _ in codes.values()} == {0, 1}


# --- in front


def test_it_serves_and_sigterm_stops_it(tmp_path: Path) -> None:
    with Running(HALL_GEARMAND, *IN_FRONT, cwd=tmp_path) as gearmand:
        address = listening(gearmand)
        pid = gearmand.process.pid
        assert ask(address, "getpid") == f"OK {pid}"
        assert ask(address, "verbose") == "OK INFO"
        assert (tmp_path / "hall.pid").read_text(encoding="ascii") == f"{pid}\n"
        gearmand.signal(signal.SIGTERM)
        assert gearmand.wait() == 0
    assert not (tmp_path / "hall.pid").exists()


def test_the_admin_can_shut_it_down(tmp_path: Path) -> None:
    for command in ("shutdown", "shutdown graceful"):
        with Running(HALL_GEARMAND, *IN_FRONT, cwd=tmp_path) as gearmand:
            assert ask(listening(gearmand), command) == "OK"
            assert gearmand.wait() == 0


def test_without_an_address_it_listens_on_loopback_and_says_how_to_open(tmp_path: Path) -> None:
    with Running(HALL_GEARMAND, "-p0", "-lstderr", "--verbose=INFO", "-Phall.pid", cwd=tmp_path) as gearmand:
        gearmand.line_like(r"^hall-gearmand: warning: listening on loopback only; -L 0\.0\.0\.0 opens")
        assert listening(gearmand).startswith("127.0.0.1:")


def test_an_open_address_is_served_with_a_warning(tmp_path: Path) -> None:
    words = ("-L", "0.0.0.0", *IN_FRONT[2:])
    with Running(HALL_GEARMAND, *words, cwd=tmp_path) as gearmand:
        gearmand.line_like(r"0\.0\.0\.0:0: open to other machines without TLS")
        port = listening(gearmand).rpartition(":")[2]
        assert ask(f"127.0.0.1:{port}", "getpid") == f"OK {gearmand.process.pid}"


def test_the_sqlite_queue_survives_in_its_folder(tmp_path: Path) -> None:
    words = (*IN_FRONT, "-q", "libsqlite3", "--libsqlite3-db", "queue.db")
    with Running(HALL_GEARMAND, *words, cwd=tmp_path) as gearmand:
        gearmand.line_like(f"the jobs are stored in the folder {tmp_path}/queue.db.hall")
        listening(gearmand)
        gearmand.line_like("0 jobs recovered")
        planned = ("add", "x", "--queue", "q", "--every", "1h", "--data", "queue.db.hall")
        assert run(HALL, "schedule", *planned, cwd=tmp_path).stderr == (
            f"hall: hall-gearmand (process {gearmand.process.pid}) reads it at its next start: restart it\n"
        ), "SIGHUP means another thing to it"
    assert run(HALL, "history", "--data", "queue.db.hall", cwd=tmp_path).stdout == "No jobs found.\n"


def test_a_pid_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    failed = run(HALL_GEARMAND, *IN_FRONT[:-1], "nowhere/hall.pid", cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr == (
        f"hall-gearmand: cannot write the pid file {tmp_path}/nowhere/hall.pid: No such file or directory\n"
    )


# --- in the background


def test_a_daemon_is_open_when_its_starter_ends_and_takes_its_pid_file_along(daemons: Path) -> None:
    words = ("-L", "127.0.0.1", "-p", "0", "-l", "hall.log", "--verbose=INFO", "-P", "hall.pid", "-d")
    started = run(HALL_GEARMAND, *words, cwd=daemons)
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    pid = int((daemons / "hall.pid").read_text(encoding="ascii"))
    log = daemons / "hall.log"
    assert ask(address_in(log), "getpid") == f"OK {pid}"
    assert os.getsid(pid) != os.getsid(0)
    assert os.getsid(pid) != pid
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert {str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in (0, 1, 2)} == {os.devnull}

    log.rename(daemons / "hall.log.1")
    os.kill(pid, signal.SIGHUP)
    os.kill(pid, signal.SIGTERM)
    wait_for_end(pid)
    assert not (daemons / "hall.pid").exists()
    assert "closed" in log.read_text(encoding="utf-8")


def test_a_daemon_that_cannot_open_tells_its_starter(tmp_path: Path) -> None:
    with Running(HALL_GEARMAND, *IN_FRONT, cwd=tmp_path) as first:
        port = listening(first).rpartition(":")[2]
        words = ("-d", "-L", "127.0.0.1", "-p", port, "-l", "none", "-P", "second.pid")
        failed = run(HALL_GEARMAND, *words, cwd=tmp_path)
        assert failed.returncode == 1
        assert "is in use by another program" in failed.stderr
        assert not (tmp_path / "second.pid").exists()


def test_a_daemon_gives_up_roots_rights(daemons: Path) -> None:
    if os.geteuid() != 0:
        refused = run(HALL_GEARMAND, *IN_FRONT, "-u", "nobody", cwd=daemons)
        assert refused.stderr == "hall-gearmand: must be root to switch users (-u)\n"
        return
    words = (
        "-L",
        "127.0.0.1",
        "-p",
        "0",
        "-l",
        "hall.log",
        "--verbose=INFO",
        "-P",
        "hall.pid",
        "-d",
        "-u",
        "nobody",
    )
    for parent in daemons.parents:  # pytest keeps its folders to itself
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    started = run(HALL_GEARMAND, *words, cwd=daemons)
    assert started.returncode == 0, started.stderr
    pid = int((daemons / "hall.pid").read_text(encoding="ascii"))
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    user = pwd.getpwnam("nobody")
    assert "Uid:" + f"\t{user.pw_uid}" * 4 in status
    assert "Gid:" + f"\t{user.pw_gid}" * 4 in status
    assert "CapEff:\t0000000000000000" in status
    assert ask(address_in(daemons / "hall.log"), "getpid") == f"OK {pid}"
    os.kill(pid, signal.SIGTERM)
    wait_for_end(pid)
    assert not (daemons / "hall.pid").exists()


def test_a_user_nobody_knows_is_one_line(tmp_path: Path) -> None:
    failed = run(HALL_GEARMAND, *IN_FRONT, "-u", "no-such-user", cwd=tmp_path)
    assert failed.returncode == 1
    known = "hall-gearmand: there is no user no-such-user (-u)\n"
    assert failed.stderr == (
        known if os.geteuid() == 0 else "hall-gearmand: must be root to switch users (-u)\n"
    )


# --- behind TLS


def test_tls_lets_in_who_shows_a_certificate_and_nobody_else(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    files = (
        f"--ssl-ca-file={authority.ca}",
        f"--ssl-certificate={authority.server}",
        f"--ssl-key={authority.server_key}",
    )
    with Running(HALL_GEARMAND, *IN_FRONT, "--ssl", *files, cwd=tmp_path) as gearmand:
        address = gearmand.line_like(r"Listening on (\S+) with TLS")[1]
        welcome = authority.context(with_certificate=True)
        assert ask(address, "getpid", welcome) == f"OK {gearmand.process.pid}"

        unknown = stranger.context(with_certificate=True)
        unknown.load_verify_locations(authority.ca)
        for context in (authority.context(with_certificate=False), unknown):
            assert answer_or_refusal(address, context) == "refused"
        with connect(address) as plain:
            plain.sendall(b"getpid\n")
            assert b"OK" not in plain.recv(100)
        assert ask(address, "getpid", welcome) == f"OK {gearmand.process.pid}"


def test_a_key_that_does_not_fit_is_refused(tmp_path: Path, authority: Authority) -> None:
    files = (
        f"--ssl-ca-file={authority.ca}",
        f"--ssl-certificate={authority.server}",
        f"--ssl-key={authority.client_key}",
    )
    failed = run(HALL_GEARMAND, *IN_FRONT, "--ssl", *files, cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr == (
        f"hall-gearmand: door[0].tls: {authority.server} and {authority.client_key} cannot be used: "
        "KEY_VALUES_MISMATCH\n"
    )


def test_a_hall_serves_tls_from_its_settings(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "hall.toml").write_text(
        f"""
        [hall]
        storage = "memory"
        [[door]]
        dialect = "gearman"
        address = "0.0.0.0:0"
        [door.tls]
        certificate = "{authority.server}"
        key = "{authority.server_key}"
        ca = "{authority.ca}"
        """,
        encoding="utf-8",
    )
    with Running(HALL, "serve", "--json", cwd=tmp_path) as hall:
        port = hall.opened()["doors"][0]["address"].rpartition(":")[2]
        context = authority.context(with_certificate=True)
        assert ask(f"127.0.0.1:{port}", "getpid", context) == f"OK {hall.process.pid}"
