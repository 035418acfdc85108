-- What is done at a source whose tables carry triggers. Their log has two halves: one is written, the other, once all
-- of it is stored and no open transaction has written there, is truncated. So nothing is deleted from its head, and
-- only a transaction that stays open after writing makes it grow.

-- name: create_schema
CREATE SCHEMA vitrina_capture

-- name: create_log
CREATE SEQUENCE vitrina_capture.seq;
CREATE TABLE vitrina_capture.half (
    active  smallint NOT NULL CHECK (active IN (0, 1)),
    emptied pg_snapshot                                  -- what it sees may be gone from the log
);
INSERT INTO vitrina_capture.half VALUES (0);
CREATE TABLE vitrina_capture.log_0 (
    seq       bigint NOT NULL DEFAULT nextval('vitrina_capture.seq'),
    xid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    relation  text NOT NULL,
    op        "char" NOT NULL,
    old_image jsonb,
    new_image jsonb
);
CREATE TABLE vitrina_capture.log_1 (LIKE vitrina_capture.log_0 INCLUDING DEFAULTS);
CREATE INDEX ON vitrina_capture.log_0 (xid);
CREATE INDEX ON vitrina_capture.log_1 (xid)

-- name: create_function
-- One for all tables. The columns are looked up at every statement, so that no DDL can make the function fail, and the
-- application's statement with it. Rows of the two transition tables of an UPDATE come in the same order.
CREATE FUNCTION vitrina_capture.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres'
    SET extra_float_digits = '1' SET bytea_output = 'hex' AS $vitrina$
DECLARE
    target   text;
    relation text;
    image    text;
    rows     text;
BEGIN
    SELECT 'vitrina_capture.log_' || h.active INTO target FROM vitrina_capture.half h;
    SELECT n.nspname || '.' || c.relname INTO relation
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = coalesce(pg_partition_root(tg_relid), tg_relid);
    IF tg_op = 'TRUNCATE' THEN
        EXECUTE 'INSERT INTO ' || target || ' (relation, op) VALUES ($1, ''T'')' USING relation;
        RETURN NULL;
    END IF;
    -- The text form of each column; types whose cast to text gives something else go through format().
    SELECT 'jsonb_object(ARRAY[' || coalesce(string_agg(quote_literal(c.attname), ', ') FILTER (WHERE NOT c.json), '')
        || ']::text[], ARRAY['
        || coalesce(string_agg(format(CASE WHEN c.plain THEN 'r.%1$I::text'
                                           ELSE 'CASE WHEN num_nulls(r.%1$I) = 0 THEN format(''%%s'', r.%1$I) END' END,
                                      c.attname), ', ') FILTER (WHERE NOT c.json), '')
        || ']::text[])'
        || coalesce(string_agg(format(' || jsonb_build_object(%1$L, CASE WHEN r.%1$I::text ~ %2$L'
                                      ' THEN to_jsonb(r.%1$I::text) ELSE r.%1$I::jsonb END)',
                                      c.attname, '\\u(0000|[dD][89a-fA-F])|[eE][+-]?\d{4}'), '')
                    FILTER (WHERE c.json), '')
    INTO image
    FROM (SELECT a.attname, coalesce(nullif(t.typbasetype, 0), t.oid) IN (114, 3802) AS json,
                 t.oid IN (17, 20, 21, 23, 25, 26, 700, 701, 1043, 1082, 1083, 1114, 1184, 1186, 1700, 2950) AS plain
          FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
          WHERE a.attrelid = tg_relid AND a.attnum > 0 AND NOT a.attisdropped
          ORDER BY a.attnum) c;
    IF tg_op = 'UPDATE' THEN
        rows := 'SELECT $1, ''U'', o.image, n.image FROM (SELECT row_number() OVER () AS pair, ' || image
             || ' AS image FROM old_rows r) o JOIN (SELECT row_number() OVER () AS pair, ' || image
             || ' AS image FROM new_rows r) n USING (pair) ORDER BY pair';
    ELSIF tg_op = 'INSERT' THEN
        rows := 'SELECT $1, ''I'', NULL, ' || image || ' FROM new_rows r';
    ELSE
        rows := 'SELECT $1, ''D'', ' || image || ', NULL FROM old_rows r';
    END IF;
    EXECUTE 'INSERT INTO ' || target || ' (relation, op, old_image, new_image) ' || rows USING relation;
    RETURN NULL;
END $vitrina$;
REVOKE ALL ON FUNCTION vitrina_capture.record() FROM PUBLIC

