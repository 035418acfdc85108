-- name: all
-- The generations of a pipeline's index, newest first.
SELECT * FROM etl.etl_indexes WHERE pipeline_id = %(pipeline_id)s ORDER BY generation DESC

-- name: add
INSERT INTO etl.etl_indexes (pipeline_id, generation, target, index_name, shape, key_columns)
VALUES (%(pipeline_id)s, %(generation)s, %(target)s, %(index_name)s, %(shape)s, %(key)s)

-- name: created
-- The index is there, under this uuid: the shadow is bound to it.
UPDATE etl.etl_indexes SET index_uuid = %(uuid)s WHERE pipeline_id = %(pipeline_id)s AND generation = %(generation)s

-- name: advance
-- A version for what the next batch sends, above all before it, and what has arrived meanwhile.
UPDATE etl.etl_indexes
SET last_version = greatest(last_version + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
    confirmed = greatest(confirmed, %(confirmed)s)
WHERE pipeline_id = %(pipeline_id)s AND generation = %(generation)s
RETURNING last_version

-- name: confirm
-- Everything has arrived.
UPDATE etl.etl_indexes SET confirmed = last_version
WHERE pipeline_id = %(pipeline_id)s AND generation = %(generation)s
RETURNING confirmed

-- name: raise_version
-- Somebody else's version was seen in the index: ours go above it.
UPDATE etl.etl_indexes SET last_version = greatest(last_version, %(seen)s)
WHERE pipeline_id = %(pipeline_id)s AND generation = %(generation)s

-- name: give_up_building
-- What was begun is not gone on with: it is removed as if it had served.
UPDATE etl.etl_indexes SET state = 'retired', retired_at = clock_timestamp()
WHERE pipeline_id = %(pipeline_id)s AND state = 'building'

-- name: retire
-- Every generation but this one has served its time.
UPDATE etl.etl_indexes SET state = 'retired', retired_at = clock_timestamp()
WHERE pipeline_id = %(pipeline_id)s AND generation <> %(generation)s AND state <> 'retired'

-- name: go_live
UPDATE etl.etl_indexes SET state = 'live' WHERE pipeline_id = %(pipeline_id)s AND generation = %(generation)s

-- name: expired
-- Retired longer ago than the grace, or never finished and given up; of one pipeline or of all.
SELECT * FROM etl.etl_indexes
WHERE (%(pipeline_id)s::uuid IS NULL OR pipeline_id = %(pipeline_id)s) AND state = 'retired'
  AND retired_at <= clock_timestamp() - make_interval(secs => %(grace)s)

-- name: orphaned_shadows
-- Shadows whose pipeline is gone.
SELECT c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'etl_shadow'
WHERE c.relkind = 'r' AND NOT EXISTS (
    SELECT FROM etl.etl_indexes i
    WHERE c.relname = 'd_' || replace(i.pipeline_id::text, '-', '') || '_' || i.generation)

-- name: remove
DELETE FROM etl.etl_indexes WHERE pipeline_id = %(pipeline_id)s AND generation = %(generation)s
