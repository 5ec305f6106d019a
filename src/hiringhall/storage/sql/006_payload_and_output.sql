-- The history keeps the beginning of each payload: `payload_cut` is the size of the whole one, 0 if it was not cut.
-- `output_bytes` is the size of what its workers said while the job ran; 0: nothing.

ALTER TABLE history ADD COLUMN payload_cut INTEGER DEFAULT 0;
ALTER TABLE history ADD COLUMN output_bytes INTEGER DEFAULT 0;

ALTER TABLE quarantine ADD COLUMN payload_cut;

-- Data (kind 0), warnings (1) and log lines (2) of live and ended jobs. `position` counts the bytes that the job said
-- before this line.
CREATE TABLE output (
    job INTEGER,
    position INTEGER,
    at_us INTEGER,
    kind INTEGER,
    data BLOB
);

CREATE UNIQUE INDEX output_by_job ON output (job, position);

-- Output goes with the line of its job. If the job runs again, `output_bytes` is set to 0 before its line is deleted.
CREATE TRIGGER history_drops_output AFTER DELETE ON history WHEN OLD.output_bytes > 0
BEGIN
    DELETE FROM output WHERE job = OLD.id;
END;

DROP TRIGGER history_takes_job_again;

CREATE TRIGGER history_takes_job_again AFTER UPDATE OF ended_us ON history
BEGIN
    DELETE FROM jobs WHERE id = NEW.id;
    UPDATE shelves SET
        replaced = replaced + 1,
        replaced_bytes = replaced_bytes + OLD.output_bytes
            + COALESCE(length(OLD.key) + length(OLD.result) + length(OLD.payload) + COALESCE(length(OLD.extras), 0), 0)
    WHERE id = OLD.shelf;
END;
