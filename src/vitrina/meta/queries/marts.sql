-- name: columns
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS required,
       a.attgenerated <> '' OR a.attidentity = 'a' AS generated,
       CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation
            THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname)
            WHEN a.attcollation <> 0 THEN 'pg_catalog."default"' END AS collation,
       coalesce(co.collisdeterministic, true) AS deterministic,
       coalesce((SELECT n.nspname FROM pg_opclass c
                 JOIN pg_amop o ON o.amopfamily = c.opcfamily AND o.amoplefttype = c.opcintype
                                AND o.amoprighttype = c.opcintype AND o.amopstrategy = 3
                 JOIN pg_operator e ON e.oid = o.amopopr JOIN pg_namespace n ON n.oid = e.oprnamespace
                 WHERE c.opcintype = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END AND c.opcdefault
                   AND c.opcmethod = 403), 'pg_catalog') AS operators   -- where its `=` lives: with what sorts it
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text)) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum

-- name: file
-- Where a table, with all its partitions, is stored: elsewhere after a TRUNCATE. NULL: there is none.
SELECT md5(string_agg(concat_ws(' ', t.oid, pg_relation_filenode(t.oid)), ',' ORDER BY t.oid)) AS file
FROM (SELECT r.oid FROM to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text)) AS r (oid) WHERE r.oid IS NOT NULL
      UNION SELECT p.relid FROM pg_partition_tree(to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))) AS p) AS t

-- name: unique_keys
-- The indexes that ON CONFLICT can use: unique, whole, immediate, on plain columns.
SELECT i.indisprimary AS "primary",
       (SELECT array_agg(a.attname::text ORDER BY k.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, n)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.n <= i.indnkeyatts) AS columns
FROM pg_index i
WHERE i.indrelid = to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))
  AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indisprimary DESC

-- name: own_key
-- The key of a mart as we make it; none if somebody has something to do with its index.
SELECT c.conname AS name
FROM pg_index i JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype = 'p'
WHERE i.indrelid = to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))
  AND NOT i.indisreplident AND NOT i.indisclustered

-- name: can_assign
-- Whether a value of one type may be stored in a column of another without an explicit cast.
SELECT f.oid = t.oid OR t.typcategory = 'S' OR EXISTS (
           SELECT FROM pg_cast c WHERE c.castsource = f.oid AND c.casttarget = t.oid AND c.castcontext IN ('i', 'a')) AS yes
FROM pg_type f, pg_type d
JOIN pg_type t ON t.oid = CASE WHEN d.typbasetype = 0 THEN d.oid ELSE d.typbasetype END  -- a domain takes what its base does
WHERE f.oid = to_regtype(%(from)s) AND d.oid = to_regtype(%(to)s)

-- name: writer
-- Whether code of somebody's own on a mart can run as the writer: one row if so.
SELECT 1 AS yes FROM pg_roles r
WHERE r.rolname = 'vitrina_writer' AND has_schema_privilege(r.oid, 'etl_sealed', 'CREATE')

-- name: unwritable
-- A mart that the writer may not write, and that the runner, or whoever asks, cannot lend to it.
SELECT w.rolname AS role
FROM pg_class c JOIN pg_roles w ON w.rolname = 'vitrina_writer' JOIN pg_roles o ON o.oid = c.relowner
WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))
  AND o.rolname <> 'vitrina_runner' AND NOT pg_has_role(current_user, c.relowner, 'USAGE')
  AND NOT (has_table_privilege(w.oid, c.oid, 'SELECT') AND has_table_privilege(w.oid, c.oid, 'INSERT')
           AND has_table_privilege(w.oid, c.oid, 'UPDATE') AND has_table_privilege(w.oid, c.oid, 'DELETE'))

-- name: foreign_code
-- Functions of somebody's own, and not installed by a superuser with an extension, that writing a value of one type to
-- a column of another would run with the writer's rights: casts to the column's type or to text, and what compares and
-- sorts its values.
SELECT f.oid::regprocedure::text AS function
FROM pg_proc f
WHERE f.oid >= %(first_user_oid)s AND (
    f.oid IN (SELECT c.castfunc FROM pg_cast c JOIN pg_type d ON d.oid = to_regtype(%(to)s)
              WHERE c.castsource = to_regtype(%(from)s) AND c.casttarget IN (d.oid, d.typbasetype, 'text'::regtype))
    OR f.oid IN (SELECT part.f FROM pg_type d
                 JOIN pg_opclass c ON c.opcdefault AND c.opcintype IN (d.oid, d.typbasetype, d.typelem)
                 CROSS JOIN LATERAL (
                     SELECT e.oprcode::oid FROM pg_amop o JOIN pg_operator e ON e.oid = o.amopopr WHERE o.amopfamily = c.opcfamily
                     UNION ALL
                     SELECT p.amproc::oid FROM pg_amproc p WHERE p.amprocfamily = c.opcfamily
                 ) AS part (f)
                 WHERE d.oid = to_regtype(%(to)s)))
  AND NOT (EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = f.oid AND e.deptype = 'e')
           AND EXISTS (SELECT FROM pg_roles r WHERE r.oid = f.proowner AND r.rolsuper))

-- name: holders
-- The transactions of others that keep everybody but themselves from adding statistics, an index or a partition to a
-- table, and whether there is one for each of its parts.
WITH RECURSIVE family (oid) AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))::oid
    UNION
    SELECT i.inhrelid FROM family f JOIN pg_inherits i ON i.inhparent = f.oid
)
SELECT coalesce(array_agg(concat_ws(' ', f.oid, k.pid, k.virtualtransaction) ORDER BY f.oid), '{}') AS holders,
       bool_and(k.pid IS NOT NULL) AS whole
FROM family f
LEFT JOIN pg_locks k
    ON k.relation = f.oid AND k.locktype = 'relation' AND k.granted AND k.mode = 'ShareUpdateExclusiveLock'
    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND k.pid <> pg_backend_pid()
