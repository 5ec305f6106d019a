"""Takes the fence out of a test's own database, to see that a fault run would find that out.

The halls are the same. Their functions in the database are replaced: a commit asks neither for the incarnation
nor for the backend, and a take-over does not find the backend that it has to end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cluster_stage import Stage

_UNFENCED: Final = """
CREATE OR REPLACE FUNCTION hall_commit(
    p_incarnation integer, p_batch bigint, p_jobs bigint, p_job_bytes bigint, p_shelf integer[],
    p_day integer[], p_lines bigint[], p_bytes bigint[], p_freed bigint[]
) RETURNS bigint LANGUAGE sql AS $$
    UPDATE writer SET batch = GREATEST(batch, p_batch), jobs = jobs + p_jobs RETURNING job_bytes
$$;
CREATE OR REPLACE FUNCTION hall_fence(p_incarnation integer) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION forget_backend() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.backend_start := '2000-01-01';
    RETURN NEW;
END
$$;
CREATE TRIGGER forget_backend BEFORE UPDATE ON writer FOR EACH ROW EXECUTE FUNCTION forget_backend();
UPDATE writer SET batch = batch;
"""


def leave_out_fence(stage: Stage) -> None:
    """From now on nothing keeps a hall that was replaced from writing."""
    stage.sql(_UNFENCED)
