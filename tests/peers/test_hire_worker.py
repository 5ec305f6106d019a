"""Stories of a worker who bids: what it hears on the street, and what it says."""

from __future__ import annotations

import asyncio
import math
import ssl

import pytest
from hire_stage import ANN, BEN, INN, MILL, act, street

from hiringhall.peers.hire import AddressError, Curve, Job, Stage, Worker


def test_a_worker_bids_comes_performs_and_is_dismissed() -> None:
    async def story() -> None:
        stages: list[Stage] = []
        async with (
            street() as hall,
            Worker(
                hall.address,
                {"grind": 40},
                travel_s=0.02,
                uuid=ANN,
                tell=lambda job: stages.append(job.stage),
            ) as ann,
        ):
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0.02:40")
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1")
            hall.say(f"{MILL} PERFORM j1:grind:12.5")
            await hall.expect(f"{ANN} PERFORMING j1")
            assert ann.present is not None
            assert (ann.present.id, ann.present.type, ann.present.time_s) == ("j1", "grind", 12.5)
            assert ann.next is None
            hall.say(f"{MILL} DISMISS {ANN}:j1", f"{MILL} ANNOUNCE j2:grind")
            await hall.expect(f"{ANN} AVAIL j2:0.02:40")
            assert ann.next is None
            assert stages[-1] is Stage.DISMISSED
        assert stages == [Stage.HIRED, Stage.GOING, Stage.WAITING, Stage.PERFORMING, Stage.DISMISSED]

    act(story())


def test_what_it_cannot_do_and_what_others_are_told_is_passed_over() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN) as ann:
            await hall.meet()
            hall.say(
                "# a remark",
                "no line at all",
                f"{MILL} ANNOUNCE j1:brew",
                f"{MILL} HIRE {BEN}:j1",
                f"{MILL} PERFORM j1:brew:1",
                f"{MILL} DISMISS {ANN}:j1",
                f"{MILL} ANNOUNCE j2:grind",
            )
            await hall.expect(f"{ANN} AVAIL j2:0:1")
            assert (ann.remarks, ann.bad_lines) == (1, 1)

    act(story())


def test_while_it_performs_its_next_place_can_be_taken_once() -> None:
    async def story() -> None:
        async with (
            street() as hall,
            Worker(
                hall.address, {"grind": 5, "brew": 7}, travel_s=lambda kind: len(kind) / 1000, uuid=ANN
            ) as ann,
        ):
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0.005:5")
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1")
            hall.say(f"{MILL} PERFORM j1:grind:60")
            await hall.expect(f"{ANN} PERFORMING j1")

            hall.say(f"{INN} ANNOUNCE j2:brew", f"{INN} ANNOUNCE j3:brew")
            for job in ("j2", "j3"):
                name, time_s, skill = await hall.expect_word(ANN, "AVAIL")
                assert (name, skill) == (job, "7")
                assert 59 < float(time_s) <= 60.004  # the rest of the present job, and the way
            hall.say(f"{INN} HIRE {ANN}:j2", f"{INN} ANNOUNCE j4:brew", f"{INN} HIRE {ANN}:j3")
            await hall.expect(f"{ANN} QUIT j3")  # hired twice, and no bid for j4
            assert ann.next is not None
            assert (ann.next.id, ann.next.stage) == ("j2", Stage.HIRED)

            hall.say(f"{MILL} DISMISS {ANN}:j1")
            await hall.expect(f"{ANN} START j2")

    act(story())


def test_a_job_can_be_taken_away_at_any_stage() -> None:
    async def story() -> None:
        travel_s = {"far": 60.0, "near": 0.0}
        async with (
            street() as hall,
            Worker(hall.address, {"far": 1, "near": 1}, travel_s=travel_s.__getitem__) as ann,
        ):
            who = ann.uuid
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE going:far")
            await hall.expect_word(who, "AVAIL")
            hall.say(f"{MILL} HIRE {who}:going", f"{MILL} DISMISS {who}:going", f"{MILL} ANNOUNCE waiting:near")
            await hall.expect_word(who, "AVAIL")
            hall.say(f"{MILL} HIRE {who}:waiting")
            await hall.expect(f"{who} START waiting")
            hall.say(f"{MILL} DISMISS {who}:waiting", f"{MILL} ANNOUNCE present:near")
            await hall.expect_word(who, "AVAIL")
            hall.say(f"{MILL} HIRE {who}:present")
            await hall.expect(f"{who} START present")
            hall.say(f"{MILL} PERFORM present:near:60")
            await hall.expect(f"{who} PERFORMING present")
            hall.say(f"{MILL} ANNOUNCE next:near")
            await hall.expect_word(who, "AVAIL")
            hall.say(f"{MILL} HIRE {who}:next", f"{MILL} DISMISS {who}:next", f"{MILL} DISMISS {who}:present")
            # Nothing of any of them is left: a PERFORM for them is nobody's.
            hall.say(f"{MILL} PERFORM waiting:near:1", f"{MILL} ANNOUNCE last:near")
            await hall.expect(f"{who} AVAIL last:0:1")
            assert (ann.present, ann.next) == (None, None)

    act(story())


