"""How much CPU time the host of a virtual machine took away during a run.

Figures of such a run are lower, and their rounds differ more, than on a machine of its own.
"""

from __future__ import annotations

from pathlib import Path

STAT = Path("/proc/stat")
_IDLE = (3, 4)
_STOLEN = 7
_GUEST = 8
"""Fields of the line `cpu`: idle and iowait; steal; what guests used, which is counted as user time too."""


class StolenTime:
    """Counts from its creation on."""

    def __init__(self, stat: Path = STAT) -> None:
        self._stat = stat
        self._wanted, self._stolen = _ticks(stat)

    @property
    def share(self) -> float:
        """The stolen part of the CPU time that the processes of this machine wanted; 0: nothing is known."""
        wanted, stolen = _ticks(self._stat)
        return (stolen - self._stolen) / (wanted - self._wanted) if wanted > self._wanted else 0.0


def _ticks(stat: Path) -> tuple[int, int]:
    """What was used or stolen since boot, and what was stolen."""
    try:
        fields = [int(field) for field in stat.read_text().split("\n", 1)[0].split()[1 : _GUEST + 1]]
    except (OSError, ValueError):
        return 0, 0
    if len(fields) <= _STOLEN:
        return 0, 0
    return sum(field for place, field in enumerate(fields) if place not in _IDLE), fields[_STOLEN]
