-- Queries that nobody should be able to run by Spark Connect, each named by what it tries. {outside} is a file of the
-- cluster's, {target} a place that must stay empty.

-- name: several statements
SELECT 1 AS id; DROP TABLE films

-- name: breaking out of the parentheses
SELECT 1 AS id) AS q; DROP TABLE films; --

-- name: an open comment
SELECT 1 AS id /*

-- name: a comment in a comment
SELECT 1 AS id /* /* */ ; DROP TABLE films

-- name: create a table
CREATE TABLE made AS SELECT 1 AS id

-- name: create a view
CREATE TEMPORARY VIEW made AS SELECT 1 AS id

-- name: create a function
CREATE TEMPORARY FUNCTION made AS 'java.lang.System'

-- name: insert
INSERT INTO films VALUES (1)

-- name: insert of a directory
INSERT OVERWRITE DIRECTORY '{target}' USING csv SELECT 1 AS id

-- name: insert in two
FROM films INSERT INTO films SELECT * INSERT INTO films SELECT *

-- name: insert in a WITH
WITH x AS (INSERT INTO films VALUES (1)) SELECT 1 AS id

-- name: delete
DELETE FROM films

-- name: merge
MERGE INTO films USING films AS s ON films.id = s.id WHEN MATCHED THEN DELETE

-- name: drop
DROP TABLE films

-- name: set
SET spark.sql.runSQLOnFiles=true

-- name: reset
RESET

-- name: add a jar
ADD JAR '{outside}'

-- name: cache
CACHE TABLE films

-- name: refresh
REFRESH TABLE films

-- name: explain
EXPLAIN SELECT 1 AS id

-- name: describe
DESCRIBE films

-- name: show
SHOW TABLES

-- name: use
USE default

-- name: call
CALL system.rollback_to_snapshot('films', 1)

-- name: a text that runs
EXECUTE IMMEDIATE 'SELECT 1 AS id'

-- name: a script of statements
BEGIN SELECT 1 AS id; END

-- name: a name made of a text
SELECT * FROM IDENTIFIER('csv.`{outside}`')

-- name: a script
SELECT TRANSFORM(id) USING 'cat {outside}' AS (id) FROM VALUES (1) AS t(id)

-- name: a script, mapping
FROM VALUES (1) AS t(id) MAP id USING 'cat {outside}' AS (id)

-- name: a script in a subquery
SELECT id FROM (SELECT TRANSFORM(id) USING "cat" AS (id) FROM VALUES (1) AS t(id)) AS x

-- name: a method of Java
SELECT java_method('java.lang.System', 'getProperty', 'user.home') AS id

-- name: a method of Java, reflected
SELECT reflect('java.lang.System', 'getenv', 'PATH') AS id

-- name: a method of Java, if it goes well
SELECT try_reflect('java.lang.System', 'getenv', 'PATH') AS id

-- name: a method of Java, quoted
SELECT `reflect`('java.lang.System', 'getenv', 'PATH') AS id

-- name: a method of Java, after a comment
SELECT reflect /* x */ ('java.lang.System', 'getenv', 'PATH') AS id

-- name: a file as text
SELECT * FROM text.`{outside}`

-- name: a file as CSV
SELECT * FROM csv.`{outside}`

-- name: a file as CSV, in capitals
SELECT * FROM CSV . /* x */ `{outside}`

-- name: a file, the format quoted
SELECT * FROM `csv`.`{outside}`

-- name: a file, the format by its class
SELECT * FROM `org.apache.spark.sql.execution.datasources.text.TextFileFormat`.`{outside}`

-- name: a file by its URL
SELECT * FROM json.`file://{outside}`

-- name: a file that is joined
SELECT a.* FROM VALUES (1) AS t(id) JOIN text.`{outside}` AS a

-- name: a relative file
SELECT * FROM text.`passwd`

-- name: a file, the path unquoted
SELECT * FROM text.passwd

-- name: a file, the path unquoted, after a comma
SELECT a.* FROM range(1) AS a, text.passwd

-- name: a file, the path unquoted, in parentheses
SELECT * FROM (csv.passwd)

-- name: a file as a table
TABLE text.passwd

-- name: options of a table, which the server of another database runs
SELECT * FROM pg.public.t WITH (sessionInitStatement='DROP TABLE t')

-- name: options of a table, where it is
SELECT * FROM pg.public.t WITH /* x */ (url = 'jdbc:postgresql://elsewhere/db') AS t

-- name: random
SELECT rand() AS id

-- name: a uuid
SELECT uuid() AS id

-- name: the number of the partition
SELECT spark_partition_id() AS id

-- name: a sample
SELECT * FROM VALUES (1), (2) AS t(id) TABLESAMPLE (50 PERCENT)

-- name: who asks
SELECT current_user() AS id

-- name: a sample, and a word that comes later
SELECT 1 AS repeatable FROM VALUES (1), (2) AS t(id) TABLESAMPLE (50 PERCENT) AS repeatable

-- name: who asks, without parentheses
SELECT CURRENT_USER AS id

-- name: who has asked, without parentheses
SELECT session_user AS id

-- name: the version
SELECT version() AS id

-- name: a file's name
SELECT input_file_name() AS id
