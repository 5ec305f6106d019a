"""Tests of your jobs: a real hall in memory, inside the test's process.

    from hiringhall import testing

    def test_a_thumbnail():
        with testing.use(hall) as stage:
            job = thumbnail.submit("cat.jpg")
            assert job.result() == "cat.small.jpg"
            assert stage.jobs(thumbnail)[0].state == "done"

With pytest, the fixture `hall_stage` does that for every `Hall` of the program.
"""

from __future__ import annotations

from hiringhall.testing.records import StagedJob
from hiringhall.testing.stage import Stage, StageStuck, use

__all__ = ["Stage", "StageStuck", "StagedJob", "use"]
