"""What the sessions of one native door share: its options, and the terms that its clients have used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hiringhall.dialects.hall import TOKENS_AUTO
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.terms import DEFAULTS, TermsCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.services import HallServices
    from hiringhall.dialects.session import Session


@dataclass(frozen=True)
class NativeOptions:
    """How one door treats its peers."""

    hall: str = "hall"
    """The name of the hall, as it greets."""
    frame_bytes_max: int = wire.FRAME_BYTES_MAX
    lookups_max: int = 1000
    """Requests of one connection that may wait for the history at once."""
    log_all: bool = False
    """The end of every job goes to the history, and not only that of durable ones."""
    tokens: str = TOKENS_AUTO
    """Who needs a token: see `dialects.hall`."""


class NativeContext:
    """One door."""

    def __init__(
        self,
        scheduler: Scheduler,
        options: NativeOptions,
        look_up: Callable[[Session, int], None],
        look_up_keys: Callable[[Session, int, list[ParentRef]], None],
        look_up_output: Callable[[Session, int, int], None],
        services: HallServices,
    ) -> None:
        self.scheduler = scheduler
        self.options = options
        self.look_up = look_up
        """Asks the history for one job: the session's `looked_up` is called in a later turn."""
        self.look_up_keys = look_up_keys
        """Asks the history for the latest ends of keys: `keys_looked_up` is called in a later turn."""
        self.look_up_output = look_up_output
        """Asks for the output of one job, from a position on; see `Session.output_looked_up`."""
        self.services = services
        self.terms = TermsCache(DEFAULTS.replace(logged=options.log_all))
