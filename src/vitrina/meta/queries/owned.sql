-- Code of tables, from the catalogue. Their children come along: partitions, and tables that inherit.

-- name: plain
-- Whether a table can bring no code along at all, as most marts: one look instead of five. No wherever there may be some:
-- the flags stay up for a while after the last trigger, rule or child is gone, and a foreign key is a trigger of both
-- tables. Zero rows: there is no such table.
SELECT c.relkind = 'r' AND NOT c.relispartition AND NOT c.relhassubclass AND NOT c.relhastriggers AND NOT c.relhasrules
   AND c.relchecks = 0
   AND NOT EXISTS (SELECT FROM pg_attrdef d WHERE d.adrelid = c.oid)
   AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)
   AND NOT EXISTS (SELECT FROM pg_statistic_ext s WHERE s.stxrelid = c.oid)
   AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
   AND NOT EXISTS (SELECT FROM pg_attribute a
                   WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.atttypid >= %(first_user_oid)s) AS yes
FROM pg_class c WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))

-- name: reached
-- What a statement that writes to a table writes to: its children, and the tables whose rows follow by a foreign key.
WITH RECURSIVE family (oid) AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))::oid
    UNION
    SELECT further.oid FROM family f CROSS JOIN LATERAL (
        SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.oid
        UNION ALL
        SELECT c.conrelid FROM pg_constraint c
        WHERE c.confrelid = f.oid AND c.contype = 'f'
          AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
    ) AS further (oid)
)
SELECT f.oid::bigint AS oid FROM family f WHERE f.oid IS NOT NULL

-- name: trees
-- The expressions of some kinds: `planned` is what the planner works out, whoever plans; `read` what a statement that reads
-- works out besides, policies and columns that are computed as they are read; `written` what one that writes does,
-- defaults and computed columns, checks of policies, and checks and defaults of domains, wherever in a column's type.
WITH RECURSIVE family (oid) AS (
    SELECT unnest(%(relations)s::oid[])
    UNION
    SELECT i.inhrelid FROM family f JOIN pg_inherits i ON i.inhparent = f.oid
), types (relation, oid) AS (
    SELECT f.oid, a.atttypid FROM family f JOIN pg_attribute a ON a.attrelid = f.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped AND 'written' = ANY (%(kinds)s::text[])
    UNION
    SELECT u.relation, part.oid FROM types u JOIN pg_type t ON t.oid = u.oid CROSS JOIN LATERAL (
        VALUES (t.typbasetype), (t.typelem), ((SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid)),
               ((SELECT r.rngtypid FROM pg_range r WHERE r.rngmultitypid = t.oid))
        UNION ALL
        SELECT a.atttypid FROM pg_attribute a
        WHERE a.attrelid = t.typrelid AND t.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped
    ) AS part (oid)
    WHERE part.oid >= %(first_user_oid)s
)
SELECT e.tree
FROM family f
CROSS JOIN LATERAL (
    SELECT 'planned', i.indexprs::text FROM pg_index i WHERE i.indrelid = f.oid
    UNION ALL SELECT 'planned', i.indpred::text FROM pg_index i WHERE i.indrelid = f.oid
    UNION ALL SELECT 'planned', s.stxexprs::text FROM pg_statistic_ext s WHERE s.stxrelid = f.oid
    UNION ALL SELECT 'planned', c.conbin::text FROM pg_constraint c WHERE c.conrelid = f.oid
    UNION ALL SELECT 'planned', p.partexprs::text FROM pg_partitioned_table p WHERE p.partrelid = f.oid
    UNION ALL SELECT 'read', p.polqual::text FROM pg_policy p WHERE p.polrelid = f.oid
    UNION ALL SELECT 'read', d.adbin::text
              FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
              WHERE d.adrelid = f.oid AND a.attgenerated = 'v'
    UNION ALL SELECT 'written', d.adbin::text FROM pg_attrdef d WHERE d.adrelid = f.oid
    UNION ALL SELECT 'written', p.polwithcheck::text FROM pg_policy p WHERE p.polrelid = f.oid
    UNION ALL SELECT 'written', c.conbin::text FROM types u JOIN pg_constraint c ON c.contypid = u.oid
              WHERE u.relation = f.oid
    UNION ALL SELECT 'written', t.typdefaultbin::text FROM types u JOIN pg_type t ON t.oid = u.oid
              WHERE u.relation = f.oid
) AS e (kind, tree)
WHERE e.tree IS NOT NULL AND e.kind = ANY (%(kinds)s::text[])

-- name: triggered
-- The functions of triggers that fire, but for those that a foreign key brings.
WITH RECURSIVE family (oid) AS (
    SELECT unnest(%(relations)s::oid[])
    UNION
    SELECT i.inhrelid FROM family f JOIN pg_inherits i ON i.inhparent = f.oid
)
SELECT t.tgfoid::bigint AS oid FROM family f JOIN pg_trigger t ON t.tgrelid = f.oid
WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'

