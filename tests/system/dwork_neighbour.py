"""An honest dwork client beside a test's hostile ones: it creates, steals and completes all the time, and
notices when it is not answered, or answered wrongly.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Self

from dwork_peer import Asker
from hall_process import wait_until

from hiringhall.dialects.dwork import wire
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from hall_process import HallProcess

PAUSE_S: Final = 0.02
"""Between two round trips, so that the neighbour is a witness and not a load."""
TRIP_S_MAX: Final = 5.0
"""The longest that a round trip may take; the machine may be busy, the hall may not be stuck."""


class Neighbour:
    """A producer and worker in a thread."""

    def __init__(self, hall: HallProcess) -> None:
        self.trips = 0
        self.slowest_s = 0.0
        self._address = hall.address
        self._trouble: BaseException | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._live, name="neighbour", daemon=True)

    def expect_service(self) -> None:
        """It is served now: some more round trips succeed, and none so far took too long."""
        wanted = self.trips + 3
        wait_until(lambda: self._trouble is not None or self.trips >= wanted, "the neighbour is served", 60.0)
        assert self._trouble is None, f"the neighbour was disturbed: {self._trouble!r}"
        assert self.slowest_s < TRIP_S_MAX, f"the neighbour waited {self.slowest_s:.1f} s"

    def _live(self) -> None:
        try:
            with Asker(self._address, TRIP_S_MAX * 6) as asker:
                while not self._leaving.wait(PAUSE_S):
                    with Stopwatch() as watch:
                        self._trip(asker, b"neighbour-%d" % self.trips)
                    self.slowest_s = max(self.slowest_s, watch.elapsed_s)
                    assert not asker.resent
                    self.trips += 1
        except BaseException as trouble:  # noqa: BLE001 (told to the test's thread)
            self._trouble = trouble

    def _trip(self, asker: Asker, name: bytes) -> None:
        """The others may steal its task; it does what it gets."""
        asker.create([(name, ())])
        kind, names = asker.steal(b"neighbour", 10)
        assert kind in (wire.TRANSFER, wire.NOT_FOUND, wire.EXIT)
        if names:
            assert asker.complete(b"neighbour", names) == []
        nobody = b"nobody-" + name
        assert asker.complete(b"neighbour", [nobody]) == [nobody]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join()
