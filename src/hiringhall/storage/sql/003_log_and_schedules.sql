-- The history records every attempt and may have its own rules for a queue; and schedules. Rows of earlier
-- versions get the defaults of the new columns without being rewritten; only dead letters change their shelf.

ALTER TABLE terms ADD COLUMN expire_us INTEGER DEFAULT 0;
ALTER TABLE terms ADD COLUMN logged INTEGER DEFAULT 0;

-- `worker` made the latest attempt; `tries` are the attempts before it, as msgpack, NULL if there are none.
ALTER TABLE jobs ADD COLUMN worker BLOB DEFAULT x'';
ALTER TABLE jobs ADD COLUMN tries BLOB;

ALTER TABLE history ADD COLUMN tries BLOB;
ALTER TABLE history ADD COLUMN shelf INTEGER DEFAULT 0;

ALTER TABLE quarantine ADD COLUMN tries;

-- The latest firing of each schedule.
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    due_us INTEGER,
    plan BLOB
);

-- Every line of the history belongs to a shelf: lines that are kept by the same rules. A queue with its own
-- rules has shelves of its own; all other queues share one (queue NULL). Dead letters have separate shelves,
-- because they are kept longer. `replaced` and `replaced_bytes` count lines that a later end of the same job
-- replaced.
CREATE TABLE shelves (
    id INTEGER PRIMARY KEY,
    queue BLOB,
    dead INTEGER,
    replaced INTEGER DEFAULT 0,
    replaced_bytes INTEGER DEFAULT 0,
    UNIQUE (queue, dead)
);

INSERT INTO shelves (id, queue, dead) VALUES (0, NULL, 0), (1, NULL, 1);

-- An end that replaces an earlier one is rare, and counted. A change of the shelf alone does not count.
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

-- By time on each shelf: a shelf grows only at one end and shrinks at the other.
DROP INDEX history_by_end;
DROP INDEX history_by_end_dead;
CREATE INDEX history_by_shelf ON history (shelf, ended_us);

-- By key, within blocks of neighbouring ids. A plain index would write another page for every random key, and
-- become slower as the history grows; within a block few pages are written. A search for a key walks the
-- blocks, newest first, with one step for each; a search for a queue reads through them.
DROP INDEX history_by_key;
CREATE INDEX history_by_key ON history (id >> 13, key, queue);
