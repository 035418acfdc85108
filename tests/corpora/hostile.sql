-- Over 200 queries that nobody should be able to run, each named by what it tries. «5000×(» stands for 5,000 times "(".
-- The objects they use beside the demo's are made by fixtures.sql.

-- name: stacked: drop
SELECT 1 AS a; DROP TABLE content.film_work

-- name: stacked: delete after a comment
SELECT 1 AS a /* fine */ ; -- or is it
DELETE FROM ugc.ratings

-- name: stacked: commit and write
SELECT 1 AS a; COMMIT; DELETE FROM ugc.likes; BEGIN

-- name: stacked: two selects
SELECT 1 AS a; SELECT 2 AS b

-- name: stacked: closing the parenthesis it is wrapped in
SELECT 1 AS a) AS q; DELETE FROM ugc.likes; --

-- name: stacked: closing the COPY it is wrapped in
SELECT 1 AS a) TO STDOUT; COMMIT; DELETE FROM ugc.likes; COPY (SELECT 1 AS a

-- name: stacked: set role
SELECT 1 AS a; RESET ROLE; SET ROLE postgres

-- name: stacked: dollar quotes
SELECT $$;$$ AS a; DELETE FROM ugc.likes WHERE $x$;$x$ = ';'

-- name: no statement
/* nothing */

-- name: empty
;;

-- name: statement: insert into
INSERT INTO ugc.likes SELECT id, id FROM content.film_work

-- name: statement: update content.film_work
UPDATE content.film_work SET title = 'x'

-- name: statement: delete from
DELETE FROM ugc.ratings

-- name: statement: truncate ugc.ratings
TRUNCATE ugc.ratings

-- name: statement: drop schema
DROP SCHEMA content CASCADE

-- name: statement: create table
CREATE TABLE content.x AS SELECT 1 AS a

-- name: statement: create view
CREATE VIEW content.x AS SELECT 1 AS a

-- name: statement: alter table
ALTER TABLE content.film_work ADD x integer

-- name: statement: grant all
GRANT ALL ON auth.users TO PUBLIC

-- name: statement: copy content.film_work
COPY content.film_work TO '/tmp/x'

-- name: statement: copy (select
COPY (SELECT 1) TO PROGRAM 'id'

-- name: statement: do $$
DO $$ BEGIN PERFORM pg_sleep(60); END $$

-- name: statement: call content.wipe()
CALL content.wipe()

-- name: statement: set role
SET ROLE postgres

-- name: statement: set search_path
SET search_path = auth

-- name: statement: lock table
LOCK TABLE content.film_work

-- name: statement: notify vitrina_wake
NOTIFY vitrina_wake

-- name: statement: listen vitrina_wake
LISTEN vitrina_wake

-- name: statement: explain analyze
EXPLAIN ANALYZE DELETE FROM ugc.ratings

-- name: statement: vacuum content.film_work
VACUUM content.film_work

-- name: statement: prepare p
PREPARE p AS DELETE FROM ugc.ratings

-- name: statement: declare c
DECLARE c CURSOR WITH HOLD FOR SELECT 1

-- name: statement: refresh materialized
REFRESH MATERIALIZED VIEW ugc.votes

-- name: statement: begin
BEGIN

-- name: statement: show all
SHOW ALL

-- name: statement: values (1);
VALUES (1); ROLLBACK

-- name: statement: merge into
MERGE INTO ugc.likes l USING content.film_work f ON l.film_id = f.id WHEN MATCHED THEN DELETE

-- name: statement: reindex table
REINDEX TABLE content.film_work

-- name: statement: alter system
ALTER SYSTEM SET log_statement = 'none'

-- name: statement: create function
CREATE FUNCTION content.f() RETURNS integer LANGUAGE sql AS 'SELECT 1'

-- name: comment first
-- SELECT
DELETE FROM ugc.ratings

-- name: nested comment
/* /* */ SELECT 1 */ DELETE FROM ugc.ratings

-- name: cte deletes
WITH d AS (DELETE FROM ugc.likes RETURNING *) SELECT * FROM d

-- name: cte inserts
WITH d AS (INSERT INTO ugc.likes SELECT id, id FROM content.film_work RETURNING *) SELECT * FROM d

-- name: cte updates
WITH d AS (UPDATE content.film_work SET title = 'x' RETURNING id) SELECT id FROM d

-- name: cte merges
WITH d AS (MERGE INTO ugc.likes l USING content.film_work f ON l.film_id = f.id WHEN MATCHED THEN DELETE RETURNING l.film_id) SELECT * FROM d

-- name: cte deletes unseen
WITH d AS (DELETE FROM ugc.likes), e AS (SELECT 1 AS a) SELECT a FROM e

-- name: cte of a cte deletes
WITH e AS (WITH d AS (DELETE FROM ugc.likes RETURNING 1 AS a) SELECT a FROM d) SELECT a FROM e

-- name: cte in a subquery deletes
SELECT (WITH d AS (DELETE FROM ugc.likes RETURNING 1 AS a) SELECT count(*) FROM d) AS n

-- name: select into
SELECT * INTO content.copy FROM content.film_work

-- name: select into temp
SELECT 1 AS a INTO TEMP t

-- name: for update
SELECT id FROM content.film_work FOR UPDATE

-- name: for share in a subquery
SELECT id FROM (SELECT id FROM content.film_work FOR SHARE SKIP LOCKED) AS s

-- name: for key share in a cte
WITH c AS (SELECT id FROM content.film_work FOR KEY SHARE NOWAIT) SELECT id FROM c

-- name: parameter
SELECT id FROM content.film_work WHERE title = ($1)[1]

-- name: parameter without a cast
SELECT $1 AS a

-- name: reads auth.users
SELECT * FROM auth.users

-- name: reads etl.etl_pipelines
SELECT * FROM etl.etl_pipelines

-- name: reads etl.etl_tokens
SELECT * FROM etl.etl_tokens

-- name: reads etl.etl_state
SELECT * FROM etl.etl_state

-- name: reads etl_stage.nothing
SELECT * FROM etl_stage.nothing

-- name: reads pg_catalog.pg_authid
SELECT * FROM pg_catalog.pg_authid

-- name: reads pg_catalog.pg_shadow
SELECT * FROM pg_catalog.pg_shadow

-- name: reads pg_catalog.pg_class
SELECT * FROM pg_catalog.pg_class

-- name: reads pg_catalog.pg_stat_activity
SELECT * FROM pg_catalog.pg_stat_activity

-- name: reads pg_catalog.pg_settings
SELECT * FROM pg_catalog.pg_settings

-- name: reads pg_catalog.pg_hba_file_rules
SELECT * FROM pg_catalog.pg_hba_file_rules

-- name: reads pg_catalog.pg_user_mappings
SELECT * FROM pg_catalog.pg_user_mappings

-- name: reads pg_catalog.pg_statistic
SELECT * FROM pg_catalog.pg_statistic

-- name: reads information_schema.tables
SELECT * FROM information_schema.tables

-- name: reads information_schema.role_table_grants
SELECT * FROM information_schema.role_table_grants

-- name: reads pg_toast.pg_toast_1262
SELECT * FROM pg_toast.pg_toast_1262

-- name: reads analytics.film_dim
SELECT * FROM analytics.film_dim

-- name: reads pg_authid without its schema
SELECT rolname FROM pg_authid

-- name: reads users without its schema
SELECT login FROM users

-- name: reads auth quoted
SELECT login FROM "auth"."users"

-- name: reads auth in unicode escapes
SELECT login FROM U&"\0061uth".U&"us\0065rs"

-- name: reads auth in unicode escapes of its own
SELECT login FROM U&"!0061uth" UESCAPE '!'.users

-- name: reads auth with the database's name
SELECT login FROM postgres.auth.users

-- name: reads auth by TABLE
TABLE auth.users

-- name: reads auth ONLY
SELECT login FROM ONLY auth.users

-- name: reads auth in a scalar subquery
SELECT id, (SELECT min(login) FROM auth.users) AS l FROM content.film_work

-- name: reads auth in EXISTS
SELECT id FROM content.film_work f WHERE EXISTS (SELECT FROM auth.users u WHERE u.id = f.id)

-- name: reads auth in a union
SELECT title FROM content.film_work UNION ALL SELECT login FROM auth.users

-- name: reads auth in a lateral join
SELECT f.id, u.login FROM content.film_work f CROSS JOIN LATERAL (SELECT login FROM auth.users LIMIT 1) u

-- name: reads auth in a join condition
SELECT f.id FROM content.film_work f JOIN content.genre g ON g.name = (SELECT min(login) FROM auth.users)

-- name: reads auth in ORDER BY
SELECT id FROM content.film_work ORDER BY (SELECT count(*) FROM auth.users)

-- name: reads auth in LIMIT
SELECT id FROM content.film_work LIMIT (SELECT count(*) FROM auth.users)

-- name: reads auth in a window
SELECT id, count(*) OVER (PARTITION BY (SELECT min(login) FROM auth.users)) AS n FROM content.film_work

-- name: reads auth in an aggregate's filter
SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM auth.users)) AS n FROM content.film_work

