-- Queries by which a live mart once went wrong, or would without a rule, over the tables of the oracle.

-- name: a subquery in LIMIT
-- key: k1
-- rule: R12 whatever is computed is read
SELECT a.id AS k1, l.n FROM o.a AS a CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT id FROM o.b AS b WHERE b.x = a.x ORDER BY b.id LIMIT (SELECT count(*) FROM o.c AS c)
    ) AS z
) AS l

-- name: a subquery in OFFSET
-- key: k1
SELECT a.id AS k1, ARRAY(SELECT b.y FROM o.b AS b WHERE b.x = a.x ORDER BY b.id, b.y OFFSET (SELECT count(*) FROM o.c AS c)) AS v
FROM o.a AS a

-- name: a subquery in the frame of a window
-- key: k1
SELECT a.id AS k1, b.y AS v,
    count(*) OVER (PARTITION BY a.id ORDER BY b.id, b.y ROWS (SELECT count(*) FROM o.c AS c) PRECEDING) AS n
FROM o.a AS a JOIN o.b AS b ON b.x = a.x

-- name: a column that one of the grouping sets leaves empty
-- key: k1
-- rule: R6 no column that a grouping set leaves empty
SELECT coalesce(t.x, 0) AS k1, b.id AS v
FROM (SELECT x, y, count(*) AS n FROM o.a AS a GROUP BY GROUPING SETS ((x), (y))) AS t JOIN o.b AS b ON b.y = t.y

-- name: not in, of a column that one of the grouping sets leaves empty
-- key: k1
SELECT c.id AS k1, count(*) AS n FROM o.c AS c CROSS JOIN (
    SELECT b.x, b.id FROM o.b AS b GROUP BY ROLLUP (b.id, b.x)
) AS t WHERE t.x NOT IN (SELECT d.id FROM o.b AS d WHERE d.x = c.x) GROUP BY c.id

-- name: rows that tie decide which groups there are
-- key: k1
-- tied: yes
SELECT greatest(t.x, t.x) AS k1, count(*) AS n
FROM (SELECT DISTINCT ON (x) x AS id, y AS x, id AS y FROM o.a ORDER BY x, id) AS t
WHERE NOT EXISTS (SELECT 1 FROM o.b AS b WHERE b.x = t.x) GROUP BY 1 HAVING min(t.y) < 3

-- name: the first of rows that tie is the key
-- key: k1
-- tied: yes
SELECT t.id AS k1, b.id AS v FROM (SELECT DISTINCT ON (c.x) c.x, c.id FROM o.c AS c ORDER BY c.x) AS t JOIN o.b AS b ON b.x = t.x

-- name: numbered rows that tie, filtered
-- key: k1
-- tied: yes
SELECT t.id AS k1, t.x AS v
FROM (SELECT c.id, c.x, row_number() OVER (PARTITION BY c.id ORDER BY c.y) AS n FROM o.c AS c) AS t WHERE t.n + t.x = 2

-- name: a constant on the side of an outer join that may be missing
-- key: k1
-- rule: R4 no value of a row that is not there
SELECT coalesce(t.one, 2) AS k1, count(*) AS n FROM o.b AS b LEFT JOIN (SELECT 1 AS one, a.x FROM o.a AS a) AS t ON t.x = b.x GROUP BY 1

-- name: a value for NULL below the side that may be missing
-- key: k1
SELECT coalesce(t.y, 2) AS k1, count(*) AS n
FROM o.b AS b LEFT JOIN (SELECT coalesce(a.y, 3) AS y, a.x FROM o.a AS a) AS t ON t.x = b.x GROUP BY 1

-- name: joined by a constant that may be missing
-- key: k1
SELECT c.id AS k1, count(*) AS n
FROM o.b AS b LEFT JOIN (SELECT 1 AS one, a.x FROM o.a AS a) AS t ON t.x = b.x
JOIN o.c AS c ON c.x = coalesce(t.one, 2) AND c.id = b.id GROUP BY 1

-- name: a constant of a row that may be missing, in the key of a LIMIT
-- key: k1, k2
SELECT least(t.one, 2) AS k1, b.y AS k2 FROM (SELECT 1 AS one, c.id FROM o.c AS c GROUP BY c.id) AS t
RIGHT JOIN o.b AS b ON t.id = b.y ORDER BY t.one, t.id, b.id, b.x, b.y LIMIT 2

