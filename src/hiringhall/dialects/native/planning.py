"""Schedules at the native door: listed, added, removed, paused and run. They are kept by the hall; see
`Schedules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, WRONG_STATE, Refusal
from hiringhall.core.needs import TIME_US_MAX
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.fields import Fields, text_of
from hiringhall.dialects.native.terms import DEFAULTS, TermsCache

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.terms import Terms
    from hiringhall.dialects.hall import Schedules
    from hiringhall.dialects.native.services import HallServices
    from hiringhall.dialects.session import Session

UNDER_WAY_MAX: Final = 100
"""Requests of one connection about schedules that may be under way at once."""
MISSED: Final = ("latest", "all", "skip")


class Planning:
    """The requests of one connection about schedules."""

    __slots__ = ("_services", "_session", "_under_way")

    def __init__(self, session: Session, services: HallServices) -> None:
        self._session = session
        self._services = services
        self._under_way = 0

    def describe(self, number: int, body: Raw) -> None:
        # nil, or [1000, 1000]
        page = wire.decode(wire.SCHEDULES_BODY, body)
        position, count = page if page is not None else (0, wire.LIST_MAX)
        self._schedules().describe(position, min(count, wire.LIST_MAX), PlanAnswer(self, number).listed)
        self._under_way += 1

    def add(self, number: int, body: Raw) -> None:
        # {"name": "nightly", "queue": "report", "payload": "[]", "cron": "0 3 * * *", "terms": {"retries": 3}}
        fields = Fields(body)
        stated: dict[str, Any] = {
            "name": fields.text("name"),
            "queue": fields.text("queue"),
            "payload": fields.text("payload"),
            "key": fields.text("key"),
            "cron": fields.text("cron"),
            "every_us": fields.number("every_us", 1, TIME_US_MAX),
            "timezone": fields.text("timezone"),
            "missed": fields.word("missed", MISSED),
            "late_us": fields.number("late_us", 0, TIME_US_MAX),
        }
        terms, names = _terms(fields.raw("terms"))
        replace = fields.flag("replace")
        fields.end()
        for name in ("name", "queue"):
            if not stated[name]:
                raise Refusal(BAD_REQUEST, f"{name}: is missing")
        given = {name: value for name, value in stated.items() if value is not None} | names
        self._schedules().add(given, terms, replace, PlanAnswer(self, number).done)
        self._under_way += 1

    def remove(self, number: int, body: Raw) -> None:
        # ["nightly"]
        self._schedules().remove(_name(body), PlanAnswer(self, number).done)
        self._under_way += 1

    def pause(self, number: int, body: Raw) -> None:
        # ["nightly"]
        self._schedules().pause(_name(body), PlanAnswer(self, number).done)
        self._under_way += 1

    def resume(self, number: int, body: Raw) -> None:
        # ["nightly"]
        self._schedules().resume(_name(body), PlanAnswer(self, number).done)
        self._under_way += 1

    def run(self, number: int, body: Raw) -> None:
        # ["nightly"]
        job = self._schedules().run(_name(body))
        if number:
            self._session.acknowledge(job, wire.encode(wire.OK, number, job.id))

    def _schedules(self) -> Schedules:
        """For one more request. What they accept is under way until its answer."""
        schedules = self._services.schedules
        if schedules is None:
            raise Refusal(WRONG_STATE, "this hall keeps no schedules")
        if self._under_way >= UNDER_WAY_MAX:
            raise Refusal(
                HALL_FULL, f"{UNDER_WAY_MAX} requests of this connection about schedules are under way"
            )
        return schedules

    def answer(self, number: int, body: Any, refusal: Refusal | None) -> None:
        """A request is done."""
        self._under_way -= 1
        session = self._session
        if session.link is None:
            return
        if refusal is not None:
            session.send(wire.encode(wire.ERROR, number, (refusal.reason, refusal.text)))
        elif number:
            session.send(wire.encode(wire.OK, number, body))


class PlanAnswer:
    """The answer to one request."""

    __slots__ = ("_number", "_planning")

    def __init__(self, planning: Planning, number: int) -> None:
        self._planning = planning
        self._number = number

    def done(self, refusal: Refusal | None) -> None:
        self._planning.answer(self._number, None, refusal)

    def listed(self, found: list[dict[str, Any]], refusal: Refusal | None) -> None:
        self._planning.answer(self._number, found, refusal)


def _name(body: Raw) -> str:
    return text_of("name", wire.decode(wire.NAME_BODY, body)[0])


def _terms(data: bytes | None) -> tuple[Terms, dict[str, str]]:
    """The terms of the jobs of a schedule, which are durable, and what else it states of them: the names that
    limits go by, and resources.
    """
    if data is None:
        return DEFAULTS, {}
    stated = TermsCache().get(data)
    extras = stated.extras or {}
    if stated.flow or stated.spacing is not None:
        raise Refusal(BAD_REQUEST, "terms: jobs of a schedule have no flow, debounce or throttle")
    if not stated.terms.durable:
        raise Refusal(BAD_REQUEST, "terms: durable must be true, since the jobs of a schedule are durable")
    names: dict[str, str] = {}
    for name, value in extras.items():
        try:
            names[name] = value.decode()
        except UnicodeDecodeError as error:
            raise Refusal(BAD_REQUEST, f"terms: {name} of a schedule must be UTF-8 text") from error
    return stated.terms, names
