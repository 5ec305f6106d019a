"""Somebody who submits flows by the native protocol, waits for them, cancels them and retries them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.dialects.native import wire

from .actors import Actor
from .nativeactors import HELLO, Speaker
from .world import MS

if TYPE_CHECKING:
    from .actors import Town

FLOW_SEEDS_FROM: Final = 20_000_000
"""Native worlds of these seeds have a flow player. Others are as they were before there was one."""
_FLOWS: Final = 3
_ANY: Final = 1 << 40


class FlowPlayer(Actor):
    """Asks for one thing at a time."""

    dialect = "native"
    tap = "native"

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self._waiting = False
        """An answer is to come."""
        self._ids: dict[bytes, list[int]] = {}
        """The jobs of each flow."""
        self._keys = 0
        self.world.after(self.world.random.randrange(20 * MS), self._act)

    def arrived(self) -> None:
        self._speaker = Speaker()
        self._waiting = False
        self._asked = b""
        """The flow of the submit that is to be answered."""
        self.send(HELLO)

    def _act(self) -> None:
        world = self.world
        if self.town.calm:
            return
        world.after(world.random.randrange(1, 60 * MS), self._act)
        if self.connection is None or self._waiting:
            return
        self._waiting = True
        kind, body = self._request()
        self.send(self._speaker.request(kind, body))
        if world.chance(0.03):
            self.hang_up()

    def _request(self) -> tuple[str, Any]:
        random = self.world.random
        name = b"flow %d" % random.randrange(_FLOWS)
        self._asked = b""
        dice = random.random()
        if dice < 0.45 or name not in self._ids:
            self._asked = name
            return wire.SUBMIT, [
                random.choice((0, 1)),
                [self._job(name) for _ in range(random.choice((1, 3, 5)))],
            ]
        if dice < 0.65:
            return wire.RETRY_FLOW, [name]
        if dice < 0.72:
            return wire.CANCEL_FLOW, [name, b"asked for"]
        if dice < 0.82:
            return wire.WAIT_FLOW, [name, random.choice((0, 50 * MS, 300 * MS))]
        if dice < 0.90:
            return wire.FLOW_NODES, [name, random.choice((0, _ANY))]
        if dice < 0.95:
            return wire.GRAPH, [random.choice(self._ids[name])]
        return random.choice(((wire.FLOW, [name]), (wire.FLOWS, {"count": 2})))

    def _job(self, flow: bytes) -> list[Any]:
        """Its parents are jobs of the same flow, by id or by key."""
        world = self.world
        random = world.random
        terms = {
            "flow": flow,
            "retries": random.choice((0, 0, 1)),
            "backoff_us": 20 * MS,
            "losses_max": random.choice((1, 3)),
            "on_parent_failure": random.choice(("fail", "fail", "fail", "run", "hold")),
        }
        self._keys += 1
        parents: list[int | tuple[bytes, bytes]] = []
        known = self._ids.get(flow)
        if known and world.chance(0.7):
            parents = sorted({random.choice(known[-6:]) for _ in range(random.choice((1, 2)))})
        key = b"%s %d" % (self.name.encode(), self._keys) if world.chance(0.5) else b""
        return [self.town.queue(), self.town.payload(), terms, key, 0, parents]

    def listen(self, data: bytes) -> None:
        for kind, number, body in self._speaker.feed(data):
            if number not in self._speaker.asked:
                continue
            self._waiting = False
            if kind == wire.OK and self._speaker.asked[number] == wire.SUBMIT:
                self._ids.setdefault(self._asked, []).extend(body)