-- name: reads auth in GROUP BY
SELECT count(*) AS n FROM content.film_work GROUP BY (SELECT min(login) FROM auth.users)

-- name: reads auth in HAVING
SELECT type FROM content.film_work GROUP BY type HAVING count(*) > (SELECT count(*) FROM auth.users)

-- name: reads auth in VALUES
VALUES ((SELECT min(login) FROM auth.users))

-- name: reads auth in a function's argument
SELECT n FROM generate_series(1, (SELECT count(*)::integer FROM auth.users)) AS n

-- name: reads auth by an upper-case name
SELECT login FROM AUTH.USERS

-- name: cte hides a catalogue table of its name
SELECT rolname, (WITH pg_authid AS (SELECT 1 AS x) SELECT x FROM pg_authid) AS x FROM pg_authid

-- name: cte of its own name reads the real one
WITH pg_shadow AS (SELECT usename FROM pg_shadow) SELECT usename FROM pg_shadow

-- name: cte in a sibling subquery lends its name
SELECT a.x, b.rolname FROM (WITH pg_roles AS (SELECT 1 AS x) SELECT x FROM pg_roles) a, (SELECT rolname FROM pg_roles) b

-- name: view over auth: content.leak
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT * FROM content.leak

-- name: view over auth: content.leak_deep
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT * FROM content.leak_deep

