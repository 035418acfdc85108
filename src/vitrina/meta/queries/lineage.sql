-- name: columns
SELECT n.nspname AS schema, c.relname AS "table", a.attname AS "column"
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname || '.' || c.relname = ANY (%(tables)s)
ORDER BY c.oid, a.attnum
