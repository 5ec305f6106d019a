"""A parent that has left the memory of the hall is looked up in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, Disk, Hall, Person, refused

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.errors import BAD_REQUEST
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE, FAILED, HELD, PARENT_FAILED, QUEUED
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY, Terms

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import Job, ParentRef

SMALL = Limits(ended_max=2)
SETUP: ParentRef = (b"q", b"setup")


def terms(policy: int) -> Terms:
    return Terms(durable=True, detached=True, on_parent_failure=policy)


def run(hall: Hall, worker: Person, name: str, *, code: int = 0) -> Job:
    job = hall.submit(name, key=name, terms=BACKGROUND)
    lease = worker.takes(name)
    if code:
        hall.core.fail(lease, code, b"")
    else:
        hall.core.finish(lease, b"")
    return job


def evict(hall: Hall, worker: Person) -> None:
    """So many jobs end that no earlier one is left in memory."""
    for number in range(3):
        run(hall, worker, f"later {number}")


def history(hall: Hall, disk: Disk) -> None:
    disk.apply(hall.commit())


def look_up(hall: Hall, disk: Disk) -> list[ParentRef]:
    """Ask the history for all that is to be asked; what that was."""
    refs = hall.core.graph.parent_lookups.take(1000)
    hall.core.dependencies.found_parents(refs, lines_of(disk, refs))
    hall.turn()
    return refs


def lines_of(disk: Disk, refs: list[ParentRef]) -> list[EndRow]:
    return [row for row in disk.history.values() if row.id in refs or (row.queue, row.key) in refs]


@pytest.fixture
def hall() -> Hall:
    return Hall(SMALL)


@pytest.fixture
def disk() -> Disk:
    return Disk()


def forgotten_setup(hall: Hall, disk: Disk, *, code: int = 0) -> Job:
    """A job called setup has ended, is in the history, and has left the memory."""
    bob = hall.worker("bob")
    setup = run(hall, bob, "setup", code=code)
    evict(hall, bob)
    history(hall, disk)
    assert hall.core.find(setup.id) is None
    return setup


def test_a_parent_that_the_history_knows_as_done_is_met(hall: Hall, disk: Disk) -> None:
    forgotten_setup(hall, disk)
    child = hall.submit("child", parents=(SETUP,), terms=BACKGROUND)
    hall.turn()
    assert child.state == HELD
    assert look_up(hall, disk) == [SETUP]
    assert child.state == QUEUED
    assert child.ready_us == hall.core.now_us


def test_a_parent_is_met_by_its_number_too(hall: Hall, disk: Disk) -> None:
    setup = forgotten_setup(hall, disk)
    child = hall.submit("child", parents=(setup.id,), terms=BACKGROUND)
    assert look_up(hall, disk) == [setup.id]
    assert child.state == QUEUED


@pytest.mark.parametrize(("policy", "state"), [(FAIL_WITH_PARENT, FAILED), (RUN_ANYWAY, QUEUED), (HOLD, HELD)])
def test_a_parent_that_the_history_knows_as_failed_follows_the_policy(
    hall: Hall, disk: Disk, policy: int, state: int
) -> None:
    forgotten_setup(hall, disk, code=7)
    child = hall.submit("child", parents=(SETUP,), terms=terms(policy))
    look_up(hall, disk)
    assert child.state == state
    assert child.code == (PARENT_FAILED if state == FAILED else 0)


@pytest.mark.parametrize(
    ("policy", "state"), [(FAIL_WITH_PARENT, FAILED), (RUN_ANYWAY, QUEUED), (HOLD, FAILED)]
)
def test_a_number_that_nobody_knows_is_as_good_as_failed(
    hall: Hall, disk: Disk, policy: int, state: int
) -> None:
    setup = forgotten_setup(hall, disk)
    disk.history.clear()
    child = hall.submit("child", parents=(setup.id,), terms=terms(policy))
    hall.turn()
    assert child.state == HELD, "nothing is decided before the answer"
    look_up(hall, disk)
    assert child.state == state


def test_only_a_parent_nobody_has_heard_of_is_waited_for(hall: Hall, disk: Disk) -> None:
    forgotten_setup(hall, disk)
    unborn: ParentRef = (b"q", b"unborn")
    child = hall.submit("child", parents=(SETUP, unborn), terms=BACKGROUND)
    assert look_up(hall, disk) == [SETUP, unborn]
    assert child.state == HELD
    hall.submit("second child", parents=(unborn,), terms=BACKGROUND)
    assert look_up(hall, disk) == [], "the answer is still true"
    bob = hall.people[0]
    run(hall, bob, "unborn")
    hall.turn()
    assert child.state == QUEUED


def test_the_history_is_not_asked_while_memory_holds_all_of_it(disk: Disk) -> None:
    hall = Hall()
    bob = hall.worker("bob")
    run(hall, bob, "setup")
    history(hall, disk)
    hall.submit("child", parents=((b"q", b"unborn"),), terms=BACKGROUND)
    assert look_up(hall, disk) == []
    with refused(BAD_REQUEST):
        hall.submit("other", parents=(hall.core.find_key(b"q", b"child") or 12345,), terms=BACKGROUND)


def test_a_number_that_was_never_given_out_is_refused(hall: Hall, disk: Disk) -> None:
    setup = forgotten_setup(hall, disk)
    for number in (0, -1, setup.id + 1000):
        with refused(BAD_REQUEST):
            hall.submit("child", parents=(number,), terms=BACKGROUND)


def test_an_answer_does_not_count_once_a_job_of_that_name_has_come(hall: Hall, disk: Disk) -> None:
    forgotten_setup(hall, disk)
    child = hall.submit("child", parents=(SETUP,), terms=BACKGROUND)
    refs = hall.core.graph.parent_lookups.take(10)
    again = hall.submit("setup", key="setup", terms=BACKGROUND)
    hall.core.dependencies.found_parents(refs, lines_of(disk, refs))
    hall.turn()
    assert child.state == HELD
    assert child.parents == {again.id: again}


@pytest.mark.parametrize(
    ("policy", "state"), [(RUN_ANYWAY, QUEUED), (FAIL_WITH_PARENT, FAILED), (HOLD, FAILED)]
)
def test_a_child_that_comes_in_the_turn_of_the_answer_does_not_wait_for_what_the_history_does_not_know(
    hall: Hall, disk: Disk, policy: int, state: int
) -> None:
    setup = forgotten_setup(hall, disk)
    disk.history.clear()
    first = hall.submit("first", parents=(setup.id,), terms=terms(FAIL_WITH_PARENT))
    refs = hall.core.graph.parent_lookups.take(10)
    hall.core.dependencies.found_parents(refs, [])
    second = hall.submit("second", parents=(setup.id,), terms=terms(policy))
    hall.turn()
    assert (first.state, second.state) == (FAILED, state)


def test_a_child_that_is_gone_asks_for_nothing(hall: Hall, disk: Disk) -> None:
    forgotten_setup(hall, disk)
    child = hall.submit("child", parents=(SETUP,), terms=BACKGROUND)
    hall.core.cancel(child)
    hall.turn()
    assert look_up(hall, disk) == []


def test_what_could_not_be_asked_is_asked_again(hall: Hall, disk: Disk) -> None:
    forgotten_setup(hall, disk)
    child = hall.submit("child", parents=(SETUP,), terms=BACKGROUND)
    refs = hall.core.graph.parent_lookups.take(10)
    assert look_up(hall, disk) == [], "it is being asked already"
    hall.core.graph.parent_lookups.repeat(refs)
    look_up(hall, disk)
    assert child.state == QUEUED


def test_a_parent_from_the_history_can_be_found_until_it_is_forgotten_again(hall: Hall, disk: Disk) -> None:
    setup = forgotten_setup(hall, disk)
    hall.submit("child", parents=(SETUP,), terms=BACKGROUND)
    look_up(hall, disk)
    kept = hall.core.archive.find_key(*SETUP)  # type: ignore[misc]
    assert kept is not None
    assert (kept.id, kept.state, kept.logged) == (setup.id, DONE, True)
    second = hall.submit("second", parents=(SETUP,), terms=BACKGROUND)
    assert second.state == QUEUED, "nobody has to ask again"


def test_an_older_job_of_the_name_does_not_take_the_place_of_a_later_one(disk: Disk) -> None:
    hall = Hall(Limits(ended_max=3))
    bob = hall.worker("bob")
    first = run(hall, bob, "setup")
    evict(hall, bob)
    hall.after(1)
    second = run(hall, bob, "setup", code=3)
    history(hall, disk)
    child = hall.submit("child", parents=(first.id,), terms=BACKGROUND)
    look_up(hall, disk)
    assert child.state == QUEUED
    assert hall.core.archive.find_key(b"q", b"setup") is second


@pytest.mark.parametrize("reverse", [False, True])
def test_a_name_means_the_latest_job_though_an_older_one_is_asked_for_by_number(
    hall: Hall, disk: Disk, *, reverse: bool
) -> None:
    bob = hall.worker("bob")
    first = run(hall, bob, "setup", code=3)
    hall.after(1)
    run(hall, bob, "setup")
    evict(hall, bob)
    history(hall, disk)
    child = hall.submit("child", parents=(SETUP,), terms=BACKGROUND)
    other = hall.submit("other", parents=(first.id,), terms=BACKGROUND)
    refs = hall.core.graph.parent_lookups.take(10)
    hall.core.dependencies.found_parents(refs, sorted(lines_of(disk, refs), reverse=reverse))
    hall.turn()
    assert (child.state, other.state) == (QUEUED, FAILED)


def test_a_child_that_holds_for_a_failed_number_is_met_by_a_later_success_of_its_name(
    hall: Hall, disk: Disk
) -> None:
    bob = hall.worker("bob")
    first = run(hall, bob, "setup", code=3)
    hall.after(1)
    run(hall, bob, "setup")
    in_memory = hall.submit("child", parents=(first.id,), terms=terms(HOLD))
    assert in_memory.state == QUEUED
    hall.core.cancel(in_memory)
    evict(hall, bob)
    history(hall, disk)
    child = hall.submit("child", parents=(first.id,), terms=terms(HOLD))
    assert look_up(hall, disk) == [first.id]
    assert child.state == HELD
    latest = [max(lines_of(disk, [SETUP]), key=lambda row: row.ended_us)]
    hall.core.dependencies.found_parents(hall.core.graph.parent_lookups.take(10), latest)
    assert child.state == QUEUED


def test_a_child_that_holds_for_a_failed_number_waits_for_the_live_job_of_its_name(
    hall: Hall, disk: Disk
) -> None:
    first = forgotten_setup(hall, disk, code=3)
    child = hall.submit("child", parents=(first.id,), terms=terms(HOLD))
    hall.turn()
    second = hall.submit("setup", key="setup", terms=BACKGROUND)
    look_up(hall, disk)
    assert child.state == HELD
    assert child.parents == {second.id: second}
    hall.core.finish(hall.worker("eve").takes("setup"), b"")
    assert child.state == QUEUED


def test_a_child_that_has_the_name_of_its_failed_parent_fails_instead_of_waiting_for_itself(
    hall: Hall, disk: Disk
) -> None:
    first = forgotten_setup(hall, disk, code=3)
    child = hall.submit("child", key="setup", parents=(first.id,), terms=terms(HOLD))
    other = hall.submit("other", parents=(first.id,), terms=terms(HOLD))
    look_up(hall, disk)
    assert (child.state, child.code) == (FAILED, PARENT_FAILED)
    assert (other.state, other.parents) == (HELD, {SETUP: None})


def test_a_child_that_holds_for_a_failed_number_is_met_by_a_success_that_only_memory_knows(
    hall: Hall, disk: Disk
) -> None:
    first = forgotten_setup(hall, disk, code=3)
    child = hall.submit("child", parents=(first.id,), terms=terms(HOLD))
    hall.turn()
    eve = hall.worker("eve")
    hall.after(1)
    hall.submit("setup", key="setup")
    hall.core.finish(eve.takes("setup"), b"")
    look_up(hall, disk)
    assert child.state == QUEUED


def test_a_restored_child_asks_for_what_its_parents_became(hall: Hall, disk: Disk) -> None:
    forgotten_setup(hall, disk)
    child = hall.submit("child", parents=(SETUP,), terms=BACKGROUND)
    history(hall, disk)
    loaded = disk.load(SMALL.ended_max)
    again = Hall(SMALL, epoch=loaded.epoch)
    again.core.restore(loaded)
    again.turn()
    restored = again.core.jobs[child.id]
    assert restored.state == HELD
    assert look_up(again, disk) == [SETUP]
    assert restored.state == QUEUED


@pytest.mark.parametrize("code", [0, 9])
def test_a_restored_child_finds_a_parent_that_is_in_memory(hall: Hall, disk: Disk, code: int) -> None:
    """The hall died between the question and the answer, and opens with a larger memory."""
    forgotten_setup(hall, disk, code=code)
    child = hall.submit("child", parents=(SETUP,), terms=BACKGROUND)
    history(hall, disk)
    loaded = disk.load()
    again = Hall(epoch=loaded.epoch)
    again.core.restore(loaded)
    again.turn()
    restored = again.core.find(child.id)
    assert restored is not None
    assert restored.state == (FAILED if code else QUEUED)


def test_a_line_of_a_provider_s_job_that_was_asked_for_by_number_answers_for_no_name(
    hall: Hall, disk: Disk
) -> None:
    smith, bob = hall.person("smith"), hall.person("bob")
    bob.me.bids = True
    spec = JobSpec(b"q", b"forge", b"setup", Terms(logged=True))
    forge = hall.core.hiring.engage(spec, bob.me, hall.core.now_us, smith, Rules(soonest)).job
    hall.core.cancel(forge)
    smith.heard.clear()
    bob.heard.clear()
    evict(hall, hall.worker("carl"))
    history(hall, disk)
    child = hall.submit("child", parents=(forge.id,), terms=terms(RUN_ANYWAY))
    other = hall.submit("other", parents=(SETUP,), terms=terms(RUN_ANYWAY))
    look_up(hall, disk)
    assert (child.state, other.state) == (QUEUED, HELD)


@pytest.mark.parametrize("by_key_first", [True, False])
def test_a_parent_that_is_named_twice_by_number_and_by_key_is_met_once(
    hall: Hall, disk: Disk, by_key_first: bool
) -> None:
    setup = forgotten_setup(hall, disk)
    refs: tuple[ParentRef, ...] = (SETUP, setup.id) if by_key_first else (setup.id, SETUP)
    child = hall.submit("child", parents=refs, terms=BACKGROUND)
    hall.turn()
    look_up(hall, disk)
    assert child.state == QUEUED
    assert not hall.core.graph.expected


def test_no_queue_is_made_for_a_parent_that_ended_in_one_that_is_gone(hall: Hall, disk: Disk) -> None:
    bob = hall.worker("bob")
    carl = hall.worker("carl", "old")
    hall.submit("setup", "old", key="setup", terms=BACKGROUND)
    hall.core.finish(carl.takes("setup"), b"")
    evict(hall, bob)
    history(hall, disk)
    carl.leaves()
    hall.core.length_limits.drop(hall.core.queue(b"old"))
    child = hall.submit("child", parents=((b"old", b"setup"),), terms=BACKGROUND)
    hall.turn()
    look_up(hall, disk)
    assert child.state == QUEUED
    assert b"old" not in hall.core.queues


def test_a_withdrawn_job_does_not_hide_an_earlier_one_of_its_name(hall: Hall) -> None:
    """The later one ended before the store failed, so its name in memory was its own."""
    disk = Disk()
    bob = hall.worker("bob")
    first = run(hall, bob, "setup")
    history(hall, disk)
    run(hall, bob, "setup")
    assert hall.commit_fails() == ["setup"]
    history(hall, disk)
    child = hall.submit("child", terms=terms(FAIL_WITH_PARENT), parents=(SETUP,))
    assert child.state == HELD
    assert look_up(hall, disk) == [SETUP]
    assert (first.state, child.state) == (DONE, QUEUED)