-- name: foreign
-- Of anybody but superusers, who installed Vitrina, and its runner.
SELECT p.oid::regprocedure::text AS function, r.rolname AS owner
FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
WHERE p.oid >= %(first_user_oid)s
  AND (p.oid = ANY (%(functions)s::oid[])
       OR p.oid IN (SELECT o.oprcode::oid FROM pg_operator o WHERE o.oid = ANY (%(operators)s::oid[]))
       OR p.oid IN (SELECT unnest(ARRAY[t.typinput, t.typoutput, t.typreceive, t.typsend]::oid[])
                    FROM pg_type t WHERE t.oid = ANY (%(types)s::oid[])))
  AND NOT r.rolsuper AND r.rolname NOT IN ('vitrina_runner', session_user)
  AND r.oid <> ALL (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'etl')
ORDER BY 1

-- name: ruled
-- Rules of a table; they are its owner's.
SELECT format('rule %%I', w.rulename) AS function, r.rolname AS owner
FROM pg_rewrite w JOIN pg_class c ON c.oid = w.ev_class JOIN pg_roles r ON r.oid = c.relowner
WHERE w.ev_class = to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text)) AND w.rulename <> '_RETURN'
  AND NOT r.rolsuper AND r.rolname NOT IN ('vitrina_runner', session_user)
  AND r.oid <> ALL (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'etl')
ORDER BY 1

-- name: loose
-- What belongs to somebody else, and may bring code to a table at any time, with no lock of the table in the way: domains
-- and row types of its columns, and tables whose rows follow by a foreign key.
WITH RECURSIVE family (oid, follows) AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))::oid, false
    UNION
    SELECT further.* FROM family f CROSS JOIN LATERAL (
        SELECT i.inhrelid, f.follows FROM pg_inherits i WHERE i.inhparent = f.oid
        UNION ALL
        SELECT c.conrelid, true FROM pg_constraint c
        WHERE c.confrelid = f.oid AND c.contype = 'f'
          AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
    ) AS further (oid, follows)
), types (oid) AS (
    SELECT a.atttypid FROM family f JOIN pg_attribute a ON a.attrelid = f.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= %(first_user_oid)s
    UNION
    SELECT part.oid FROM types u JOIN pg_type t ON t.oid = u.oid CROSS JOIN LATERAL (
        VALUES (t.typbasetype), (t.typelem), ((SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid)),
               ((SELECT r.rngtypid FROM pg_range r WHERE r.rngmultitypid = t.oid))
        UNION ALL
        SELECT a.atttypid FROM pg_attribute a
        WHERE a.attrelid = t.typrelid AND t.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped
    ) AS part (oid)
    WHERE part.oid >= %(first_user_oid)s
)
SELECT w.what AS function, r.rolname AS owner
FROM (SELECT format('type %%s', format_type(t.oid, NULL)), t.typowner
      FROM types u JOIN pg_type t ON t.oid = u.oid WHERE t.typtype IN ('d', 'c')
      UNION
      SELECT format('table %%s', c.oid::regclass), c.relowner
      FROM family f JOIN pg_class c ON c.oid = f.oid WHERE f.follows) AS w (what, owner)
JOIN pg_roles r ON r.oid = w.owner
WHERE NOT r.rolsuper AND r.rolname NOT IN ('vitrina_runner', session_user)
  AND r.oid <> ALL (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'etl')
ORDER BY 1

-- name: outsiders
-- Who else may add code to a table or a part of it: who owns it, and whom its owner lets make triggers.
WITH RECURSIVE family (oid) AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))::oid
    UNION
    SELECT i.inhrelid FROM family f JOIN pg_inherits i ON i.inhparent = f.oid
)
SELECT r.rolname AS owner
FROM family f JOIN pg_class c ON c.oid = f.oid
CROSS JOIN LATERAL (
    SELECT c.relowner, 0
    UNION ALL
    SELECT a.grantee, 1 FROM aclexplode(c.relacl) a WHERE a.privilege_type = 'TRIGGER'
) AS may (role, lent)
LEFT JOIN pg_roles r ON r.oid = may.role   -- none: PUBLIC
WHERE NOT coalesce(r.rolsuper OR r.rolname IN ('vitrina_runner', session_user), false)
  AND may.role <> ALL (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'etl')
LIMIT 1

-- name: owner
SELECT r.rolname AS owner
FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))
  AND NOT r.rolsuper AND r.rolname <> ALL (%(trusted)s::text[]) AND r.rolname NOT IN ('vitrina_runner', session_user)
  AND r.oid <> ALL (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'etl')
