"""The rates of the summary: of the last minute, also when nothing happens any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_process import wait_until

if TYPE_CHECKING:
    import httpx
    from web_process import WebHall


def test_the_rates_fall_when_the_hall_is_at_rest(api: httpx.Client, hall: WebHall) -> None:
    def rates() -> tuple[float, float]:
        summary, queue = api.get("/summary").json(), api.get("/queues/rated").json()
        return summary["rates"]["done_s"], queue["done_s"]

    with hall.native() as peer:
        peer.work(b"rated", slots=1)
        assert rates() == (0, 0)
        for _ in range(20):
            peer.submit(b"rated", b"", durable=True)
            peer.ask("finish", [peer.hear("assign")[0], b""])
        wait_until(lambda: api.get("/queues/rated").json()["done_total"] == 20, "all jobs are done")
        wait_until(lambda: min(rates()) > 0, "the rates are known")
        highest = rates()
        # Nothing is reported from now on. Both rates are of the time since the first look, which grows.
        wait_until(
            lambda: all(rate < before / 2 for rate, before in zip(rates(), highest, strict=True)),
            "the rates fall",
            20.0,
        )
