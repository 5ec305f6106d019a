"""Every dialogue of the protocol, byte for byte: on connections and on a bus, long and compact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote_to_bytes

import pytest
from hire_script import SCRIPTS, Script, Step, options_of, rules_of
from hire_strangers import GearmanWorker

from hiringhall.core.states import STATE_NAMES
from hiringhall.core.terms import Terms
from stage.hall import SECOND_US
from stage.hire import Bus, HireGuest, HireHall

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job


class Stage(Protocol):
    """A way in which peers speak and hear."""

    def comes(self, name: str) -> None: ...

    def goes(self, name: str) -> None: ...

    def says(self, name: str, text: bytes) -> None: ...

    def expects(self, step: Step, text: bytes) -> None: ...

    def check(self) -> None:
        """What was heard is what was expected, and nothing else."""


class Connections:
    """Each has one of its own."""

    def __init__(self, hall: HireHall, script: Script, *, compact: bool) -> None:
        options = options_of(script.settings, bus=False, compact=compact)
        self._hall = hall
        self._door = hall.door(options, rules_of(script.settings))
        self._guests: dict[str, HireGuest] = {}
        self._expected: dict[str, list[bytes]] = {}

    def comes(self, name: str) -> None:
        self._guests[name] = self._hall.guest(self._door)

    def goes(self, name: str) -> None:
        self._guests.pop(name).leaves()

    def says(self, name: str, text: bytes) -> None:
        self._guests[name].says(text)

    def expects(self, step: Step, text: bytes) -> None:
        listeners = [name for name in self._guests if name != step.speaker] if step.to == "all" else [step.to]
        for name in listeners:
            self._expected.setdefault(name, []).append(text + b"\n")

    def check(self) -> None:
        heard = {name: guest.reads() for name, guest in self._guests.items()}
        expected = {name: b"".join(self._expected.pop(name, [])) for name in self._guests}
        assert heard == expected


class Everybody:
    """All speak on one bus, and hear each other and themselves."""

    def __init__(self, hall: HireHall, script: Script, *, compact: bool) -> None:
        options = options_of(script.settings, bus=True, compact=compact)
        self._bus = Bus(hall, hall.door(options, rules_of(script.settings)))
        self._expected: list[str] = []

    def comes(self, name: str) -> None:
        """Nobody notices."""

    def goes(self, name: str) -> None:
        raise AssertionError(f"nobody notices that {name} goes")

    def says(self, name: str, text: bytes) -> None:
        del name
        self._bus.says(text)

    def expects(self, step: Step, text: bytes) -> None:
        del step
        self._expected.append(text.decode())

    def check(self) -> None:
        assert self._bus.hears() == self._expected
        self._expected = []


class Play:
    """One transcript, played."""

    def __init__(self, script: Script, *, bus: bool, compact: bool) -> None:
        self.hall = HireHall()
        self.stage: Stage = (Everybody if bus else Connections)(self.hall, script, compact=compact)
        self.bus = bus
        self.compact = compact
        self.script = script
        self.jobs: dict[str, Job] = {}
        self.workers: dict[str, GearmanWorker] = {}
        self.before = {"done": 0, "failed": 0, "cancelled": 0}
        """How many jobs had ended before the latest word."""

    def run(self) -> None:
        for step in self.script.steps:
            if step.acts:
                self.stage.check()
            if step.acts and step.words[0] != "ended":
                counters = self.hall.scheduler.counters
                self.before = {
                    "done": counters.done,
                    "failed": counters.failed,
                    "cancelled": counters.cancelled,
                }
            text = step.text(compact=self.compact) if step.verb else b""
            if not step.verb:
                self.do(step.words)
            elif step.acts:
                self.stage.says(step.speaker, text)
                self._expect_said(step, text)
            else:
                self.stage.expects(step, text)
        self.stage.check()

    def _expect_said(self, step: Step, text: bytes) -> None:
        """On a bus all hear it, also what is for the hall only; not what the hall would not pass on."""
        unheard = step.to == "nobody" and "miller" not in step.fields and step.verb != "PERFORM"
        if self.bus:
            if not unheard:
                self.stage.expects(step, text)
        elif step.to not in ("hall", "nobody"):
            self.stage.expects(step, text)

    def ends(self) -> list[str]:
        """How the latest job of a provider ended, if one has."""
        counters = self.hall.scheduler.counters
        now = {"done": counters.done, "failed": counters.failed, "cancelled": counters.cancelled}
        return [state for state, count in now.items() if count > self.before[state]]

    def do(self, words: list[str]) -> None:
        match words:
            case [name, "comes"]:
                self.stage.comes(name)
            case [name, "goes"]:
                self.stage.goes(name)
            case [name, "works", function]:
                self.workers[name] = GearmanWorker(self.hall, function.encode())
            case [name, "takes" | "completes" | "fails" as deed]:
                getattr(self.workers[name], deed)()
            case ["job", number, queue]:
                self.jobs[number] = self.hall.submits(unquote_to_bytes(queue), Terms(detached=True))
            case ["job", number, queue, "due", seconds]:
                due_us = self.hall.scheduler.now_us + int(seconds) * SECOND_US
                self.jobs[number] = self.hall.submits(queue.encode(), Terms(detached=True), due_us)
            case ["wait", seconds]:
                self.hall.wait_s(float(seconds))
            case ["cancel", number]:
                self.hall.scheduler.cancel(self.jobs[number])
            case ["job", number, "is", state]:
                assert STATE_NAMES[self.jobs[number].state] == state
            case ["job", number, "lost", losses, "workers"]:
                assert self.jobs[number].losses == int(losses)
            case ["ended", state]:
                assert self.ends() == [state]
            case _:
                raise AssertionError(words)


@pytest.mark.parametrize("compact", [False, True], ids=["long", "compact"])
@pytest.mark.parametrize(
    ("bus", "script"),
    [
        pytest.param(bus, script, id=f"{'bus' if bus else 'tcp'}: {script.title}")
        for script in SCRIPTS
        for bus in (False, True)
        if script.place in ("", "memory", "bus" if bus else "tcp")
    ],
)
def test_every_dialogue_is_said_byte_for_byte(script: Script, bus: bool, compact: bool) -> None:
    Play(script, bus=bus, compact=compact).run()