def test_only_its_provider_can_call_and_dismiss_it() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN) as ann:
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0:1")
            hall.say(f"{INN} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} QUIT j1")
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1")
            hall.say(f"{INN} PERFORM j1:grind:1", f"{INN} DISMISS {ANN}:j1", f"{MILL} PERFORM j1:grind:2")
            await hall.expect(f"{ANN} PERFORMING j1")
            assert ann.present is not None
            assert ann.present.time_s == 2

    act(story())


def test_who_is_not_told_to_perform_in_time_quits() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN, patience_s=0.01):
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0:1")
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1", f"{ANN} QUIT j1")
            hall.say(f"{MILL} ANNOUNCE j2:grind")
            await hall.expect(f"{ANN} AVAIL j2:0:1")

    act(story())


def test_who_is_forgotten_at_work_quits_after_so_much_overtime() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN, overtime_s=0.01):
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0:1")
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1")
            hall.say(f"{MILL} PERFORM j1:grind:0.01")
            await hall.expect(f"{ANN} PERFORMING j1", f"{ANN} QUIT j1")

    act(story())


def test_a_worker_quits_at_will_and_when_its_hands_fail() -> None:
    async def story() -> None:
        hungry = asyncio.Event()

        async def perform(job: Job) -> None:
            if job.id == "j2":
                raise RuntimeError("the millstone broke")
            hungry.set()

        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN, perform=perform) as ann:
            await hall.meet()
            for job in ("j1", "j2"):
                hall.say(f"{MILL} ANNOUNCE {job}:grind")
                await hall.expect(f"{ANN} AVAIL {job}:0:1")
                hall.say(f"{MILL} HIRE {ANN}:{job}")
                await hall.expect(f"{ANN} START {job}")
                hall.say(f"{MILL} PERFORM {job}:grind:60")
                await hall.expect(f"{ANN} PERFORMING {job}")
                if job == "j1":
                    await hungry.wait()
                    ann.quit()
                await hall.expect(f"{ANN} QUIT {job}")
            assert (ann.present, ann.next) == (None, None)

    act(story())


def test_who_is_not_willing_does_not_bid_and_does_not_come() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN) as ann:
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0:1")
            ann.willing = False
            hall.say(f"{MILL} ANNOUNCE j2:grind", f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} QUIT j1")

    act(story())


def test_who_is_at_table_says_when_it_will_be_there_and_goes_then() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN) as ann:
            await hall.meet()
            clock_s = asyncio.get_running_loop().time
            up_s = ann.busy_until_s = clock_s() + 0.2
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            _, time_s, _ = await hall.expect_word(ANN, "AVAIL")
            assert 0 < float(time_s) < 0.2
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1")
            assert clock_s() >= up_s

    act(story())


@pytest.mark.parametrize("stage", [Stage.GOING, Stage.WAITING, Stage.PERFORMING])
def test_whose_job_its_provider_announces_again_is_dismissed_and_bids(stage: Stage) -> None:
    async def story() -> None:
        stages: list[Stage] = []
        async with (
            street() as hall,
            Worker(
                hall.address,
                {"grind": 1},
                travel_s=lambda _: 60.0 if stage is Stage.GOING and not stages else 0.0,
                uuid=ANN,
                tell=lambda job: stages.append(job.stage),
            ) as ann,
        ):
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect_word(ANN, "AVAIL")
            hall.say(f"{MILL} HIRE {ANN}:j1")
            if stage is not Stage.GOING:
                await hall.expect(f"{ANN} START j1")
            if stage is Stage.PERFORMING:
                hall.say(f"{MILL} PERFORM j1:grind:60")
                await hall.expect(f"{ANN} PERFORMING j1")
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0:1")  # and not after the 60 s of before
            assert (ann.present, ann.next, stages[-1]) == (None, None, Stage.DISMISSED)
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1")

    act(story())


def test_another_providers_job_of_the_same_name_is_another_job() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN) as ann:
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect_word(ANN, "AVAIL")
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1")
            hall.say(f"{MILL} PERFORM j1:grind:60")
            await hall.expect(f"{ANN} PERFORMING j1")
            hall.say(f"{INN} ANNOUNCE j1:grind")
            _, time_s, _ = await hall.expect_word(ANN, "AVAIL")
            assert float(time_s) > 30
            assert ann.present is not None
            assert ann.present.stage is Stage.PERFORMING

    act(story())


