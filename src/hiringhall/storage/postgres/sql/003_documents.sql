-- Version 2 was the functions, which are in functions.sql now.

-- A document is written only if nobody has written it since it was read: every write counts the version up.
ALTER TABLE documents ADD COLUMN version bigint NOT NULL DEFAULT 1;

-- Logs, such as the audit log: what people changed.
CREATE TABLE log_lines (
    log text NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    line bytea NOT NULL,
    PRIMARY KEY (log, number)
);
