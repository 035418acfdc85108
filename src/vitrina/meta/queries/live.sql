-- What the tree of a live mart's SELECT is made of, looked up by oid. search_path is pg_catalog alone.

-- name: tables
-- Tables and what may be read of them; `root` is the partitioned table that a partition belongs to in the end.
SELECT c.oid::bigint AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       coalesce((SELECT format('%%s.%%s', rn.nspname, r.relname) FROM pg_class r
                 JOIN pg_namespace rn ON rn.oid = r.relnamespace
                 WHERE c.relispartition AND r.oid = pg_partition_root(c.oid)),
                format('%%s.%%s', n.nspname, c.relname)) AS root,
       has_table_privilege(c.oid, 'SELECT') AS readable, c.relrowsecurity AS policed,
       c.relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid) AS has_heirs,
       c.relkind = 'p' AND EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid
                                   WHERE l.relkind = 'f') AS has_foreign_parts
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(oids)s::oid[])

-- name: columns
-- `required`: never NULL; a NOT NULL that was never validated (18) says nothing about old rows.
SELECT a.attrelid::bigint AS oid, a.attnum AS number, a.attname AS name, a.atttypid::bigint AS type,
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = a.attrelid AND c.contype = 'n'
                                    AND c.conkey = ARRAY[a.attnum] AND NOT c.convalidated) AS required, a.attgenerated <> '' AS generated
FROM pg_attribute a
WHERE a.attrelid = ANY (%(oids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped

-- name: unique_keys
-- Column numbers of the unique indexes that hold for every row.
SELECT i.indrelid::bigint AS oid, i.indkey::int2[] AS numbers
FROM pg_index i
WHERE i.indrelid = ANY (%(oids)s::oid[]) AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL

-- name: functions
SELECT p.oid::bigint AS oid, n.nspname AS schema, p.proname AS name, p.proisstrict AS strict
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.oid = ANY (%(oids)s::oid[])

-- name: operators
-- `equality`: what a btree calls equal.
SELECT o.oid::bigint AS oid, n.nspname AS schema, o.oprname AS name, p.proisstrict AS strict,
       o.oprleft::bigint AS left, o.oprright::bigint AS right,
       EXISTS (SELECT FROM pg_amop a WHERE a.amopopr = o.oid AND a.amopstrategy = 3 AND a.amopmethod = 403) AS equality
FROM pg_operator o
JOIN pg_namespace n ON n.oid = o.oprnamespace
JOIN pg_proc p ON p.oid = o.oprcode
WHERE o.oid = ANY (%(oids)s::oid[])

-- name: types
SELECT t.oid::bigint AS oid, format_type(t.oid, NULL) AS name, t.typtype = 'e' AS enum
FROM pg_type t
WHERE t.oid = ANY (%(oids)s::oid[])

-- name: loose_collations
-- Collations under which different texts can be equal.
SELECT oid::bigint AS oid FROM pg_collation WHERE NOT collisdeterministic
