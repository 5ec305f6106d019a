"""The worker's side, one message after the other: what it promises, to whom, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp import WorkerState, WorkerTerms
from hiringhall.peers.wmp.worker_state import ROUTES_MAX, SECOND_US, Effect, Order, Send, Start, Stop

LOCK_US = 5 * SECOND_US
Header = tuple[bytes, bytes]


class Story:
    """A crew, and a test that plays its managers."""

    def __init__(self, capacity: int = 1, costs: dict[bytes, int] | None = None, links: int = 1) -> None:
        self.now_us = 0
        self.crew = WorkerState(
            links, costs or {b"r": 1}, WorkerTerms(capacity=capacity, name=b"joe", lock_us=LOCK_US)
        )
        self.orders: list[Order] = []
        self.stopped: list[Order] = []
        self.said: list[str] = []
        self.do(self.crew.start(0))

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.said.append(shown(effect))
            elif isinstance(effect, Start):
                self.orders.append(effect.order)
                self.said.append("start")
            elif isinstance(effect, Stop):
                self.stopped.append(effect.order)
        self.crew.audit()

    def hear(
        self,
        command: bytes,
        *headers: Header,
        payload: bytes = b"",
        link: int = 0,
        come: tuple[bytes, ...] = (),
    ) -> None:
        manager = [] if any(name == b"manager" for name, _ in headers) else [(b"manager", b"M")]
        body = wire.encode_body(command, [*manager, *headers], payload)
        self.do(self.crew.received(link, wire.join_frames([], list(come), body), self.now_us))

    def wake(
        self, role: bytes = b"r", link: int = 0, come: tuple[bytes, ...] = (), manager: bytes = b"M"
    ) -> None:
        self.hear(wire.WAKE, (b"manager", manager), (b"role", role), link=link, come=come)

    def take(
        self, job: bytes, role: bytes = b"r", *more: Header, link: int = 0, come: tuple[bytes, ...] = ()
    ) -> None:
        self.hear(wire.TAKE, (b"job", job), (b"role", role), *more, payload=b"do " + job, link=link, come=come)

    def pass_to(self, at_us: int) -> None:
        self.now_us = at_us
        self.do(self.crew.tick(at_us))

    def hush(self) -> list[str]:
        """What was said since the last time."""
        said = self.said
        self.said = []
        return said

    @property
    def state(self) -> tuple[int, int]:
        return self.crew.used, self.crew.locked


def shown(send: Send) -> str:
    """As in 0/m1 DONE job=j status=failed | text; the link and the path first."""
    parts = wire.split_frames(send.frames)
    assert parts is not None
    to, come, body = parts
    assert come == []
    message = wire.parse_body(body)
    words = ["/".join([str(send.link), *(hop.decode() for hop in to)]), message.command.decode()]
    words += [f"{name.decode()}={value.decode()}" for name, value in message.headers if name not in _QUIET]
    return " ".join(words) + (f" | {message.payload.decode()}" if message.payload else "")


_QUIET = (b"worker", b"slots")


def test_ready_says_who_is_there_and_goes_to_every_manager() -> None:
    story = Story(3, {b"r": 1, b"s": 2}, links=2)
    assert story.hush() == ["0 READY role=r role=s", "1 READY role=r role=s"]
    (first, _) = story.crew.start(0)
    assert isinstance(first, Send)
    message = wire.parse_body(first.frames[-1])
    assert message.headers == [(b"role", b"r"), (b"role", b"s"), (b"worker", b"joe"), (b"slots", b"3")]


def test_ready_is_repeated_with_backoff_until_something_is_heard() -> None:
    story = Story()
    times_us: list[int] = []
    for _ in range(7):
        at_us = story.crew.next_deadline()
        assert at_us is not None
        times_us.append(at_us - story.now_us)
        story.pass_to(at_us)
    assert [time_us / SECOND_US for time_us in times_us] == [0.5, 1, 2, 4, 8, 10, 10]
    assert story.hush() == ["0 READY role=r"] * 8

    story.now_us += SECOND_US
    story.hear(wire.NO, (b"role", b"r"))
    assert story.crew.next_deadline() == story.now_us + SECOND_US // 2


def test_a_talkative_manager_does_not_keep_ready_from_the_others() -> None:
    story = Story(links=2)
    story.hush()
    for tenth in range(1, 5):
        story.now_us = tenth * SECOND_US // 10
        story.hear(wire.NO, (b"role", b"r"))
    story.pass_to(SECOND_US // 2)
    assert story.hush() == ["0 READY role=r", "1 READY role=r"]


def test_wake_give_take_done() -> None:
    story = Story(2)
    story.hush()
    story.wake(come=(b"m1", b"m0"))
    assert story.hush() == ["0/m1/m0 GIVE role=r"]
    assert story.state == (0, 1)

    story.take(b"j1", b"r", (b"key", b"k"), come=(b"m1", b"m0"))
    assert story.hush() == ["0 READY role=r", "start"], "ready for the next before this one is begun"
    assert story.state == (1, 0)
    order = story.orders[0]
    assert (order.manager, order.job, order.role, order.key, order.payload) == (
        b"M",
        b"j1",
        b"r",
        b"k",
        b"do j1",
    )

    story.do(story.crew.progress(order, 3, 8, 0))
    story.do(story.crew.send_data(order, b"piece", 0))
    story.do(story.crew.finish(order, b"result", 0))
    assert story.hush() == [
        "0/m1/m0 STATUS manager=M job=j1 progress=3/8",
        "0/m1/m0 STATUS manager=M job=j1 | piece",
        "0/m1/m0 DONE manager=M job=j1 | result",
    ], "it was not full: nobody has to hear that it is ready"
    assert story.state == (0, 0)


def test_a_full_worker_is_silent_until_there_is_room_again() -> None:
    story = Story(1)
    story.wake()
    story.take(b"j1")
    story.hush()
    story.wake(come=(b"m1",))
    story.pass_to(story.now_us + SECOND_US)
    assert story.hush() == []
    story.do(story.crew.fail(story.orders[0], b"oh", 7, story.now_us))
    assert story.hush() == ["0 DONE manager=M job=j1 status=failed code=7 | oh", "0 READY role=r"]


def test_only_roles_with_room_are_offered_and_the_others_when_there_is() -> None:
    story = Story(3, {b"small": 1, b"large": 3})
    story.wake(b"small")
    story.hush()
    story.take(b"j1", b"small")
    assert story.hush() == ["0 READY role=small", "start"]
    story.wake(b"large")
    assert story.hush() == [], "a WAKE that there is no room for is ignored"
    story.do(story.crew.finish(story.orders[0], b"", 0))
    assert story.hush() == ["0 DONE manager=M job=j1", "0 READY role=small role=large"]
    story.wake(b"large")
    assert story.state == (0, 3)


def test_no_unlocks() -> None:
    story = Story(1)
    story.wake()
    story.hush()
    story.hear(wire.NO, (b"role", b"other"))
    assert story.state == (0, 1), "that is the answer to something else"
    story.hear(wire.NO, (b"role", b"r"))
    assert story.state == (0, 0)
    assert story.hush() == ["0 READY role=r"]
    story.wake()
    story.hear(wire.NO)
    assert story.state == (0, 0)


def test_a_lock_times_out_and_everybody_hears_that_there_is_room() -> None:
    story = Story(2, links=2)
    story.now_us = SECOND_US // 4
    story.wake()
    story.pass_to(LOCK_US + SECOND_US // 4 - 1)
    assert story.state == (0, 1)
    story.hush()
    story.pass_to(LOCK_US + SECOND_US // 4)
    assert story.state == (0, 0)
    assert story.hush()[:2] == ["0 READY role=r", "1 READY role=r"]


def test_one_lock_for_each_way_to_a_manager() -> None:
    story = Story(4, {b"r": 1, b"s": 3})
    story.hush()
    story.wake(b"r")
    story.wake(b"r")
    assert story.hush() == ["0 GIVE role=r", "0 GIVE role=r"], "the first may have been lost"
    assert story.state == (0, 1)
    story.wake(b"s")
    assert story.state == (0, 3), "the manager asks for something else now"
    story.wake(b"r", come=(b"m1",))
    assert story.state == (0, 4)
    story.wake(b"r", come=(b"m2",))
    assert story.state == (0, 4)


def test_take_after_the_lock_timed_out() -> None:
    story = Story(1)
    story.wake()
    story.pass_to(LOCK_US)
    story.take(b"late")
    assert story.state == (1, 0), "there is room, so it is done all the same"
    story.hush()
    story.take(b"later", b"r", (b"manager", b"N"), come=(b"m1",))
    assert story.hush() == ["0/m1 DONE manager=N job=later status=declined"]
    assert story.crew.declined == 1


def test_take_does_not_use_what_is_locked_for_another() -> None:
    story = Story(2, {b"r": 1, b"s": 2})
    story.wake(b"r", come=(b"m1",), manager=b"N")
    story.hush()
    story.take(b"j1", b"s")
    assert story.hush() == ["0 DONE manager=M job=j1 status=declined"]
    story.take(b"j2", b"nobody can do this")
    assert story.hush() == ["0 DONE manager=M job=j2 status=declined"]
    assert story.state == (0, 1)


def test_a_job_it_already_has_is_not_begun_twice() -> None:
    story = Story(3)
    story.take(b"j1")
    story.wake()
    story.hush()
    story.take(b"j1")
    assert story.hush() == ["0 STATUS manager=M job=j1"], "the manager hears that it is here"
    assert story.state == (1, 0), "and nothing stays locked for it"
    story.take(b"j1", b"r", (b"manager", b"N"))
    assert story.state == (2, 0), "another manager's job may have the same name"


def test_cancel_stops_a_job_and_nobody_hears_of_it_again() -> None:
    story = Story(1)
    story.take(b"j1")
    story.hush()
    story.hear(wire.CANCEL, (b"job", b"unknown"))
    story.hear(wire.CANCEL, (b"manager", b"N"), (b"job", b"j1"))
    assert story.stopped == []
    story.hear(wire.CANCEL, (b"job", b"j1"))
    assert story.stopped == story.orders
    assert story.state == (1, 0), "its handler has not stopped yet"
    story.do(story.crew.progress(story.orders[0], 1, 2, 0))
    story.pass_to(60 * SECOND_US)
    assert story.hush() == []
    story.take(b"j2")
    assert story.hush() == ["0 DONE manager=M job=j2 status=declined"]
    story.do(story.crew.give_back(story.orders[0], story.now_us))
    assert story.hush() == ["0 READY role=r"]


def test_a_cancelled_job_may_be_given_again_while_the_first_attempt_stops() -> None:
    story = Story(2)
    story.take(b"j1")
    story.hear(wire.CANCEL, (b"job", b"j1"))
    story.take(b"j1")
    assert len(story.orders) == 2
    assert story.state == (2, 0)
    story.hush()
    story.do(story.crew.finish(story.orders[0], b"old", 0))
    story.do(story.crew.finish(story.orders[1], b"new", 0))
    assert story.hush() == ["0 READY role=r", "0 DONE manager=M job=j1 | new"]


@pytest.mark.parametrize(
    ("lease", "beat_us"),
    [
        (b"", 10 * SECOND_US),
        (b"6", 2 * SECOND_US),
        (b"1.5", SECOND_US // 2),
        (b"0", SECOND_US // 1000),
        (b"soon", 10 * SECOND_US),
        (b"-3", 10 * SECOND_US),
    ],
)
def test_signs_of_life_as_often_as_the_lease_needs_them(lease: bytes, beat_us: int) -> None:
    story = Story(1)
    story.take(b"j1", b"r", (b"lease", lease))
    story.hush()
    story.pass_to(beat_us - 1)
    assert story.hush() == []
    story.pass_to(beat_us)
    assert story.hush() == ["0 STATUS manager=M job=j1"]
    story.now_us += beat_us // 2
    story.do(story.crew.progress(story.orders[0], 1, 2, story.now_us))
    assert story.crew.next_deadline() == story.now_us + beat_us, "progress is a sign of life"


def test_the_answer_goes_to_the_manager_that_take_names() -> None:
    story = Story(4, links=2)
    story.wake(manager=b"origin", link=1, come=(b"m3",))
    story.wake(manager=b"middle", link=0)
    story.hush()
    story.take(b"j1", b"r", (b"manager", b"origin"))
    story.do(story.crew.finish(story.orders[0], b"", 0))
    story.take(b"j2", b"r", (b"manager", b"nobody I know"))
    story.do(story.crew.finish(story.orders[1], b"", 0))
    answers = [line for line in story.hush() if "DONE" in line]
    assert answers == ["1/m3 DONE manager=origin job=j1", "0 DONE manager=nobody I know job=j2"]


def test_the_way_of_take_is_kept_when_it_leads_to_its_manager() -> None:
    story = Story(4, links=2)
    story.wake(link=0)
    story.wake(link=1)
    story.hush()
    story.take(b"j1", link=0)
    story.do(story.crew.finish(story.orders[0], b"", 0))
    assert "0 DONE manager=M job=j1" in story.hush(), "and not by the way it was heard of last"


def test_take_does_not_say_whose_way_it_came() -> None:
    story = Story(4)
    story.take(b"j1", b"r", (b"manager", b"far"), come=(b"m1",))
    story.take(b"j2", b"r", (b"manager", b"far"), come=(b"m2",))
    story.hush()
    story.do(story.crew.finish(story.orders[1], b"", 0))
    assert story.hush() == ["0/m2 DONE manager=far job=j2"]


def test_known_ways_are_bounded() -> None:
    story = Story(1)
    for number in range(ROUTES_MAX + 10):
        story.hear(wire.NO, (b"manager", b"M%d" % number), come=(b"m%d" % number,))
    story.hush()
    story.take(b"j1", b"r", (b"manager", b"M0"))
    story.do(story.crew.finish(story.orders[0], b"", 0))
    assert "0 DONE manager=M0 job=j1" in story.hush(), "forgotten"
    story.take(b"j2", b"r", (b"manager", b"M10"))
    story.do(story.crew.finish(story.orders[1], b"", 0))
    assert "0/m10 DONE manager=M10 job=j2" in story.hush(), "remembered"


def test_who_leaves_takes_no_more_and_finishes_what_he_has() -> None:
    story = Story(3)
    story.take(b"j1")
    story.wake()
    story.hush()
    story.do(story.crew.leave())
    assert story.state == (1, 0)
    story.take(b"j2")
    story.wake()
    story.pass_to(SECOND_US)
    assert story.hush() == ["0 DONE manager=M job=j2 status=declined"]
    story.do(story.crew.finish(story.orders[0], b"", story.now_us))
    assert story.hush() == ["0 DONE manager=M job=j1"]
    assert story.crew.next_deadline() is None


BODY = wire.encode_body(wire.WAKE, [(b"manager", b"M"), (b"role", b"r")])


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [BODY],
        [b"", BODY],
        [b"elsewhere", b"", b"", BODY],
        [b"", b"", b""],
        [b"", b"", b"WMP2 WAKE\nmanager: M\n\n"],
        [b"", b"", wire.encode_body(wire.WAKE, [(b"role", b"r")])],
        [b"", b"", wire.encode_body(wire.WAKE, [(b"manager", b"M" * 256), (b"role", b"r")])],
        [b"", b"", wire.encode_body(wire.READY, [(b"manager", b"M"), (b"role", b"r")])],
        [b"", b"", wire.encode_body(wire.DONE, [(b"manager", b"M"), (b"job", b"j")])],
        [b"", b"", wire.encode_body(wire.TAKE, [(b"manager", b"M"), (b"role", b"r")])],
        [b"", b"", wire.encode_body(wire.TAKE, [(b"manager", b"M"), (b"job", b"j" * 256), (b"role", b"r")])],
    ],
)
def test_what_makes_no_sense_is_counted_and_changes_nothing(frames: list[bytes]) -> None:
    story = Story(1)
    story.hush()
    story.do(story.crew.received(0, frames, 0))
    assert story.crew.malformed == 1
    assert (story.hush(), story.state) == ([], (0, 0))


@pytest.mark.parametrize("cost", [0, -1, 3])
def test_a_role_that_could_never_be_done_is_refused(cost: int) -> None:
    with pytest.raises(ValueError, match="must cost from 1 to 2"):
        Story(2, {b"r": cost})


@given(st.lists(st.binary(max_size=60), max_size=6), st.binary(max_size=200))
def test_any_frames_are_taken(frames: list[bytes], body: bytes) -> None:
    story = Story(1)
    story.do(story.crew.received(0, frames, 0))
    story.do(story.crew.received(0, [b"", b"", body], 0))
    story.do(story.crew.received(0, [b"", b"", b"WMP1 TAKE\n" + body + b"\n\n"], 0))
    assert story.state == (0, 0)


# --- a crew whose jobs are done by others


class Room:
    """How many more jobs of each role others could do."""

    def __init__(self) -> None:
        self.left: dict[bytes, int] = {}

    def __call__(self, role: bytes) -> int:
        return self.left.get(role, 0)


def passing_on(room: Room) -> Story:
    story = Story(capacity=10)
    terms = WorkerTerms(capacity=10, lock_us=LOCK_US, via=b"south")
    story.crew = WorkerState(1, {b"r": 1, b"s": 1}, terms, room)
    story.said.clear()
    story.do(story.crew.start(0))
    return story


def test_it_is_ready_only_for_what_others_have_room_for() -> None:
    room = Room()
    story = passing_on(room)
    assert (story.said, story.crew.has_news, story.crew.next_deadline()) == ([], False, None)
    room.left = {b"s": 1}
    assert story.crew.has_news
    story.do(story.crew.look_for_room(story.now_us))
    assert [line for line in story.said if "role=s" in line and "role=r" not in line and "via=south" in line]
    assert not story.crew.has_news


def test_it_asks_for_no_more_than_there_is_room_for() -> None:
    room = Room()
    room.left = {b"r": 1}
    story = passing_on(room)
    story.said.clear()
    story.wake(b"r", come=(b"one",))
    story.wake(b"r", come=(b"two",))
    story.wake(b"s", come=(b"two",))
    assert len(story.said) == 1
    assert "GIVE" in story.said[0]


def test_a_wake_it_could_not_answer_is_made_good_when_there_is_room() -> None:
    room = Room()
    room.left = {b"r": 1}
    story = passing_on(room)
    room.left = {}
    story.said.clear()
    story.wake(b"r")
    assert story.said == []
    room.left = {b"r": 1}
    assert story.crew.has_news
    story.do(story.crew.look_for_room(story.now_us))
    assert len(story.said) == 1
    assert "GIVE" in story.said[0]
    assert not story.crew.has_news
    story.do(story.crew.look_for_room(story.now_us))
    assert len(story.said) == 1, "it is asked for once"


def test_a_job_for_which_the_room_is_gone_is_declined() -> None:
    room = Room()
    room.left = {b"r": 1}
    story = passing_on(room)
    story.wake(b"r")
    room.left = {}
    story.said.clear()
    story.take(b"j")
    assert story.crew.declined == 1
    assert story.orders == []


def test_the_way_of_a_job_is_kept_in_its_order() -> None:
    story = Story()
    story.wake()
    story.take(b"j", b"r", (b"via", b"east"), (b"via", b"west"))
    assert story.orders[0].via == [b"east", b"west"]
