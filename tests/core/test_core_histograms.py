"""Times in buckets: each is in the first bucket whose bound it does not exceed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.core.histograms import BOUNDS_US, BUCKETS, Histogram, bucket_of


@given(st.integers(min_value=0, max_value=1 << 60))
def test_a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed(us: int) -> None:
    assert bucket_of(us) == sum(bound < us for bound in BOUNDS_US)


@pytest.mark.parametrize("bound", BOUNDS_US)
def test_a_bound_belongs_to_its_own_bucket(bound: int) -> None:
    bucket = BOUNDS_US.index(bound)
    assert [bucket_of(bound), bucket_of(bound + 1)] == [bucket, bucket + 1]


def test_each_bound_is_more_than_twice_the_one_before_it() -> None:
    assert all(later > 2 * earlier for earlier, later in pairwise(BOUNDS_US))


def test_a_negative_time_counts_as_none() -> None:
    histogram = Histogram()
    histogram.add(-5)
    histogram.add(200)
    assert (histogram.counts[:2], sum(histogram.counts), histogram.sum_us) == ([1, 1], 2, 200)


def test_merging_adds_counts_and_sums() -> None:
    one, other = Histogram(), Histogram()
    one.add(50)
    other.add(50)
    other.add(4_000_000_000)
    one.merge(other)
    assert (one.counts[0], one.counts[BUCKETS - 1], one.sum_us) == (2, 1, 4_000_000_100)