-- name: a group that a row leaves
-- key: k1
-- rule: R1 old and new images
SELECT a.x AS k1, count(*) AS n FROM o.a AS a GROUP BY a.x

-- name: a join through a value for NULL
-- key: k1
-- rule: R2 strict on both sides
SELECT c.id AS k1, count(*) AS n
FROM o.b AS b LEFT JOIN o.a AS a ON a.x = b.x JOIN o.c AS c ON c.x = coalesce(a.y, 2) GROUP BY c.id

-- name: a key of either side of a left join
-- key: k1
-- rule: R3 ON from the nullable side only
SELECT coalesce(a.y, b.y) AS k1, count(*) AS n FROM o.b AS b LEFT JOIN o.a AS a ON a.x = b.x GROUP BY 1

-- name: a key of either side of a full join
-- key: k1, k2
-- rule: R4 the key without a nullable source
SELECT coalesce(a.id, 0) AS k1, coalesce(b.id, 0) AS k2, a.y FROM o.a AS a FULL JOIN o.b AS b ON b.y = a.x

-- name: a key that may be NULL
-- key: k1
-- rule: R5 no NULL in a key
SELECT a.x AS k1, a.id AS v FROM o.a AS a

-- name: a window that is not partitioned by the key
-- key: k1
-- rule: R6 stable outputs only
SELECT t.id AS k1, t.n FROM (SELECT a.id, count(*) OVER (PARTITION BY a.x) AS n FROM o.a AS a) AS t

-- name: a key finer than the window
-- key: k1, k2
-- rule: R7 all rows of a partial key
SELECT a.x AS k1, a.id AS k2, count(*) OVER (PARTITION BY a.x) AS n FROM o.a AS a

-- name: a key put together from two tables
-- key: k1
-- rule: R8 no circles
SELECT a.id::text || ':' || b.id::text AS k1, a.y FROM o.a AS a JOIN o.b AS b ON b.x = a.x

-- name: not in, with NULLs
-- key: k1
-- rule: R9 IN without NULLs
SELECT c.id AS k1, count(*) AS n FROM o.c AS c WHERE c.x NOT IN (SELECT b.y FROM o.b AS b) GROUP BY c.id

-- name: a key computed from a grouped number
-- key: k1
-- rule: R10 of one type, equal is the same
SELECT t.y::text AS k1, t.n FROM (SELECT c.y, count(*) AS n FROM o.c AS c GROUP BY c.y) AS t

-- name: the first of an array whose order leaves ties, in HAVING
-- key: k1
-- tied: yes
-- rule: R11 nothing decided by chance
SELECT c.x AS k1 FROM o.c AS c GROUP BY c.x HAVING (array_agg(c.id ORDER BY c.x))[1] <> 1

-- name: one of several equal numbers is a part of the key
-- key: k1, k2
SELECT t.x::text AS k1, t.y::text AS k2
FROM (SELECT DISTINCT t2.id AS id, t1.id AS x, t2.y AS y FROM o.c AS t1 JOIN o.c AS t2 ON t1.id = t2.y) AS t

-- name: the first value of a window without an order is joined by
-- key: k1
-- tied: yes
SELECT a.id AS k1, t.x AS v
FROM (SELECT b.x, first_value(b.y) OVER (PARTITION BY b.x) AS n FROM o.b AS b) AS t JOIN o.a AS a ON t.n = a.y

-- name: the value before it, filtered
-- key: k1
-- tied: yes
SELECT t.x AS k1, t.p AS v
FROM (SELECT b.x, lag(b.y) OVER (PARTITION BY b.x) AS p FROM o.b AS b) AS t WHERE t.p <> 2

-- name: rows that tie decide inside of IN
-- key: k1
-- tied: yes
SELECT a.id AS k1, a.x AS v FROM o.a AS a
WHERE 3 IN (SELECT t.id FROM (SELECT b.id, b.x FROM o.b AS b ORDER BY b.id DESC LIMIT 1) AS t WHERE t.x = 2)

-- name: rows that tie decide inside of EXISTS
-- key: k1
-- tied: yes
SELECT a.id AS k1, a.x AS v FROM o.a AS a
WHERE EXISTS (SELECT FROM (SELECT DISTINCT ON (b.id) b.id, b.x FROM o.b AS b ORDER BY b.id) AS t WHERE t.id = 3 AND t.x = 2)
