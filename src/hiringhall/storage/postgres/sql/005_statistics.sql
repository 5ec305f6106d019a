-- ANALYZE of wide rows that change all the time took much CPU beside that of the commits. Live jobs are found by id alone, so the planner
-- needs no statistics of them. Of lines it needs those of the columns that queries choose by; a small sample is enough.
ALTER TABLE jobs SET (autovacuum_analyze_threshold = 2147483647);

DO $$
DECLARE
    target regclass;
    found text;
BEGIN
    FOR target IN
        SELECT 'history_apart'::regclass UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'history'::regclass
    LOOP
        FOR found IN SELECT attname FROM pg_attribute WHERE attrelid = target AND attnum > 0 AND NOT attisdropped LOOP
            EXECUTE format(
                'ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', target, found,
                CASE WHEN found IN ('id', 'queue', 'key', 'state', 'ended_us', 'flow', 'shelf', 'drop_us') THEN 10 ELSE 0 END
            );
        END LOOP;
    END LOOP;
END
$$;
