-- Views for people who open the file with sqlite3: text for bytes, dates for microseconds, names for numbers. They are
-- made anew behind the newest step. To change one, change it here and add a numbered step, even an empty one.

DROP VIEW IF EXISTS jobs_readable;

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

DROP VIEW IF EXISTS history_readable;

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
    CASE WHEN drop_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', drop_us / 1e6, 'unixepoch') END AS kept_until,
    length(result) AS result_bytes,
    CAST(result AS TEXT) AS result,
    CASE WHEN payload_cut > 0 THEN payload_cut ELSE length(payload) END AS payload_bytes,
    CAST(payload AS TEXT) AS payload,
    output_bytes
FROM history;

DROP VIEW IF EXISTS schedules_readable;

CREATE VIEW schedules_readable AS
SELECT name, strftime('%Y-%m-%dT%H:%M:%fZ', due_us / 1e6, 'unixepoch') AS fired_until, hex(plan) AS plan
FROM schedules;

DROP VIEW IF EXISTS output_readable;

CREATE VIEW output_readable AS
SELECT
    job,
    position,
    strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') AS at,
    CASE kind WHEN 0 THEN 'data' WHEN 1 THEN 'warning' WHEN 2 THEN 'log' ELSE kind END AS kind,
    CAST(data AS TEXT) AS data
FROM output;

DROP VIEW IF EXISTS flows_readable;

CREATE VIEW flows_readable AS
SELECT
    CAST(name AS TEXT) AS name,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_us / 1e6, 'unixepoch') AS created,
    CASE WHEN ended_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', ended_us / 1e6, 'unixepoch') END AS ended,
    done,
    failed,
    cancelled
FROM flows;