-- name: view over auth: ugc.leak_deeper
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT * FROM ugc.leak_deeper

-- name: view over auth: ugc.leak_half
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT * FROM ugc.leak_half

-- name: view over auth in EXISTS
SELECT id, known FROM ugc.leak_exists

-- name: view over auth, as the caller
SELECT login FROM content.leak_invoker

-- name: view over auth, only counted
SELECT count(*) AS n FROM content.leak

-- name: view over the meta-store
SELECT name FROM content.leak_tokens

-- name: view over pg_authid
SELECT rolname FROM content.leak_roles

-- name: view over pg_stat_activity
SELECT pid FROM content.leak_activity

-- name: view over information_schema
SELECT table_name FROM content.leak_tables

-- name: view over auth in a cte
-- lends: rights of an owner; only the check of calls stops it from reading
WITH v AS (SELECT login FROM content.leak) SELECT login FROM v

-- name: view that writes with its owner's rights
SELECT * FROM content.view_wipes

-- name: view that writes in WHERE
SELECT * FROM content.view_touches

-- name: view that is random
SELECT * FROM content.view_random

-- name: view that sleeps
SELECT * FROM content.view_sleeps

-- name: view that moves a sequence
SELECT * FROM content.view_counts

-- name: view that executes text
SELECT * FROM content.view_xml

-- name: view that locks rows
SELECT * FROM content.view_locks

-- name: view that signals
SELECT * FROM content.view_signals

-- name: view that writes in ORDER BY
SELECT * FROM content.view_orders

-- name: view that spies
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT login FROM content.view_spies

-- name: definer function writes
SELECT content.wipe() AS n

-- name: definer function writes in FROM
SELECT n FROM content.wipe() AS n

-- name: definer function tells
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT s FROM content.spy() AS s

-- name: definer function tells in ROWS FROM
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT s FROM ROWS FROM (content.spy(), generate_series(1, 2)) AS r (s, n)

-- name: definer function tells in a target list
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT content.spy() AS s

-- name: user function writes
SELECT content.touch() AS n

-- name: user function writes in WHERE
SELECT id FROM content.film_work WHERE content.touch(id)

-- name: user function writes in CASE
SELECT CASE WHEN title = '' THEN 0 ELSE content.wipe() END AS n FROM content.film_work

