"""A hall that gets SIGTERM while many REQ sockets ask all the time: each request that it takes is answered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from dwork_peer import Asker
from hall_process import HallProcess, wait_until

from hiringhall.dialects.dwork import wire

if TYPE_CHECKING:
    from pathlib import Path

ASKERS: Final = 16
ROUNDS: Final = 3
ANSWERS_BEFORE: Final = 10
"""So many has each asker heard before the hall is told to end."""
PATIENCE_S: Final = 20.0


class Crowd:
    """Askers that each ask one thing after the other until they hear Exit."""

    def __init__(self, address: str) -> None:
        self.answers = [0] * ASKERS
        self.waiting_for_ever: list[str] = []
        self._threads = [threading.Thread(target=self._ask, args=(address, who)) for who in range(ASKERS)]
        for thread in self._threads:
            thread.start()

    def _ask(self, address: str, who: int) -> None:
        location = b"w%d" % who
        task = wire.encode_task(b"t%d" % who, b"mill")
        requests = {
            "status": wire.encode(wire.OK),
            "create": wire.encode(wire.CREATE, [task]),
            "steal": wire.encode(wire.STEAL, location=location),
            "complete": wire.encode(wire.COMPLETE, [task], location=location),
        }
        with Asker(address) as asker:
            while True:
                for what, request in requests.items():
                    answer = asker.ask_once(request, PATIENCE_S)
                    if answer is None:
                        self.waiting_for_ever.append(f"{what} by {who}")
                    if answer is None or answer.type == wire.EXIT:
                        return
                self.answers[who] += 1

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def test_whatever_is_asked_until_the_hall_has_closed_is_answered(tmp_path: Path) -> None:
    with HallProcess(tmp_path, door={"dialect": "dwork", "keep_open": True}) as hall:
        for number in range(ROUNDS):
            if number:
                hall.start()
            crowd = Crowd(hall.address)
            wait_until(lambda crowd=crowd: min(crowd.answers) >= ANSWERS_BEFORE, "all of them ask", 60.0)
            hall.drain()
            assert hall.wait() == 0
            crowd.join()
            assert crowd.waiting_for_ever == []
