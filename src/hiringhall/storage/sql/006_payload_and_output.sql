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

DROP VIEW history_readable;

CREATE VIEW history_readable AS
SELECT
    history.id,
    CAST(history.queue AS TEXT) AS queue,
    CAST(key AS TEXT) AS key,
    CASE state WHEN 4 THEN 'done' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled' ELSE state END AS state,
    code,
    CAST(worker AS TEXT) AS worker,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_us / 1e6, 'unixepoch') AS created,
    CASE WHEN ready_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', ready_us / 1e6, 'unixepoch') END AS ready,
    CASE WHEN started_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', started_us / 1e6, 'unixepoch') END AS started,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended_us / 1e6, 'unixepoch') AS ended,
    attempts,
    losses,
    NULLIF(hex(tries), '') AS tries_msgpack,
    shelf,
    length(result) AS result_bytes,
    CAST(result AS TEXT) AS result,
    CASE WHEN payload_cut > 0 THEN payload_cut ELSE length(payload) END AS payload_bytes,
    CAST(payload AS TEXT) AS payload,
    output_bytes
FROM history;

CREATE VIEW output_readable AS
SELECT
    job,
    position,
    strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') AS at,
    CASE kind WHEN 0 THEN 'data' WHEN 1 THEN 'warning' WHEN 2 THEN 'log' ELSE kind END AS kind,
    CAST(data AS TEXT) AS data
FROM output;
