-- name: find
-- Zero rows: there is no such table.
SELECT metadata_location FROM etl_lake.iceberg_tables
WHERE catalog_name = %(catalogue)s AND table_namespace = %(namespace)s AND table_name = %(table)s

-- name: begin
INSERT INTO etl_lake.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
VALUES (%(catalogue)s, %(namespace)s, %(table)s, %(location)s, 'TABLE')
ON CONFLICT (catalog_name, table_namespace, table_name)
DO UPDATE SET metadata_location = EXCLUDED.metadata_location, previous_metadata_location = NULL

-- name: move
-- Zero rows: somebody else has moved it.
UPDATE etl_lake.iceberg_tables
SET metadata_location = %(new)s, previous_metadata_location = %(old)s
WHERE catalog_name = %(catalogue)s AND table_namespace = %(namespace)s AND table_name = %(table)s
  AND metadata_location = %(old)s

-- name: name_space
-- As Iceberg's catalogues note one that exists.
INSERT INTO etl_lake.iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
VALUES (%(catalogue)s, %(namespace)s, 'exists', 'true') ON CONFLICT DO NOTHING

-- name: serve
-- The table that was built, under the name by which it is served.
INSERT INTO etl_lake.iceberg_tables AS t (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
SELECT %(catalogue)s, b.table_namespace, b.table_name, b.metadata_location, 'TABLE'
FROM etl_lake.iceberg_tables b
WHERE b.catalog_name = %(building)s AND b.table_namespace = %(namespace)s AND b.table_name = %(table)s
ON CONFLICT (catalog_name, table_namespace, table_name)
DO UPDATE SET metadata_location = EXCLUDED.metadata_location, previous_metadata_location = NULL

-- name: forget
DELETE FROM etl_lake.iceberg_tables
WHERE catalog_name = %(catalogue)s AND table_namespace = %(namespace)s AND table_name = %(table)s

-- name: forget_folder
-- Of a table that is removed, under whatever name it was served; Java writes file:/folder for file:///folder.
DELETE FROM etl_lake.iceberg_tables
WHERE starts_with(regexp_replace(metadata_location, '^file:/(?!/)', 'file:///'), %(folder)s || '/')

-- name: begin_work
-- A table as an engine is to see it, and go on with.
INSERT INTO etl_lake_work.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
VALUES ('vitrina_work', 'work', %(table)s, %(location)s, 'TABLE')
ON CONFLICT (catalog_name, table_namespace, table_name) DO UPDATE SET metadata_location = EXCLUDED.metadata_location

-- name: find_work
-- Zero rows: another run has begun, and this one's work is nobody's.
SELECT metadata_location FROM etl_lake_work.iceberg_tables
WHERE catalog_name = 'vitrina_work' AND table_namespace = 'work' AND table_name = %(table)s

-- name: end_work
-- Of all runs of a pipeline.
DELETE FROM etl_lake_work.iceberg_tables
WHERE catalog_name = 'vitrina_work' AND table_namespace = 'work' AND starts_with(table_name, %(prefix)s)

-- name: at_rest
-- Tables that are served, of pipelines that no runner has and that none follows.
SELECT i.pipeline_id, p.name, i.target, i.index_name AS index, i.index_uuid AS uuid, s.epoch
FROM etl.etl_indexes i
JOIN etl.etl_pipelines p ON p.id = i.pipeline_id AND p.target_table = i.target
JOIN etl.etl_state s ON s.pipeline_id = i.pipeline_id
WHERE i.state = 'live' AND starts_with(i.target, 'lake:') AND i.index_uuid IS NOT NULL
  AND p.status IN ('IDLE', 'PAUSED', 'FAILED')
ORDER BY p.name

-- name: alone
-- Whether nobody else looks after it, until the end of the transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('vitrina lake ' || %(pipeline_id)s::text, 0)) AS ours

-- name: still_at_rest
-- Zero rows: somebody has run it since, or has begun to. Nobody does until the end of the transaction.
SELECT s.epoch FROM etl.etl_state s JOIN etl.etl_pipelines p ON p.id = s.pipeline_id
WHERE s.pipeline_id = %(pipeline_id)s AND s.epoch = %(epoch)s AND p.status IN ('IDLE', 'PAUSED', 'FAILED')
FOR SHARE OF s, p
