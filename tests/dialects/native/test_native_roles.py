"""Who may send which request: each kind, each role; and what is noted of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.core.errors import Refusal
from hiringhall.dialects.hall import Actor
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.audits import AUDITED
from hiringhall.dialects.native.desk import Desk
from hiringhall.dialects.native.roles import ADMIN, NEEDED, OPERATOR, ROLES, VIEWER, needed, role_name
from stage.native import NativeGuest, NativeHall

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.hall import Visitor
    from hiringhall.dialects.session import Caller

DIRECT = {
    wire.FINISH,
    wire.SUBMIT,
    wire.JOB,
    wire.WATCH,
    wire.PROGRESS,
    wire.CHUNK,
    wire.LOG,
    wire.FAIL,
    wire.RELEASE,
    wire.RENEW,
    wire.LOSE,
    wire.BEAT,
    wire.SLOTS,
    wire.WORK,
    wire.UNWATCH,
    wire.OUTPUT,
}
"""What a session handles itself, without its desk."""


class Doorkeeper:
    """Tokens are names of roles, each with a key."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.slow = False
        self.inside: list[str] = []

    def admit(self, visitor: Visitor, caller: Caller, token: str | None, rule: str) -> Actor:
        del visitor, caller
        if token is None and rule == "auto":
            return Actor("local", ADMIN, "")
        if token not in ROLES:
            raise Refusal("unauthorized", "the token is wrong")
        self.inside.append(token)
        return Actor(f"some {token}", ROLES.index(token) + 1, token)

    def turned_away(self, caller: Caller, tell: Callable[[], None]) -> None:
        del caller
        if self.slow:
            self.later.append(tell)
        else:
            tell()

    def left(self, visitor: Visitor, actor: Actor) -> None:
        del visitor
        self.inside.remove(actor.key)


class Trail:
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def note(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)

    def latest(self, count: int) -> list[dict[str, Any]]:
        return self.entries[::-1][:count]


@pytest.fixture
def doorkeeper() -> Doorkeeper:
    return Doorkeeper()


@pytest.fixture
def trail() -> Trail:
    return Trail()


@pytest.fixture
def hall(doorkeeper: Doorkeeper, trail: Trail) -> NativeHall:
    return NativeHall(access=doorkeeper, audit=trail)


def handled(guest: NativeGuest) -> set[str]:
    """Every kind that a session answers."""
    session = guest.session
    desk = session._open_desk()  # type: ignore[attr-defined]
    assert isinstance(desk, Desk)
    return DIRECT | set(desk._handlers)


# --- the table


def test_every_kind_that_is_handled_has_a_role_and_no_other_has(hall: NativeHall) -> None:
    assert handled(hall.guest()) == set(NEEDED)


def test_what_has_no_line_in_the_table_needs_the_highest_role() -> None:
    assert needed("launch") == ADMIN
    assert [role_name(role) for role in (VIEWER, OPERATOR, ADMIN)] == list(ROLES)


def test_every_change_by_people_is_noted_and_needs_more_than_reading() -> None:
    assert all(NEEDED[kind] > VIEWER for kind in AUDITED)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", sorted(NEEDED))
def test_a_request_is_forbidden_exactly_if_its_role_is_higher(hall: NativeHall, kind: str, role: str) -> None:
    guest = hall.guest(token=role)
    frames = guest.says_numbered(kind, None)
    forbidden = [body[0] == "forbidden" for said, _, body in frames if said == wire.ERROR]
    assert any(forbidden) == (NEEDED[kind] > ROLES.index(role) + 1)
    assert not guest.closed


@pytest.mark.parametrize("kind", sorted(NEEDED))
def test_without_a_token_on_this_machine_nothing_is_forbidden(hall: NativeHall, kind: str) -> None:
    frames = hall.guest().says_numbered(kind, None)
    assert not [body for said, _, body in frames if said == wire.ERROR and body[0] == "forbidden"]


@pytest.mark.parametrize("role", ROLES)
def test_a_kind_that_nobody_knows_is_unknown_to_every_role(hall: NativeHall, role: str) -> None:
    assert hall.guest(token=role).asks("launch", None) == "unknown_kind"


