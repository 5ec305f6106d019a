-- The queues that are paused: no job of them starts until they are resumed.

CREATE TABLE paused (
    queue BLOB PRIMARY KEY
) WITHOUT ROWID;
