-- What a source lets its reader see, and what it is set up for. Asked there, as the reader.

-- name: server
SELECT current_user::text AS role, current_database()::text AS database, pg_is_in_recovery() AS standby,
       current_setting('wal_level') AS wal_level, current_setting('server_encoding') AS encoding,
       current_setting('track_activities')::boolean AS tracks,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all,
       current_setting('max_replication_slots')::integer AS slots,
       (SELECT count(*) FROM pg_replication_slots)::integer AS slots_used

-- name: streams
-- Whether this role may stream the WAL: by their own attribute, or by a role that a managed service lends for it. No row: there is none.
SELECT r.rolname::text AS role,
       r.rolreplication OR r.rolsuper OR EXISTS (
           SELECT FROM pg_roles lent
           WHERE lent.rolname = %(lent)s AND pg_has_role(r.oid, lent.oid, 'MEMBER')
       ) AS may
FROM pg_roles r WHERE r.rolname = %(role)s

-- name: schemas
-- Those that queries may read: whether they are there, and how many of their tables the reader may not read.
SELECT s.name, n.oid IS NOT NULL AS exists, coalesce(has_schema_privilege(n.oid, 'USAGE'), false) AS usable,
       count(c.oid)::integer AS tables,
       (count(c.oid) FILTER (WHERE NOT has_table_privilege(c.oid, 'SELECT')))::integer AS closed
FROM unnest(%(schemas)s::text[]) WITH ORDINALITY AS s (name, place)
LEFT JOIN pg_namespace n ON n.nspname = s.name
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
GROUP BY s.name, s.place, n.oid ORDER BY s.place

-- name: tables
-- The tables of these schemas with their columns; partitions go with their table. One row more than are asked for: there
-- are more.
SELECT n.nspname::text AS schema, c.relname::text AS name,
       CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialised view' WHEN 'f' THEN 'foreign table' ELSE 'table' END AS kind,
       has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AS readable,
       nullif(greatest(c.reltuples, 0), 0)::bigint AS rows, obj_description(c.oid, 'pg_class') AS comment,
       coalesce((SELECT array_agg(k.attname::text ORDER BY array_position(i.indkey::int2[], k.attnum))
                 FROM pg_index i JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = ANY (i.indkey::int2[])
                 WHERE i.indrelid = c.oid AND i.indisprimary), '{}') AS key,
       coalesce((SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
                                  'comment', col_description(a.attrelid, a.attnum)) ORDER BY a.attnum)
                 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '[]') AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
ORDER BY 1, 2 LIMIT %(limit)s + 1

-- name: closed
-- Those of that name which this role may not read; two are enough to know that it is not the only one.
SELECT n.nspname AS schema FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %(table)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT has_table_privilege(c.oid, 'SELECT')
LIMIT 2