-- name: user function writes in FILTER
SELECT count(*) FILTER (WHERE content.touch(id)) AS n FROM content.film_work

-- name: user function writes in a window frame
SELECT sum(1) OVER (ORDER BY rating ROWS content.wipe() PRECEDING) AS n FROM content.film_work

-- name: user function writes in GROUPING SETS
SELECT count(*) AS n FROM content.film_work GROUP BY GROUPING SETS ((content.touch(id)), ())

-- name: user function writes in DISTINCT ON
SELECT DISTINCT ON (content.touch(id)) id FROM content.film_work

-- name: user function writes in JOIN ON
SELECT f.id FROM content.film_work f LEFT JOIN content.genre g ON content.touch(g.id)

-- name: user function writes in LIMIT
SELECT id FROM content.film_work LIMIT content.wipe()

-- name: user function writes in an array
SELECT ARRAY[content.wipe()] AS a

-- name: user function writes in a subscript
SELECT (ARRAY[1, 2])[content.wipe()] AS a

-- name: user function writes in VALUES
SELECT x FROM (VALUES (content.wipe())) AS v (x)

-- name: user function writes in JSON
SELECT json_build_object('a', content.wipe()) AS a

-- name: user function writes in COALESCE
SELECT coalesce(NULL, content.wipe()) AS a

-- name: user function writes in an aggregate's ORDER BY
SELECT array_agg(title ORDER BY content.touch(id)) AS a FROM content.film_work

-- name: user function writes in a named argument
SELECT make_date(year => 2000 + content.wipe(), month => 1, day => 1) AS d

-- name: user function writes in WITHIN GROUP
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY content.wipe()) AS p FROM content.film_work

-- name: user function writes in XMLTABLE
SELECT a FROM XMLTABLE('/r' PASSING xmlelement(name r, content.wipe()) COLUMNS a text PATH '.')

-- name: user function that only computes
SELECT content.twice(2) AS n

-- name: user function by a quoted name
SELECT "content"."wipe"() AS n

-- name: user function in unicode escapes
SELECT U&"\0063ontent".U&"wip\0065"() AS n

-- name: user function in attribute notation
SELECT (f).peek AS t FROM content.film_work f

-- name: user function deep in a recursive cte
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + content.wipe() FROM r WHERE n < 3) SELECT n FROM r

-- name: user aggregate
SELECT content.count_all(id) AS n FROM content.film_work

-- name: user aggregate as a window
SELECT content.count_all(id) OVER () AS n FROM content.film_work

-- name: shadow of upper for varchar
SELECT upper(title::varchar) AS t FROM content.film_work

-- name: shadow of abs with a default
SELECT public.abs(1) AS n

-- name: shadow of = for uuid and text
SELECT id FROM content.film_work WHERE id = title

-- name: shadow of = in IN
SELECT id FROM content.film_work WHERE id IN (SELECT title FROM content.film_work)

-- name: shadow of = in ANY of an array
SELECT id FROM content.film_work WHERE id = ANY (ARRAY['a', 'b']::text[])

-- name: shadow of = in NOT IN
SELECT id FROM content.film_work WHERE id NOT IN (SELECT name FROM content.genre)

-- name: shadow of = in NULLIF
SELECT nullif(id, title) AS n FROM content.film_work

-- name: shadow of = in IS DISTINCT FROM
SELECT id FROM content.film_work WHERE id IS DISTINCT FROM title

-- name: shadow of = in CASE
SELECT CASE id WHEN title THEN 1 END AS n FROM content.film_work

-- name: shadow of > for varchar
SELECT id FROM content.film_work WHERE title::varchar > type::varchar

-- name: shadow of > in ALL
SELECT id FROM content.film_work WHERE title::varchar > ALL (SELECT type::varchar FROM content.film_work)

-- name: shadow of <> for varchar
SELECT id FROM content.film_work WHERE title::varchar <> 'x'::varchar

-- name: user operator, prefix
SELECT !!! title AS n FROM content.film_work

-- name: user operator by OPERATOR()
SELECT id FROM content.film_work WHERE id OPERATOR(content.%%) title

-- name: shadow operator by OPERATOR()
SELECT id FROM content.film_work WHERE id OPERATOR(public.=) title

