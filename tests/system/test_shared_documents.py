"""Schedules, tokens and the audit log of halls on one database: changed by command, kept by a take-over."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hall_members import MemberProcess, command, wait_for_role
from hall_process import free_port, wait_until

from hiringhall import Hall
from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HallRefused, HallUnreachable
from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def url() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))  # its user cannot enter the folders of pytest
    server = PostgresServer(folder)
    server.create()
    server.start()
    server.sql("CREATE DATABASE shared")
    yield server.url("shared")
    server.remove()
    shutil.rmtree(folder, ignore_errors=True)


class NativeMember(MemberProcess):
    """A member that wants a token from everybody at its native door."""

    def __init__(self, folder: Path, name: str, url: str) -> None:
        self.native_port = free_port()
        door = ("--door", f"native=127.0.0.1:{self.native_port}", "--set", "door[1].tokens=required")
        super().__init__(folder, name, url, "127.0.0.1", *door)

    def ask(self, token: str, kind: str, *body: object) -> Any:
        """The answer to one native request."""

        async def request(hall: Hall) -> Any:
            return await hall.connection().request(kind, body)

        hall = Hall(f"hall://127.0.0.1:{self.native_port}", token=token)
        try:
            return hall.run(request(hall))
        finally:
            hall.close()

    def lets_in(self, token: str) -> bool:
        try:
            self.ask(token, wire.AUDIT, 1)
        except (HallRefused, HallUnreachable):
            return False
        return True

    def submits(self, queue: str) -> bool:
        return self.counts(queue)[0] > 0


def add_token(url: str, name: str) -> str:
    (made,) = command(url, "token", "add", name, "--role", "admin")
    return str(made["token"])


def add_schedule(url: str, name: str) -> None:
    (line,) = command(url, "schedule", "add", name, "--queue", name, "--every", "1s")
    assert line["defined"] == "schedules.json of " + url.replace(":secret", "")


def test_schedules_tokens_and_the_audit_log_are_one_for_all_members(tmp_path: Path, url: str) -> None:
    early = add_token(url, "early")
    add_schedule(url, "early")
    first, second = NativeMember(tmp_path, "first", url), NativeMember(tmp_path, "second", url)
    try:
        first.start()
        wait_for_role(first, "active")
        second.start()
        assert first.lets_in(early)
        wait_until(lambda: first.submits("early"), "a schedule from before the start fires")
        late = add_token(url, "late")
        add_schedule(url, "late")
        wait_until(lambda: first.lets_in(late), "the active hall has noticed the token")
        wait_until(lambda: first.submits("late"), "the active hall has noticed the schedule")
        first.ask(late, wire.PAUSE_SCHEDULE, b"late")
        command(url, "token", "revoke", "early")
        wait_until(lambda: not first.lets_in(early), "the active hall has noticed that the token was revoked")

        first.kill()
        wait_for_role(second, "active")
        assert second.lets_in(late)
        assert not second.lets_in(early)
        kept = {line["name"]: line["paused"] for line in command(url, "schedule", "list")}
        assert kept == {"early": False, "late": True}
        (noted,) = second.ask(late, wire.AUDIT, 10)
        assert (noted["who"], noted["what"]) == ("late", wire.PAUSE_SCHEDULE)
        command(url, "schedule", "remove", "early")
    finally:
        first.stop()
        second.stop()
