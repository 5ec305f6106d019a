-- How many hired workers may quit a job after they have begun; 0: no limit.

ALTER TABLE terms ADD COLUMN quits_max INTEGER DEFAULT 0;
