"""Ends over time are counted once each, however the counting is cut into passes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from hiringhall.records import EndCount
from hiringhall.web.charting import DAY_US, HOUR_US, MINUTE_US, Ends

if TYPE_CHECKING:
    from collections.abc import Callable

NOW_US = 1_760_000_000_000_000
ENDS = st.lists(
    st.tuples(st.integers(0, 3 * DAY_US), st.sampled_from([b"a", b"b"]), st.sampled_from([4, 5, 6])),
    max_size=40,
)


def history(ends: list[tuple[int, bytes, int]]) -> Callable[[int, int, int], list[EndCount]]:
    """A history of these ends: how long ago, of which queue, in which state."""

    def count(from_us: int, to_us: int, bucket_us: int) -> list[EndCount]:
        found = Counter(
            ((NOW_US - ago_us) // bucket_us, queue, state)
            for ago_us, queue, state in ends
            if from_us <= NOW_US - ago_us < to_us
        )
        return [EndCount(*key, count, count, count * 2, count * 3) for key, count in found.items()]

    return count


@given(ENDS, st.lists(st.integers(0, 3 * DAY_US), max_size=6))
def test_every_end_is_counted_once(ends: list[tuple[int, bytes, int]], looks: list[int]) -> None:
    """Looks at later and later times, each at a part of the past."""
    counted = Ends(NOW_US - 2 * DAY_US)
    for place, ago_us in enumerate(sorted(looks, reverse=True)):
        counted.fill(history(ends), NOW_US - ago_us, NOW_US - ago_us, 0.001 * place)
    while not counted.fill(history(ends), NOW_US - 4 * DAY_US, NOW_US + 5_000_000, 1.0):
        pass
    cell = counted.hours.read(NOW_US - 5 * DAY_US, NOW_US + HOUR_US, b"")
    wanted = Counter(state for _, _, state in ends)
    assert cell.counts == [wanted[4], wanted[5], wanted[6]]
    assert (cell.started, cell.wait_us, cell.run_us) == (len(ends), len(ends) * 2, len(ends) * 3)
    for queue in (b"a", b"b"):
        of_queue = counted.hours.read(NOW_US - 5 * DAY_US, NOW_US + HOUR_US, queue)
        assert sum(of_queue.counts) == sum(name == queue for _, name, _ in ends)
    day = counted.minutes.read(NOW_US - DAY_US, NOW_US + HOUR_US, b"")
    begin_us = (NOW_US - DAY_US) // MINUTE_US * MINUTE_US
    assert sum(day.counts) == sum(NOW_US - ago_us >= begin_us for ago_us, _, _ in ends)
