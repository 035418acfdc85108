-- What is asked of a source whose WAL is read.

-- name: snapshot
SELECT pg_current_snapshot()::text AS snapshot

-- name: slot
-- Zero rows: somebody dropped it.
SELECT active_pid, wal_status, safe_wal_size, confirmed_flush_lsn::text AS confirmed, plugin,
       pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint AS lag_bytes
FROM pg_replication_slots WHERE slot_name = %(slot)s AND database = current_database()

-- name: publication
-- The publication, if it is there: whether it gives everything, and what it leaves out.
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot AS whole, pubviaroot AS by_root,
       array_remove(ARRAY[CASE WHEN NOT pubinsert THEN 'insert' END, CASE WHEN NOT pubupdate THEN 'update' END,
                          CASE WHEN NOT pubdelete THEN 'delete' END, CASE WHEN NOT pubtruncate THEN 'truncate' END],
                    NULL) AS left_out
FROM pg_publication WHERE pubname = %(publication)s

-- name: published
-- The tables of the publication with all their rows and columns; one that somebody made may be of all tables, or of
-- schemas.
SELECT n.nspname || '.' || c.relname AS name
FROM pg_publication p
JOIN pg_publication_rel r ON r.prpubid = p.oid
JOIN pg_class c ON c.oid = r.prrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = %(publication)s AND r.prqual IS NULL AND r.prattrs IS NULL
UNION
SELECT n.nspname || '.' || c.relname
FROM pg_publication p
JOIN pg_class c ON c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = %(publication)s
  AND (p.puballtables OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = n.oid))

-- name: restricted
-- The tables of which it gives some rows or some columns only.
SELECT n.nspname || '.' || c.relname AS name
FROM pg_publication p
JOIN pg_publication_rel r ON r.prpubid = p.oid
JOIN pg_class c ON c.oid = r.prrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = %(publication)s AND NOT p.puballtables AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)

-- name: generated
-- Whether the publication gives computed columns that are stored; before Postgres 18 none does.
SELECT coalesce(to_jsonb(p) ->> 'pubgencols', 's') <> 'n' AS given FROM pg_publication p WHERE p.pubname = %(publication)s

-- name: given_slot
-- A slot that somebody else made, and whether we can read it.
SELECT slot_type, database = current_database() AS here, plugin, temporary, wal_status, confirmed_flush_lsn::text AS confirmed,
       coalesce((to_jsonb(s) ->> 'two_phase')::boolean, false) AS two_phase
FROM pg_replication_slots s WHERE slot_name = %(slot)s

-- name: reader
-- Who reads the slot: its name for people, and whether it may be a zombie of ours.
SELECT format('session %%s of %%s (%%s)', a.pid, a.usename, coalesce(nullif(a.application_name, ''), '?')) AS who,
       a.application_name = 'vitrina capture' AS ours
FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %(slot)s

-- name: make_room
-- A successor ends the session of a zombie that still reads the slot.
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %(slot)s AND active_pid IS NOT NULL

-- name: create_slot
SELECT lsn::text AS position FROM pg_create_logical_replication_slot(%(slot)s, 'pgoutput')

-- name: drop_slot
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %(slot)s

-- name: oldest_writer
-- Whom the creation of a slot waits for: the oldest transaction that has written, also a prepared one.
SELECT coalesce(
    (SELECT format('session %%s of %%s (%%s), open since %%s', a.pid, a.usename, a.application_name, a.xact_start)
     FROM pg_stat_activity a WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid()
     ORDER BY age(a.backend_xid) DESC LIMIT 1),
    (SELECT format('prepared transaction %%s of %%s, since %%s', p.gid, p.owner, p.prepared)
     FROM pg_prepared_xacts p ORDER BY age(p.transaction) DESC LIMIT 1)) AS holder

-- name: json_types
-- json, jsonb and the domains over them.
WITH RECURSIVE t AS (
    SELECT oid FROM pg_type WHERE oid IN (114, 3802)
    UNION SELECT d.oid FROM pg_type d JOIN t ON d.typbasetype = t.oid WHERE d.typtype = 'd'
)
SELECT oid::bigint FROM t
