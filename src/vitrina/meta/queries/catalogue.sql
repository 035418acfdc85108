-- What the result of a query depends on besides rows, asked of its source as the reader. search_path is pg_catalog alone,
-- and no value is written through a reg* type, so that the answer is the same in every session.

-- name: needs
-- Besides what the tree names: what functions, operators and types are made of, as far as the server has recorded it;
-- the names under which another function or operator could be meant; and, where policies hold, whose rights count.
WITH RECURSIVE parts (class, id) AS (
    SELECT 'pg_proc'::regclass::oid, f FROM unnest(%(functions)s::oid[]) AS f
    UNION SELECT 'pg_operator'::regclass::oid, o FROM unnest(%(operators)s::oid[]) AS o
    UNION SELECT 'pg_type'::regclass::oid, t FROM unnest(%(types)s::oid[]) AS t
    UNION
    SELECT d.refclassid, d.refobjid
    FROM parts p JOIN pg_depend d ON d.classid = p.class AND d.objid = p.id AND d.deptype IN ('n', 'i')
    WHERE p.id >= %(first_user_oid)s AND d.refobjid >= %(first_user_oid)s
      AND p.class <> 'pg_class'::regclass
), found AS (
    SELECT c.relname AS class, p.id FROM parts p JOIN pg_class c ON c.oid = p.class
    WHERE p.id >= %(first_user_oid)s
), relations AS (
    SELECT c.* FROM pg_class c
    WHERE c.oid = ANY (%(relations)s::oid[]) OR c.oid IN (SELECT id FROM found WHERE class = 'pg_class')
       OR c.oid IN (SELECT t.typrelid FROM found JOIN pg_type t ON t.oid = found.id WHERE found.class = 'pg_type')
)
SELECT array(SELECT oid::bigint FROM relations ORDER BY 1) AS relations,
       array(SELECT oid::bigint FROM relations WHERE relkind = 'v' ORDER BY 1) AS views,
       array(SELECT id::bigint FROM found WHERE class = 'pg_proc' ORDER BY 1) AS functions,
       array(SELECT id::bigint FROM found WHERE class = 'pg_operator' ORDER BY 1) AS operators,
       array(SELECT id::bigint FROM found WHERE class = 'pg_type' ORDER BY 1) AS types,
       array(SELECT c::bigint FROM unnest(%(collations)s::oid[]) AS c WHERE c <> 0
             UNION SELECT a.attcollation::bigint FROM pg_attribute a
             WHERE a.attrelid IN (SELECT oid FROM relations) AND a.attcollation <> 0
             UNION SELECT id::bigint FROM found WHERE class = 'pg_collation' ORDER BY 1) AS collations,
       array(SELECT p.proname::text FROM pg_proc p WHERE p.oid = ANY (%(called)s::oid[])
             UNION SELECT o.oprname::text FROM pg_operator o WHERE o.oid = ANY (%(operators)s::oid[])
             ORDER BY 1) AS names,
       array(SELECT r.oid::bigint FROM pg_roles r
             WHERE EXISTS (SELECT FROM relations WHERE relrowsecurity)
               AND (r.rolname = current_user OR r.oid IN (SELECT relowner FROM relations WHERE relkind = 'v'))
             ORDER BY 1) AS roles

-- name: reads
-- Relations, what is behind those that are materialised views, the partitions of those that have some, and the parents.
WITH RECURSIVE below (oid) AS (
    SELECT unnest(%(relations)s::oid[])
    UNION
    SELECT n.oid FROM below b CROSS JOIN LATERAL (
        SELECT d.refobjid FROM pg_class c JOIN pg_rewrite r ON r.ev_class = c.oid
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
        WHERE c.oid = b.oid AND c.relkind IN ('m', 'v')
        UNION ALL
        SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = b.oid) AS n (oid)
), above (oid) AS (
    SELECT oid FROM below
    UNION
    SELECT i.inhparent FROM above a JOIN pg_inherits i ON i.inhrelid = a.oid
)
SELECT n.nspname || '.' || c.relname AS name
FROM above a JOIN pg_class c ON c.oid = a.oid JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY 1

-- What follows gives one row for each thing that was asked for and is there: what it is, as far as results depend on it.

