-- name: exists
SELECT to_regclass('etl.alembic_version') IS NOT NULL AS migrated,
       to_regclass('etl.etl_schema_history') IS NOT NULL AS told

-- name: version
SELECT version_num FROM etl.alembic_version

-- name: history
-- The oldest program that all of the migrations leave working, and the Vitrina that applied the last of them.
SELECT max(compatible_with) AS compatible_with, (array_agg(program ORDER BY version DESC))[1] AS program
FROM etl.etl_schema_history

-- name: tell
INSERT INTO etl.etl_schema_history (version, compatible_with, program)
VALUES (%(version)s, %(compatible_with)s, %(program)s) ON CONFLICT (version) DO NOTHING
