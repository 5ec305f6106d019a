-- How long the history keeps a job, in microseconds after its end; 0: as the retention rules say.

ALTER TABLE terms ADD COLUMN keep_us INTEGER DEFAULT 0;

-- When the line is dropped although the rules would keep it longer; 0: the rules decide. Only lines with such a time
-- are in the index, so that others cost nothing.

ALTER TABLE history ADD COLUMN drop_us INTEGER DEFAULT 0;

CREATE INDEX history_by_drop ON history (drop_us) WHERE drop_us > 0;
