-- The rules of queues that were set while the hall ran: a map in MessagePack. They win over the settings.
CREATE TABLE queue_rules (
    queue bytea PRIMARY KEY,
    rules bytea NOT NULL
);

-- Keys that are throttled: until this time, submits with the key are answered with the job, which may have ended.
CREATE TABLE windows (
    queue bytea NOT NULL,
    key bytea NOT NULL,
    job bigint NOT NULL,
    until_us bigint NOT NULL,
    PRIMARY KEY (queue, key)
);
