-- The rules of queues that were set while the hall ran: a map in MessagePack. They win over the settings.

CREATE TABLE queue_rules (
    queue BLOB PRIMARY KEY,
    rules BLOB NOT NULL
) WITHOUT ROWID;

-- Keys that are throttled: until this time, submits with the key are answered with the job, which may have ended.

CREATE TABLE windows (
    queue BLOB NOT NULL,
    key BLOB NOT NULL,
    job INTEGER NOT NULL,
    until_us INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
