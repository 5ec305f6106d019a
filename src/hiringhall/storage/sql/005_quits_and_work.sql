-- How many hired workers may quit a job after they have started; 0: no limit.

ALTER TABLE terms ADD COLUMN quits_max INTEGER DEFAULT 0;

-- Whether workers get the key of a job instead of its payload.

ALTER TABLE terms ADD COLUMN key_is_work INTEGER DEFAULT 0;
