"""The audit is no ornament: each kind of damage is found, and named by the law it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, Hall

from hiringhall.core.errors import BrokenLaw, invariant
from hiringhall.core.jobs import TRIES_KEPT, Job
from hiringhall.core.queues import Queue
from hiringhall.core.states import DONE, HELD, LEASED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Callable


class Scene:
    """One of everything."""

    def __init__(self) -> None:
        self.hall = Hall()
        self.core = self.hall.core
        self.ann = self.hall.person("ann")
        self.bob = self.hall.worker("bob", "work")
        self.sleeper = self.hall.worker("sleeper", "sleepy")
        self.taker = self.hall.worker("taker", "pushed")
        self.woken = self.hall.worker("woken", "wake")
        self.leased = self.hall.submit("leased", "work", terms=Terms(detached=True, lease_us=10**9))
        self.lease = self.bob.takes("leased")
        self.queued = self.hall.submit("queued", by=self.ann, key="k")
        self.delayed = self.hall.submit("delayed", due_us=self.core.now_us + 10**9)
        self.child = self.hall.submit("child", parents=(self.queued.id,))
        self.waiting = self.hall.submit("waiting", parents=((b"q", b"unborn"),))
        self.sleeper.sleeps()
        self.taker.offers(3)
        self.woken.sleeps()
        self.hall.submit("call", "wake", terms=BACKGROUND)
        self.expiring = self.hall.submit("expiring", terms=Terms(detached=True, expire_us=10**9))
        self.resident = self.core.residents.get(b"home", b"rosa")
        self.hall.turn()
        self.queue = self.core.queue(b"q")


def wrong_id(scene: Scene) -> None:
    scene.core.jobs[999] = scene.core.jobs.pop(scene.queued.id)


def queue_vanished(scene: Scene) -> None:
    del scene.core.queues[b"q"]


def live_miscounted(scene: Scene) -> None:
    scene.queue.live += 1


def ready_miscounted(scene: Scene) -> None:
    scene.queue.ready += 1


def lane_miscounted(scene: Scene) -> None:
    scene.queue.lanes[1].ready -= 1


def leased_miscounted(scene: Scene) -> None:
    scene.core.queue(b"work").leased = 0


def twice_in_its_lane(scene: Scene) -> None:
    scene.queue.lanes[1].push(scene.queued)


def ended_but_live(scene: Scene) -> None:
    scene.delayed.state = DONE


def key_lost(scene: Scene) -> None:
    scene.core.keys.remove(scene.core.keys.all()[0])


def key_of_a_ghost(scene: Scene) -> None:
    scene.core.keys.add(Job(77, scene.queue, b"ghost", b"", BACKGROUND, 1))


def lease_without_state(scene: Scene) -> None:
    scene.queued.lease = scene.lease


def state_without_lease(scene: Scene) -> None:
    scene.leased.lease = None


def worker_forgot_its_lease(scene: Scene) -> None:
    scene.bob.me.leases.clear()


def lease_without_timer(scene: Scene) -> None:
    scene.core.timers.disarm(scene.lease)


def two_leases_with_one_number(scene: Scene) -> None:
    another = scene.hall.submit("another", "work", terms=BACKGROUND)
    assert another.lease is None
    scene.bob.takes("another").number = scene.lease.number


def delayed_without_timer(scene: Scene) -> None:
    scene.core.timers.disarm(scene.delayed)


def expiring_without_timer(scene: Scene) -> None:
    scene.core.timers.disarm(scene.expiring)


def ready_with_a_timer_for_nothing(scene: Scene) -> None:
    scene.core.timers.arm(scene.queued, scene.core.now_us + 1)


def leased_with_a_timer_for_nothing(scene: Scene) -> None:
    scene.core.timers.arm(scene.leased, scene.core.now_us + 1)


def tries_that_never_were(scene: Scene) -> None:
    scene.queued.tries = [(1, 2, b"bob", 3)]


def the_attempt_under_way_among_the_tries(scene: Scene) -> None:
    scene.leased.tries = [(1, 2, b"bob", 3)]


def more_tries_than_are_kept(scene: Scene) -> None:
    scene.queued.attempts = TRIES_KEPT + 1
    scene.queued.tries = [(1, 2, b"bob", 3)] * (TRIES_KEPT + 1)


def parent_forgot_its_child(scene: Scene) -> None:
    scene.queued.children = None


def child_forgot_its_parent(scene: Scene) -> None:
    scene.child.parents = {}


def released_but_still_waiting(scene: Scene) -> None:
    scene.child.state = LEASED


def nobody_expects_the_unborn(scene: Scene) -> None:
    scene.core.graph.expected.clear()


def expected_by_nobody(scene: Scene) -> None:
    scene.core.graph.expected[b"q", b"other"] = {}


def expected_by_one_who_does_not_wait(scene: Scene) -> None:
    scene.core.graph.expected[b"q", b"other"] = {scene.queued.id: scene.queued}


def watcher_does_not_know(scene: Scene) -> None:
    scene.ann.watching.clear()


def nobody_waits(scene: Scene) -> None:
    scene.queued.watchers = None


def worker_not_here(scene: Scene) -> None:
    del scene.core.workers[scene.bob.me]


def queue_forgot_its_worker(scene: Scene) -> None:
    del scene.core.queue(b"work").workers[scene.bob.me]


def peer_forgot_itself(scene: Scene) -> None:
    scene.bob.worker = None


def sleeper_not_listed(scene: Scene) -> None:
    scene.core.queue(b"sleepy").sleepers.clear()


def lost_wake_up(scene: Scene) -> None:
    queue = scene.core.queue(b"sleepy")
    scene.hall.submit("overlooked", "sleepy")
    queue.unsettled = False


def taker_not_listed(scene: Scene) -> None:
    scene.core.queue(b"pushed").takers.clear()


def offer_overlooked(scene: Scene) -> None:
    queue = scene.core.queue(b"pushed")
    scene.hall.submit("overlooked", "pushed")
    queue.unsettled = False


def waking_miscounted(scene: Scene) -> None:
    scene.core.queue(b"wake").waking = 0


def asleep_and_woken(scene: Scene) -> None:
    worker = scene.woken.me
    worker.asleep = True
    scene.core.queue(b"wake").sleepers[worker] = None


def woken_for_what_it_cannot_do(scene: Scene) -> None:
    scene.woken.me.waking = Queue(b"elsewhere")
    scene.core.queue(b"wake").waking = 0


def wake_up_without_guard(scene: Scene) -> None:
    scene.woken.me.wake_until_us = 0


def standing_unawares(scene: Scene) -> None:
    scene.queued.in_lane = False


def resident_not_listed(scene: Scene) -> None:
    scene.core.table.residents.clear()


def resident_not_here(scene: Scene) -> None:
    scene.core.cant_do_any(scene.resident)
    del scene.core.workers[scene.resident]


def resident_under_another_name(scene: Scene) -> None:
    scene.resident.name = b"rita"


def resident_of_another_queue(scene: Scene) -> None:
    scene.core.table.residents[b"q", b"rosa"] = scene.resident


def resident_of_a_queue_that_vanished(scene: Scene) -> None:
    scene.core.cant_do_any(scene.resident)
    scene.core.length_limits.drop(scene.core.queue(b"home"))


DAMAGES: list[Callable[[Scene], None]] = [
    wrong_id,
    queue_vanished,
    live_miscounted,
    ready_miscounted,
    lane_miscounted,
    leased_miscounted,
    twice_in_its_lane,
    ended_but_live,
    key_lost,
    key_of_a_ghost,
    lease_without_state,
    state_without_lease,
    worker_forgot_its_lease,
    lease_without_timer,
    two_leases_with_one_number,
    delayed_without_timer,
    expiring_without_timer,
    ready_with_a_timer_for_nothing,
    leased_with_a_timer_for_nothing,
    tries_that_never_were,
    the_attempt_under_way_among_the_tries,
    more_tries_than_are_kept,
    parent_forgot_its_child,
    child_forgot_its_parent,
    released_but_still_waiting,
    nobody_expects_the_unborn,
    expected_by_nobody,
    expected_by_one_who_does_not_wait,
    watcher_does_not_know,
    nobody_waits,
    worker_not_here,
    queue_forgot_its_worker,
    peer_forgot_itself,
    sleeper_not_listed,
    lost_wake_up,
    taker_not_listed,
    offer_overlooked,
    waking_miscounted,
    asleep_and_woken,
    woken_for_what_it_cannot_do,
    wake_up_without_guard,
    standing_unawares,
    resident_not_listed,
    resident_not_here,
    resident_under_another_name,
    resident_of_another_queue,
    resident_of_a_queue_that_vanished,
]


def test_a_scene_without_damage_is_clean() -> None:
    scene = Scene()
    scene.core.audit()
    assert scene.child.state == HELD


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_audit_finds(damage: Callable[[Scene], None]) -> None:
    scene = Scene()
    damage(scene)
    with pytest.raises(BrokenLaw, match=r"^(job \d+ of queue|queue|worker \d+|parent) "):
        scene.core.audit()


def test_a_broken_law_names_the_job_its_queue_and_its_state() -> None:
    scene = Scene()
    scene.queued.due_us = 5
    with pytest.raises(BrokenLaw) as caught:
        scene.core.audit()
    assert str(caught.value).startswith(f"job {scene.queued.id} of queue 'q', queued: ")


def test_an_invariant_that_holds_says_nothing() -> None:
    invariant(True, "it holds")
    with pytest.raises(BrokenLaw, match="it does not"):
        invariant(False, "it does not")
