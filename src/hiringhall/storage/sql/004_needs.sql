-- What a job needs from a worker: a skill, and a time in microseconds.

ALTER TABLE terms ADD COLUMN skill INTEGER DEFAULT 0;
ALTER TABLE terms ADD COLUMN takes_us INTEGER DEFAULT 0;
