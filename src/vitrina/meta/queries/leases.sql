-- Locks are always taken in the order pipeline, lease, state: completion and takeover cannot deadlock.

-- name: claim
-- The oldest due pipeline, if any, unless its source or sink is avoided and nobody has asked that it be tried before its
-- time; zero rows: nothing is due, or others took it.
-- Opens the run, or goes on with the one that waits. Any other that is still open was let down by hand, in SQL; it is
-- closed, or its pipeline could not be claimed, nor any that is due after it.
WITH due AS (
    SELECT p.id, p.name, p.effective_target, p.status, p.due_at, p.run_options, p.version
    FROM etl.etl_pipelines p
    WHERE p.enabled AND p.due_at IS NOT NULL AND p.status IN ('RUN_REQUESTED', 'IDLE') AND p.due_at <= now()
      AND (p.id = %(only)s OR %(only)s::uuid IS NULL AND (
               p.source <> ALL (%(avoided)s::text[])
               AND split_part(coalesce(p.effective_target, ''), ':', 1) || ':' <> ALL (%(avoided)s::text[])
               OR EXISTS (SELECT FROM etl.etl_postponed w WHERE w.pipeline_id = p.id AND p.due_at < w.next_at)))
    ORDER BY p.due_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE etl.etl_pipelines p
    SET status = 'RUNNING', run_options = '{}',
        last_due_at = CASE due.status WHEN 'IDLE' THEN due.due_at ELSE p.last_due_at END
    FROM due WHERE p.id = due.id
    RETURNING p.id
), closed AS (
    UPDATE etl.etl_runs r
    SET status = 'FAILED', finished_at = clock_timestamp(), error = 'the pipeline was moved by hand while it ran'
    FROM taken WHERE r.pipeline_id = taken.id AND r.status = 'RUNNING' AND r.waiting_since IS NULL
    RETURNING r.id
), gone_on AS (
    UPDATE etl.etl_runs r
    SET attempt = r.attempt + 1, tried_at = clock_timestamp(), waiting_since = NULL, runner = %(runner)s,
        options = due.run_options, config_version = due.version
    FROM due JOIN taken USING (id)
    WHERE r.pipeline_id = due.id AND r.status = 'RUNNING' AND r.waiting_since IS NOT NULL
    RETURNING r.id, r.pipeline_id, r.options, r.attempt, r.due_at IS NULL AS asked
), opened AS (
    INSERT INTO etl.etl_runs (pipeline_id, due_at, options, config_version, runner)
    SELECT due.id, CASE WHEN due.status = 'IDLE' AND (   -- not one that comes once more, by a clock that was set back
                            SELECT o.id FROM etl.etl_runs o WHERE o.pipeline_id = due.id AND o.due_at = due.due_at LIMIT 1) IS NULL
                        THEN due.due_at END, due.run_options, due.version, %(runner)s
    FROM due JOIN taken USING (id), (SELECT count(*) FROM closed) AS first
    WHERE NOT EXISTS (SELECT FROM gone_on)
    RETURNING id, pipeline_id, options, attempt
), run AS (
    SELECT id, pipeline_id, options, attempt, asked FROM gone_on
    UNION ALL SELECT o.id, o.pipeline_id, o.options, o.attempt, due.status = 'RUN_REQUESTED' FROM opened o, due
), held AS (
    UPDATE etl.etl_leases l
    SET owner = %(owner)s, runner = %(runner)s, run_id = run.id, attempt = run.attempt, crashes = 0,
        expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM run WHERE l.pipeline_id = run.pipeline_id
    RETURNING l.pipeline_id, l.crashes
), fenced AS (
    UPDATE etl.etl_state s
    SET epoch = s.epoch + 1,
        checkpoint = CASE WHEN coalesce((run.options ->> 'restart')::boolean, false) THEN NULL ELSE s.checkpoint END,
        last_processed_value = CASE WHEN coalesce((run.options ->> 'restart')::boolean, false)
                                    THEN NULL ELSE s.last_processed_value END,
        last_processed_id = CASE WHEN coalesce((run.options ->> 'restart')::boolean, false)
                                 THEN NULL ELSE s.last_processed_id END
    FROM run JOIN held USING (pipeline_id) WHERE s.pipeline_id = run.pipeline_id
    RETURNING s.pipeline_id, s.epoch, s.seq, s.checkpoint, s.config_hash, s.columns
)
SELECT due.id AS pipeline_id, due.name, coalesce(due.effective_target, '') AS target, due.version, run.id AS run_id, run.options, run.attempt,
       run.asked, due.due_at AS since,
       fenced.epoch, fenced.seq, fenced.checkpoint, fenced.config_hash, fenced.columns
