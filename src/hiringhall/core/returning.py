"""Workers that come back after a silence, without the job that they had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.leasing import Leasing

if TYPE_CHECKING:
    from hiringhall.core.jobs import Lease


class Returning(Leasing):
    """The verbs for dialects in which a worker is silent while it works."""

    def lose(self, lease: Lease) -> None:
        """The worker has come back without the job: a loss, as if it had gone."""
        self._check_live(lease)
        self._lose(lease)