-- name: unfit
-- The tables, partitions included, whose triggers are not all there and always on; zero rows: all is well.
WITH wanted AS (
    SELECT c.oid, t.name
    FROM unnest(%(tables)s::text[]) AS t (name)
    JOIN pg_namespace n ON n.nspname = split_part(t.name, '.', 1)
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = substr(t.name, strpos(t.name, '.') + 1)
), members AS (
    SELECT w.name, m.relid::oid FROM wanted w, pg_partition_tree(w.oid) m
    UNION SELECT w.name, w.oid FROM wanted w
)
SELECT m.name, m.relid::regclass::text AS member,
       array(SELECT g.tgname::text FROM pg_trigger g
             WHERE g.tgrelid = m.relid AND g.tgfoid = to_regproc('vitrina_capture.record') ORDER BY 1) AS found
FROM members m
WHERE (SELECT count(*) FROM pg_trigger g
       WHERE g.tgrelid = m.relid AND g.tgfoid = to_regproc('vitrina_capture.record') AND g.tgenabled = 'A') < 4
ORDER BY m.name, member

-- name: mark
-- Whose schema it is. Zero rows: there is none.
SELECT coalesce(obj_description(oid, 'pg_namespace'), '') AS mark FROM pg_namespace WHERE nspname = 'vitrina_capture'

-- name: triggers
-- The tables, partitions included, that carry triggers of ours; of these roots only, if some are named.
SELECT DISTINCT g.tgrelid::regclass::text AS name
FROM pg_trigger g
JOIN pg_class c ON c.oid = coalesce(pg_partition_root(g.tgrelid), g.tgrelid)
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE g.tgfoid = to_regproc('vitrina_capture.record')
  AND (%(tables)s::text[] IS NULL OR n.nspname || '.' || c.relname = ANY (%(tables)s))
ORDER BY 1

-- name: any_new
-- Whether anything is visible now that was not in an earlier snapshot.
SELECT pg_current_snapshot()::text AS snapshot, EXISTS (
    SELECT 1 FROM vitrina_capture.log_0 WHERE xid >= pg_snapshot_xmax(%(position)s::pg_snapshot)
    UNION ALL SELECT 1 FROM vitrina_capture.log_0 WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip(%(position)s::pg_snapshot)))
    UNION ALL SELECT 1 FROM vitrina_capture.log_1 WHERE xid >= pg_snapshot_xmax(%(position)s::pg_snapshot)
    UNION ALL SELECT 1 FROM vitrina_capture.log_1 WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip(%(position)s::pg_snapshot)))
) AS any

-- name: new
-- What is visible now and was not in an earlier snapshot: nothing is lost or taken twice, whatever commits late. The
-- numbers grow as rows change, so a transaction's last number is above all that it has seen committed: a good order.
SELECT l.xid::text::bigint AS xid, max(l.at) OVER w AS committed_at, l.relation, l.op, l.old_image::text, l.new_image::text
FROM (SELECT * FROM vitrina_capture.log_0 UNION ALL SELECT * FROM vitrina_capture.log_1) l
WHERE l.xid >= pg_snapshot_xmax(%(position)s::pg_snapshot)
   OR l.xid = ANY (ARRAY(SELECT pg_snapshot_xip(%(position)s::pg_snapshot)))
WINDOW w AS (PARTITION BY l.xid)
ORDER BY max(l.seq) OVER w, l.seq

-- name: halves
SELECT h.active, pg_relation_size('vitrina_capture.log_0') AS size_0, pg_relation_size('vitrina_capture.log_1') AS size_1
FROM vitrina_capture.half h

-- name: switch
UPDATE vitrina_capture.half SET active = %(active)s

-- name: emptied
UPDATE vitrina_capture.half SET emptied = %(position)s

-- name: position_is_gone
-- Rows: what came after this position may have been emptied away, under a later one that was lost since.
SELECT emptied::text AS emptied FROM vitrina_capture.half
WHERE pg_snapshot_xmax(emptied) > pg_snapshot_xmax(%(position)s::pg_snapshot)

-- name: log_size
SELECT (pg_total_relation_size('vitrina_capture.log_0') + pg_total_relation_size('vitrina_capture.log_1'))::bigint AS bytes

-- name: may_read
-- Zero rows: the role lacks what a capture needs.
SELECT 1 WHERE has_table_privilege(%(role)s, 'vitrina_capture.log_0', 'TRUNCATE')
  AND has_table_privilege(%(role)s, 'vitrina_capture.log_0', 'SELECT')
  AND has_table_privilege(%(role)s, 'vitrina_capture.half', 'UPDATE')
  AND has_schema_privilege(%(role)s, 'vitrina_capture', 'USAGE')
