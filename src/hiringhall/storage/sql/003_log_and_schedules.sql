-- The history as a log of every attempt, kept for each queue by its own rules, and schedules. Rows of earlier
-- versions get the defaults of the new columns without being rewritten; only dead letters change their shelf.

ALTER TABLE terms ADD COLUMN expire_us INTEGER DEFAULT 0;
ALTER TABLE terms ADD COLUMN logged INTEGER DEFAULT 0;

-- `worker` had the latest attempt; `tries` are the attempts before that, as msgpack, NULL when there are none.
ALTER TABLE jobs ADD COLUMN worker BLOB DEFAULT x'';
ALTER TABLE jobs ADD COLUMN tries BLOB;

ALTER TABLE history ADD COLUMN tries BLOB;
ALTER TABLE history ADD COLUMN shelf INTEGER DEFAULT 0;

ALTER TABLE quarantine ADD COLUMN tries;

-- How far each schedule has come.
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    due_us INTEGER,
    plan BLOB
);

-- Every line of the history stands on a shelf, with lines that are kept by the same rules: those of one queue
-- that has its own, or of all that have none (queue NULL); dead letters apart, because they are kept for longer.
-- `replaced` and `replaced_bytes` count what left the shelf because a later end of the same job took its place.
CREATE TABLE shelves (
    id INTEGER PRIMARY KEY,
    queue BLOB,
    dead INTEGER,
    replaced INTEGER DEFAULT 0,
    replaced_bytes INTEGER DEFAULT 0,
    UNIQUE (queue, dead)
);

INSERT INTO shelves (id, queue, dead) VALUES (0, NULL, 0), (1, NULL, 1);

-- An end that takes the place of an earlier one is rare, and counted. A line that only changes its shelf is none.
DROP TRIGGER history_takes_job_again;
DELETE FROM meta WHERE name = 'ends_replaced';
UPDATE history SET shelf = 1 WHERE state = 5;

CREATE TRIGGER history_takes_job_again AFTER UPDATE OF ended_us ON history
BEGIN
    DELETE FROM jobs WHERE id = NEW.id;
    UPDATE shelves SET
        replaced = replaced + 1,
        replaced_bytes = replaced_bytes
            + COALESCE(length(OLD.key) + length(OLD.result) + length(OLD.payload) + COALESCE(length(OLD.extras), 0), 0)
    WHERE id = OLD.shelf;
END;

-- By time on each shelf: it only ever grows at one end of a shelf and is eaten from the other.
DROP INDEX history_by_end;
DROP INDEX history_by_end_dead;
CREATE INDEX history_by_shelf ON history (shelf, ended_us);

-- By key, within blocks of neighbouring ids. A plain index would write a page somewhere else for every random
-- key, and more slowly the longer the history; within a block the pages written are few. Who looks for a key
-- walks the blocks, newest first, with one step for each; who looks for a queue reads through them.
DROP INDEX history_by_key;
CREATE INDEX history_by_key ON history (id >> 13, key, queue);

DROP VIEW jobs_readable;

CREATE VIEW jobs_readable AS
SELECT
    jobs.id,
    CAST(queue AS TEXT) AS queue,
    CAST(key AS TEXT) AS key,
    CASE state WHEN 0 THEN 'held' WHEN 1 THEN 'delayed' WHEN 2 THEN 'queued' WHEN 3 THEN 'leased' ELSE state END
        AS state,
    CAST(NULLIF(holder, x'') AS TEXT) AS holder,
    CAST(NULLIF(worker, x'') AS TEXT) AS worker,
    CASE priority WHEN 0 THEN 'high' WHEN 1 THEN 'normal' WHEN 2 THEN 'low' ELSE priority END AS priority,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_us / 1e6, 'unixepoch') AS created,
    CASE WHEN due_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', due_us / 1e6, 'unixepoch') END AS due,
    CASE WHEN ready_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', ready_us / 1e6, 'unixepoch') END AS ready,
    CASE WHEN started_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', started_us / 1e6, 'unixepoch') END AS started,
    attempts,
    failures,
    losses,
    NULLIF(hex(tries), '') AS tries_msgpack,
    length(payload) AS payload_bytes,
    CAST(payload AS TEXT) AS payload
FROM jobs LEFT JOIN terms ON terms.id = jobs.terms;

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
    CAST(result AS TEXT) AS result
FROM history;

CREATE VIEW schedules_readable AS
SELECT name, strftime('%Y-%m-%dT%H:%M:%fZ', due_us / 1e6, 'unixepoch') AS fired_until, hex(plan) AS plan
FROM schedules;
