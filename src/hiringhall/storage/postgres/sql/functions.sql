-- The functions of the newest version. They are made anew when a database is brought to it, so a change here needs a new version,
-- if only by a migration that changes nothing else.
--
-- One commit is one statement: `SELECT hall_commit(incarnation, batch, ..., ARRAY[part, ...])`. Each part is one of the functions
-- hall_take_lines, hall_take, hall_take_runs, hall_output, hall_end_*, hall_insert, hall_update and hall_note, and only those that a batch needs are there.
-- PostgreSQL evaluates them from left to right, and hall_commit, whose argument they are, last. A part returns how many bytes
-- fewer the live jobs have. The parts of a large commit are statements of their own in one transaction, with hall_commit as the last.
--
-- Columns come as arrays. A column in which every row has the same value has only one element, and `unnest` fills it up with NULL,
-- which stands for that value. In the columns that can be NULL it stands for itself, and the array may be empty.

CREATE FUNCTION hall_take_lines(p_lines bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
-- Removes lines of jobs that run again or have ended again.
BEGIN
    DELETE FROM history WHERE id = ANY(p_lines);
    DELETE FROM history_apart WHERE id = ANY(p_lines);
    RETURN 0;
END
$$;

CREATE FUNCTION hall_take(p_jobs bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
-- Removes jobs that have ended.
DECLARE
    freed bigint;
BEGIN
    WITH gone AS (
        DELETE FROM jobs WHERE id = ANY(p_jobs) RETURNING octet_length(key) + octet_length(payload) AS size
    )
    SELECT COALESCE(sum(size), 0) INTO freed FROM gone;
    RETURN freed;
END
$$;

CREATE FUNCTION hall_take_runs(p_first bigint[], p_last bigint[]) RETURNS bigint
LANGUAGE plpgsql SET enable_bitmapscan = off AS $$
-- Removes jobs that have ended: all from each first one to its last. Where many neighbours end together, this takes one search
-- of the index for a run, and not one for each job.
DECLARE
    freed bigint;
BEGIN
    WITH gone AS (
        DELETE FROM jobs USING unnest(p_first, p_last) AS run (first, last)
        WHERE jobs.id BETWEEN run.first AND run.last
        RETURNING octet_length(key) + octet_length(payload) AS size
    )
    SELECT COALESCE(sum(size), 0) INTO freed FROM gone;
    RETURN freed;
END
$$;

CREATE FUNCTION hall_output(
    p_job bigint[], p_position bigint[], p_at_us bigint[], p_kind bigint[], p_data bytea[], p_cut bigint[], p_start bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
-- Adds lines of output, and drops those of the jobs `p_cut` that are before the positions `p_start`.
BEGIN
    INSERT INTO output (job, position, at_us, kind, data)
    SELECT * FROM unnest(p_job, p_position, p_at_us, p_kind, p_data);
    DELETE FROM output USING unnest(p_cut, p_start) AS cut (job, start)
    WHERE output.job = cut.job AND output.position < cut.start;
    RETURN 0;
END
$$;

-- The same function for each of the two tables of lines.
DO $make$
DECLARE
    target text;
BEGIN
    FOREACH target IN ARRAY ARRAY['history', 'history_apart'] LOOP
        EXECUTE format($function$
            CREATE FUNCTION hall_end_%1$s(
                p_id bigint[], p_queue bytea[], p_key bytea[], p_state bigint[], p_code bigint[], p_result bytea[],
                p_worker bytea[], p_created_us bigint[], p_started_us bigint[], p_ended_us bigint[], p_attempts bigint[],
                p_losses bigint[], p_terms bigint[], p_payload bytea[], p_extras bytea[], p_ready_us bigint[],
                p_tries bytea[], p_payload_cut bigint[], p_flow bytea[], p_all_parents bytea[], p_dialect bytea[],
                p_shelf integer[], p_output_bytes bigint[], p_drop_us bigint[]
            ) RETURNS bigint LANGUAGE plpgsql AS $$
            DECLARE
                same_queue bytea := p_queue[1]; same_key bytea := p_key[1]; same_state bigint := p_state[1];
                same_code bigint := p_code[1]; same_result bytea := p_result[1]; same_worker bytea := p_worker[1];
                same_created_us bigint := p_created_us[1]; same_started_us bigint := p_started_us[1];
                same_ended_us bigint := p_ended_us[1]; same_attempts bigint := p_attempts[1]; same_losses bigint := p_losses[1];
                same_terms bigint := p_terms[1]; same_payload bytea := p_payload[1]; same_ready_us bigint := p_ready_us[1];
                same_payload_cut bigint := p_payload_cut[1]; same_dialect bytea := p_dialect[1];
                same_shelf integer := p_shelf[1]; same_output_bytes bigint := p_output_bytes[1];
                same_drop_us bigint := p_drop_us[1];
            BEGIN
                INSERT INTO %1$s
                SELECT
                    id, COALESCE(queue, same_queue), COALESCE(key, same_key), COALESCE(state, same_state),
                    COALESCE(code, same_code), COALESCE(result, same_result), COALESCE(worker, same_worker),
                    COALESCE(created_us, same_created_us), COALESCE(started_us, same_started_us),
                    COALESCE(ended_us, same_ended_us), COALESCE(attempts, same_attempts), COALESCE(losses, same_losses),
                    COALESCE(terms, same_terms), COALESCE(payload, same_payload), extras, COALESCE(ready_us, same_ready_us),
                    tries, COALESCE(payload_cut, same_payload_cut), flow, all_parents, COALESCE(dialect, same_dialect),
                    COALESCE(shelf, same_shelf), COALESCE(output_bytes, same_output_bytes), COALESCE(drop_us, same_drop_us)
                FROM (
                    SELECT
                        unnest(p_id) AS id, unnest(p_queue) AS queue, unnest(p_key) AS key, unnest(p_state) AS state,
                        unnest(p_code) AS code, unnest(p_result) AS result, unnest(p_worker) AS worker,
                        unnest(p_created_us) AS created_us, unnest(p_started_us) AS started_us,
                        unnest(p_ended_us) AS ended_us, unnest(p_attempts) AS attempts, unnest(p_losses) AS losses,
                        unnest(p_terms) AS terms, unnest(p_payload) AS payload, unnest(p_extras) AS extras,
                        unnest(p_ready_us) AS ready_us, unnest(p_tries) AS tries, unnest(p_payload_cut) AS payload_cut,
                        unnest(p_flow) AS flow, unnest(p_all_parents) AS all_parents, unnest(p_dialect) AS dialect,
                        unnest(p_shelf) AS shelf, unnest(p_output_bytes) AS output_bytes, unnest(p_drop_us) AS drop_us
                ) AS new;
                RETURN 0;
            END
            $$
        $function$, target);
    END LOOP;
END
$make$;

CREATE FUNCTION hall_insert(
    p_id bigint[], p_queue bytea[], p_key bytea[], p_payload bytea[], p_terms bigint[], p_state bigint[],
    p_created_us bigint[], p_due_us bigint[], p_attempts bigint[], p_failures bigint[], p_losses bigint[],
    p_parents bytea[], p_extras bytea[], p_ready_us bigint[], p_started_us bigint[], p_holder bytea[],
    p_worker bytea[], p_tries bytea[], p_flow bytea[], p_all_parents bytea[], p_dialect bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    same_queue bytea := p_queue[1]; same_key bytea := p_key[1]; same_payload bytea := p_payload[1];
    same_terms bigint := p_terms[1]; same_state bigint := p_state[1]; same_created_us bigint := p_created_us[1];
    same_due_us bigint := p_due_us[1]; same_attempts bigint := p_attempts[1]; same_failures bigint := p_failures[1];
    same_losses bigint := p_losses[1]; same_ready_us bigint := p_ready_us[1]; same_started_us bigint := p_started_us[1];
    same_holder bytea := p_holder[1]; same_worker bytea := p_worker[1]; same_dialect bytea := p_dialect[1];
BEGIN
    INSERT INTO jobs
    SELECT
        id, COALESCE(queue, same_queue), COALESCE(key, same_key), COALESCE(payload, same_payload),
        COALESCE(terms, same_terms), COALESCE(state, same_state), COALESCE(created_us, same_created_us),
        COALESCE(due_us, same_due_us), COALESCE(attempts, same_attempts), COALESCE(failures, same_failures),
        COALESCE(losses, same_losses), parents, extras, COALESCE(ready_us, same_ready_us),
        COALESCE(started_us, same_started_us), COALESCE(holder, same_holder), COALESCE(worker, same_worker), tries, flow,
        all_parents, COALESCE(dialect, same_dialect)
    FROM (
        SELECT
            unnest(p_id) AS id, unnest(p_queue) AS queue, unnest(p_key) AS key, unnest(p_payload) AS payload,
            unnest(p_terms) AS terms, unnest(p_state) AS state, unnest(p_created_us) AS created_us,
            unnest(p_due_us) AS due_us, unnest(p_attempts) AS attempts, unnest(p_failures) AS failures,
            unnest(p_losses) AS losses, unnest(p_parents) AS parents, unnest(p_extras) AS extras,
            unnest(p_ready_us) AS ready_us, unnest(p_started_us) AS started_us, unnest(p_holder) AS holder,
            unnest(p_worker) AS worker, unnest(p_tries) AS tries, unnest(p_flow) AS flow,
            unnest(p_all_parents) AS all_parents, unnest(p_dialect) AS dialect
    ) AS new;
    RETURN 0;
END
$$;

CREATE FUNCTION hall_update(
    p_id bigint[], p_terms bigint[], p_state bigint[], p_due_us bigint[], p_attempts bigint[], p_failures bigint[],
    p_losses bigint[], p_parents bytea[], p_extras bytea[], p_ready_us bigint[], p_started_us bigint[],
    p_holder bytea[], p_worker bytea[], p_tries bytea[], p_all_parents bytea[], p_dialect bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    same_terms bigint := p_terms[1]; same_state bigint := p_state[1]; same_due_us bigint := p_due_us[1];
    same_attempts bigint := p_attempts[1]; same_failures bigint := p_failures[1]; same_losses bigint := p_losses[1];
    same_ready_us bigint := p_ready_us[1]; same_started_us bigint := p_started_us[1]; same_holder bytea := p_holder[1];
    same_worker bytea := p_worker[1]; same_dialect bytea := p_dialect[1];
BEGIN
    UPDATE jobs SET
        terms = COALESCE(new.terms, same_terms), state = COALESCE(new.state, same_state),
        due_us = COALESCE(new.due_us, same_due_us), attempts = COALESCE(new.attempts, same_attempts),
        failures = COALESCE(new.failures, same_failures), losses = COALESCE(new.losses, same_losses),
        parents = new.parents, extras = new.extras, ready_us = COALESCE(new.ready_us, same_ready_us),
        started_us = COALESCE(new.started_us, same_started_us), holder = COALESCE(new.holder, same_holder),
        worker = COALESCE(new.worker, same_worker), tries = new.tries, all_parents = new.all_parents,
        dialect = COALESCE(new.dialect, same_dialect)
    FROM (
        SELECT
            unnest(p_id) AS id, unnest(p_terms) AS terms, unnest(p_state) AS state, unnest(p_due_us) AS due_us,
            unnest(p_attempts) AS attempts, unnest(p_failures) AS failures, unnest(p_losses) AS losses,
            unnest(p_parents) AS parents, unnest(p_extras) AS extras, unnest(p_ready_us) AS ready_us,
            unnest(p_started_us) AS started_us, unnest(p_holder) AS holder, unnest(p_worker) AS worker,
            unnest(p_tries) AS tries, unnest(p_all_parents) AS all_parents, unnest(p_dialect) AS dialect
    ) AS new
    WHERE jobs.id = new.id;
    RETURN 0;
END
$$;

CREATE FUNCTION hall_replace(p_id bigint[], p_payload bytea[]) RETURNS bigint LANGUAGE plpgsql AS $$
-- Gives live jobs other payloads. Returns how many bytes fewer they have.
DECLARE
    freed bigint;
BEGIN
    WITH new AS (SELECT * FROM unnest(p_id, p_payload) AS new (id, payload)),
    freeing AS (
        SELECT COALESCE(sum(octet_length(jobs.payload) - octet_length(new.payload)), 0) AS bytes
        FROM new JOIN jobs USING (id)
    ),
    replacing AS (UPDATE jobs SET payload = new.payload FROM new WHERE jobs.id = new.id)
    SELECT bytes INTO freed FROM freeing;
    RETURN freed;
END
$$;

CREATE FUNCTION hall_rule(p_queue bytea[], p_rules bytea[], p_cleared bytea[]) RETURNS bigint LANGUAGE plpgsql AS $$
-- Sets and clears the rules of queues.
BEGIN
    INSERT INTO queue_rules (queue, rules) SELECT * FROM unnest(p_queue, p_rules)
    ON CONFLICT (queue) DO UPDATE SET rules = excluded.rules;
    DELETE FROM queue_rules WHERE queue = ANY(p_cleared);
    RETURN 0;
END
$$;

CREATE FUNCTION hall_throttle(
    p_queue bytea[], p_key bytea[], p_job bigint[], p_until_us bigint[], p_over_queue bytea[], p_over_key bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
-- Opens and closes the windows of throttled keys.
BEGIN
    INSERT INTO windows (queue, key, job, until_us) SELECT * FROM unnest(p_queue, p_key, p_job, p_until_us)
    ON CONFLICT (queue, key) DO UPDATE SET job = excluded.job, until_us = excluded.until_us;
    DELETE FROM windows USING unnest(p_over_queue, p_over_key) AS over (queue, key)
    WHERE windows.queue = over.queue AND windows.key = over.key;
    RETURN 0;
END
$$;

CREATE FUNCTION hall_note(
    p_terms bigint[], p_fired bytea[], p_due_us bigint[], p_plan bytea[], p_unfired bytea[], p_paused bytea[],
    p_resumed bytea[], p_flow bytea[], p_created_us bigint[], p_ended_us bigint[], p_done bigint[], p_failed bigint[],
    p_cancelled bigint[], p_dropped bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
-- What changes rarely: new terms (one row after the other), schedules, paused queues, flows.
BEGIN
    INSERT INTO terms
    SELECT
        p_terms[i + 1], p_terms[i + 2], p_terms[i + 3], p_terms[i + 4], p_terms[i + 5], p_terms[i + 6],
        p_terms[i + 7], p_terms[i + 8], p_terms[i + 9], p_terms[i + 10], p_terms[i + 11], p_terms[i + 12],
        p_terms[i + 13], p_terms[i + 14], p_terms[i + 15], p_terms[i + 16], p_terms[i + 17], p_terms[i + 18]
    FROM generate_series(0, cardinality(p_terms) - 1, 18) AS i;
    INSERT INTO schedules (name, due_us, plan)
    SELECT * FROM unnest(p_fired, p_due_us, p_plan)
    ON CONFLICT (name) DO UPDATE SET due_us = excluded.due_us, plan = excluded.plan;
    DELETE FROM schedules WHERE name = ANY(p_unfired);
    INSERT INTO paused SELECT * FROM unnest(p_paused) ON CONFLICT DO NOTHING;
    DELETE FROM paused WHERE queue = ANY(p_resumed);
    INSERT INTO flows (name, created_us, ended_us, done, failed, cancelled)
    SELECT * FROM unnest(p_flow, p_created_us, p_ended_us, p_done, p_failed, p_cancelled)
    ON CONFLICT (name) DO UPDATE SET
        created_us = excluded.created_us, ended_us = excluded.ended_us, done = excluded.done, failed = excluded.failed,
        cancelled = excluded.cancelled;
    DELETE FROM flows WHERE name = ANY(p_dropped);
    RETURN 0;
END
$$;

CREATE FUNCTION hall_count(p_shelf integer[], p_day integer[], p_lines bigint[], p_bytes bigint[])
RETURNS void LANGUAGE plpgsql AS $$
-- Adds to what the shelves hold.
BEGIN
    UPDATE counts SET lines = counts.lines + more.lines, bytes = counts.bytes + more.bytes
    FROM unnest(p_shelf, p_day, p_lines, p_bytes) AS more (shelf, day, lines, bytes)
    WHERE counts.shelf = more.shelf AND counts.day = more.day;
END
$$;

CREATE FUNCTION hall_refuse(p_incarnation integer) RETURNS void LANGUAGE plpgsql AS $$
-- The caller may not write. HALL1: another incarnation is active. HALL2: the connection of this one has another backend.
-- HALL3: the batch does not follow the last one.
DECLARE
    active writer%ROWTYPE;
BEGIN
    SELECT * INTO active FROM writer;
    IF active.incarnation <> p_incarnation THEN
        RAISE EXCEPTION 'incarnation % is active, not %', active.incarnation, p_incarnation USING ERRCODE = 'HALL1';
    ELSIF active.backend <> pg_backend_pid() THEN
        RAISE EXCEPTION 'backend % may write, not %', active.backend, pg_backend_pid() USING ERRCODE = 'HALL2';
    END IF;
    RAISE EXCEPTION 'the last batch is %', active.batch USING ERRCODE = 'HALL3';
END
$$;

CREATE FUNCTION hall_commit(
    p_incarnation integer, p_batch bigint, p_jobs bigint, p_job_bytes bigint, p_shelf integer[], p_day integer[],
    p_lines bigint[], p_bytes bigint[], p_freed bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
-- The last act of a commit: fence and receipt. Without it everything is rolled back. Returns the bytes of all live jobs.
DECLARE
    left_bytes bigint;
BEGIN
    IF cardinality(p_shelf) > 0 THEN
        PERFORM hall_count(p_shelf, p_day, p_lines, p_bytes);
    END IF;
    UPDATE writer SET
        batch = p_batch,
        jobs = jobs + p_jobs,
        job_bytes = job_bytes + p_job_bytes - (SELECT COALESCE(sum(freed), 0) FROM unnest(p_freed) AS freed)
    WHERE incarnation = p_incarnation AND batch = p_batch - 1 AND backend = pg_backend_pid()
    RETURNING job_bytes INTO left_bytes;
    IF NOT FOUND THEN
        PERFORM hall_refuse(p_incarnation);
    END IF;
    RETURN left_bytes;
END
$$;

CREATE FUNCTION hall_fence(p_incarnation integer) RETURNS void LANGUAGE plpgsql AS $$
-- Holds the row until the end of the statement: nobody takes over before, and nobody who was fenced goes on.
BEGIN
    PERFORM 1 FROM writer WHERE incarnation = p_incarnation AND backend = pg_backend_pid() FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM hall_refuse(p_incarnation);
    END IF;
END
$$;

CREATE FUNCTION hall_remove(p_ids bigint[], p_from_us bigint, p_to_us bigint)
RETURNS TABLE (shelf integer, day integer, lines bigint, bytes bigint) LANGUAGE plpgsql AS $$
-- Drops lines that ended in this time, with their output. Returns what the shelves have less.
#variable_conflict use_column
DECLARE
    said bigint[];
    gone record;
BEGIN
    FOR gone IN
        WITH common AS (
            DELETE FROM history WHERE id = ANY(p_ids) AND ended_us BETWEEN p_from_us AND p_to_us
            RETURNING id, 0 AS shelf, (ended_us / 86400000000)::integer AS day, output_bytes,
                octet_length(key) + octet_length(result) + octet_length(payload) + COALESCE(octet_length(extras), 0)
                + output_bytes AS content
        ), apart AS (
            DELETE FROM history_apart WHERE id = ANY(p_ids)
            RETURNING id, shelf, 0 AS day, output_bytes,
                octet_length(key) + octet_length(result) + octet_length(payload) + COALESCE(octet_length(extras), 0)
                + output_bytes AS content
        )
        SELECT dropped.shelf, dropped.day, count(*) AS lines, sum(content)::bigint AS bytes,
            array_agg(id) FILTER (WHERE output_bytes > 0) AS said
        FROM (SELECT * FROM common UNION ALL SELECT * FROM apart) AS dropped
        GROUP BY dropped.shelf, dropped.day
    LOOP
        UPDATE counts SET lines = counts.lines - gone.lines, bytes = counts.bytes - gone.bytes
        WHERE counts.shelf = gone.shelf AND counts.day = gone.day;
        IF gone.said IS NOT NULL THEN
            DELETE FROM output WHERE job = ANY(gone.said);
        END IF;
        RETURN QUERY SELECT gone.shelf, gone.day, gone.lines, gone.bytes;
    END LOOP;
END
$$;

CREATE FUNCTION hall_drop(
    p_incarnation integer, p_shelves integer[], p_from_us bigint, p_before_us bigint, p_lines_max bigint,
    p_bytes_max bigint, p_line_bytes bigint
) RETURNS TABLE (shelf integer, day integer, lines bigint, bytes bigint) LANGUAGE plpgsql AS $$
-- Drops the oldest lines of these shelves that ended in this time, until one of the bounds is reached.
#variable_conflict use_column
DECLARE
    ids bigint[];
    from_us bigint;
    to_us bigint;
BEGIN
    PERFORM hall_fence(p_incarnation);
    WITH oldest AS (
        (
            SELECT id, ended_us,
                octet_length(key) + octet_length(result) + octet_length(payload) + COALESCE(octet_length(extras), 0)
                + output_bytes + p_line_bytes AS content
            FROM history
            WHERE 0 = ANY(p_shelves) AND ended_us >= p_from_us AND ended_us < p_before_us
            ORDER BY ended_us, id LIMIT p_lines_max
        )
        UNION ALL
        SELECT line.id, line.ended_us, line.content
        FROM unnest(p_shelves) AS wanted (shelf) CROSS JOIN LATERAL (
            SELECT id, ended_us,
                octet_length(key) + octet_length(result) + octet_length(payload) + COALESCE(octet_length(extras), 0)
                + output_bytes + p_line_bytes AS content
            FROM history_apart
            WHERE history_apart.shelf = wanted.shelf AND ended_us >= p_from_us AND ended_us < p_before_us
            ORDER BY ended_us, id LIMIT p_lines_max
        ) AS line
    ), chosen AS (
        SELECT id, ended_us, sum(content) OVER (ORDER BY ended_us, id) - content AS content_before
        FROM (SELECT * FROM oldest ORDER BY ended_us, id LIMIT p_lines_max) AS first_lines
    )
    SELECT array_agg(id), min(ended_us), max(ended_us) INTO ids, from_us, to_us
    FROM chosen WHERE content_before < p_bytes_max;
    RETURN QUERY SELECT * FROM hall_remove(ids, from_us, to_us);
END
$$;

CREATE FUNCTION hall_drop_due(p_incarnation integer, p_now_us bigint, p_lines_max bigint)
RETURNS TABLE (shelf integer, day integer, lines bigint, bytes bigint) LANGUAGE plpgsql AS $$
-- Drops lines whose jobs say that they are kept until now at most.
#variable_conflict use_column
DECLARE
    ids bigint[];
    from_us bigint;
    to_us bigint;
BEGIN
    PERFORM hall_fence(p_incarnation);
    SELECT array_agg(id), min(ended_us), max(ended_us) INTO ids, from_us, to_us
    FROM (
        SELECT id, ended_us FROM lines WHERE drop_us > 0 AND drop_us <= p_now_us ORDER BY drop_us LIMIT p_lines_max
    ) AS due;
    RETURN QUERY SELECT * FROM hall_remove(ids, from_us, to_us);
END
$$;

CREATE FUNCTION hall_drop_day(p_incarnation integer, p_day integer) RETURNS bigint LANGUAGE plpgsql AS $$
-- Drops a day with all its lines. Readers hold a lock on it: rather than make everybody wait for them, this fails.
DECLARE
    dropped bigint;
BEGIN
    PERFORM set_config('lock_timeout', '100ms', true);
    PERFORM hall_fence(p_incarnation);
    EXECUTE format('DELETE FROM output WHERE job IN (SELECT id FROM history_%s WHERE output_bytes > 0)', p_day);
    EXECUTE format('DROP TABLE history_%s', p_day);
    DELETE FROM counts WHERE shelf = 0 AND day = p_day RETURNING lines INTO dropped;
    RETURN dropped;
END
$$;

CREATE FUNCTION hall_add_day(p_day integer) RETURNS void LANGUAGE plpgsql AS $$
-- Makes the partition of a day. A table that is attached, other than one that is created as a partition, does not make readers
-- wait. The planner needs statistics only of the columns that queries choose by.
DECLARE
    partition text := format('history_%s', p_day);
    statistics text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('hiringhall.days'));
    IF to_regclass(partition) IS NULL THEN
        EXECUTE format('CREATE TABLE %s (LIKE history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', partition);
        SELECT string_agg(format(
            'ALTER COLUMN %I SET STATISTICS %s', attname,
            CASE WHEN attname IN ('id', 'queue', 'key', 'state', 'ended_us', 'flow', 'shelf', 'drop_us') THEN 10 ELSE 0 END
        ), ', ') INTO statistics
        FROM pg_attribute WHERE attrelid = partition::regclass AND attnum > 0;
        EXECUTE format('ALTER TABLE %s %s', partition, statistics);
        EXECUTE format(
            'ALTER TABLE history ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)',
            partition, p_day * 86400000000, (p_day + 1) * 86400000000
        );
    END IF;
    INSERT INTO counts (shelf, day, lines, bytes) VALUES (0, p_day, 0, 0) ON CONFLICT DO NOTHING;
END
$$;

CREATE FUNCTION hall_probe(p_incarnation integer) RETURNS void LANGUAGE plpgsql AS $$
-- A small commit that changes nothing.
BEGIN
    PERFORM hall_fence(p_incarnation);
    UPDATE writer SET backend = backend;
END
$$;

CREATE FUNCTION hall_set_aside(p_incarnation integer, p_source text, p_id bigint, p_reason text)
RETURNS void LANGUAGE plpgsql AS $$
-- Moves a row that cannot be decoded to the quarantine.
BEGIN
    PERFORM hall_fence(p_incarnation);
    IF p_source = 'jobs' THEN
        INSERT INTO quarantine (source, id, reason, content)
        SELECT p_source, id, p_reason, to_jsonb(jobs) FROM jobs WHERE id = p_id;
        UPDATE writer SET jobs = jobs - 1, job_bytes = job_bytes - (
            SELECT octet_length(key) + octet_length(payload) FROM jobs WHERE id = p_id
        );
        DELETE FROM jobs WHERE id = p_id;
    ELSE
        INSERT INTO quarantine (source, id, reason, content)
        SELECT 'history', id, p_reason, to_jsonb(lines) FROM lines WHERE id = p_id;
        PERFORM hall_remove(ARRAY[p_id], -9223372036854775807, 9223372036854775807);
    END IF;
    DELETE FROM output WHERE job = p_id;
END
$$;

CREATE FUNCTION hall_write_document(p_incarnation integer, p_name text, p_version bigint, p_content bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
-- Replaces a document, if nobody else has done so since `p_version` was read; 0: there was none. A command has no incarnation.
BEGIN
    IF p_incarnation IS NOT NULL THEN
        -- Nobody takes over before the end of this statement.
        PERFORM 1 FROM writer WHERE incarnation = p_incarnation FOR SHARE;
        IF NOT FOUND THEN
            PERFORM hall_refuse(p_incarnation);
        END IF;
    END IF;
    IF p_version = 0 THEN
        INSERT INTO documents (name, content) VALUES (p_name, p_content) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE documents SET content = p_content, version = version + 1 WHERE name = p_name AND version = p_version;
    END IF;
    RETURN FOUND;
END
$$;

CREATE FUNCTION hall_append(p_log text, p_lines bytea[], p_lines_max bigint) RETURNS void LANGUAGE plpgsql AS $$
-- Adds lines to a log, and drops the oldest.
BEGIN
    INSERT INTO log_lines (log, line) SELECT p_log, line FROM unnest(p_lines) WITH ORDINALITY AS new (line, place) ORDER BY place;
    DELETE FROM log_lines
    WHERE log = p_log AND number <= (SELECT max(number) FROM log_lines WHERE log = p_log) - p_lines_max;
END
$$;