# --- hello


@pytest.mark.parametrize("role", ROLES)
def test_the_welcome_says_who_the_peer_is(hall: NativeHall, role: str) -> None:
    welcome = hall.guest(token=role).welcome
    assert (welcome["actor"], welcome["role"]) == (f"some {role}", role)
    assert {"tokens", "audit"} <= set(welcome["features"])
    assert hall.guest().welcome["role"] == "admin"


def test_a_wrong_token_closes_the_connection(hall: NativeHall, doorkeeper: Doorkeeper) -> None:
    guest = hall.guest(token="wrong")
    assert guest.welcome == "unauthorized"
    assert guest.closed
    assert doorkeeper.inside == []


def test_a_peer_that_is_told_later_is_not_heard_meanwhile(hall: NativeHall, doorkeeper: Doorkeeper) -> None:
    doorkeeper.slow = True
    guest = hall.stranger()
    hello = wire.encode(wire.HELLO, 1, {"version": 1, "token": "wrong"})
    again = wire.encode(wire.HELLO, 2, {"version": 1, "token": "admin"})
    guest.say_bytes(hello + again, again, wire.encode(wire.BEAT, 3, None))
    assert guest.hears() == []
    assert not guest.closed
    with hall.turn():
        doorkeeper.later[0]()
    ((said, number, (code, _)),) = guest.hears()
    assert (said, number, code) == (wire.ERROR, 1, "unauthorized")
    assert guest.closed


def test_a_peer_that_left_before_it_was_told_is_left_alone(hall: NativeHall, doorkeeper: Doorkeeper) -> None:
    doorkeeper.slow = True
    guest = hall.stranger()
    guest.says(wire.HELLO, {"version": 1, "token": "wrong"}, 1)
    with hall.turn():
        guest.session.link = None
        hall.engine.leave(guest.session)
    with hall.turn():
        doorkeeper.later[0]()
    assert guest.take_messages() == []


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        ({"token": 5}, "bad_request"),
        ({"token": b"admin"}, "bad_request"),
        ({"person": 5}, "bad_request"),
        ({"person": "x" * 201}, "too_large"),
        ({"person": "ü" * 101}, "too_large"),
        ({"address": 5}, "bad_request"),
        ({"address": "1" * 65}, "too_large"),
    ],
)
def test_a_hello_that_cannot_be_read_is_refused(hall: NativeHall, hello: dict[str, Any], code: str) -> None:
    guest = hall.stranger()
    assert guest.asks(wire.HELLO, {"version": 1, **hello}) == code
    assert guest.asks(wire.HELLO, {"version": 1, "token": "viewer"})["role"] == "viewer"


def test_a_peer_is_known_to_have_left(hall: NativeHall, doorkeeper: Doorkeeper) -> None:
    guest = hall.guest(token="viewer")
    assert doorkeeper.inside == ["viewer"]
    with hall.turn():
        guest.session.link = None
        hall.engine.leave(guest.session)
    assert doorkeeper.inside == []


def test_a_peer_that_is_expelled_is_told_why_and_its_job_goes_back(hall: NativeHall) -> None:
    worker = hall.guest(token="operator")
    worker.works()
    worker.submits(b"k")
    hall.settle()
    assert [said for said, _, _ in worker.hears()].count(wire.ASSIGN) <= 1
    with hall.turn():
        worker.session.expel("unauthorized", "the token was revoked")  # type: ignore[attr-defined]
    hall.settle()
    assert (wire.ERROR, 0, ["unauthorized", "the token was revoked"]) in worker.hears()
    assert worker.closed


# --- what is noted


def submitted(guest: NativeGuest, queue: bytes = b"resize") -> int:
    """The id of a new job."""
    guest.submits(b"k", queue=queue)
    guest.hall.settle()
    (job_id,) = guest.hall.scheduler.jobs
    return job_id