-- name: relations
SELECT 'relation:' || c.oid, jsonb_build_object(
    'name', n.nspname || '.' || c.relname, 'kind', c.relkind, 'policed', c.relrowsecurity,
    'forced', c.relforcerowsecurity,
    'heirs', c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid),
    'owner', CASE WHEN c.relkind = 'v' OR c.relrowsecurity THEN c.relowner::bigint END,
    'options', CASE WHEN c.relkind = 'v' THEN c.reloptions END,
    'definition', (SELECT md5(string_agg(r.ev_action::text, '' ORDER BY r.oid))
                   FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type = '1'),
    'columns', (SELECT jsonb_object_agg(a.attnum, jsonb_build_object(
                           'name', a.attname, 'type', a.atttypid::bigint, 'modifier', a.atttypmod,
                           'collation', a.attcollation::bigint, 'generated', a.attgenerated,
                           'expression', (SELECT md5(d.adbin::text) FROM pg_attrdef d
                                          WHERE a.attgenerated <> '' AND d.adrelid = c.oid AND d.adnum = a.attnum)))
                FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    'policies', (SELECT jsonb_object_agg(p.polname, jsonb_build_array(
                            p.polcmd, p.polpermissive, p.polroles::bigint[], md5(p.polqual::text)))
                 FROM pg_policy p
                 WHERE c.relrowsecurity AND p.polrelid = c.oid AND p.polcmd IN ('*', 'r')))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(relations)s::oid[])