-- name: cast function to integer
SELECT 'sad'::content.mood::integer AS n

-- name: cast function, implicit
SELECT 1 + 'sad'::content.mood AS n

-- name: cast function from integer
SELECT n::content.mood AS m FROM generate_series(1, 2) AS n

-- name: domain whose check writes
SELECT title::content.checked AS t FROM content.film_work

-- name: domain whose check writes, of a literal
SELECT 'x'::content.checked AS t

-- name: domain in a composite
SELECT ROW(title)::content.box AS b FROM content.film_work

-- name: domain in a composite from text
SELECT title::content.box AS b FROM content.film_work

-- name: domain over an array of composites
SELECT x::content.boxed AS b FROM (VALUES ('{"(a)"}'::text)) AS v (x)

-- name: domain through json_populate_record
SELECT inside FROM json_populate_record(NULL::content.box, '{"inside": "x"}')

-- name: domain through json_to_record
SELECT a FROM json_to_record('{"a": "x"}') AS r (a content.checked)

-- name: domain through XMLTABLE
SELECT a FROM XMLTABLE('/r' PASSING xmlparse(DOCUMENT '<r>x</r>') COLUMNS a content.checked PATH '.')

-- name: domain in array coercion
SELECT array_agg(title)::content.checked[] AS a FROM content.film_work

-- name: domain by its oid through domain_in
SELECT domain_in('x', 'content.checked'::regtype, -1) AS a

-- name: range whose difference writes
SELECT content.span(1, 2) AS s

-- name: policy that writes
SELECT id, title FROM content.guarded

-- name: policy that writes, behind a cte
WITH g AS MATERIALIZED (SELECT id FROM content.guarded) SELECT id FROM g

-- name: sleeps: pg_sleep
SELECT pg_sleep(60) AS a

-- name: sleeps: pg_sleep_for
SELECT pg_sleep_for('1 minute') AS a

-- name: sleeps: pg_sleep_until
SELECT pg_sleep_until('infinity') AS a

-- name: locks: pg_advisory_lock
SELECT pg_advisory_lock(1) AS a

-- name: locks: pg_advisory_xact_lock
SELECT pg_advisory_xact_lock(1, 2) AS a

-- name: locks: pg_try_advisory_lock
SELECT pg_try_advisory_lock(1) AS a

-- name: locks: pg_advisory_unlock_all
SELECT pg_advisory_unlock_all() AS a

-- name: signals: pg_terminate_backend
SELECT pg_terminate_backend(0) AS a

-- name: signals: pg_cancel_backend
SELECT pg_cancel_backend(0) AS a

-- name: signals: pg_reload_conf
SELECT pg_reload_conf() AS a

-- name: signals: pg_rotate_logfile
SELECT pg_rotate_logfile() AS a

-- name: signals: pg_log_backend_memory_contexts
SELECT pg_log_backend_memory_contexts(0) AS a

-- name: changes settings: set_config search_path
SELECT set_config('search_path', 'auth', false) AS a

-- name: changes settings: set_config transaction_read_only
SELECT set_config('transaction_read_only', 'off', true) AS a

-- name: changes settings: set_config role
SELECT set_config('role', 'postgres', false) AS a

-- name: changes settings: set_config statement_timeout
SELECT set_config('statement_timeout', '0', false) AS a

-- name: changes settings: setseed
SELECT setseed(0.5) AS a

-- name: reads settings: current_setting
SELECT current_setting('data_directory', true) AS a

-- name: reads settings: pg_show_all_settings
SELECT pg_show_all_settings() AS a

-- name: reads files: pg_read_file
SELECT pg_read_file('PG_VERSION') AS a

-- name: reads files: pg_read_binary_file
SELECT pg_read_binary_file('global/pg_control') AS a

-- name: reads files: pg_stat_file
SELECT pg_stat_file('.') AS a

-- name: reads files: pg_ls_dir
SELECT pg_ls_dir('.') AS a

-- name: reads files: pg_ls_logdir
SELECT pg_ls_logdir() AS a

-- name: reads files: pg_ls_waldir
SELECT pg_ls_waldir() AS a

-- name: reads files: pg_current_logfile
SELECT pg_current_logfile() AS a

-- name: reads files: pg_hba_file_rules
SELECT pg_hba_file_rules() AS a

