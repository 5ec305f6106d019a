-- A job held by a resident worker stores its name, so that the lease survives a restart of the hall; otherwise
-- `holder` is empty. `started_us` is the start of the latest attempt, `ready_us` the time when the last parent
-- ended; 0: it did not happen. Rows of version 1 get these defaults without being rewritten.

ALTER TABLE jobs ADD COLUMN ready_us INTEGER DEFAULT 0;
ALTER TABLE jobs ADD COLUMN started_us INTEGER DEFAULT 0;
ALTER TABLE jobs ADD COLUMN holder BLOB DEFAULT x'';

ALTER TABLE history ADD COLUMN ready_us INTEGER DEFAULT 0;

ALTER TABLE quarantine ADD COLUMN ready_us;
ALTER TABLE quarantine ADD COLUMN holder;

DROP VIEW jobs_readable;

CREATE VIEW jobs_readable AS
SELECT
    jobs.id,
    CAST(queue AS TEXT) AS queue,
    CAST(key AS TEXT) AS key,
    CASE state WHEN 0 THEN 'held' WHEN 1 THEN 'delayed' WHEN 2 THEN 'queued' ELSE state END AS state,
    CAST(NULLIF(holder, x'') AS TEXT) AS holder,
    CASE priority WHEN 0 THEN 'high' WHEN 1 THEN 'normal' WHEN 2 THEN 'low' ELSE priority END AS priority,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_us / 1e6, 'unixepoch') AS created,
    CASE WHEN due_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', due_us / 1e6, 'unixepoch') END AS due,
    CASE WHEN ready_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', ready_us / 1e6, 'unixepoch') END AS ready,
    CASE WHEN started_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', started_us / 1e6, 'unixepoch') END AS started,
    attempts,
    failures,
    losses,
    length(payload) AS payload_bytes,
    CAST(payload AS TEXT) AS payload
FROM jobs LEFT JOIN terms ON terms.id = jobs.terms;

DROP VIEW history_readable;

CREATE VIEW history_readable AS
SELECT
    history.id,
    CAST(queue AS TEXT) AS queue,
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
    length(result) AS result_bytes,
    CAST(result AS TEXT) AS result
FROM history;
