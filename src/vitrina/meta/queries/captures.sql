-- name: list
SELECT c.*, clock_timestamp() AS now FROM etl.etl_captures c
WHERE %(source)s::text IS NULL OR c.source = %(source)s
ORDER BY c.source

-- name: prepare
-- A row before anything is done to the source, so that what a killed install left behind has a name.
INSERT INTO etl.etl_captures (source, kind, tap, tables, slot, given_publication, given_slot)
VALUES (%(source)s, %(kind)s, %(tap)s, '{}', %(slot)s, %(given_publication)s, %(given_slot)s)
ON CONFLICT (source) DO NOTHING

-- name: installed
-- The tables it now has; for a new one also where it starts. Whoever captures starts over, and learns of them.
UPDATE etl.etl_captures
SET tables = %(tables)s, fingerprints = %(fingerprints)s || fingerprints, installed_at = coalesce(installed_at, clock_timestamp()),
    position = coalesce(position, %(position)s), system_identifier = coalesce(system_identifier, %(system_identifier)s),
    timeline = coalesce(timeline, %(timeline)s), owner = NULL, expires_at = NULL, runner = NULL, epoch = epoch + 1,
    failures = 0, retry_at = NULL, last_error = NULL, updated_at = clock_timestamp()
WHERE source = %(source)s
RETURNING source

-- name: forget
DELETE FROM etl.etl_captures WHERE source = %(source)s RETURNING source

-- name: claim
-- A capture that nobody holds, or whose holder has gone silent. Zero rows: none is free, or another runner was first.
UPDATE etl.etl_captures c
SET owner = %(owner)s, runner = %(runner)s, epoch = c.epoch + 1,
    expires_at = clock_timestamp() + make_interval(secs => %(seconds)s), updated_at = clock_timestamp()
WHERE c.source = (
    SELECT f.source FROM etl.etl_captures f
    WHERE f.source = %(source)s AND f.installed_at IS NOT NULL
      AND (f.owner IS NULL OR f.expires_at <= clock_timestamp())
      AND (f.retry_at IS NULL OR f.retry_at <= clock_timestamp())
    FOR UPDATE SKIP LOCKED
)
RETURNING c.*, clock_timestamp() AS now

-- name: free
-- The sources that could be claimed now.
SELECT source FROM etl.etl_captures
WHERE installed_at IS NOT NULL AND (owner IS NULL OR expires_at <= clock_timestamp())
  AND (retry_at IS NULL OR retry_at <= clock_timestamp())
ORDER BY source

-- name: expel
-- Whether the append that a silent holder has open may be ended, so that it cannot keep the capture's row locked in the
-- middle of it.
SELECT c.source FROM etl.etl_captures c
WHERE c.source = %(source)s AND c.owner IS NOT NULL AND c.expires_at <= clock_timestamp()

-- name: begin_append
-- It does not wait for the disk, and a session that stalls in it is ended by the server.
SELECT set_config('idle_in_transaction_session_timeout', %(stall)s, true), set_config('synchronous_commit', 'off', true)

-- name: hold
-- The start of an append: the row stays locked until its end. Zero rows: the lease is lost.
SELECT last_id FROM etl.etl_captures
WHERE source = %(source)s AND owner = %(owner)s AND epoch = %(epoch)s
FOR UPDATE

-- name: publish
-- The end of an append: whole transactions become visible to followers, with the position that they reach.
UPDATE etl.etl_captures
SET last_id = %(last_id)s, recent = recent || %(recent)s, position = %(position)s,
    committed_at = coalesce(%(committed_at)s, committed_at),
    caught_up_at = greatest(caught_up_at, %(committed_at)s),   -- at least this far
    fingerprints = coalesce(%(fingerprints)s, fingerprints),
    failures = 0, last_error = NULL, updated_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE source = %(source)s AND owner = %(owner)s AND epoch = %(epoch)s
RETURNING source, pg_notify('vitrina_changes', source)

-- name: needs
-- Of each live pipeline of the source, the columns that its impact depends on; NULL: it has not said yet.
SELECT f.columns FROM etl.etl_followers f WHERE f.source = %(source)s

-- name: keep_images
-- What is kept of changed rows from here on. Zero rows: the lease is lost.
UPDATE etl.etl_captures SET images = %(images)s, updated_at = clock_timestamp()
WHERE source = %(source)s AND owner = %(owner)s AND epoch = %(epoch)s
RETURNING source

-- name: renew
-- The heartbeat, with what is known about the source. Zero rows: the lease is lost.
UPDATE etl.etl_captures
SET expires_at = clock_timestamp() + make_interval(secs => %(seconds)s), position = coalesce(%(position)s, position),
    fingerprints = coalesce(%(fingerprints)s, fingerprints),
    caught_up_at = CASE WHEN %(caught_up)s THEN clock_timestamp() ELSE caught_up_at END,
    failures = CASE WHEN %(caught_up)s THEN 0 ELSE failures END,
    last_error = CASE WHEN %(caught_up)s THEN NULL ELSE last_error END,
    lag_bytes = %(lag_bytes)s, safe_wal_size = %(safe_wal_size)s, wal_status = %(wal_status)s,
    updated_at = clock_timestamp()
