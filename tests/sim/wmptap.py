"""The tap for paths to WMP workers, and the hands that hold what was given away along them.

A job's name in TAKE begins with its id. Whoever names it speaks for the one who has it, by whatever path.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.context import LeaseHolder

from .taps import Holder, Tap
from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease
    from hiringhall.dialects.session import Session
    from hiringhall.dialects.wmp.context import WmpOptions

    from .laws import Laws


class HandHolder(Holder):
    """Whoever has the job that one TAKE gave."""

    def __init__(self, path: PathTap, name: bytes, role: bytes, lease_us: int) -> None:
        super().__init__(path.number, path.laws)
        self.able = path.able
        self.name = name
        self.role = role
        self.job_id = int(name.partition(b"-")[0])
        self.silence_us = lease_us

    def has(self, lease: Lease) -> bool:
        hand = lease.worker.peer
        return isinstance(hand, LeaseHolder) and hand.name == self.name


class PathTap(Tap):
    """One path."""

    def __init__(self, number: int, session: Session, laws: Laws, options: WmpOptions, wake_us: int) -> None:
        super().__init__(number, session, laws)
        self._options = options
        self._wake_us = wake_us
        self.wake_step_us = options.wake_step_us
        self._gives: deque[tuple[bytes, dict[bytes, int]]] = deque()
        """Roles that it asked a job of and has not been answered, with the rests it had then."""
        self._gives_before_ready = 0
        """How many of those came before its latest READY."""
        self.woken_for = b""
        self._declines: dict[bytes, int] = {}
        """How often it declined in a row, by role."""
        self._rests_until_us: dict[bytes, int] = {}
        """When it may be asked again, by role."""

    @property
    def waking(self) -> bool:
        """A WAKE is not yet answered, and may still be."""
        return self.woken_us > 0 and self.woken_us + self._wake_us > self.laws.now_us and not self._silent

    @property
    def _silent(self) -> bool:
        return self.heard_us + self._options.expire_us <= self.laws.now_us

    def _forget_if_silent(self) -> None:
        if self._silent:
            self.abilities.clear()
            self.awake()
            self._declines.clear()
            self._rests_until_us.clear()

    def heard(self, data: bytes) -> None:
        self._forget_if_silent()
        self.note(f"-> {data[:90]!r}")
        try:
            message = wire.parse_body(data)
        except wire.BadMessage:
            return  # there is no word for that, and it is no sign of life
        if message.command == wire.TAKE or (message.command == wire.READY and not message.every(b"role")):
            return
        super().heard(data)
        if message.command == wire.READY:
            self._ready(message)
        elif message.command == wire.GIVE:
            self._gives.append((message.first(b"role"), dict(self._rests_until_us)))
            self.awake()
        elif message.first(b"manager") == self._options.manager:
            hand = self.laws.hands.get(message.first(b"job"))
            if hand is not None and message.command == wire.DONE:
                self._done(hand, message)
            elif hand is not None:
                hand.heard_us = self.laws.now_us

    def _ready(self, message: wire.Message) -> None:
        if self.stands_for_a_job(self._wake_us) and not self._silent:
            return
        roles = message.every(b"role")
        self.abilities = dict.fromkeys(roles, 0)
        for role in [role for role in self._declines if role not in self.abilities]:
            del self._declines[role]
        for role in roles:
            self.able[role] = 0
        self.sleeps()
        self._gives_before_ready = len(self._gives)

    def _done(self, hand: HandHolder, message: wire.Message) -> None:
        laws = self.laws
        del laws.hands[hand.name]
        status = message.first(b"status") or b"ok"
        job = laws.scheduler.find(hand.job_id)
        # A report is ignored if the job was taken away before, perhaps in this turn.
        counts = job is not None and job.lease is not None and hand.has(job.lease)
        if counts and status == b"declined":
            self._rest(hand.role)
        elif counts:
            self._declines.pop(hand.role, None)
        if status == b"ok":
            laws.finished(hand, hand.job_id, message.payload)
        elif status == b"failed":
            laws.failed(hand, hand.job_id)
        else:
            laws.released(hand, hand.job_id)

    def _rest(self, role: bytes) -> None:
        """Who declines one job after the other is asked less and less often. It stands for no other job of the
        role either, if it was woken for one.
        """
        queue = self.laws.scheduler.queues.get(role)
        if queue is not None and self.session.worker in queue.workers:
            declines = self._declines.get(role, 0)
            self._declines[role] = declines + 1
            self._rests_until_us[role] = self.laws.now_us + (self._options.decline_us << declines)
            if self.waking and self.woken_for == role:
                self.awake()

    def _check_rest(self, role: bytes, rests_until_us: dict[bytes, int]) -> None:
        if rests_until_us.get(role, 0) > self.laws.now_us:
            raise Violation(
                "rest", f"c{self.number} has declined a job of {role!r}, and is asked again too soon"
            )

    def said(self, data: bytes) -> None:
        self.note(f"<- {data[:90]!r}")
        message = wire.parse_body(data)
        if message.first(b"manager") != self._options.manager:
            raise Violation("identity", f"c{self.number} is not told who its manager is")
        command = message.command
        if command == wire.WAKE:
            self._woken(message.first(b"role"))
        elif command == wire.TAKE:
            ready_since = self._gives_before_ready > 0
            rests_until_us = self._answered(message.first(b"role"))
            self._check_rest(message.first(b"role"), rests_until_us)
            if not ready_since:
                # The GIVE came after what was answered before: it is up again, whatever that said.
                self.awake()
            self._given(message)
        elif command == wire.NO:
            self._answered(message.first(b"role"))
            if self.abilities:
                self.sleeps()
        elif command == wire.CANCEL:
            self._cancelled(message.first(b"job"))
        else:
            raise Violation("wire", f"c{self.number} is told {command!r}, which is a worker's word")

    def _woken(self, role: bytes) -> None:
        self._forget_if_silent()
        if self.waking:
            raise Violation("doubled", f"c{self.number} is woken and has not answered for another time")
        if not self.asleep:
            raise Violation("ready", f"c{self.number} is woken and is not ready")
        if role not in self.abilities:
            raise Violation("ability", f"c{self.number} is woken for {role!r}, which it cannot do")
        self._check_rest(role, self._rests_until_us)
        self.awake(self.laws.now_us)
        self.woken_for = role
        self.laws.woken_now[role] = None

    def _answered(self, role: bytes) -> dict[bytes, int]:
        if not self._gives:
            raise Violation("order", f"c{self.number} is told TAKE or NO and said no GIVE")
        wanted, rests_until_us = self._gives.popleft()
        self._gives_before_ready = max(self._gives_before_ready - 1, 0)
        if wanted and wanted != role:
            raise Violation("order", f"c{self.number} asked for {wanted!r} and is told of {role!r}")
        return rests_until_us

    def _given(self, message: wire.Message) -> None:
        name = message.first(b"job")
        hand = HandHolder(self, name, message.first(b"role"), self._options.lease_us)
        if name in self.laws.hands:
            raise Violation("identity", f"{name!r} is given a second time")
        self.laws.hands[name] = hand
        self.laws.assigned(hand, hand.job_id, message.first(b"role"), message.payload)

    def _cancelled(self, name: bytes) -> None:
        """Who is told to stop has not got the job any more."""
        hand = self.laws.hands.get(name)
        sight = self.laws.sights.get(hand.job_id) if hand is not None else None
        holding = sight.holding if sight is not None else None
        if holding is not None and holding.tap is hand and not holding.doubtful:
            raise Violation("cancel", f"c{self.number} is to stop {name!r} and has it")