-- name: large objects: lo_create
SELECT lo_create(0) AS a

-- name: large objects: lo_creat
SELECT lo_creat(-1) AS a

-- name: large objects: lo_from_bytea
SELECT lo_from_bytea(0, 'x') AS a

-- name: large objects: lo_import
SELECT lo_import('/etc/passwd') AS a

-- name: large objects: lo_export
SELECT lo_export(1, '/tmp/x') AS a

-- name: large objects: lo_unlink
SELECT lo_unlink(1) AS a

-- name: large objects: lo_get
SELECT lo_get(1) AS a

-- name: large objects: lo_put
SELECT lo_put(1, 0, 'x') AS a

-- name: executes text: query_to_xml
SELECT query_to_xml('SELECT login FROM auth.users', true, true, '') AS a

-- name: executes text: query_to_xmlschema
SELECT query_to_xmlschema('SELECT 1', true, true, '') AS a

-- name: executes text: table_to_xml
SELECT table_to_xml('auth.users', true, true, '') AS a

-- name: executes text: schema_to_xml
SELECT schema_to_xml('auth', true, true, '') AS a

-- name: executes text: database_to_xml
SELECT database_to_xml(true, true, '') AS a

-- name: executes text: cursor_to_xml
SELECT cursor_to_xml('c', 1, true, true, '') AS a

-- name: executes text: table_to_xml_and_xmlschema
SELECT table_to_xml_and_xmlschema('pg_catalog.pg_roles', true, true, '') AS a

-- name: executes text: ts_stat
SELECT ts_stat('SELECT to_tsvector(login) FROM auth.users') AS a

-- name: executes text: ts_rewrite
SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery') AS a

-- name: writes: nextval
SELECT nextval('content.counter') AS a

-- name: writes: setval
SELECT setval('content.counter', 1) AS a

-- name: writes: pg_notify
SELECT pg_notify('vitrina_wake', 'x') AS a

-- name: writes: pg_logical_emit_message
SELECT pg_logical_emit_message(false, 'a', 'b') AS a

-- name: writes: pg_create_restore_point
SELECT pg_create_restore_point('x') AS a

-- name: writes: pg_create_physical_replication_slot
SELECT pg_create_physical_replication_slot('x') AS a

-- name: writes: pg_drop_replication_slot
SELECT pg_drop_replication_slot('x') AS a

-- name: writes: pg_switch_wal
SELECT pg_switch_wal() AS a

-- name: writes: pg_export_snapshot
SELECT pg_export_snapshot() AS a

-- name: writes: pg_replication_origin_create
SELECT pg_replication_origin_create('x') AS a

-- name: writes: pg_stat_reset
SELECT pg_stat_reset() AS a

-- name: writes: pg_current_xact_id
SELECT pg_current_xact_id() AS a

-- name: writes: txid_current
SELECT txid_current() AS a

-- name: writes: brin_summarize_new_values
SELECT brin_summarize_new_values('content.film_work_pkey') AS a

-- name: reads the server: pg_stat_get_activity
SELECT pg_stat_get_activity(NULL) AS a

-- name: reads the server: pg_backend_pid
SELECT pg_backend_pid() AS a

-- name: reads the server: pg_get_functiondef
SELECT pg_get_functiondef('content.wipe()'::regprocedure) AS a

-- name: reads the server: pg_get_viewdef
SELECT pg_get_viewdef('content.leak'::regclass) AS a

-- name: reads the server: pg_relation_filepath
SELECT pg_relation_filepath('auth.users') AS a

-- name: reads the server: pg_total_relation_size
SELECT pg_total_relation_size('auth.users') AS a

-- name: reads the server: has_table_privilege
SELECT has_table_privilege('auth.users', 'SELECT') AS a

-- name: reads the server: to_regclass
SELECT to_regclass('auth.users') AS a

-- name: reads the server: obj_description
SELECT obj_description(1259, 'pg_class') AS a

-- name: reads the server: inet_server_addr
SELECT inet_server_addr() AS a

-- name: reads the server: current_query
SELECT current_query() AS a

-- name: reads the server: pg_lock_status
SELECT pg_lock_status() AS a

-- name: reads the server: pg_input_is_valid of a name
SELECT pg_input_is_valid('auth.users', 'regclass') AS a