WHERE source = %(source)s AND owner = %(owner)s AND epoch = %(epoch)s
RETURNING source

-- name: start_over
-- Changes may be missing: another generation, from where the source can be read again. Zero rows: the lease is lost.
UPDATE etl.etl_captures
SET generation = generation + 1, generation_reason = %(reason)s, generation_at = clock_timestamp(),
    position = %(position)s, system_identifier = %(system_identifier)s, timeline = %(timeline)s,
    fingerprints = %(fingerprints)s,
    expires_at = clock_timestamp() + make_interval(secs => %(seconds)s), updated_at = clock_timestamp()
WHERE source = %(source)s AND owner = %(owner)s AND epoch = %(epoch)s
RETURNING *, clock_timestamp() AS now, pg_notify('vitrina_changes', source)

-- name: interrupt
-- The same by whoever repairs an installation: nobody holds it then.
UPDATE etl.etl_captures
SET generation = generation + 1, generation_reason = %(reason)s, generation_at = clock_timestamp(),
    position = %(position)s, system_identifier = %(system_identifier)s, timeline = %(timeline)s,
    fingerprints = %(fingerprints)s,
    owner = NULL, expires_at = NULL, runner = NULL, epoch = epoch + 1, updated_at = clock_timestamp()
WHERE source = %(source)s
RETURNING source, pg_notify('vitrina_changes', source)

-- name: release
-- Stopped; another runner may go on at once. Zero rows: it is another's already.
UPDATE etl.etl_captures
SET owner = NULL, expires_at = NULL, runner = NULL
WHERE source = %(source)s AND owner = %(owner)s AND epoch = %(epoch)s
RETURNING source

-- name: fail
-- Stopped by an error: released, and left alone for a while that doubles each time. Zero rows: it is another's already.
UPDATE etl.etl_captures
SET owner = NULL, expires_at = NULL, runner = NULL,
    failures = failures + 1, last_error = %(error)s, updated_at = clock_timestamp(),
    retry_at = clock_timestamp() + make_interval(secs => least(60, 0.5 * 2 ^ least(failures, 10)))
WHERE source = %(source)s AND owner = %(owner)s AND epoch = %(epoch)s
RETURNING source

-- name: segments
SELECT first_id, name FROM etl.etl_change_segments WHERE source = %(source)s ORDER BY first_id

-- name: add_segment
INSERT INTO etl.etl_change_segments (source, first_id, name) VALUES (%(source)s, %(first_id)s, %(name)s)

-- name: forget_segment
-- It never held anything that was published.
DELETE FROM etl.etl_change_segments WHERE name = %(name)s

-- name: drop_segment
-- The oldest goes. Zero rows: the lease is lost, or it is no longer the oldest.
WITH held AS (
    SELECT source FROM etl.etl_captures
    WHERE source = %(source)s AND owner = %(owner)s AND epoch = %(epoch)s
    FOR UPDATE
), gone AS (
    DELETE FROM etl.etl_change_segments s USING held WHERE s.source = held.source AND s.name = %(name)s
    RETURNING s.source
)
UPDATE etl.etl_captures c SET log_start = %(log_start)s FROM gone WHERE c.source = gone.source
RETURNING c.source

-- name: passed
-- Up to where all live, enabled pipelines of the source have read; one that the log does not lead on from compares.
SELECT min(f.at_id) AS id FROM etl.etl_followers f
WHERE f.source = %(source)s AND f.enabled AND f.backlog IS NOT NULL

-- name: followers
-- Every live pipeline of the source, and how far it is behind.
SELECT f.name, f.enabled, f.status, f.at_id AS id, f.backlog
FROM etl.etl_followers f WHERE f.source = %(source)s ORDER BY f.name

-- name: tip
SELECT source, kind, slot, generation, generation_reason, last_id, log_start, committed_at, caught_up_at, last_error,
       images, recent, clock_timestamp() AS now,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(s.first_id, s.name) ORDER BY s.first_id), '[]')
        FROM etl.etl_change_segments s WHERE s.source = c.source) AS segments
FROM etl.etl_captures c WHERE source = %(source)s AND installed_at IS NOT NULL

-- name: newest
-- The last change of any of these relations.
SELECT max((c.recent ->> r.name)::bigint) AS id
FROM etl.etl_captures c, unnest(%(relations)s::text[]) AS r (name) WHERE c.source = %(source)s

-- name: live_selects
-- What the live pipelines of a source read: a task plan wins over a query, a query over a table.
SELECT p.name, coalesce((SELECT t.body FROM etl.etl_pipeline_tasks t WHERE t.pipeline_id = p.id
                         ORDER BY t.order_index LIMIT 1), p.source_query) AS query, p.source_table
FROM etl.etl_pipelines p WHERE p.source = %(source)s AND p.mode = 'live' AND p.part_of IS NULL ORDER BY p.name
