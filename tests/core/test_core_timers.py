"""One heap of deadlines: nothing comes early, nothing is forgotten, nothing piles up."""

from __future__ import annotations

from hall_recorder import HOUR_US, SECOND_US, Hall
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.core.terms import Terms
from hiringhall.core.timers import NEVER, Timed, Timers


def drain(timers: Timers, now_us: int) -> list[Timed]:
    things: list[Timed] = []
    while (thing := timers.pop_due(now_us)) is not None:
        things.append(thing)
    return things


def test_things_come_in_the_order_of_their_time() -> None:
    timers = Timers()
    a, b, c = Timed(), Timed(), Timed()
    for thing, due_us in ((c, 30), (a, 10), (b, 20)):
        timers.arm(thing, due_us)
    assert timers.next_us() == 10
    assert timers.pop_due(9) is None
    assert drain(timers, 20) == [a, b]
    assert drain(timers, 30) == [c]
    assert timers.next_us() == NEVER
    assert [thing.due_us for thing in (a, b, c)] == [NEVER] * 3


def test_equal_times_come_in_the_order_of_arming() -> None:
    timers = Timers()
    things = [Timed() for _ in range(10)]
    for thing in things:
        timers.arm(thing, 5)
    assert drain(timers, 5) == things


def test_a_deadline_moved_later_costs_nothing_and_is_kept() -> None:
    timers = Timers()
    thing = Timed()
    for due_us in range(10, 1000):
        timers.arm(thing, due_us)
    assert len(timers._heap) == 1
    assert timers.next_us() == 10, "early, never late"
    assert drain(timers, 998) == []
    assert timers.next_us() == 999
    assert drain(timers, 999) == [thing]


def test_a_deadline_moved_later_comes_after_those_that_are_due_before_it() -> None:
    timers = Timers()
    moved, other = Timed(), Timed()
    timers.arm(moved, 10)
    timers.arm(other, 20)
    timers.arm(moved, 30)
    assert drain(timers, 100) == [other, moved]


def test_a_deadline_moved_earlier_is_kept_and_comes_once() -> None:
    timers = Timers()
    thing = Timed()
    timers.arm(thing, 100)
    timers.arm(thing, 10)
    assert timers.next_us() == 10
    assert drain(timers, 10) == [thing]
    assert drain(timers, 1000) == []


def test_disarmed_does_not_come() -> None:
    timers = Timers()
    thing = Timed()
    timers.arm(thing, 10)
    timers.disarm(thing)
    timers.disarm(thing)
    assert drain(timers, 100) == []
    timers.arm(thing, 200)
    assert drain(timers, 200) == [thing]


def test_armed_again_after_being_disarmed_comes_at_the_new_time() -> None:
    for first_us, second_us in ((10, 20), (20, 10), (10, 10)):
        timers = Timers()
        thing = Timed()
        timers.arm(thing, first_us)
        timers.disarm(thing)
        timers.arm(thing, second_us)
        assert drain(timers, second_us - 1) == []
        assert drain(timers, second_us) == [thing]
        assert drain(timers, 100) == []


def test_long_timeouts_on_short_jobs_do_not_pile_up() -> None:
    timers = Timers()
    for number in range(50_000):
        thing = Timed()
        timers.arm(thing, number + 10**9)
        timers.disarm(thing)
        assert len(timers._heap) <= 2048


def test_live_deadlines_survive_a_sweep() -> None:
    timers = Timers()
    kept = [Timed() for _ in range(100)]
    for number, thing in enumerate(kept):
        timers.arm(thing, 1000 + number)
    for _ in range(5000):
        thing = Timed()
        timers.arm(thing, 10**9)
        timers.disarm(thing)
    assert drain(timers, 2000) == kept


class Model:
    """The same, plainly: a dict."""

    def __init__(self) -> None:
        self.due_us: dict[int, int] = {}

    def pop(self, now_us: int) -> list[int]:
        due = sorted(number for number, due_us in self.due_us.items() if due_us <= now_us)
        for number in due:
            del self.due_us[number]
        return due


STEP = st.tuples(st.sampled_from(["arm", "disarm", "pass"]), st.integers(0, 5), st.integers(1, 60))


@given(st.lists(STEP, max_size=200))
def test_the_heap_does_what_a_dict_would(steps: list[tuple[str, int, int]]) -> None:
    timers, model = Timers(), Model()
    things = [Timed() for _ in range(6)]
    now_us = 100
    for verb, number, amount_us in steps:
        if verb == "arm":
            timers.arm(things[number], now_us + amount_us)
            model.due_us[number] = now_us + amount_us
        elif verb == "disarm":
            timers.disarm(things[number])
            model.due_us.pop(number, None)
        else:
            now_us += amount_us
            came = drain(timers, now_us)
            assert sorted(things.index(thing) for thing in came) == model.pop(now_us)
        assert (min(model.due_us.values(), default=0) == 0) or 0 < timers.next_us() <= min(
            model.due_us.values()
        )


# --- in the hall


def test_short_jobs_with_long_leases_leave_no_deadlines_behind() -> None:
    hall = Hall()
    bob = hall.worker("bob")
    terms = Terms(detached=True, lease_us=HOUR_US, run_us=HOUR_US)
    for _ in range(10_000):
        hall.submit("a", terms=terms)
        hall.core.finish(bob.takes("a"), b"")
    assert len(hall.core.timers._heap) <= 2048


def test_a_worker_that_is_woken_often_leaves_no_deadlines_behind() -> None:
    """Its silence is long and its wake-ups are short: one timer serves both."""
    hall = Hall()
    bob = hall.worker("bob")
    hall.core.expect(bob.me, 24 * HOUR_US)
    for _ in range(3600):
        bob.sleeps()
        hall.submit("a")
        hall.after(SECOND_US)
        bob.hears("woken")
        hall.core.finish(bob.takes("a"), b"")
        hall.core.beat(bob.me)
    assert len(hall.core.timers._heap) <= 2048


def test_the_hall_never_asks_to_come_back_late(hall: Hall) -> None:
    now_us = hall.core.now_us
    bob = hall.worker("bob")
    assert hall.core.next_deadline() == NEVER
    hall.submit("delayed", due_us=now_us + 100)
    assert hall.core.next_deadline() == now_us + 100
    hall.submit("leased", terms=Terms(detached=True, lease_us=50))
    bob.takes("leased")
    assert hall.core.next_deadline() == now_us + 50
    hall.core.expect(bob.me, 20)
    assert hall.core.next_deadline() == now_us + 20
    hall.after(100)
    bob.hears("revoked leased", "lost")