-- name: constraints
SELECT 'constraints:' || c.oid, jsonb_build_object(
    'name', n.nspname || '.' || c.relname,
    'required', coalesce((SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull
                   AND NOT EXISTS (SELECT FROM pg_constraint v
                                   WHERE v.conrelid = c.oid AND v.contype = 'n' AND v.conkey = ARRAY[a.attnum]
                                     AND NOT v.convalidated)), '[]'),
    'keys', coalesce((SELECT jsonb_agg(k.columns ORDER BY k.columns::text) FROM (
                 SELECT DISTINCT (SELECT jsonb_agg(a.attname ORDER BY u.at)
                                  FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS u (number, at)
                                  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.number) AS columns
                 FROM pg_index i
                 WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
                   AND i.indpred IS NULL AND i.indexprs IS NULL) AS k), '[]'),
    'primary', (SELECT i.indkey::text FROM pg_index i
                WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(relations)s::oid[]) AND c.relkind IN ('r', 'p')

-- name: functions
SELECT 'function:' || p.oid, jsonb_build_object(
    'name', n.nspname || '.' || p.proname, 'takes', p.proargtypes::text, 'gives', p.prorettype::bigint,
    'body', md5(concat_ws('|', p.prosrc, p.probin, p.prosqlbody::text, p.proargdefaults::text)),
    'language', p.prolang::bigint, 'volatility', p.provolatile, 'strict', p.proisstrict, 'definer', p.prosecdef,
    'set', p.proretset, 'settings', p.proconfig,
    'aggregate', (SELECT concat_ws('|', g.aggkind, g.aggnumdirectargs, g.aggtransfn::oid, g.aggfinalfn::oid,
                         g.aggcombinefn::oid, g.aggmtransfn::oid, g.aggminvtransfn::oid, g.aggmfinalfn::oid,
                         g.aggfinalextra, g.aggmfinalextra, g.aggsortop, g.aggtranstype, g.aggmtranstype,
                         coalesce(g.agginitval, '(none)'), g.aggminitval)
                  FROM pg_aggregate g WHERE g.aggfnoid = p.oid),
    'extension', (SELECT e.extname || ' ' || e.extversion FROM pg_depend d
                  JOIN pg_extension e ON e.oid = d.refobjid
                  WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'))
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.oid = ANY (%(functions)s::oid[])

-- name: operators
SELECT 'operator:' || o.oid, jsonb_build_object(
    'name', n.nspname || '.' || o.oprname, 'function', o.oprcode::oid::bigint, 'left', o.oprleft::bigint,
    'right', o.oprright::bigint, 'gives', o.oprresult::bigint,
    'orders', (SELECT jsonb_agg(jsonb_build_array(a.amopfamily::bigint, a.amopstrategy) ORDER BY a.amopfamily)
               FROM pg_amop a WHERE a.amopopr = o.oid AND a.amopmethod = 403))
FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace
WHERE o.oid = ANY (%(operators)s::oid[])

-- name: types
SELECT 'type:' || t.oid, jsonb_build_object(
    'name', n.nspname || '.' || t.typname, 'kind', t.typtype, 'base', t.typbasetype::bigint, 'modifier', t.typtypmod,
    'required', t.typnotnull, 'collation', t.typcollation::bigint, 'element', t.typelem::bigint,
    'functions', ARRAY[t.typinput, t.typoutput, t.typreceive, t.typsend]::oid[]::bigint[],
    'labels', (SELECT jsonb_agg(jsonb_build_array(e.oid::bigint, e.enumlabel)
                                           ORDER BY e.enumsortorder)
               FROM pg_enum e WHERE e.enumtypid = t.oid),
    'checks', (SELECT jsonb_object_agg(v.conname, md5(v.conbin::text))
               FROM pg_constraint v WHERE v.contypid = t.oid AND v.conbin IS NOT NULL),
    'range', (SELECT concat_ws('|', r.rngsubtype, r.rngcollation, r.rngsubopc, r.rngcanonical::oid)
              FROM pg_range r WHERE r.rngtypid = t.oid))
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.oid = ANY (%(types)s::oid[])

-- name: collations
SELECT 'collation:' || c.oid, jsonb_build_object(
    'name', n.nspname || '.' || c.collname, 'provider', c.collprovider, 'deterministic', c.collisdeterministic,
    'version', CASE WHEN c.oid = 100 THEN d.datcollversion ELSE c.collversion END,
    'actual', CASE WHEN c.oid = 100 THEN pg_database_collation_actual_version(d.oid)
                   ELSE pg_collation_actual_version(c.oid) END)
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
JOIN pg_database d ON d.datname = current_database()
WHERE c.oid = ANY (%(collations)s::oid[])

-- name: roles
SELECT 'role:' || r.oid, jsonb_build_object(
    'name', r.rolname, 'super', r.rolsuper, 'exempt', r.rolbypassrls,
    'acts for', (SELECT jsonb_agg(m.rolname ORDER BY m.rolname) FROM pg_roles m
                 WHERE NOT r.rolsuper AND m.oid <> r.oid AND pg_has_role(r.oid, m.oid, 'USAGE')))
FROM pg_roles r WHERE r.oid = ANY (%(roles)s::oid[])

-- name: names
SELECT 'name:' || k.name, jsonb_build_object('name', k.name, 'means', jsonb_agg(k.what ORDER BY k.what))
FROM (SELECT p.proname AS name, 'function ' || p.oid AS what FROM pg_proc p
      WHERE p.proname = ANY (%(names)s::text[]) AND p.oid >= %(first_user_oid)s
      UNION ALL
      SELECT o.oprname, 'operator ' || o.oid FROM pg_operator o
      WHERE o.oprname = ANY (%(names)s::text[]) AND o.oid >= %(first_user_oid)s) AS k
GROUP BY k.name

-- name: casts
-- Always asked for, and first: its columns give the names.
SELECT 'casts:' AS key, jsonb_build_object('name', 'casts', 'all', md5(string_agg(
    concat_ws('|', c.oid, c.castsource, c.casttarget, c.castfunc::oid, c.castcontext, c.castmethod), ',' ORDER BY c.oid)))
    AS facts
FROM pg_cast c WHERE c.oid >= %(first_user_oid)s

-- name: settings
SELECT 'setting:' || s.name, jsonb_build_object('name', s.name, 'value', current_setting(s.name))
FROM unnest(%(settings)s::text[]) AS s (name)

-- name: given
SELECT 'setting:given', jsonb_build_object('name', 'settings of the role or the database', 'value',
    jsonb_agg(g.item ORDER BY g.item))
FROM pg_db_role_setting s
LEFT JOIN pg_roles r ON r.oid = s.setrole
LEFT JOIN pg_database d ON d.oid = s.setdatabase
CROSS JOIN LATERAL unnest(s.setconfig) AS g (item)
WHERE (s.setrole = 0 OR r.rolname = current_user) AND (s.setdatabase = 0 OR d.datname = current_database())
  AND (split_part(g.item, '=', 1) = ANY (%(settings)s::text[]) OR split_part(g.item, '=', 1) LIKE '%%.%%')

-- name: text_search
SELECT 'text search:', jsonb_build_object('name', 'text search',
    'configurations', (SELECT md5(string_agg(concat_ws('|', c.oid, c.cfgname, c.cfgnamespace, c.cfgparser), ','
                                                        ORDER BY c.oid)) FROM pg_ts_config c),
    'mappings', (SELECT md5(string_agg(concat_ws('|', m.mapcfg, m.maptokentype, m.mapseqno, m.mapdict), ','
                                       ORDER BY m.mapcfg, m.maptokentype, m.mapseqno)) FROM pg_ts_config_map m),
    'dictionaries', (SELECT md5(string_agg(concat_ws('|', d.oid, d.dicttemplate, d.dictinitoption), ','
                                                      ORDER BY d.oid)) FROM pg_ts_dict d))
