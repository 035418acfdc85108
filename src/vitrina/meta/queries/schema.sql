-- name: exists
SELECT to_regclass('etl.alembic_version') IS NOT NULL AS migrated,
       to_regclass('etl.etl_schema_history') IS NOT NULL AS told

-- name: version
SELECT version_num FROM etl.alembic_version

-- name: version_table
-- As Alembic made it, which walked the migrations of older programs: they look here too.
CREATE SCHEMA IF NOT EXISTS etl;
CREATE TABLE IF NOT EXISTS etl.alembic_version (version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY)

-- name: reach
MERGE INTO etl.alembic_version USING (SELECT) AS one ON true
WHEN MATCHED THEN UPDATE SET version_num = %(version)s
WHEN NOT MATCHED THEN INSERT VALUES (%(version)s)

-- name: history
-- The oldest program that all of the migrations leave working, and the Vitrina that applied the last of them.
SELECT max(compatible_with) AS compatible_with, (array_agg(program ORDER BY version DESC))[1] AS program
FROM etl.etl_schema_history

-- name: tell
INSERT INTO etl.etl_schema_history (version, compatible_with, program)
VALUES (%(version)s, %(compatible_with)s, %(program)s) ON CONFLICT (version) DO NOTHING