FROM fenced JOIN run USING (pipeline_id) JOIN due ON due.id = fenced.pipeline_id

-- name: claimed_config
-- In a statement of its own: one that locks a row just edited sees the new row, and around it the old tables.
SELECT config FROM etl.etl_config_versions WHERE pipeline_id = %(pipeline_id)s AND version = %(version)s

-- name: expired
-- Leases of runs whose holder has gone silent.
SELECT l.pipeline_id, p.name, coalesce(p.effective_target, '') AS target, l.runner, l.owner, l.crashes, p.status, p.enabled, p.source
FROM etl.etl_leases l JOIN etl.etl_pipelines p ON p.id = l.pipeline_id
WHERE l.owner IS NOT NULL AND l.expires_at <= clock_timestamp() AND p.status <> 'FOLLOWING'
  AND (%(only)s::uuid IS NULL OR p.id = %(only)s)

-- name: expel
-- Whether the transaction that a silent holder has open may be ended, so that it cannot keep rows locked: of the mart,
-- or the state row between its fence and its COMMIT. Zero rows: it is no longer silent.
SELECT l.pipeline_id FROM etl.etl_leases l
WHERE l.pipeline_id = %(pipeline_id)s AND l.owner = %(owner)s AND l.expires_at <= clock_timestamp()

-- name: reclaim
-- Take over from a silent holder. Zero rows: it renewed, finished, or another runner was first.
SELECT l.pipeline_id, l.run_id, l.crashes, p.version
FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id
WHERE p.id = %(pipeline_id)s AND p.status = 'RUNNING' AND p.enabled
  AND l.owner = %(owner_before)s AND l.expires_at <= clock_timestamp()
FOR UPDATE OF p, l SKIP LOCKED

-- name: take_over
-- The second half of a reclaim, in the same transaction: the next attempt of its run, the lease, the next epoch. A run
-- whose row is gone begins anew.
WITH again AS (
    UPDATE etl.etl_runs r
    SET attempt = r.attempt + 1, tried_at = clock_timestamp(), options = r.options - 'restart', runner = %(runner)s,
        config_version = %(version)s, error = 'the runner ' || r.runner || ' was lost', remedy = NULL
    WHERE r.id = %(run_id)s AND r.status = 'RUNNING'
    RETURNING r.id, r.pipeline_id, r.options, r.attempt, r.due_at, r.started_at
), opened AS (
    INSERT INTO etl.etl_runs (pipeline_id, config_version, runner)
    SELECT %(pipeline_id)s, %(version)s, %(runner)s WHERE NOT EXISTS (SELECT FROM again)
    RETURNING id, pipeline_id, options, attempt, due_at, started_at
), run AS (
    SELECT * FROM again UNION ALL SELECT * FROM opened
), held AS (
    UPDATE etl.etl_leases l
    SET owner = %(owner)s, runner = %(runner)s, run_id = run.id, attempt = run.attempt, crashes = l.crashes + 1,
        expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM run WHERE l.pipeline_id = run.pipeline_id
    RETURNING l.pipeline_id
), fenced AS (
    UPDATE etl.etl_state s SET epoch = s.epoch + 1 FROM held WHERE s.pipeline_id = held.pipeline_id
    RETURNING s.pipeline_id, s.epoch, s.seq, s.checkpoint, s.config_hash, s.columns
)
SELECT p.id AS pipeline_id, p.name, coalesce(p.effective_target, '') AS target, p.version, run.id AS run_id, run.options, run.attempt,
       fenced.epoch, fenced.seq, fenced.checkpoint, fenced.config_hash, fenced.columns,
       etl.pipeline_config(p) AS config, run.due_at IS NULL AS asked, run.started_at AS since
