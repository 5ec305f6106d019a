"""Honest peers beside a test's hostile ones: they do round trips all the time and notice when they wait."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Self

from hall_process import wait_until
from house_worker import HouseWorker

from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from types import TracebackType

    from hall_process import HallProcess

PAUSE_S: Final = 0.02
"""Between two round trips, so that the neighbours are a witness and not a load."""
TRIP_S_MAX: Final = 5.0
"""The longest that a round trip may take; the machine may be busy, the hall may not be stuck."""


class Neighbours:
    """One client and one worker in threads."""

    def __init__(self, hall: HallProcess) -> None:
        self.trips = 0
        """Foreground jobs that came back right."""
        self.slowest_s = 0.0
        self._hall = hall
        self._house = HouseWorker(hall.address, client_id="neighbour")
        self._trouble: BaseException | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._live, name="neighbours", daemon=True)

    def expect_service(self) -> None:
        """They are served now: some more round trips succeed, and none so far took too long."""
        wanted = self.trips + 3
        wait_until(lambda: self._trouble is not None or self.trips >= wanted, "the neighbours are served", 60.0)
        assert self._trouble is None, f"the neighbours were disturbed: {self._trouble!r}"
        assert self.slowest_s < TRIP_S_MAX, f"a neighbour waited {self.slowest_s:.1f} s"

    def _live(self) -> None:
        try:
            with self._hall.client(TRIP_S_MAX * 6) as client:
                while not self._leaving.wait(PAUSE_S):
                    payload = b"round trip %d" % self.trips
                    with Stopwatch() as watch:
                        result = client.run("reverse", payload)
                    self.slowest_s = max(self.slowest_s, watch.elapsed_s)
                    assert result == payload[::-1], result
                    self.trips += 1
        except BaseException as trouble:  # noqa: BLE001 (told to the test's thread)
            self._trouble = trouble

    def __enter__(self) -> Self:
        self._house.__enter__()
        self._hall.wait_for_workers("reverse")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join()
        self._house.__exit__(kind, error, trace)
