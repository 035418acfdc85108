-- Queries that nobody should be able to run over a lake in DuckDB, each named by what it tries. {outside} is a file that
-- the source does not name, {inside} one that it does, {lake} its database file.

-- name: several statements
SELECT 1 AS id; DROP TABLE content.films

-- name: several statements: after a comment
SELECT 1 AS id /* x */ ; -- y
DELETE FROM content.films

-- name: breaking out of the parentheses
SELECT 1 AS id) AS q; DELETE FROM content.films; --

-- name: breaking out of the parentheses: another query
SELECT 1 AS id) AS q UNION ALL SELECT * FROM (SELECT 2 AS id

-- name: an open comment
SELECT 1 AS id /*

-- name: insert
INSERT INTO content.films VALUES (1)

-- name: insert in a WITH
WITH x AS (INSERT INTO content.films VALUES (7) RETURNING id) SELECT id FROM x

-- name: delete in a WITH
WITH x AS (DELETE FROM content.films RETURNING id) SELECT id FROM x

-- name: update in a WITH
WITH x AS (UPDATE content.films SET id = 1 RETURNING id) SELECT id FROM x

-- name: delete in a WITH of a subquery
SELECT id FROM (WITH x AS (DELETE FROM content.films RETURNING id) SELECT id FROM x) AS y

-- name: create
CREATE TABLE x AS SELECT 1 AS id

-- name: create a temporary macro
CREATE TEMP MACRO now() AS 1

-- name: copy to a file
COPY (SELECT 1 AS id) TO '{outside}'

-- name: copy to a file of an allowed folder
COPY (SELECT 1 AS id) TO '{folder}/new.csv'

-- name: copy from a file
COPY content.films FROM '{outside}'

-- name: export
EXPORT DATABASE '/tmp/x'

-- name: attach
ATTACH '{outside}' AS other

-- name: detach
DETACH lake

-- name: use
USE memory

-- name: install
INSTALL httpfs

-- name: load
LOAD httpfs

-- name: set
SET enable_external_access = true

-- name: reset
RESET enable_external_access

-- name: set a variable
SET VARIABLE x = 1

-- name: pragma
PRAGMA database_list

-- name: call
CALL pragma_version()

-- name: prepare
PREPARE x AS SELECT 1

-- name: execute
EXECUTE x

-- name: checkpoint
CHECKPOINT

-- name: vacuum
VACUUM

-- name: explain
EXPLAIN ANALYZE SELECT 1 AS id

-- name: describe
DESCRIBE SELECT 1 AS id

-- name: show
SHOW ALL TABLES

-- name: summarize
SUMMARIZE content.films

-- name: describe in a subquery
SELECT * FROM (DESCRIBE content.films) AS x

-- name: pivot, which makes a type first
PIVOT content.films ON title

-- name: a parameter
SELECT ? AS id

-- name: a named parameter
SELECT $x AS id

-- name: a text that runs
SELECT id FROM query('SELECT 1 AS id')

-- name: a table by its name in a text
SELECT id FROM query_table('content.films')

-- name: a serialized statement
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1 AS id'))

-- name: a file outside
SELECT * FROM read_text('{outside}')

-- name: a file outside, as bytes
SELECT * FROM read_blob('{outside}')

-- name: a file outside, as CSV
SELECT * FROM read_csv('{outside}')

-- name: a file outside, as JSON
SELECT * FROM read_json('{outside}')

-- name: a file outside, as Parquet
SELECT * FROM read_parquet('{outside}')

-- name: a file outside, as a table
SELECT * FROM '{outside}'

-- name: a file outside, through the allowed folder
SELECT * FROM read_text('{folder}/../{name}')

-- name: a file outside, from the folder that is searched
SELECT * FROM read_text('../{name}')

-- name: files outside, by a pattern
SELECT * FROM glob('{parent}/*')

-- name: files outside, in a list
SELECT * FROM read_text(['{inside}', '{outside}'])

-- name: a file outside, sniffed at
SELECT * FROM sniff_csv('{outside}')

-- name: metadata of a file
SELECT * FROM parquet_metadata('{outside}')

-- name: the network
SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')

-- name: the network: a bucket
SELECT * FROM read_parquet('s3://bucket/x.parquet')

-- name: another database file
SELECT * FROM read_duckdb('{lake}')

-- name: another Postgres
SELECT * FROM postgres_scan('host=127.0.0.1', 'public', 'x')

-- name: an environment variable
SELECT getenv('PLANTED') AS id

-- name: a setting
SELECT current_setting('temp_directory') AS id

-- name: settings
SELECT * FROM duckdb_settings()

-- name: secrets
SELECT * FROM duckdb_secrets()

-- name: which secret
SELECT * FROM which_secret('s3://x', 's3')

-- name: a variable
SELECT getvariable('x') AS id

-- name: the catalogue
SELECT * FROM information_schema.tables

-- name: the catalogue of Postgres
SELECT * FROM pg_catalog.pg_class

-- name: the catalogue of DuckDB
SELECT * FROM duckdb_tables

-- name: the catalogue of SQLite
SELECT * FROM sqlite_master

-- name: databases
SELECT * FROM pragma_database_list

-- name: the system's own catalogue
SELECT * FROM system.main.duckdb_databases

-- name: logs
SELECT * FROM duckdb_logs()

-- name: memory, by a number
SELECT * FROM arrow_scan(1, 2, 3)

-- name: memory, by a number: pandas
SELECT * FROM pandas_scan(1)

-- name: a variable of the program
SELECT * FROM lab

-- name: random
SELECT random() AS id

-- name: a sequence
SELECT nextval('x') AS id

-- name: a uuid
SELECT gen_random_uuid() AS id

-- name: a sample
SELECT id FROM content.films USING SAMPLE 10

-- name: a sample of a table
SELECT id FROM content.films TABLESAMPLE 10%

-- name: sleep
SELECT sleep_ms(1000) AS id

-- name: who asks
SELECT current_user AS id

-- name: who asks, in a word
SELECT user AS id

-- name: who asks, in another word
SELECT SESSION_USER AS id

-- name: where one is
SELECT current_catalog AS id

-- name: a log line
SELECT write_log('x') AS id

-- name: a macro of the file
SELECT content.leak() AS id

-- name: a table macro of the file
SELECT * FROM content.leaks()

-- name: a macro that hides a function
SELECT content.trim('x') AS id

-- name: a view over the session
SELECT * FROM content.session

-- name: a view over a view over the session
SELECT * FROM content.behind

-- name: a view over the session, in other letters
SELECT * FROM content.SESSION

-- name: a view over the session, in a schema of other letters
SELECT * FROM Content.session

-- name: a view over the session, behind the name of the database
SELECT * FROM lake.v

-- name: a view over the session, behind the name of the database and of its schema
SELECT * FROM LAKE.main.V

-- name: a view over the session, whose name is another view
SELECT * FROM content."a AS SELECT 1 --"

-- name: a view that runs a text
SELECT * FROM content.runs

-- name: more memory than there is
SELECT list(range) AS id FROM range(1000000000)
