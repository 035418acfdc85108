-- What is asked of any captured source.

-- name: place
-- Which server this is, and where in its history.
SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
       ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer AS timeline,
       pg_current_snapshot()::text AS snapshot, pg_current_wal_lsn()::text AS lsn

-- name: moment
-- What is visible now, and where the WAL ends after it; NULL on a standby.
SELECT pg_current_snapshot()::text AS snapshot,
       CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn()::text END AS lsn

-- name: fingerprints
-- What changes when a relation is rewritten, altered, re-created, or loses its capture for a moment: its columns, its
-- partitions, where each is stored, its entry in the publication, its triggers. NULL: there is no such relation.
WITH roots AS (
    SELECT t.name, c.oid
    FROM unnest(%(tables)s::text[]) AS t (name)
    LEFT JOIN pg_namespace n ON n.nspname = split_part(t.name, '.', 1)
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = substr(t.name, strpos(t.name, '.') + 1)
), members AS (
    SELECT r.oid AS root, m.relid::oid FROM roots r, pg_partition_tree(r.oid) m
    UNION SELECT r.oid, r.oid FROM roots r
)
SELECT r.name, CASE WHEN r.oid IS NOT NULL THEN md5(concat_ws('|', r.oid,
    (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated), ',' ORDER BY a.attnum)
     FROM pg_attribute a WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped),
    (SELECT string_agg(concat_ws(' ', m.relid, pg_relation_filenode(m.relid), c.relreplident), ',' ORDER BY m.relid)
     FROM members m JOIN pg_class c ON c.oid = m.relid WHERE m.root = r.oid),
    (SELECT string_agg(concat_ws(' ', p.oid, p.xmin, e.oid, e.xmin), ',')
     FROM pg_publication p LEFT JOIN pg_publication_rel e ON e.prpubid = p.oid AND e.prrelid = r.oid
     WHERE p.pubname = %(publication)s AND (e.oid IS NOT NULL OR p.puballtables
         OR EXISTS (SELECT FROM pg_publication_namespace s JOIN pg_class c ON c.relnamespace = s.pnnspid
                    WHERE s.pnpubid = p.oid AND c.oid = r.oid))),
    (SELECT string_agg(concat_ws(' ', g.oid, g.xmin, g.tgenabled), ',' ORDER BY g.oid)
     FROM pg_trigger g JOIN members m ON m.relid = g.tgrelid
     WHERE m.root = r.oid AND g.tgfoid = to_regproc('vitrina_capture.record')))) END AS print
FROM roots r

-- name: barrier
-- A transaction id above all that are open. Not the snapshot's xmax: that is next to the newest that has *ended*, and a
-- transaction that began after it may be open.
SELECT pg_current_xact_id()::text AS xid

-- name: behind_barrier
-- Whether all transactions below the barrier have ended that could have written to this database, and who holds the
-- oldest. A snapshot's xmin would do, but other databases hold it too; so those of this one are looked at by name, by
-- whoever may see them; not autovacuum, which writes no rows of anybody's. A session that prepares its transaction may
-- be missed between the two looks: ask twice.
WITH open AS (
    SELECT jsonb_strip_nulls(jsonb_build_object('pid', a.pid, 'usename', a.usename, 'application_name', a.application_name,
                              'client_addr', a.client_addr, 'state', a.state, 'xact_start', a.xact_start,
                              'query_start', a.query_start)) AS holder, age(a.backend_xid) AS age
    FROM pg_stat_activity a
    WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid() AND a.datname = current_database()
      AND a.backend_type IS DISTINCT FROM 'autovacuum worker' AND age(a.backend_xid) > age(%(barrier)s::xid8::xid)
    UNION ALL
    SELECT jsonb_build_object('prepared_transaction', p.gid, 'usename', p.owner, 'prepared', p.prepared),
           age(p.transaction)
    FROM pg_prepared_xacts p
    WHERE p.database = current_database() AND age(p.transaction) > age(%(barrier)s::xid8::xid)
)
SELECT pg_snapshot_xmin(pg_current_snapshot()) >= %(barrier)s::xid8 AS passed,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all,
       (SELECT o.holder FROM open o ORDER BY o.age DESC LIMIT 1) AS holder

-- name: server
-- What a source must have and be.
SELECT current_setting('wal_level') AS wal_level, pg_is_in_recovery() AS standby,
       current_setting('server_encoding') AS encoding, current_setting('max_slot_wal_keep_size') AS keep,
       current_setting('max_replication_slots')::integer AS slots,
       (SELECT count(*) FROM pg_replication_slots) AS slots_used,
       current_setting('max_wal_senders')::integer AS senders,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender') AS senders_used,
       has_database_privilege(current_database(), 'CREATE') AS may_create, current_database()::text AS database,
       current_user::text AS role

-- name: tables
-- The tables that are asked for, each with its partitions; member NULL: there is no such table.
WITH wanted AS (
    SELECT t.name, c.oid
    FROM unnest(%(tables)s::text[]) AS t (name)
    LEFT JOIN pg_namespace n ON n.nspname = split_part(t.name, '.', 1)
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = substr(t.name, strpos(t.name, '.') + 1)
), members AS (
    SELECT w.name, w.oid AS root, m.relid::oid FROM wanted w, pg_partition_tree(w.oid) m
    UNION SELECT w.name, w.oid, w.oid FROM wanted w
)
SELECT m.name, m.relid::regclass::text AS member, m.relid = m.root AS is_root, c.relkind, c.relpersistence,
       c.relreplident, c.relispartition, pg_partition_root(m.relid)::regclass::text AS root,
       pg_has_role(c.relowner, 'USAGE') AS owned, pg_get_userbyid(c.relowner)::text AS owner,
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid) AS has_key,
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident AND i.indisvalid) AS has_index,
       EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhparent = c.oid AND c.relkind = 'r') AS has_children,
       array(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attgenerated = 'v' AND NOT a.attisdropped ORDER BY a.attnum) AS virtual,
       array(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attgenerated = 's' AND NOT a.attisdropped ORDER BY a.attnum) AS stored
FROM members m LEFT JOIN pg_class c ON c.oid = m.relid
ORDER BY m.name, is_root DESC, member

-- name: identity
-- The columns whose old values are told of a table, or of each partition that holds rows.
SELECT t.name,
       coalesce((SELECT array_agg(a.attname::text) FROM pg_attribute a
                 WHERE a.attrelid = m.relid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
                   AND (c.relreplident = 'f' OR a.attnum = ANY (
                       SELECT unnest(i.indkey::smallint[]) FROM pg_index i
                       WHERE i.indrelid = m.relid AND i.indisvalid
                         AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END))),
                '{}') AS columns
FROM unnest(%(tables)s::text[]) AS t (name)
JOIN pg_namespace n ON n.nspname = split_part(t.name, '.', 1)
JOIN pg_class r ON r.relnamespace = n.oid AND r.relname = substr(t.name, strpos(t.name, '.') + 1)
CROSS JOIN LATERAL (SELECT p.relid::oid FROM pg_partition_tree(r.oid) p WHERE p.isleaf
                    UNION SELECT r.oid WHERE r.relkind = 'r') AS m
JOIN pg_class c ON c.oid = m.relid