-- name: reads the server: pg_input_is_valid of a type that is computed
SELECT pg_input_is_valid(title, title) AS a FROM content.film_work

-- name: reads the server: pg_input_is_valid, honest and not
SELECT pg_input_is_valid(title, 'integer') AS a, pg_input_is_valid(title, 'content.checked') AS b FROM content.film_work

-- name: reads the server: pg_input_is_valid
SELECT pg_input_is_valid('x', 'content.checked') AS a

-- name: reads the server: pg_stat_get_backend_activity
SELECT pg_stat_get_backend_activity(1) AS a

-- name: reads the server: pg_get_userbyid
SELECT pg_get_userbyid(10) AS a

-- name: is never the same: random
SELECT random() AS a

-- name: is never the same: clock_timestamp
SELECT clock_timestamp() AS a

-- name: is never the same: timeofday
SELECT timeofday() AS a

-- name: is never the same: gen_random_uuid
SELECT gen_random_uuid() AS a

-- name: sleeps through a correlated subquery
SELECT id FROM content.film_work f WHERE (SELECT true FROM pg_sleep(60) WHERE f.id IS NOT NULL)

-- name: random sample
SELECT id FROM content.film_work TABLESAMPLE bernoulli (10)

-- name: random sample beside one that is repeatable
SELECT f.id FROM content.film_work f TABLESAMPLE system (10) REPEATABLE (1), content.person p TABLESAMPLE bernoulli (5)

-- name: random sample, repeatable by chance
SELECT id FROM content.film_work TABLESAMPLE system (10) REPEATABLE (random())

-- name: built-in by its schema
SELECT pg_catalog.pg_sleep(60) AS a

-- name: built-in in unicode escapes
SELECT U&"pg_sl\0065\0065p"(60) AS a

-- name: built-in in FROM
SELECT f FROM pg_ls_dir('.') AS f

-- name: input function with any type's oid
SELECT record_in('(x)', 'content.box'::regtype, -1)::text AS a

-- name: reads the server: numbers to regclass
SELECT g::oid::regclass::text AS r FROM generate_series(16384, 17000) g

-- name: reads the server: numbers to regrole
SELECT ('{10}'::oid[])::regrole[]::text AS r

-- name: reads the server: number to regtype
SELECT 16385::regtype::text AS r

-- name: text to regclass
SELECT t::regclass AS r FROM (VALUES ('auth.users'::text)) AS v (t)

-- name: extension: dblink to itself
SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t (a integer)

-- name: extension: dblink_connect
SELECT dblink_connect('dbname=postgres') AS a

-- name: extension: dblink_exec
SELECT dblink_exec('dbname=postgres', 'DELETE FROM ugc.likes') AS a

-- name: extension: crosstab executes text
SELECT * FROM crosstab('SELECT login, login, login FROM auth.users') AS t (a text, b text)

-- name: extension: crosstab calls a definer function
-- lends: rights of an owner; only the check of calls stops it from reading
SELECT * FROM crosstab('SELECT s, s, s FROM content.spy() s ORDER BY 1') AS t (a text, b text)

-- name: extension: connectby reads any table
SELECT * FROM connectby('auth.users', 'login', 'login', 'x', 0) AS t (k text, p text, l integer)

-- name: extension: normal_rand
SELECT normal_rand(1, 0, 1) AS a

-- name: extension: lo_oid
SELECT lo_oid(1::lo) AS a

-- name: nesting: 5,000 scalar subqueries
SELECT «5000×(SELECT »1«5000×)» AS a

-- name: nesting: 5,000 subqueries
SELECT * FROM «5000×(SELECT * FROM »content.film_work«5000×) AS s»

-- name: nesting: 5,000 arrays
SELECT «5000×ARRAY[»1«5000×]» AS a

-- name: nesting: 5,000 NOTs
SELECT «5000×NOT »true AS a

-- name: nesting: 100,000 additions
SELECT 1«100000× + 1» AS a

-- name: nesting: 5,000 CASEs
SELECT «5000×CASE WHEN true THEN »1«5000× END» AS a

-- name: length: over 1 MB of comment
SELECT 1 AS a /* «1000000×x» */

-- name: length: over 1 MB of literal
SELECT '«1000000×x»' AS a

-- name: length: over 1 MB of columns
SELECT «400000×1, »1 AS a
