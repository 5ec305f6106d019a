"""The changes that one connection makes, for the audit log. Only a peer that said who it is has one.

Invariant: each such request is noted once: with its outcome when it is answered, or as unanswered when the
connection ends before.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw
from msgspec.msgpack import Decoder

from hiringhall.core.errors import BAD_REQUEST, Refusal
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.roles import role_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.hall import AuditTrail
    from hiringhall.dialects.native.session import NativeSession

AUDITED: Final[dict[str, str]] = {
    wire.CANCEL: "job",
    wire.RETRY: "job",
    wire.PAUSE: "queue",
    wire.RESUME: "queue",
    wire.LIMIT: "queue",
    wire.UNLIMIT: "queue",
    wire.SCHEDULE: "schedule",
    wire.UNSCHEDULE: "schedule",
    wire.DRAIN: "worker",
    wire.UNDRAIN: "worker",
    wire.PAUSE_SCHEDULE: "schedule",
    wire.RESUME_SCHEDULE: "schedule",
    wire.RUN_SCHEDULE: "schedule",
    wire.CANCEL_FLOW: "flow",
    wire.RETRY_FLOW: "flow",
}
"""The requests that change something on behalf of people, and what each names. Submits and what workers report
are in the history.
"""
PERSON_BYTES_MAX: Final = 200
ADDRESS_BYTES_MAX: Final = 64
NAME_CHARACTERS_MAX: Final = 200
RULES_CHARACTERS_MAX: Final = 1000
OK: Final = "ok"
UNANSWERED: Final = "unanswered"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = Decoder(list[Raw])
_FIELDS: Final = Decoder(dict[str, Raw])
_NUMBER_OR_TEXT: Final = Decoder(int | str)
_BYTES: Final = Decoder(bytes)
_ERROR: Final = Decoder(tuple[str, str])
_RULE: Final = Decoder(bool | int | float | dict[bytes, int])


class Audits:
    """The noted requests of one connection."""

    __slots__ = ("_address", "_person", "_scheduler", "_session", "_trail", "_waiting")

    def __init__(
        self, session: NativeSession, trail: AuditTrail, scheduler: Scheduler, person: str, address: str
    ) -> None:
        self._session = session
        self._trail = trail
        self._scheduler = scheduler
        self._person = person
        self._address = address
        """Where the person is, as the peer says; empty: where the peer is."""
        self._waiting: dict[int, dict[str, Any]] = {}
        """Requests that are not answered yet, by number."""

    def perform(self, kind: str, number: int, body: Raw, handler: Callable[[int, Raw], None]) -> None:
        """Handle a request, and note it. Raises as the handler does."""
        entry = self._entry(kind, body)
        if number:
            self._waiting[number] = entry
        try:
            self._session.require_role(kind)
            handler(number, body)
        except Refusal as refusal:
            self._close(number, entry, refusal.reason)
            raise
        except wire.BadBody:
            self._close(number, entry, BAD_REQUEST)
            raise
        if not number:
            # Only an error is answered, and it would have been raised here.
            self._note(entry, OK)

    def hear(self, data: bytes) -> None:
        """Something goes out; it may be an answer to one of these requests."""
        if not self._waiting:
            return
        # More frames may follow: the answer is the first.
        end = wire.HEADER_BYTES + int.from_bytes(data[: wire.HEADER_BYTES], "big")
        kind, number, body = wire.decode_frame(data[wire.HEADER_BYTES : end])
        if kind in (wire.OK, wire.ERROR) and number in self._waiting:
            outcome = wire.decode(_ERROR, body)[0] if kind == wire.ERROR else OK
            self._close(number, self._waiting[number], outcome)

    def close(self) -> None:
        """The connection has ended."""
        for entry in self._waiting.values():
            self._note(entry, UNANSWERED)
        self._waiting.clear()

    def _close(self, number: int, entry: dict[str, Any], outcome: str) -> None:
        self._waiting.pop(number, None)
        self._note(entry, outcome)

    def _note(self, entry: dict[str, Any], outcome: str) -> None:
        entry["outcome"] = outcome
        self._trail.note(entry)

    def _entry(self, kind: str, body: Raw) -> dict[str, Any]:
        session = self._session
        actor = session.actor
        entry: dict[str, Any] = {
            "at": (_EPOCH + timedelta(microseconds=self._scheduler.now_us)).isoformat(timespec="microseconds"),
            "who": actor.name if actor.key else self._person,
            "role": role_name(actor.role),
            "from": self._address or session.caller.address,
            "what": kind,
        }
        if self._address:
            entry["through"] = session.caller.address
        if actor.key and self._person:
            entry["person"] = self._person
        named = _named(body)
        if named is not None:
            entry[AUDITED[kind]] = str(named)[:NAME_CHARACTERS_MAX]
        if kind == wire.LIMIT:
            entry["rules"] = _rules(body)
        if isinstance(named, int) and AUDITED[kind] == "job":
            job = self._scheduler.find(named)
            if job is not None:
                entry["queue"] = _text(job.queue.name)[:NAME_CHARACTERS_MAX]
        return entry


def _named(body: Raw) -> int | str | None:
    """What a request is about: its first element, or its field `name`; None: it cannot be read."""
    name: Raw | None
    try:
        try:
            name = wire.decode(_FIRST, body)[0]
        except wire.BadBody:
            name = wire.decode(_FIELDS, body).get("name")
        return _read(name) if name is not None else None
    except (wire.BadBody, IndexError):
        return None


def _rules(body: Raw) -> str:
    """The rules that a request states, as a text; empty: it cannot be read."""
    stated: list[str] = []
    try:
        for name, value in wire.decode(_FIELDS, body).items():
            if name != "name":
                stated.append(f"{name}={_rule(wire.decode(_RULE, value))}")
    except wire.BadBody:
        return ""
    return ", ".join(stated)[:RULES_CHARACTERS_MAX]


def _rule(value: bool | int | float | dict[bytes, int]) -> str:
    if isinstance(value, dict):
        return " ".join([f"{_text(tenant)}:{weight}" for tenant, weight in value.items()])
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _read(name: Raw) -> int | str:
    try:
        read: int | str = wire.decode(_NUMBER_OR_TEXT, name)
    except wire.BadBody:
        return _text(wire.decode(_BYTES, name))
    return read


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def stated_text(hello: dict[str, Raw], name: str) -> str | None:
    """A text in the map of hello; None: it was left out. Raises Refusal."""
    value = hello.get(name)
    if value is None:
        return None
    try:
        return wire.decode(wire.TEXT_BODY, value)
    except wire.BadBody as error:
        raise Refusal(BAD_REQUEST, f"{name}: must be a text (str)") from error
