-- name: grant_meta
-- What the processes do with the tables of the meta-store.
GRANT USAGE ON SCHEMA etl TO vitrina_runner, vitrina_api, vitrina_reader;
GRANT SELECT ON {settled}, etl.alembic_version TO vitrina_runner, vitrina_api;
GRANT UPDATE (status, run_options, due_at, last_due_at) ON etl.etl_pipelines TO vitrina_runner;
GRANT SELECT, INSERT, UPDATE, DELETE ON {run_time} TO vitrina_runner;
GRANT SELECT, INSERT, UPDATE, DELETE ON {managed} TO vitrina_api;
GRANT SELECT ON {run_time} TO vitrina_api;
GRANT SELECT, INSERT ON etl.etl_audit TO vitrina_api;
GRANT USAGE, CREATE ON SCHEMA etl_stage, etl_shadow, etl_log TO vitrina_runner;
GRANT USAGE ON SCHEMA etl_stage, etl_shadow TO vitrina_reader;
GRANT USAGE ON SCHEMA etl_lake TO vitrina_runner, vitrina_reader;
GRANT USAGE ON SCHEMA etl_lake_work TO vitrina_runner;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA etl_lake, etl_lake_work TO vitrina_runner;
GRANT SELECT ON ALL TABLES IN SCHEMA etl_lake TO vitrina_reader;
GRANT EXECUTE ON FUNCTION etl.forget_managed(double precision, double precision, integer) TO vitrina_runner

-- name: reads_as_reader
-- Whether the user's SELECT runs as the reader inside of a statement of the runner's.
(SELECT r.rolname = 'vitrina_reader' AND EXISTS (SELECT FROM aclexplode(p.proacl) a JOIN pg_roles g ON g.oid = a.grantee
                                                 WHERE g.rolname = 'vitrina_runner')
 FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
 WHERE p.oid = to_regprocedure('etl.read_as_reader(text, text[])'))

-- name: give_reading
-- Both or nothing: while it belongs to whoever installs, it would lend the query that one's rights.
GRANT CREATE ON SCHEMA etl TO vitrina_reader;
ALTER FUNCTION etl.read_as_reader(text, text[]) OWNER TO vitrina_reader;
REVOKE CREATE ON SCHEMA etl FROM vitrina_reader;
GRANT EXECUTE ON FUNCTION etl.read_as_reader(text, text[]) TO vitrina_runner

-- name: grant_sealing
GRANT USAGE, CREATE ON SCHEMA etl_sealed TO vitrina_runner, vitrina_writer;
GRANT USAGE ON SCHEMA etl_stage TO vitrina_writer;
GRANT EXECUTE ON FUNCTION etl.ask_sealed(text, text[], text, text), etl.marks_held() TO vitrina_runner;
GRANT EXECUTE ON FUNCTION etl.answer_sealed(text) TO vitrina_runner, vitrina_writer

-- name: future_marts
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO vitrina_runner;
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO vitrina_reader

-- name: future
-- Whether what somebody will make in a schema is granted already.
EXISTS (SELECT FROM pg_default_acl d JOIN pg_namespace n ON n.oid = d.defaclnamespace
        JOIN pg_roles m ON m.oid = d.defaclrole CROSS JOIN LATERAL aclexplode(d.defaclacl) a
        JOIN pg_roles g ON g.oid = a.grantee
        WHERE m.rolname = {maker} AND n.nspname = {schema} AND d.defaclobjtype = 'r' AND g.rolname = {role}
          AND a.privilege_type = {what})

-- name: owner_of
-- Zero rows: there is no such schema.
SELECT pg_get_userbyid(nspowner)::text AS owner FROM pg_namespace WHERE nspname = %(schema)s

-- name: owners
-- Who has tables in a schema and makes more of them there: superusers and we are told otherwise.
SELECT DISTINCT r.rolname::text AS owner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_roles r ON r.oid = c.relowner
WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT r.rolsuper AND r.rolname <> current_user
ORDER BY 1

-- name: closed
-- By owner, the tables and views of a schema that a role may not use so.
SELECT pg_get_userbyid(c.relowner)::text AS owner, array_agg(c.relname::text ORDER BY c.relname) AS tables
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_roles r
WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND r.rolname = %(role)s
  AND EXISTS (SELECT FROM unnest(%(privileges)s::text[]) AS p (name) WHERE NOT has_table_privilege(r.oid, c.oid, p.name))
GROUP BY 1 ORDER BY 1

-- name: closed_now
-- The same, as part of an expression.
SELECT pg_get_userbyid(c.relowner)::text AS owner
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_roles r
WHERE n.nspname = {schema} AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND r.rolname = {role}
  AND EXISTS (SELECT FROM unnest({privileges}::text[]) AS p (name) WHERE NOT has_table_privilege(r.oid, c.oid, p.name))

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
