"""The tap for peers of the simulator's own dialect. Each request is answered once, in the order of asking."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from . import retrylaws
from .owndialect import TERMS, Lines, bytes_of
from .sights import Submit
from .taps import Tap
from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Session

    from .laws import Laws


class OwnTap(Tap):
    """A peer of the simulator's own dialect."""

    def __init__(self, number: int, session: Session, laws: Laws) -> None:
        super().__init__(number, session, laws)
        self._requests = Lines()
        self._responses = Lines()
        self._pending: deque[tuple[str, Submit | None, int]] = deque()
        """What is to be answered, with the time at which it was asked."""

    @property
    def asks_for_a_job(self) -> bool:
        return any(verb == "take" for verb, _, _ in self._pending)

    def heard(self, data: bytes) -> None:
        super().heard(data)
        for request in self._requests.feed(data):
            self.note(f"-> {request}")
            submit = None
            if request["do"] == "submit":
                submit = self._submit(request)
                self.laws.submitted(submit)
            else:
                self._asked(request["do"], request)
            self._pending.append((request["do"], submit, self.laws.now_us))

    def _asked(self, verb: str, request: dict[str, Any]) -> None:
        laws = self.laws
        if verb == "can_do":
            self.can_do(request["queue"].encode(), request.get("run_us", 0))
        elif verb == "cant_do":
            self.abilities.pop(request["queue"].encode(), None)
        elif verb == "take":
            self.awake()
        elif verb == "sleep":
            self.sleeps()
        elif verb == "expect":
            self.silence_us = request["silence_us"]
        elif verb == "finish":
            laws.finished(self, request["id"], request["result"].encode())
        elif verb == "fail":
            laws.failed(self, request["id"])
        elif verb == "release":
            laws.released(self, request["id"])
        elif verb == "cancel":
            laws.cancelling(request["id"])
        elif verb == "retry":
            retrylaws.retrying(laws, request["id"])
        elif verb == "pause":
            laws.pauses.pausing(request["queue"].encode(), laws.now_us)
        elif verb == "resume":
            laws.pauses.resuming(request["queue"].encode(), laws.now_us)
        elif verb == "watch":
            laws.see(request["id"]).watchers.append(self)
        elif verb == "unwatch":
            self.unwatched[request["id"]] = None

    def _submit(self, request: dict[str, Any]) -> Submit:
        parents: tuple[ParentRef, ...] = tuple(
            ref if isinstance(ref, int) else (ref[0].encode(), ref[1].encode())
            for ref in request.get("parents", ())
        )
        terms = {name: request[name] for name in TERMS if name in request}
        return Submit(
            self,
            request["queue"].encode(),
            request.get("key", "").encode(),
            request["payload"].encode(),
            watched=request.get("watched", False),
            due_us=request.get("due_us", 0),
            parents=parents,
            **terms,
        )

    def said(self, data: bytes) -> None:
        for told in self._responses.feed(data):
            self.note(f"<- {told}")
            notice = told.get("notice")
            if notice is None:
                self._answered(told)
            elif notice == "assigned":
                self._assigned(told["assigned"])
            elif notice == "ended":
                self.laws.told_end(self, told["id"], told["state"], bytes_of(told["result"]))
            elif notice == "woken":
                self.awake(self.laws.now_us)
            elif notice == "lost":
                self.silence_us = 0
                self.abilities.clear()
                self.awake()
                self.laws.lost(self)

    def _answered(self, told: dict[str, Any]) -> None:
        if not self._pending:
            raise Violation("order", f"c{self.number} is told {told} and asked for nothing")
        _, submit, asked_us = self._pending.popleft()
        if "refused" in told:
            return
        if submit is not None:
            self.laws.created(submit, told["created"])
        elif "assigned" in told:
            self._assigned(told["assigned"])
        elif "watching" in told:
            self.laws.watching(self, told["watching"])
        elif "cancelled" in told:
            self.laws.cancelled(told["cancelled"])
        elif "paused" in told:
            self.laws.pauses.paused(told["paused"].encode(), asked_us, self.laws.now_us)
        elif "resumed" in told:
            self.laws.pauses.resumed(told["resumed"].encode())
        elif "retried" in told:
            retrylaws.retried(self.laws, told["retried"])

    def _assigned(self, assigned: dict[str, Any]) -> None:
        self.laws.assigned(self, assigned["id"], assigned["queue"].encode(), bytes_of(assigned["payload"]))