FROM fenced JOIN run USING (pipeline_id) JOIN etl.etl_pipelines p ON p.id = fenced.pipeline_id

-- name: bury
-- The holder is silent and nobody goes on: a pause was asked for, the pipeline is disabled, or it has killed its
-- runner too often. Zero rows: it renewed, finished, was changed meanwhile, or another runner was first.
WITH dead AS (
    SELECT p.id, p.status, l.run_id
    FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id
    WHERE p.id = %(pipeline_id)s AND p.status IN ('RUNNING', 'PAUSE_REQUESTED')
      AND p.status = %(status_before)s AND p.enabled = %(enabled_before)s AND l.owner = %(owner_before)s AND l.expires_at <= clock_timestamp()
    FOR UPDATE OF p, l SKIP LOCKED
), moved AS (
    UPDATE etl.etl_pipelines p
    SET status = CASE dead.status WHEN 'PAUSE_REQUESTED' THEN 'PAUSED' ELSE 'FAILED' END, run_options = '{}'
    FROM dead WHERE p.id = dead.id
    RETURNING p.id, p.status
), released AS (
    UPDATE etl.etl_leases l
    SET owner = NULL, expires_at = NULL, runner = NULL, run_id = NULL
    FROM moved WHERE l.pipeline_id = moved.id
    RETURNING l.pipeline_id
), fenced AS (
    UPDATE etl.etl_state s SET epoch = s.epoch + 1 FROM released WHERE s.pipeline_id = released.pipeline_id
    RETURNING s.pipeline_id
), closed AS (
    UPDATE etl.etl_runs r SET status = 'FAILED', finished_at = clock_timestamp(), error = %(reason)s
    FROM dead JOIN fenced ON fenced.pipeline_id = dead.id WHERE r.id = dead.run_id AND r.status = 'RUNNING'
)
SELECT moved.status FROM moved JOIN fenced ON fenced.pipeline_id = moved.id

-- name: postpone
-- One that waits is due once nobody is in its way; or after a while, should nobody notice. Zero rows: it is paused.
UPDATE etl.etl_pipelines SET due_at = clock_timestamp() + make_interval(secs => %(postponed)s)
WHERE id = %(pipeline_id)s AND status = 'RUN_REQUESTED'

-- name: renew
-- The heartbeat. A lease that is not in the answer is lost. One that somebody keeps locked is passed over, so that the
-- others are still renewed; it is ours until it expires.
WITH mine AS (
    SELECT l.pipeline_id, l.run_id FROM etl.etl_leases l
    WHERE l.owner = %(owner)s AND l.run_id = ANY (%(run_ids)s) AND l.expires_at > clock_timestamp()
), free AS (
    SELECT l.pipeline_id FROM etl.etl_leases l
    WHERE l.owner = %(owner)s AND l.run_id = ANY (%(run_ids)s) AND l.expires_at > clock_timestamp()
    FOR UPDATE SKIP LOCKED
), renewed AS (
    UPDATE etl.etl_leases l SET expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM free WHERE l.pipeline_id = free.pipeline_id
)
SELECT mine.run_id, p.status FROM mine JOIN etl.etl_pipelines p ON p.id = mine.pipeline_id

-- name: hurried
-- Of these runs, those whose pipeline is to pause at once.
SELECT l.run_id FROM etl.etl_leases l JOIN etl.etl_pipelines p ON p.id = l.pipeline_id
WHERE l.owner = %(owner)s AND l.run_id = ANY (%(run_ids)s) AND p.status = 'PAUSE_REQUESTED' AND p.run_options ? 'now'

-- name: recover
-- What the last runner died of is behind it: its crashes are forgotten, before the fence.
UPDATE etl.etl_leases SET crashes = 0 WHERE pipeline_id = %(pipeline_id)s AND run_id = %(run_id)s AND crashes > 0