def test_whose_way_cannot_be_told_does_not_bid_and_listens_on(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        way_s = {"grind": 0.5, "dream": math.inf, "wonder": math.nan, "wander": 4e7}
        skills = dict.fromkeys(("fly", *way_s), 1)
        async with street() as hall, Worker(hall.address, skills, travel_s=way_s.__getitem__, uuid=ANN) as ann:
            await hall.meet()
            hall.say(*(f"{MILL} ANNOUNCE {kind}:{kind}" for kind in ("fly", "dream", "wonder", "wander")))
            hall.say(f"{MILL} HIRE {ANN}:fly")
            await hall.expect(f"{ANN} QUIT fly")
            ann.busy_until_s = math.inf
            hall.say(f"{MILL} ANNOUNCE j1:grind", f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} QUIT j1")
            ann.busy_until_s = 0.0
            hall.say(f"{MILL} ANNOUNCE j2:grind")
            await hall.expect(f"{ANN} AVAIL j2:0.5:1")

    act(story())
    (record,) = caplog.records
    assert "skipped" in record.message
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


def test_who_is_told_and_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        lost = asyncio.Event()

        def tell(job: Job) -> None:
            if job.stage is Stage.LOST:
                lost.set()
            raise RuntimeError(job.stage.value)

        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN, tell=tell):
            await hall.meet()
            for job in ("j1", "j2"):
                hall.say(f"{MILL} ANNOUNCE {job}:grind")
                await hall.expect(f"{ANN} AVAIL {job}:0:1")
                hall.say(f"{MILL} HIRE {ANN}:{job}")
                await hall.expect(f"{ANN} START {job}")
                hall.say(f"{MILL} PERFORM {job}:grind:60")
                await hall.expect(f"{ANN} PERFORMING {job}")
                if job == "j1":
                    hall.say(f"{MILL} DISMISS {ANN}:{job}")
            hall.hang_up()
            await lost.wait()
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j3:grind")
            await hall.expect(f"{ANN} AVAIL j3:0:1")

    act(story())
    once = [Stage.HIRED, Stage.GOING, Stage.WAITING, Stage.PERFORMING]
    raised = [record.getMessage().rpartition("RuntimeError: ")[2] for record in caplog.records]
    assert raised == [stage.value for stage in (*once, Stage.DISMISSED, *once, Stage.LOST)]


def test_after_a_lost_connection_it_comes_again_without_its_jobs() -> None:
    async def story() -> None:
        ends: list[tuple[str, Stage]] = []
        async with (
            street() as hall,
            Worker(
                hall.address, {"grind": 1}, uuid=ANN, tell=lambda job: ends.append((job.id, job.stage))
            ) as ann,
        ):
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0:1")
            hall.say(f"{MILL} HIRE {ANN}:j1")
            await hall.expect(f"{ANN} START j1")
            hall.hang_up()
            await hall.meet()
            assert (ann.next, ends[-1]) == (None, ("j1", Stage.LOST))
            hall.say(f"{MILL} ANNOUNCE j1:grind")
            await hall.expect(f"{ANN} AVAIL j1:0:1")

    act(story())


def test_who_leaves_quits_first() -> None:
    async def story() -> None:
        async with street() as hall:
            async with Worker(hall.address, {"grind": 1}, uuid=ANN):
                await hall.meet()
                hall.say(f"{MILL} ANNOUNCE j1:grind")
                await hall.expect(f"{ANN} AVAIL j1:0:1")
                hall.say(f"{MILL} HIRE {ANN}:j1")
                await hall.expect(f"{ANN} START j1")
            await hall.expect(f"{ANN} QUIT j1", "")

    act(story())


def test_an_id_may_be_any_word() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"ré%3A": 1}, uuid=ANN):
            await hall.meet()
            hall.say_bytes(f"{MILL} ANNOUNCE ".encode() + b"\xff\xfe:r\xc3\xa9%253A\n")
            assert await hall.hear_bytes() == f"{ANN} AVAIL ".encode() + b"\xff\xfe:0:1\n"
            hall.say_bytes(f"{MILL} HIRE {ANN}:".encode() + b"\xff\xfe\n")
            assert await hall.hear_bytes() == f"{ANN} START ".encode() + b"\xff\xfe\n"

    act(story())


def test_the_short_form_says_the_same() -> None:
    async def story() -> None:
        async with street() as hall, Worker(hall.address, {"grind": 1}, uuid=ANN, compact=True):
            await hall.meet()
            hall.say(f"{MILL} ANNOUNCE {INN}:grind")
            await hall.expect("!u7u7uwAAQACAAAAAAAAAAQAqqqqqgAAQACAAAAAAAAAAg:0:1")

    act(story())


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "tcp://here", "tcp://here:65536", "bus://a:1", "bus://a:1,b:99999"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(AddressError, match=r"port|tcp://HOST:PORT"):
        Worker(address, {})


@pytest.mark.parametrize("skill", [-1, 1_000_001])
def test_a_skill_that_cannot_be_said_is_refused(skill: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 1000000"):
        Worker("tcp://127.0.0.1:1", {"grind": skill})


def test_each_way_has_its_own_security() -> None:
    keys = Curve(*(b"k" * 40,) * 3)
    with pytest.raises(AddressError, match="use a Curve"):
        Worker("tcp://127.0.0.1:1", {}, security=keys)
    with pytest.raises(AddressError, match="an SSLContext"):
        Worker("bus://127.0.0.1:1,127.0.0.1:2", {}, security=ssl.create_default_context())