def test_a_change_by_a_token_is_noted_with_its_outcome(hall: NativeHall, trail: Trail) -> None:
    guest = hall.guest(token="operator")
    job_id = submitted(guest)
    assert trail.entries == []
    guest.says_numbered(wire.CANCEL, (job_id, b"why"))
    (entry,) = trail.entries
    at = entry.pop("at")
    assert at.endswith("+00:00")
    assert entry == {
        "who": "some operator",
        "role": "operator",
        "from": "127.0.0.1",
        "what": "cancel",
        "job": str(job_id),
        "queue": "resize",
        "outcome": "ok",
    }


def test_a_person_without_a_token_is_named(hall: NativeHall, trail: Trail) -> None:
    guest = hall.guest(person="anna")
    guest.says_numbered(wire.PAUSE, (b"\xff\x00q",))
    guest.says(wire.RESUME, (b"q",), 0)
    guest.asks(wire.RETRY, (5,))
    assert [(e["who"], e["role"], e["what"], e["outcome"]) for e in trail.entries] == [
        ("anna", "admin", "pause", "ok"),
        ("anna", "admin", "resume", "ok"),
        ("anna", "admin", "retry", "unknown_job"),
    ]
    assert trail.entries[0]["queue"] == "\\xff\x00q"


def test_a_peer_that_says_where_its_person_is_stands_beside_that(hall: NativeHall, trail: Trail) -> None:
    web = hall.stranger()
    web.asks(wire.HELLO, {"version": 1, "person": "anna", "address": "192.0.2.7"})
    web.says_numbered(wire.PAUSE, (b"q",))
    hall.guest(person="anna").says_numbered(wire.PAUSE, (b"q",))
    stated, own = trail.entries
    assert (stated["from"], stated["through"]) == ("192.0.2.7", own["from"])
    assert "through" not in own


def test_a_token_with_a_person_has_both_names(hall: NativeHall, trail: Trail) -> None:
    hall.guest(token="admin", person="anna").says_numbered(wire.PAUSE, (b"q",))
    assert (trail.entries[0]["who"], trail.entries[0]["person"]) == ("some admin", "anna")


def test_programs_on_this_machine_that_name_nobody_are_not_noted(hall: NativeHall, trail: Trail) -> None:
    hall.guest().says_numbered(wire.PAUSE, (b"q",))
    hall.guest(person="").says_numbered(wire.RESUME, (b"q",))
    assert trail.entries == []


def test_what_was_forbidden_or_not_understood_is_noted_too(hall: NativeHall, trail: Trail) -> None:
    guest = hall.guest(token="viewer")
    guest.asks(wire.PAUSE, (b"q",))
    admin = hall.guest(token="admin")
    admin.asks(wire.PAUSE, None)
    admin.asks(wire.PAUSE, [])
    admin.asks(wire.CANCEL, {"name": "x" * 500})
    admin.asks(wire.SCHEDULE, {"name": "nightly"})
    noted = [(e["what"], e["outcome"]) for e in trail.entries]
    assert noted == [
        ("pause", "forbidden"),
        ("pause", "bad_request"),
        ("pause", "bad_request"),
        ("cancel", "bad_request"),
        ("schedule", "bad_request"),
    ]
    assert len(trail.entries[3]["job"]) == 200
    assert trail.entries[4]["schedule"] == "nightly"


def test_an_answer_with_more_behind_it_disturbs_nothing(hall: NativeHall, trail: Trail) -> None:
    guest = hall.guest(token="admin")
    job_id = submitted(guest)
    number = guest.number + 1
    guest.say_bytes(wire.encode(wire.CANCEL, number, (job_id, b"")), wire.encode(wire.WATCH, 99, (job_id, 1)))
    guest.hears()
    hall.settle()
    assert [e["outcome"] for e in trail.entries] == ["ok"]


def test_the_latest_entries_are_told_to_an_admin(hall: NativeHall) -> None:
    admin = hall.guest(token="admin")
    for queue in (b"a", b"b"):
        admin.says_numbered(wire.PAUSE, (queue,))
    hall.settle()
    admin.hears()
    assert [entry["queue"] for entry in admin.asks(wire.AUDIT, (1,))] == ["b"]
    assert [entry["queue"] for entry in admin.asks(wire.AUDIT, (1000,))] == ["b", "a"]
    assert NativeHall().guest().asks(wire.AUDIT, (10,)) == []
