"""`hall.schedule`: plans that the hall keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from small_worker import SmallWorker

from hiringhall import Hall, HallRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

HALL = Hall("hall://127.0.0.1:1")
RAN: list[str] = []


@HALL.job(retries=2)
def report(kind: str, pages: int = 1) -> None:
    RAN.append(f"{kind} {pages}")


@pytest.fixture(autouse=True)
def connected(url: str) -> Iterator[None]:
    HALL.url = url
    yield
    HALL.close()


def planned() -> dict[str, dict[str, Any]]:
    async def ask() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await HALL.connection().request("schedules", None)
        return found

    return {plan["name"]: plan for plan in HALL.run(ask())}


def test_a_cron_schedule_is_kept_and_ended() -> None:
    HALL.schedule("nightly", "0 3 * * *", report, "all", pages=3, timezone="Europe/Berlin")
    plan = planned()["nightly"]
    assert (plan["queue"], plan["cron"], plan["timezone"]) == (report.queue, "0 3 * * *", "Europe/Berlin")
    assert plan["payload"] == '["all",3]'
    HALL.schedule("nightly", "0 4 * * *", report, "some")
    assert planned()["nightly"]["cron"] == "0 4 * * *"
    with pytest.raises(HallRefused, match="nightly"):
        HALL.schedule("nightly", "0 5 * * *", report, "some", replace=False)
    HALL.unschedule("nightly")
    assert "nightly" not in planned()
    with pytest.raises(HallRefused):
        HALL.unschedule("nightly")


def test_an_interval_submits_jobs(url: str) -> None:
    from hall_process import wait_until

    with SmallWorker(HALL, url):
        HALL.schedule("often", report, "short", every=1)
        wait_until(lambda: RAN, "the schedule fires", 20)
        HALL.unschedule("often")
    assert set(RAN) == {"short 1"}


def test_what_cannot_be_scheduled() -> None:
    with pytest.raises(TypeError, match="write schedule"):
        HALL.schedule("x", report)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="missing a required argument"):
        HALL.schedule("x", "0 3 * * *", report)
    with pytest.raises(TypeError, match="result of a job"):
        HALL.schedule("x", "0 3 * * *", report, HALL.job_of(5))
    with pytest.raises(ValueError, match="without a key"):
        HALL.schedule("x", "0 3 * * *", report.options(key="k"), "all")
    with pytest.raises(HallRefused, match="cron"):
        HALL.schedule("x", "nonsense", report, "all")
