"""Who comes in by a native door: every rule, address and kind of token; and what ends a connection."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from access_stage import MADE

from hiringhall.access.attempts import FREE
from hiringhall.access.gate import USES_S
from hiringhall.access.tokens import TokensError
from hiringhall.core.errors import Refusal
from hiringhall.dialects.hall import Actor
from hiringhall.dialects.native.roles import ADMIN, OPERATOR, VIEWER
from hiringhall.dialects.session import UNIX, Caller

if TYPE_CHECKING:
    from access_stage import GateStage

LOOPBACK = "127.0.0.1"
ELSEWHERE = "192.0.2.7"


class Visitor:
    """A connection that remembers why it ended."""

    def __init__(self) -> None:
        self.actor = Actor("", 0, "")
        self.told: list[tuple[str, str]] = []

    def expel(self, code: str, text: str) -> None:
        self.told.append((code, text))


def enter(stage: GateStage, address: str, token: str | None, rule: str = "auto") -> tuple[str, int] | str:
    """Name and role; or the reason of the refusal."""
    try:
        actor = stage.gate.admit(Visitor(), Caller(address, -1), token, rule)
    except Refusal as refusal:
        return refusal.reason
    return actor.name, actor.role


@pytest.mark.parametrize(
    ("address", "rule", "without_file", "with_file"),
    [
        (LOOPBACK, "auto", ("local", ADMIN), ("local", ADMIN)),
        ("::1", "auto", ("local", ADMIN), ("local", ADMIN)),
        (UNIX, "auto", ("local", ADMIN), ("local", ADMIN)),
        (ELSEWHERE, "auto", ("anonymous", ADMIN), "unauthorized"),
        (LOOPBACK, "required", "unauthorized", "unauthorized"),
        (UNIX, "required", ("local", ADMIN), ("local", ADMIN)),
        (ELSEWHERE, "required", "unauthorized", "unauthorized"),
        (LOOPBACK, "off", ("local", ADMIN), ("local", ADMIN)),
        (ELSEWHERE, "off", ("anonymous", ADMIN), ("anonymous", ADMIN)),
    ],
)
def test_who_needs_a_token(
    stage: GateStage,
    address: str,
    rule: str,
    without_file: tuple[str, int] | str,
    with_file: tuple[str, int] | str,
) -> None:
    stage.gate.load()
    assert enter(stage, address, None, rule) == without_file
    stage.add("anna")
    stage.check()
    assert enter(stage, address, None, rule) == with_file
    stage.file.revoke("anna")
    stage.check()
    assert enter(stage, address, None, rule) == with_file  # The last one was revoked: the door stays shut.


@pytest.mark.parametrize("address", [LOOPBACK, UNIX, ELSEWHERE])
@pytest.mark.parametrize("rule", ["auto", "required"])
def test_a_token_says_who_a_peer_is_wherever_it_is(stage: GateStage, address: str, rule: str) -> None:
    tokens = {role: stage.add(role, role) for role in ("viewer", "operator", "admin")}
    stage.gate.load()
    for role, rank in (("viewer", VIEWER), ("operator", OPERATOR), ("admin", ADMIN)):
        assert enter(stage, address, tokens[role], rule) == (role, rank)
    for wrong in ("", "hall_wrong", tokens["admin"] + "x", tokens["admin"][:-1], "x" * 1000, "\ud800"):
        assert enter(stage, address, wrong, rule) == "unauthorized"


def test_where_tokens_are_off_none_is_looked_at(stage: GateStage) -> None:
    assert enter(stage, ELSEWHERE, "hall_wrong", "off") == ("anonymous", ADMIN)


def test_an_expired_token_is_refused(stage: GateStage) -> None:
    token = stage.add("anna", days=1)
    stage.gate.load()
    stage.now = MADE + timedelta(hours=23)
    assert enter(stage, ELSEWHERE, token) == ("anna", OPERATOR)
    stage.now = MADE + timedelta(hours=24)
    assert enter(stage, ELSEWHERE, token) == "unauthorized"


@pytest.mark.parametrize("how", ["revoked", "file removed", "expired", "role changed"])
def test_open_connections_end_with_their_token(stage: GateStage, how: str) -> None:
    token = stage.add("anna", days=1)
    stage.add("bob")
    stage.gate.load()
    visitor = Visitor()
    visitor.actor = stage.gate.admit(visitor, Caller(ELSEWHERE, -1), token, "auto")
    stage.check()
    assert not visitor.told
    if how == "revoked":
        stage.file.revoke("anna")
    elif how == "file removed":
        Path(stage.file.where).unlink()
    elif how == "expired":
        stage.now = MADE + timedelta(days=2)
    else:
        changed = Path(stage.file.where).read_text().replace('"role": "operator"', '"role": "viewer"', 1)
        Path(stage.file.where).write_text(changed)
    stage.check()
    ((code, text),) = visitor.told
    assert code == "unauthorized"
    assert "token" in text
    stage.gate.left(visitor, visitor.actor)
    stage.check()
    assert len(visitor.told) == 1


def test_a_file_that_is_damaged_later_changes_nothing(
    stage: GateStage, caplog: pytest.LogCaptureFixture
) -> None:
    token = stage.add("anna")
    stage.gate.load()
    visitor = Visitor()
    visitor.actor = stage.gate.admit(visitor, Caller(ELSEWHERE, -1), token, "auto")
    Path(stage.file.where).write_text("{")
    with caplog.at_level(logging.ERROR):
        stage.check()
        stage.check()
    assert enter(stage, ELSEWHERE, token) == ("anna", OPERATOR)
    assert not visitor.told
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "tokens.json" in caplog.text


def test_a_file_that_is_damaged_at_the_start_is_an_error(stage: GateStage) -> None:
    Path(stage.file.where).write_text("{")
    with pytest.raises(TokensError, match=r"tokens\.json"):
        stage.gate.load()


def test_the_last_use_is_written_at_most_once_a_minute(
    stage: GateStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: clock_s)
    token = stage.add("anna")
    stage.gate.load()

    def used() -> list[str]:
        return [f"{token.used:%d %H:%M}" for token in (stage.file.read() or {}).values() if token.used]

    enter(stage, ELSEWHERE, token)
    stage.check()
    assert used() == ["01 00:00"]
    stage.now += timedelta(minutes=5)
    enter(stage, ELSEWHERE, token)
    clock_s += USES_S - 1
    stage.check()
    assert used() == ["01 00:00"]
    clock_s += 1
    stage.check()
    assert used() == ["01 00:05"]
    stage.check()
    assert enter(stage, ELSEWHERE, token) == ("anna", OPERATOR)  # Our own writes revoke nothing.


def test_many_wrong_tokens_are_answered_later(stage: GateStage) -> None:
    told: list[int] = []
    for number in range(FREE + 2):
        stage.gate.turned_away(Caller(ELSEWHERE, -1), lambda number=number: told.append(number))  # type: ignore[misc]
    assert told == list(range(FREE))
    (first_s, _), (second_s, tell) = stage.delayed
    assert 0 < first_s < second_s
    tell()
    assert told[-1] == FREE + 1
