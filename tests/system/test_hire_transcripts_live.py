"""The dialogues of the protocol once more, between real sockets and a real hall."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hall_process import wait_until
from hire_house import BusPeer, GearmanLink, HireHouse, LineLink
from testimony import audit, job_id

# The transcripts are those of the dialect's own tests.
sys.path.append(str(Path(__file__).parents[1] / "dialects" / "hire"))

from hire_script import SCRIPTS, Script, Step

from hiringhall.core.states import STATE_NAMES

WINDOW_S = 0.4
"""For bids, on a machine that may be busy with something else."""


class Play:
    """One transcript between a hall and its peers."""

    def __init__(self, hall: HireHouse, script: Script, stack: ExitStack, *, bus: bool) -> None:
        self.hall = hall
        self.script = script
        self.stack = stack
        self.bus = stack.enter_context(BusPeer(hall.publish, hall.subscribe)) if bus else None
        self.links: dict[str, LineLink] = {}
        self.client = GearmanLink(hall.address)
        stack.callback(self.client.close)
        self.workers: dict[str, GearmanLink] = {}
        self.handles: dict[str, bytes] = {}

    def run(self) -> None:
        for step in self.script.steps:
            if not step.verb:
                self.do(step.words)
                continue
            text = step.text(compact=False)
            if step.acts:
                self.says(step, text)
            else:
                self.hears(step, text)
        if self.bus is not None:
            self.bus.check_silence()
        for link in self.links.values():
            link.check_silence()

    def says(self, step: Step, text: bytes) -> None:
        if self.bus is not None:
            self.bus.say(text)
            if step.to != "nobody" or "miller" in step.fields or step.verb == "PERFORM":
                assert self.bus.hear() == text
        else:
            self.links[step.speaker].say(text)
            if step.to not in ("hall", "nobody"):
                self.hears(step, text)

    def hears(self, step: Step, text: bytes) -> None:
        if self.bus is not None:
            assert self.bus.hear() == text
            return
        for name, link in self.links.items():
            if name == step.to or (step.to == "all" and name != step.speaker):
                assert link.hear() == text + b"\n"

    def do(self, words: list[str]) -> None:
        match words:
            case [name, "comes"]:
                if self.bus is None:
                    link = self.links[name] = self.stack.enter_context(LineLink(self.hall.lines))
                    link.check_silence()
            case [name, "goes"]:
                self.links.pop(name).close()
            case [name, "works", function]:
                worker = self.workers[name] = GearmanLink(self.hall.address)
                self.stack.callback(worker.close)
                worker.works(function.encode())
                self.hall.wait_for_workers(function)
            case [name, "takes" | "completes" | "fails" as deed]:
                getattr(self.workers[name], deed)()
            case ["job", number, queue]:
                self.handles[number] = self.client.submits(unquote_to_bytes(queue))
            case ["cancel", number]:
                assert self.hall.admin(f"cancel job {self.handles[number].decode()}") == ["OK"]
            case ["job", number, "is", "done" | "cancelled" as state]:
                wanted = (job_id(self.handles[number]), STATE_NAMES.index(state))
                wait_until(
                    lambda: wanted in [(row.id, row.state) for row in self.hall.history()],
                    f"the job is {state}",
                )
            case ["wait", _] | ["job", _, "is", _] | ["job", _, "lost", _, "workers"] | ["ended", _]:
                """What comes later is waited for when it is to be heard; how it is kept the room has seen."""
            case _:
                raise AssertionError(words)


@pytest.mark.parametrize(
    ("bus", "script"),
    [
        pytest.param(bus, script, id=f"{'bus' if bus else 'tcp'}: {script.title}")
        for script in SCRIPTS
        for bus in (False, True)
        if script.place in ("", "bus" if bus else "tcp")
    ],
)
def test_every_dialogue_is_said_between_real_sockets(script: Script, bus: bool, tmp_path: Path) -> None:
    settings = {**script.settings, "window_s": WINDOW_S}
    with HireHouse(tmp_path, settings) as hall, ExitStack() as stack:
        Play(hall, script, stack, bus=bus).run()
        assert audit(hall) == "clean"
        assert "Traceback" not in hall.errors(), hall.errors()
