-- What a hall stores. Queue, key, payload, result, worker and dialect are bytes as received; times are microseconds since
-- 1970; parents, extras and tries are msgpack, NULL if there are none. No foreign keys and no triggers: one hall writes,
-- and every commit would pay for them.

-- The members: each process that has this database open, or had. `batch` is the last batch of an incarnation that was
-- fenced, so that it can still find out what became of its last commit.
CREATE SEQUENCE incarnations AS integer;

CREATE TABLE halls (
    hall integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    incarnation integer NOT NULL,
    address text NOT NULL DEFAULT '',
    version text NOT NULL DEFAULT '',
    fenced boolean NOT NULL DEFAULT false,
    batch bigint NOT NULL DEFAULT 0
);

-- Every member counts its beat up while it lives. A page has room for the versions of a row that changes often.
CREATE TABLE beats (
    hall integer PRIMARY KEY,
    incarnation integer NOT NULL,
    beat bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

-- The fence and the receipt, in one row. Only the incarnation and the backend named here can commit, and only the batch after
-- the last one. `backend` is 0 while no hall is open. `jobs` and `job_bytes` count the live jobs.
CREATE TABLE writer (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    hall integer NOT NULL,
    incarnation integer NOT NULL,
    batch bigint NOT NULL,
    backend integer NOT NULL,
    backend_start timestamptz,
    jobs bigint NOT NULL DEFAULT 0,
    job_bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

INSERT INTO writer (hall, incarnation, batch, backend) VALUES (0, 0, 0, 0);

-- Jobs with the same terms share one row here.
CREATE TABLE terms (
    id bigint PRIMARY KEY,
    priority bigint NOT NULL,
    durable bigint NOT NULL,
    detached bigint NOT NULL,
    failures_max bigint NOT NULL,
    backoff_us bigint NOT NULL,
    backoff_max_us bigint NOT NULL,
    losses_max bigint NOT NULL,
    lease_us bigint NOT NULL,
    run_us bigint NOT NULL,
    on_parent_failure bigint NOT NULL,
    expire_us bigint NOT NULL,
    logged bigint NOT NULL,
    skill bigint NOT NULL,
    takes_us bigint NOT NULL,
    quits_max bigint NOT NULL,
    key_is_work bigint NOT NULL,
    keep_us bigint NOT NULL
);

-- Live jobs. Rows come and go, so that the table is vacuumed early and often.
CREATE TABLE jobs (
    id bigint PRIMARY KEY,
    queue bytea NOT NULL,
    key bytea NOT NULL,
    payload bytea NOT NULL,
    terms bigint NOT NULL,
    state bigint NOT NULL,
    created_us bigint NOT NULL,
    due_us bigint NOT NULL,
    attempts bigint NOT NULL,
    failures bigint NOT NULL,
    losses bigint NOT NULL,
    parents bytea,
    extras bytea,
    ready_us bigint NOT NULL,
    started_us bigint NOT NULL,
    holder bytea NOT NULL,
    worker bytea NOT NULL,
    tries bytea,
    flow bytea,
    all_parents bytea,
    dialect bytea NOT NULL
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);

-- A payload lives briefly: it is not worth compressing.
ALTER TABLE jobs ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Lines that are kept by the rules for all queues, a partition for each day of `ended_us`. `drop_us` is when a line is dropped
-- although the rules would keep it longer; 0: the rules decide. Every partition has the indexes of this table.
CREATE TABLE history (
    id bigint NOT NULL,
    queue bytea NOT NULL,
    key bytea NOT NULL,
    state bigint NOT NULL,
    code bigint NOT NULL,
    result bytea NOT NULL,
    worker bytea NOT NULL,
    created_us bigint NOT NULL,
    started_us bigint NOT NULL,
    ended_us bigint NOT NULL,
    attempts bigint NOT NULL,
    losses bigint NOT NULL,
    terms bigint NOT NULL,
    payload bytea NOT NULL,
    extras bytea,
    ready_us bigint NOT NULL,
    tries bytea,
    payload_cut bigint NOT NULL,
    flow bytea,
    all_parents bytea,
    dialect bytea NOT NULL,
    shelf integer NOT NULL,
    output_bytes bigint NOT NULL,
    drop_us bigint NOT NULL
) PARTITION BY RANGE (ended_us);

CREATE INDEX history_by_id ON history (id);
CREATE INDEX history_by_end ON history (ended_us, id);
CREATE INDEX history_by_key ON history (key, queue) WHERE key <> '';
CREATE INDEX history_by_flow ON history (flow, id) WHERE flow IS NOT NULL;
CREATE INDEX history_by_drop ON history (drop_us) WHERE drop_us > 0;

-- Dead letters, and the lines of queues that have rules of their own. They are few, or kept for other times than a day's
-- partition.
CREATE TABLE history_apart (
    LIKE history,
    PRIMARY KEY (id)
);

CREATE INDEX history_apart_by_shelf ON history_apart (shelf, ended_us, id);
CREATE INDEX history_apart_by_end ON history_apart (ended_us, id);
CREATE INDEX history_apart_by_key ON history_apart (key, queue) WHERE key <> '';
CREATE INDEX history_apart_by_flow ON history_apart (flow, id) WHERE flow IS NOT NULL;
CREATE INDEX history_apart_by_drop ON history_apart (drop_us) WHERE drop_us > 0;

CREATE VIEW lines AS SELECT * FROM history UNION ALL SELECT * FROM history_apart;

-- Every line belongs to a shelf: lines that are kept by the same rules. Shelf 0 is `history`, shelf 1 has the dead letters of
-- all queues without rules of their own (queue NULL); each other queue has two.
CREATE TABLE shelves (
    id integer PRIMARY KEY,
    queue bytea,
    dead boolean NOT NULL,
    UNIQUE (queue, dead)
);

INSERT INTO shelves (id, queue, dead) VALUES (0, NULL, false), (1, NULL, true);

-- How many lines each shelf has and how much content, kept by every commit: counting them at a start would take long. Shelf 0
-- has a row for each day; the others have day 0.
CREATE TABLE counts (
    shelf integer NOT NULL,
    day integer NOT NULL,
    lines bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (shelf, day)
) WITH (fillfactor = 10);

INSERT INTO counts (shelf, day, lines, bytes) VALUES (1, 0, 0, 0);

-- Data (kind 0), warnings (1) and log lines (2) of live and ended jobs. `position` counts the bytes that the job said before
-- this line.
CREATE TABLE output (
    job bigint NOT NULL,
    position bigint NOT NULL,
    at_us bigint NOT NULL,
    kind bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (job, position)
);

-- The latest firing of each schedule. Names are text as bytes: they may hold what a text of PostgreSQL cannot.
CREATE TABLE schedules (
    name bytea PRIMARY KEY,
    due_us bigint NOT NULL,
    plan bytea NOT NULL
);

-- The queues that are paused: no job of them starts until they are resumed.
CREATE TABLE paused (
    queue bytea PRIMARY KEY
);

-- When each flow began and ended (0: it has live jobs), and how many of its jobs have ended how.
CREATE TABLE flows (
    name bytea PRIMARY KEY,
    created_us bigint NOT NULL,
    ended_us bigint NOT NULL,
    done bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL
);

-- What is replaced as a whole: the book of schedules and the list of tokens.
CREATE TABLE documents (
    name text PRIMARY KEY,
    content bytea NOT NULL
);

-- Rows that could not be decoded, as JSON.
CREATE TABLE quarantine (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source text NOT NULL,
    id bigint NOT NULL,
    reason text NOT NULL,
    set_aside_at timestamptz NOT NULL DEFAULT now(),
    content jsonb NOT NULL
);

-- For use with psql.
CREATE VIEW jobs_readable AS
SELECT
    jobs.id,
    encode(queue, 'escape') AS queue,
    encode(key, 'escape') AS key,
    CASE state WHEN 0 THEN 'held' WHEN 1 THEN 'delayed' WHEN 2 THEN 'queued' WHEN 3 THEN 'leased' END AS state,
    encode(NULLIF(worker, ''), 'escape') AS worker,
    to_timestamp(created_us / 1e6) AS created,
    to_timestamp(NULLIF(due_us, 0) / 1e6) AS due,
    to_timestamp(NULLIF(started_us, 0) / 1e6) AS started,
    attempts,
    failures,
    losses,
    octet_length(payload) AS payload_bytes,
    encode(payload, 'escape') AS payload
FROM jobs;

CREATE VIEW history_readable AS
SELECT
    id,
    encode(queue, 'escape') AS queue,
    encode(key, 'escape') AS key,
    CASE state WHEN 4 THEN 'done' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled' END AS state,
    code,
    encode(worker, 'escape') AS worker,
    to_timestamp(created_us / 1e6) AS created,
    to_timestamp(NULLIF(started_us, 0) / 1e6) AS started,
    to_timestamp(ended_us / 1e6) AS ended,
    attempts,
    losses,
    octet_length(result) AS result_bytes,
    encode(result, 'escape') AS result,
    encode(payload, 'escape') AS payload,
    output_bytes
FROM lines;
