"""A PostgreSQL of its own for tests: a cluster in a temporary folder, at a port that it keeps.

It runs as a user without rights, since PostgreSQL refuses root. Whoever starts one stops it, by its process id.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stage.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

BINARIES: Final = Path("/usr/lib/postgresql")
USER: Final = "postgres"
LOOPBACK: Final = "127.0.0.1"
START_S: Final = 30
_SETTINGS: Final = {
    "max_connections": "200",
    "shared_buffers": "32MB",
    "log_min_messages": "warning",
    "autovacuum_naptime": "5s",
}


def binary(name: str) -> str:
    """A program of the newest PostgreSQL that is installed."""
    found = sorted(BINARIES.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    assert found, f"{name} is not installed: run scripts/install-test-clients"
    return str(found[-1])


class PostgresServer:
    """One cluster. With `safe`, it syncs to disk, as needed where a crash is tested. `prefix`: a command that
    runs the server, such as `ip netns exec`; it needs root.
    """

    def __init__(
        self,
        folder: Path,
        *,
        safe: bool = False,
        host: str = LOOPBACK,
        prefix: Sequence[str] = (),
        **settings: str,
    ) -> None:
        self.host = host
        self._prefix = list(prefix)
        self.folder = folder / "cluster"
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._user = pwd.getpwnam(USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self._settings = {
            **_SETTINGS,
            "listen_addresses": host,
            "unix_socket_directories": str(folder),
            **settings,
        }
        if not safe:
            self._settings |= {"fsync": "off", "full_page_writes": "off"}
        if os.geteuid() == 0:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
            _let_pass(folder)

    def create(self) -> None:
        """Make an empty cluster, with a superuser `hall` whose password is `secret`."""
        password = self.folder.parent / "password"
        password.write_text("secret")
        os.chown(password, self._user.pw_uid, self._user.pw_gid)
        options = ["--username=hall", f"--pwfile={password}", "--auth=scram-sha-256", "--no-sync"]
        self._run([binary("initdb"), "--pgdata", str(self.folder), *options, "--encoding=UTF8", "--locale=C"])
        if self.host != LOOPBACK:
            self.allow("local all all scram-sha-256", "host all all all scram-sha-256")

    def add_certificate(self, certificate: Path, key: Path) -> None:
        """For a server with `ssl`, before it is started."""
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            target = self.folder / name
            target.write_bytes(source.read_bytes())
            os.chown(target, self._user.pw_uid, self._user.pw_gid)
            target.chmod(0o600)

    def allow(self, *rules: str) -> None:
        """Take connections by these rules of pg_hba.conf, and by no others, before it is started."""
        (self.folder / "pg_hba.conf").write_text("".join([f"{rule}\n" for rule in rules]))

    def follow(self, primary: PostgresServer) -> None:
        """Become a streaming replica of another server, with a copy of it. `start` starts it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        options = ["--write-recovery-conf", "--no-sync", "--checkpoint=fast", "--wal-method=stream"]
        self._run([binary("pg_basebackup"), "-D", str(self.folder), "-d", primary.url(), *options])

    def promote(self) -> None:
        """Let a replica go on as a primary, and wait until it is one."""
        self._control("promote")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [f"-c {name}='{value}'" for name, value in self._settings.items()]
        log = self.folder.parent / "postgres.log"
        self._control("start", "-o", f"-p {self.port} {' '.join(options)}", "-l", str(log))

    def stop(self, mode: str = "fast") -> None:
        """Stop it and wait for its end: `fast` closes all connections, `immediate` is a crash."""
        if (self.folder / "postmaster.pid").exists():
            self._control("stop", "-m", mode)

    @property
    def pid(self) -> int:
        return int((self.folder / "postmaster.pid").read_text().splitlines()[0])

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres", user: str = "hall", password: str = "secret") -> str:
        return f"postgresql://{user}:{password}@{self.host}:{self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement with psql, and return what it prints. With TLS, if the server has it."""
        command = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, self.url(database)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def _control(self, *arguments: str) -> None:
        command = [binary("pg_ctl"), "-D", str(self.folder), "-w", "-s", "-t", str(START_S), *arguments]
        if not self._prefix:
            self._run(command)
            return
        owner = ["--reuid", str(self._user.pw_uid), "--regid", str(self._user.pw_gid), "--clear-groups"]
        how = {**self.as_owner(), "user": None, "group": None, "extra_groups": None}
        self._run([*self._prefix, "setpriv", *owner, *command], how)

    def _run(self, command: list[str], how: dict[str, Any] | None = None) -> None:
        said = self.folder.parent / "said"
        with said.open("wb") as output:  # not a pipe: a server that was started would hold it open
            done = subprocess.run(
                command, check=False, stdout=output, stderr=output, **(how or self.as_owner())
            )
        assert not done.returncode, said.read_text()

    def as_owner(self) -> dict[str, Any]:
        """How `subprocess` runs a program as the user of the server."""
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        if os.geteuid() != 0:
            return {"env": environment}
        return {
            "env": environment,
            "user": self._user.pw_uid,
            "group": self._user.pw_gid,
            "extra_groups": [],
            "cwd": "/",
        }


def _let_pass(folder: Path) -> None:
    """Let the user of the server reach its folder: pytest makes temporary folders for their owner only."""
    for parent in folder.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            mode = parent.stat().st_mode
            if not mode & 0o001:
                parent.chmod(mode | 0o011)
