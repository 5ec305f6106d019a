-- How long the history keeps a job, in microseconds after its end; 0: as the retention rules say.

ALTER TABLE terms ADD COLUMN keep_us INTEGER DEFAULT 0;

-- When the line is dropped although the rules would keep it longer; 0: the rules decide. Only lines with such a time
-- are in the index, so that others cost nothing.

ALTER TABLE history ADD COLUMN drop_us INTEGER DEFAULT 0;

CREATE INDEX history_by_drop ON history (drop_us) WHERE drop_us > 0;

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
    CASE WHEN drop_us > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', drop_us / 1e6, 'unixepoch') END AS kept_until,
    length(result) AS result_bytes,
    CAST(result AS TEXT) AS result,
    CASE WHEN payload_cut > 0 THEN payload_cut ELSE length(payload) END AS payload_bytes,
    CAST(payload AS TEXT) AS payload,
    output_bytes
FROM history;
