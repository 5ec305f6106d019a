-- What a hall stores. Queue, key, payload, result and worker are bytes as received; times are microseconds
-- since 1970; parents and extras are msgpack, NULL if there are none.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('epoch', 0), ('ends_replaced', 0), ('probe', NULL);

-- Jobs with the same terms share one row here.
CREATE TABLE terms (
    id INTEGER PRIMARY KEY,
    priority INTEGER,
    durable INTEGER,
    detached INTEGER,
    failures_max INTEGER,
    backoff_us INTEGER,
    backoff_max_us INTEGER,
    losses_max INTEGER,
    lease_us INTEGER,
    run_us INTEGER,
    on_parent_failure INTEGER
);

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    queue BLOB,
    key BLOB,
    payload BLOB,
    terms INTEGER,
    state INTEGER,
    created_us INTEGER,
    due_us INTEGER,
    attempts INTEGER,
    failures INTEGER,
    losses INTEGER,
    parents BLOB,
    extras BLOB
);

CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    queue BLOB,
    key BLOB,
    state INTEGER,
    code INTEGER,
    result BLOB,
    worker BLOB,
    created_us INTEGER,
    started_us INTEGER,
    ended_us INTEGER,
    attempts INTEGER,
    losses INTEGER,
    terms INTEGER,
    payload BLOB DEFAULT x'',
    extras BLOB
);

-- A job is in one table only: its end removes it from the live jobs. A trigger does this, so that a batch of
-- ends stays a single statement.
CREATE TRIGGER history_takes_job AFTER INSERT ON history
BEGIN
    DELETE FROM jobs WHERE id = NEW.id;
END;

-- An end that replaces an earlier one is rare, and counted.
CREATE TRIGGER history_takes_job_again AFTER UPDATE ON history
BEGIN
    DELETE FROM jobs WHERE id = NEW.id;
    UPDATE meta SET value = value + 1 WHERE name = 'ends_replaced';
END;

-- By time, dead letters (state 5) separately because they are kept longer. Each index grows only at one end and
-- shrinks at the other.
CREATE INDEX history_by_end ON history (ended_us) WHERE state <> 5;
CREATE INDEX history_by_end_dead ON history (ended_us) WHERE state = 5;

-- By queue and key, within blocks of neighbouring ids. A plain index would write another page for every random
-- key, and become slower as the history grows; within a block few pages are written. A search for a key walks
-- the blocks, newest first.
CREATE INDEX history_by_key ON history (id >> 13, queue, key);

-- Rows that could not be decoded, unchanged. The columns have no types, so that nothing is converted.
CREATE TABLE quarantine (
    number INTEGER PRIMARY KEY,
    source TEXT,
    reason TEXT,
    set_aside_at TEXT DEFAULT CURRENT_TIMESTAMP,
    id, queue, key, payload, terms, state, code, result, worker,
    created_us, due_us, started_us, ended_us, attempts, failures, losses, parents, extras
);
