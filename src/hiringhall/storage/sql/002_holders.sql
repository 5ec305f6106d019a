-- A job held by a resident worker stores its name, so that the lease survives a restart of the hall; otherwise
-- `holder` is empty. `started_us` is the start of the latest attempt, `ready_us` the time when the last parent
-- ended; 0: it did not happen. Rows of version 1 get these defaults without being rewritten.

ALTER TABLE jobs ADD COLUMN ready_us INTEGER DEFAULT 0;
ALTER TABLE jobs ADD COLUMN started_us INTEGER DEFAULT 0;
ALTER TABLE jobs ADD COLUMN holder BLOB DEFAULT x'';

ALTER TABLE history ADD COLUMN ready_us INTEGER DEFAULT 0;

ALTER TABLE quarantine ADD COLUMN ready_us;
ALTER TABLE quarantine ADD COLUMN holder;
