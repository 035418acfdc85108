-- name: without_writer
-- Who works with marts and could not lend a statement to the writer: the runner, or who does everything in its place.
SELECT r.rolname AS name FROM pg_roles r
WHERE (r.rolname = ANY (%(roles)s::text[]) OR r.rolname = current_user) AND NOT r.rolsuper
  AND NOT pg_has_role(r.oid, 'vitrina_writer', 'MEMBER')

-- name: of_others
-- Tables that belong to somebody else, or have triggers of somebody else: neither superusers, nor the runner, nor who
-- installs.
WITH others AS (
    SELECT r.oid, r.rolname FROM pg_roles r
    WHERE NOT r.rolsuper AND r.rolname NOT IN ('vitrina_runner', session_user)
      AND r.oid <> ALL (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'etl')
)
SELECT n.nspname AS schema, c.relname AS table, pg_get_userbyid(c.relowner) AS owner
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s::text[]) AND c.relkind IN ('r', 'p')
  AND c.relowner <> ALL (SELECT r.oid FROM pg_roles r WHERE r.rolname = 'vitrina_runner')
  AND (c.relowner IN (SELECT o.oid FROM others o)
       OR EXISTS (SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
                  WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND p.proowner IN (SELECT o.oid FROM others o)))
ORDER BY 1, 2
