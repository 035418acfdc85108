-- SELECTs of live marts by their shape, each with the key of its mart. tests/corpora/live_verdicts.txt says what a
-- change of each table means for them (make live-verdicts writes it anew).

-- name: one table
-- key: id
SELECT id, title, rating FROM content.film_work

-- name: one table filtered
-- key: film_id
SELECT f.id AS film_id, f.title FROM content.film_work f WHERE f.rating > 2 AND f.type = 'movie'

-- name: composite key of one table
-- key: user_id, film_id
SELECT user_id, film_id, created FROM ugc.likes

-- name: key computed
-- key: k
SELECT 'film-' || f.id::text AS k, f.title FROM content.film_work f

-- name: key lower
-- key: k
SELECT lower(g.name) AS k, count(*) AS n FROM content.genre g GROUP BY lower(g.name)

-- name: key by case
-- key: k
SELECT CASE WHEN s.parent_id IS NULL THEN s.id ELSE s.parent_id END AS k, count(*) AS n
FROM content.studio s GROUP BY 1

-- name: key by simple case
-- key: k
SELECT CASE f.type WHEN 'movie' THEN 'm' WHEN 'tv_show' THEN 't' ELSE '?' END AS k, count(*) AS n
FROM content.film_work f GROUP BY 1

-- name: key coalesced within one table
-- key: k
SELECT coalesce(s.parent_id, s.id) AS k, min(s.name) AS name FROM content.studio s GROUP BY 1

-- name: key by date
-- key: month
SELECT date_trunc('month', r.created) AS month, count(*) AS n FROM ugc.ratings r GROUP BY 1

-- name: group of one table
-- key: film_id
SELECT film_id, count(*) AS votes, sum(rating) AS total FROM ugc.ratings GROUP BY film_id

-- name: group with having
-- key: film_id
SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id HAVING count(*) > 1

-- name: group by two, key of both
-- key: film_id, user_id
SELECT film_id, user_id, max(rating) AS best FROM ugc.ratings GROUP BY film_id, user_id

-- name: inner join
-- key: id
SELECT r.id, f.title, r.rating FROM ugc.ratings r JOIN content.film_work f ON f.id = r.film_id

-- name: implicit join
-- key: id
SELECT r.id, f.title FROM ugc.ratings r, content.film_work f WHERE f.id = r.film_id AND f.rating > 1

-- name: left join
-- key: id
SELECT r.id, f.title FROM ugc.ratings r LEFT JOIN content.film_work f ON f.id = r.film_id

-- name: left join filtered in on
-- key: id
SELECT f.id, count(r.id) AS n FROM content.film_work f
LEFT JOIN ugc.ratings r ON r.film_id = f.id AND r.rating > 4 AND f.type = 'movie' GROUP BY f.id

-- name: left join with a condition between preserved tables in on
-- key: id
SELECT r.id, f.title, t.name FROM ugc.ratings r LEFT JOIN content.film_work f ON f.id = r.film_id
LEFT JOIN content.tag t ON t.film_id = r.film_id AND f.type = 'movie' AND t.id = 1

-- name: right join
-- key: id
SELECT f.id, count(r.id) AS n FROM ugc.ratings r RIGHT JOIN content.film_work f ON r.film_id = f.id GROUP BY f.id

-- name: full join using
-- key: film_id
SELECT film_id, a.n AS ratings, b.n AS likes
FROM (SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id) a
FULL JOIN (SELECT film_id, count(*) AS n FROM ugc.likes GROUP BY film_id) b USING (film_id)

-- name: full join using, then a join
-- key: film_id
SELECT film_id, a.n AS ratings, b.n AS likes, s.threshold
FROM (SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id) a
FULL JOIN (SELECT film_id, count(*) AS n FROM ugc.likes GROUP BY film_id) b USING (film_id)
LEFT JOIN ugc.settings s USING (film_id)

-- name: three full joins
-- key: film_id
SELECT film_id, a.n AS x, b.n AS y, c.n AS z
FROM (SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id) a
FULL JOIN (SELECT film_id, count(*) AS n FROM ugc.likes GROUP BY film_id) b USING (film_id)
FULL JOIN (SELECT film_id, count(*) AS n FROM content.tag GROUP BY film_id) c USING (film_id)

-- name: full join on, key coalesced
-- key: k
SELECT coalesce(s.film_id, t.film_id) AS k, min(s.threshold) AS low, min(t.name) AS name
FROM ugc.settings s FULL JOIN content.tag t ON t.film_id = s.film_id GROUP BY 1

-- name: full join on something that is no key
-- key: a, b
SELECT coalesce(s.id, 0) AS a, coalesce(fs.id, 0) AS b, s.name, fs.share
FROM content.studio s FULL JOIN content.film_studio fs ON fs.studio_id = s.parent_id

-- name: key coalesced over a left join
-- key: k
SELECT coalesce(p.id, s.id) AS k, count(*) AS n
FROM content.studio s LEFT JOIN content.studio p ON p.id = s.parent_id GROUP BY 1

-- name: key coalesced over a left join of another value
-- key: k
SELECT coalesce(p.country, s.name) AS k, count(*) AS n, min(s.id) AS low
FROM content.studio s LEFT JOIN content.studio p ON p.id = s.parent_id GROUP BY 1

-- name: key of the nullable side
-- key: k
SELECT p.id AS k, count(*) AS n FROM content.studio s LEFT JOIN content.studio p ON p.id = s.parent_id
WHERE p.id IS NOT NULL GROUP BY p.id

-- name: film card
-- key: film_id
SELECT f.id AS film_id, f.title, array_agg(DISTINCT g.name ORDER BY g.name) FILTER (WHERE g.name IS NOT NULL) AS genres
FROM content.film_work f
LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id
LEFT JOIN content.genre g ON g.id = fg.genre_id
GROUP BY f.id

-- name: film card with people
-- key: id
SELECT f.id, f.title, count(DISTINCT g.id) AS genres,
       jsonb_agg(DISTINCT jsonb_build_object('name', p.full_name, 'role', pf.role)) AS people
FROM content.film_work f
LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id LEFT JOIN content.genre g ON g.id = fg.genre_id
LEFT JOIN content.person_film_work pf ON pf.film_work_id = f.id LEFT JOIN content.person p ON p.id = pf.person_id
GROUP BY f.id

-- name: genre statistics
-- key: genre_id
SELECT g.id AS genre_id, g.name, count(DISTINCT f.id) AS films, max(f.rating) AS best
FROM content.genre g LEFT JOIN content.genre_film_work fg ON fg.genre_id = g.id
LEFT JOIN content.film_work f ON f.id = fg.film_work_id GROUP BY g.id

-- name: genre by name
-- key: name
SELECT g.name, count(*) AS films FROM content.genre g JOIN content.genre_film_work fg ON fg.genre_id = g.id GROUP BY g.name

-- name: ratings by genre name
-- key: name
SELECT g.name, sum(r.rating) AS total FROM content.genre g JOIN content.genre_film_work fg ON fg.genre_id = g.id
JOIN ugc.ratings r ON r.film_id = fg.film_work_id GROUP BY g.name

-- name: composite key over a link
-- key: film_id, person_id
SELECT f.id AS film_id, p.id AS person_id, f.title, p.full_name, string_agg(pf.role, ',' ORDER BY pf.role) AS roles
FROM content.film_work f JOIN content.person_film_work pf ON pf.film_work_id = f.id
JOIN content.person p ON p.id = pf.person_id GROUP BY f.id, p.id

-- name: composite key over two tables
-- key: a, b
SELECT s.id AS a, t.id AS b, s.threshold, t.name FROM ugc.settings s JOIN content.tag t ON t.film_id = s.film_id

-- name: key glued from two tables
-- key: k
SELECT s.id::text || ':' || t.id::text AS k, s.threshold, t.name
FROM ugc.settings s JOIN content.tag t ON t.film_id = s.film_id

-- name: cross join key of both
-- key: a, b
SELECT s.id AS a, t.id AS b, s.threshold, t.name FROM ugc.settings s CROSS JOIN content.studio t

-- name: cross join of settings
-- key: id
SELECT f.id, f.title, s.threshold FROM content.film_work f CROSS JOIN (SELECT max(threshold) AS threshold FROM ugc.settings) s

-- name: or join
-- key: id
SELECT fs.id, s.name FROM content.film_studio fs JOIN content.studio s ON s.id = fs.studio_id OR s.parent_id = fs.studio_id
WHERE s.id = 1

-- name: or join grouped
-- key: id
SELECT fs.id, count(s.id) AS n FROM content.film_studio fs
LEFT JOIN content.studio s ON s.id = fs.studio_id OR s.parent_id = fs.studio_id GROUP BY fs.id

-- name: range join
-- key: id
SELECT s.id, count(r.id) AS n FROM ugc.settings s LEFT JOIN ugc.ratings r ON r.rating >= s.threshold GROUP BY s.id

-- name: join by expression
-- key: id
SELECT s.id, s.name, p.name AS parent FROM content.studio s JOIN content.studio p ON p.id + 1 = s.parent_id + 1

-- name: join by lower
-- key: id
SELECT t.id, count(g.id) AS n FROM content.tag t LEFT JOIN content.genre g ON lower(g.name) = lower(t.name) GROUP BY t.id

-- name: join of varchar and text
-- key: name
SELECT g.name, count(t.id) AS n FROM content.genre g LEFT JOIN content.tag t ON t.name = g.name GROUP BY g.name

-- name: join through coalesce
-- key: id
SELECT s.id, count(fs.id) AS n FROM content.studio s
LEFT JOIN content.film_studio fs ON coalesce(fs.studio_id, 1) = s.id GROUP BY s.id

-- name: join through coalesce of a nullable table
-- key: id
SELECT c.id, count(*) AS n
FROM content.tag s LEFT JOIN content.film_studio fs ON fs.studio_id = s.id
JOIN content.studio c ON c.id = coalesce(fs.id, s.id) GROUP BY c.id

-- name: join by number
-- key: id
SELECT t.id, count(fs.id) AS n FROM content.tag t LEFT JOIN content.film_studio fs ON fs.share = t.weight GROUP BY t.id

-- name: key is a number
-- key: share
SELECT fs.share, count(*) AS n FROM content.film_studio fs GROUP BY fs.share

-- name: key computed from a grouped number
-- key: k
SELECT fs.share::text AS k, count(*) AS n FROM content.film_studio fs GROUP BY fs.share

-- name: distinct numbers as text
-- key: k
SELECT d.share::text AS k FROM (SELECT DISTINCT share FROM content.film_studio) d

-- name: self join
-- key: id
SELECT a.id, count(b.id) AS children FROM content.studio a LEFT JOIN content.studio b ON b.parent_id = a.id GROUP BY a.id

-- name: self join two up
-- key: id
SELECT a.id, b.name AS parent, c.name AS grandparent FROM content.studio a
LEFT JOIN content.studio b ON b.id = a.parent_id LEFT JOIN content.studio c ON c.id = b.parent_id

-- name: co-ratings
-- key: one, other
SELECT a.film_id AS one, b.film_id AS other, count(*) AS users
FROM ugc.ratings a JOIN ugc.ratings b ON b.user_id = a.user_id AND b.film_id <> a.film_id GROUP BY 1, 2

-- name: using
-- key: film_id
SELECT film_id, count(*) AS n, max(l.created) AS last FROM ugc.ratings r JOIN ugc.likes l USING (film_id, user_id) GROUP BY film_id

-- name: natural join
-- key: film_id, user_id
SELECT film_id, user_id, r.rating FROM ugc.ratings r JOIN (SELECT film_id, user_id FROM ugc.likes) l USING (film_id, user_id)

-- name: left join using
-- key: film_id
SELECT film_id, s.threshold, count(t.id) AS n FROM ugc.settings s LEFT JOIN content.tag t USING (film_id) GROUP BY film_id, s.threshold

-- name: join alias
-- key: id
SELECT j.id, j.title, j.rating_1 FROM (content.film_work f JOIN ugc.ratings r ON r.film_id = f.id)
AS j (id, title, a, b, c, d, e, g, h, rating_id, user_id, film_id, rating_1) WHERE j.rating_1 > 3

-- name: nested joins
-- key: id
SELECT f.id, count(g.id) AS n FROM content.film_work f
LEFT JOIN (content.genre_film_work fg JOIN content.genre g ON g.id = fg.genre_id AND g.name <> 'b') ON fg.film_work_id = f.id
GROUP BY f.id

-- name: nested left joins on the nullable side
-- key: id
SELECT f.id, count(fs.id) AS links, count(s.id) AS studios, min(coalesce(s.name, 'none')) AS name FROM content.film_work f
LEFT JOIN (content.film_studio fs LEFT JOIN content.studio s ON s.id = fs.studio_id) ON fs.film_id = f.id GROUP BY f.id

-- name: left join made inner by where
-- key: id
SELECT s.id, count(*) AS n FROM content.studio s LEFT JOIN content.film_studio fs ON fs.studio_id = s.id
LEFT JOIN content.tag t ON t.film_id = fs.film_id WHERE t.weight > 1 GROUP BY s.id

-- name: anti join by left join
-- key: id
SELECT f.id, f.title FROM content.film_work f LEFT JOIN ugc.ratings r ON r.film_id = f.id WHERE r.id IS NULL

-- name: grouped subquery joined
-- key: id
SELECT f.id, f.title, r.votes FROM content.film_work f
LEFT JOIN (SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id) r ON r.film_id = f.id

-- name: two grouped subqueries joined
-- key: id
SELECT f.id, r.votes, l.likes FROM content.film_work f
LEFT JOIN (SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id) r ON r.film_id = f.id
LEFT JOIN (SELECT film_id, count(*) AS likes FROM ugc.likes GROUP BY film_id) l ON l.film_id = r.film_id

-- name: grouped subquery over a join
-- key: id
SELECT f.id, s.names FROM content.film_work f
JOIN (SELECT fg.film_work_id, string_agg(g.name, ',' ORDER BY g.name) AS names FROM content.genre_film_work fg
      JOIN content.genre g ON g.id = fg.genre_id GROUP BY fg.film_work_id) s ON s.film_work_id = f.id

-- name: grouped subquery crossed
-- key: name
SELECT g.name, sum(x.n) AS n FROM content.genre g
JOIN (SELECT fg.genre_id, fg.film_work_id, count(*) AS n FROM content.genre_film_work fg GROUP BY 1, 2) x ON x.genre_id = g.id
JOIN content.film_work f ON f.id = x.film_work_id GROUP BY g.name

-- name: aggregate as an edge
-- key: id
SELECT s.id, m.country FROM content.studio s
JOIN (SELECT country, max(id) AS top FROM content.studio GROUP BY country) m ON m.top = s.id

-- name: key from an aggregate
-- key: top
SELECT max(id) AS top, count(*) AS n FROM content.studio GROUP BY country

-- name: global aggregate
-- key: k
SELECT 1 AS k, count(*) AS n, max(rating) AS best FROM ugc.ratings

-- name: global aggregate joined
-- key: id
SELECT f.id, f.rating > a.mean AS good FROM content.film_work f, (SELECT avg(rating) AS mean FROM ugc.ratings) a

-- name: group of groups
-- key: votes
SELECT votes, count(*) AS films FROM (SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id) r GROUP BY votes

-- name: group of groups by the outer column
-- key: user_id
SELECT user_id, max(n) AS best FROM (SELECT user_id, film_id, sum(rating) AS n FROM ugc.ratings GROUP BY 1, 2) x GROUP BY user_id

-- name: cte
-- key: id
WITH r AS (SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id)
SELECT f.id, f.title, r.n FROM content.film_work f LEFT JOIN r ON r.film_id = f.id

-- name: cte twice
-- key: id
WITH r AS (SELECT film_id, user_id, rating FROM ugc.ratings WHERE rating > 1)
SELECT f.id, (SELECT count(*) FROM r WHERE r.film_id = f.id) AS n, x.best
FROM content.film_work f LEFT JOIN (SELECT film_id, max(rating) AS best FROM r GROUP BY film_id) x ON x.film_id = f.id

-- name: chained ctes
-- key: id
WITH r AS (SELECT film_id, user_id, rating FROM ugc.ratings), s AS (SELECT film_id, max(rating) AS best FROM r GROUP BY film_id),
     t AS MATERIALIZED (SELECT f.id, s.best FROM content.film_work f JOIN s ON s.film_id = f.id)
SELECT t.id, t.best, count(l.user_id) AS likes FROM t LEFT JOIN ugc.likes l ON l.film_id = t.id GROUP BY t.id, t.best

-- name: cte with limit
-- key: id
WITH top AS (SELECT film_id FROM ugc.ratings ORDER BY rating DESC, id LIMIT 2)
SELECT f.id, EXISTS (SELECT FROM top WHERE top.film_id = f.id) AS hot FROM content.film_work f

-- name: cte of the same name as a table
-- key: id
WITH studio AS (SELECT id, name FROM content.studio WHERE country IS NOT NULL)
SELECT studio.id, studio.name, p.name AS other FROM studio JOIN content.studio p ON p.id = studio.id

-- name: view
-- key: film_id
SELECT film_id, votes FROM content.film_votes

-- name: view joined
-- key: id
SELECT f.id, f.title, v.votes FROM content.film_work f LEFT JOIN content.film_votes v ON v.film_id = f.id

-- name: view of views
-- key: id
SELECT c.id, c.title, c.votes, c.likes FROM content.film_card c

-- name: view crossed
-- key: name
SELECT v.name, count(r.id) AS n FROM content.film_genres v LEFT JOIN ugc.ratings r ON r.film_id = v.film_id GROUP BY v.name

-- name: scalar subquery
-- key: id
SELECT f.id, (SELECT count(*) FROM ugc.ratings r WHERE r.film_id = f.id) AS n FROM content.film_work f

-- name: scalar subquery over a join
-- key: id
SELECT f.id, (SELECT string_agg(g.name, ',' ORDER BY g.name) FROM content.genre g JOIN content.genre_film_work fg
              ON fg.genre_id = g.id WHERE fg.film_work_id = f.id) AS genres FROM content.film_work f

-- name: scalar subquery with limit
-- key: id
SELECT f.id, (SELECT r.rating FROM ugc.ratings r WHERE r.film_id = f.id ORDER BY r.rating DESC, r.id LIMIT 1) AS best
FROM content.film_work f

-- name: uncorrelated scalar subquery
-- key: id
SELECT f.id, (SELECT max(threshold) FROM ugc.settings) AS t FROM content.film_work f

-- name: array subquery
-- key: id
SELECT f.id, ARRAY(SELECT t.name FROM content.tag t WHERE t.film_id = f.id ORDER BY t.name, t.id) AS tags FROM content.film_work f

-- name: nested correlated subqueries
-- key: id
SELECT f.id, (SELECT count(*) FROM content.person_film_work pf WHERE pf.film_work_id = f.id AND EXISTS (
    SELECT FROM content.person p WHERE p.id = pf.person_id AND p.full_name > 'a')) AS n FROM content.film_work f

-- name: subquery correlated two levels up
-- key: id
SELECT f.id, (SELECT count(*) FROM content.studio s WHERE EXISTS (
    SELECT FROM content.film_studio fs WHERE fs.studio_id = s.id AND fs.film_id = f.id)) AS n FROM content.film_work f

-- name: exists
-- key: id
SELECT f.id, f.title FROM content.film_work f WHERE EXISTS (SELECT FROM ugc.likes l WHERE l.film_id = f.id)

-- name: not exists
-- key: id
SELECT f.id, f.title FROM content.film_work f WHERE NOT EXISTS (SELECT FROM ugc.likes l WHERE l.film_id = f.id)

-- name: exists uncorrelated
-- key: id
SELECT f.id FROM content.film_work f WHERE EXISTS (SELECT FROM ugc.settings s WHERE s.threshold > 3)

-- name: exists of a group
-- key: id
SELECT f.id FROM content.film_work f WHERE EXISTS (
    SELECT FROM (SELECT film_id FROM ugc.ratings GROUP BY film_id HAVING count(*) > 1) r WHERE r.film_id = f.id)

-- name: in
-- key: id
SELECT f.id, f.title FROM content.film_work f WHERE f.id IN (SELECT r.film_id FROM ugc.ratings r WHERE r.rating > 3)

-- name: in nullable
-- key: id
SELECT s.id, s.name FROM content.studio s WHERE s.parent_id IN (SELECT fs.studio_id FROM content.film_studio fs)

-- name: in grouped
-- key: id
SELECT f.id FROM content.film_work f WHERE f.id IN (SELECT film_id FROM ugc.ratings GROUP BY film_id HAVING max(rating) > 3)

-- name: in with limit
-- key: id
SELECT f.id FROM content.film_work f WHERE f.id IN (SELECT film_id FROM ugc.ratings ORDER BY rating DESC, id LIMIT 2)

-- name: not in, no nulls
-- key: id
SELECT f.id, f.title FROM content.film_work f WHERE f.id NOT IN (SELECT r.film_id FROM ugc.ratings r)

-- name: not in, with nulls
-- key: id
SELECT s.id, s.name FROM content.studio s WHERE s.id NOT IN (SELECT fs.studio_id FROM content.film_studio fs)

-- name: not in, null on the left
-- key: id
SELECT s.id, s.name FROM content.studio s WHERE s.parent_id NOT IN (SELECT t.id FROM content.tag t)

-- name: in as a value
-- key: id
SELECT s.id, s.id IN (SELECT fs.studio_id FROM content.film_studio fs) AS used FROM content.studio s

-- name: in as a value, no nulls
-- key: id
SELECT f.id, f.id IN (SELECT film_id FROM ugc.likes) AS liked FROM content.film_work f

-- name: in of pairs
-- key: id
SELECT r.id, r.rating FROM ugc.ratings r WHERE (r.film_id, r.user_id) IN (SELECT l.film_id, l.user_id FROM ugc.likes l)

-- name: in under or
-- key: id
SELECT f.id FROM content.film_work f WHERE f.type = 'movie' OR f.id IN (SELECT film_id FROM ugc.likes)

-- name: greater than any
-- key: id
SELECT s.id, s.threshold FROM ugc.settings s WHERE s.threshold > ANY (SELECT r.rating FROM ugc.ratings r)

-- name: all correlated
-- key: id
SELECT f.id FROM content.film_work f WHERE 3 < ALL (SELECT r.rating FROM ugc.ratings r WHERE r.film_id = f.id)

-- name: all uncorrelated
-- key: id
SELECT s.id FROM ugc.settings s WHERE s.threshold <> ALL (SELECT r.rating FROM ugc.ratings r)

-- name: subquery in on of a left join
-- key: id
SELECT f.id, count(t.id) AS n FROM content.film_work f
LEFT JOIN content.tag t ON t.film_id = f.id AND EXISTS (SELECT FROM content.genre g WHERE g.name = t.name) GROUP BY f.id

-- name: subquery in on of a left join, from the preserved side
-- key: id
SELECT f.id, count(t.id) AS n FROM content.film_work f
LEFT JOIN content.tag t ON t.film_id = f.id AND f.id IN (SELECT film_id FROM ugc.likes) GROUP BY f.id

-- name: subquery in having
-- key: film_id
SELECT r.film_id, count(*) AS n FROM ugc.ratings r GROUP BY r.film_id
HAVING count(*) > (SELECT count(*) FROM ugc.likes l WHERE l.film_id = r.film_id)

-- name: subquery inside an aggregate
-- key: film_id
SELECT r.film_id, count(*) FILTER (WHERE EXISTS (SELECT FROM ugc.likes l WHERE l.user_id = r.user_id)) AS n
FROM ugc.ratings r GROUP BY r.film_id

-- name: key by a subquery
-- key: k
SELECT (SELECT min(p.id) FROM content.studio p WHERE p.parent_id = s.id) AS k, count(*) AS n FROM content.studio s GROUP BY 1

-- name: grouped by a subquery beside the key
-- key: film_id
SELECT r.film_id, (SELECT count(*) FROM ugc.likes l WHERE l.user_id = r.user_id) > 0 AS liker, count(*) AS n
FROM ugc.ratings r GROUP BY 1, 2

-- name: lateral
-- key: id
SELECT f.id, x.n FROM content.film_work f CROSS JOIN LATERAL (SELECT count(*) AS n FROM ugc.ratings r WHERE r.film_id = f.id) x

-- name: lateral with limit
-- key: id, rating_id
SELECT f.id, x.id AS rating_id, x.rating FROM content.film_work f
CROSS JOIN LATERAL (SELECT r.id, r.rating FROM ugc.ratings r WHERE r.film_id = f.id ORDER BY r.rating DESC, r.id LIMIT 2) x

-- name: left lateral with limit
-- key: id
SELECT f.id, x.rating FROM content.film_work f
LEFT JOIN LATERAL (SELECT r.rating FROM ugc.ratings r WHERE r.film_id = f.id ORDER BY r.rating, r.id LIMIT 1) x ON true

-- name: lateral over a join with limit
-- key: id
SELECT f.id, x.full_name FROM content.film_work f
LEFT JOIN LATERAL (SELECT p.full_name FROM content.person_film_work pf JOIN content.person p ON p.id = pf.person_id
                   WHERE pf.film_work_id = f.id ORDER BY p.full_name, p.id LIMIT 1) x ON true

-- name: lateral function
-- key: id, word
SELECT t.id, w.word, count(*) AS n FROM content.tag t CROSS JOIN LATERAL regexp_split_to_table(t.name, '') AS w (word) GROUP BY 1, 2

-- name: set returning function in the list
-- key: id, n
SELECT s.id, generate_series(1, s.threshold) AS n, f.title FROM ugc.settings s LEFT JOIN content.film_work f ON f.id = s.film_id

-- name: values joined
-- key: id
SELECT f.id, v.label FROM content.film_work f JOIN (VALUES ('movie', 'a'), ('tv_show', 'b')) v (type, label) ON v.type = f.type

-- name: union all
-- key: kind, id
SELECT 'rating' AS kind, r.id, f.title FROM ugc.ratings r JOIN content.film_work f ON f.id = r.film_id
UNION ALL SELECT 'review', v.id, v.body FROM ugc.reviews v

-- name: union
-- key: film_id
SELECT film_id FROM ugc.ratings UNION SELECT film_id FROM ugc.likes

-- name: union grouped outside
-- key: film_id
SELECT film_id, sum(points) AS points FROM (
    SELECT film_id, rating::bigint AS points FROM ugc.ratings
    UNION ALL SELECT l.film_id, 5::bigint FROM ugc.likes l JOIN content.film_work f ON f.id = l.film_id) x GROUP BY film_id

-- name: union crossed
-- key: user_id
SELECT x.user_id, count(f.id) AS n FROM (SELECT user_id, film_id FROM ugc.ratings UNION ALL SELECT user_id, film_id FROM ugc.likes) x
JOIN content.film_work f ON f.id = x.film_id GROUP BY x.user_id

-- name: intersect
-- key: film_id
SELECT film_id FROM ugc.ratings INTERSECT SELECT film_id FROM ugc.likes

-- name: except
-- key: film_id
SELECT film_id FROM ugc.ratings EXCEPT SELECT film_id FROM ugc.likes

-- name: except all joined
-- key: id
SELECT f.id, count(*) AS n FROM content.film_work f
JOIN (SELECT film_id FROM ugc.ratings EXCEPT ALL SELECT film_id FROM ugc.likes) x ON x.film_id = f.id GROUP BY f.id

-- name: except of numbers as text
-- key: k
SELECT x.share::text AS k FROM (SELECT share FROM content.film_studio EXCEPT SELECT weight FROM content.tag) x

-- name: union of different types
-- key: n
SELECT n, count(*) AS c FROM (SELECT threshold AS n FROM ugc.settings UNION ALL SELECT n FROM ugc.events) x GROUP BY n

-- name: nested set operations
-- key: film_id
(SELECT film_id FROM ugc.ratings UNION SELECT film_id FROM content.tag) EXCEPT SELECT film_id FROM ugc.likes

-- name: distinct
-- key: film_id, rating
SELECT DISTINCT film_id, rating FROM ugc.ratings

-- name: distinct over a join
-- key: film_id, name
SELECT DISTINCT r.film_id, p.full_name AS name FROM ugc.ratings r JOIN content.person_film_work pf ON pf.film_work_id = r.film_id
JOIN content.person p ON p.id = pf.person_id

-- name: distinct on
-- key: film_id
SELECT DISTINCT ON (film_id) film_id, user_id, rating FROM ugc.ratings ORDER BY film_id, rating DESC, id

-- name: distinct on joined
-- key: id
SELECT f.id, x.rating FROM content.film_work f
LEFT JOIN (SELECT DISTINCT ON (film_id) film_id, rating FROM ugc.ratings ORDER BY film_id, rating DESC, id) x ON x.film_id = f.id

-- name: distinct on something else
-- key: film_id
SELECT film_id, count(*) AS n FROM (SELECT DISTINCT ON (user_id) user_id, film_id FROM ugc.ratings ORDER BY user_id, rating, id) x
GROUP BY film_id

-- name: window by the key
-- key: film_id
SELECT film_id, user_id, rating FROM (
    SELECT film_id, user_id, rating, row_number() OVER (PARTITION BY film_id ORDER BY rating DESC, id) AS n FROM ugc.ratings) r
WHERE n = 1

-- name: window by a column equal to the key
-- key: id
SELECT id, title, rating FROM (
    SELECT f.id, f.title, r.rating, row_number() OVER (PARTITION BY r.film_id ORDER BY r.rating DESC, r.id) AS n
    FROM content.film_work f JOIN ugc.ratings r ON r.film_id = f.id) x WHERE n = 1

-- name: key finer than the window
-- key: film_id, user_id
SELECT film_id, user_id, rating, rank() OVER (PARTITION BY film_id ORDER BY rating DESC) AS place FROM ugc.ratings

-- name: window off the key
-- key: id
SELECT id, rating, rank() OVER (PARTITION BY user_id ORDER BY rating) AS place FROM ugc.ratings

-- name: two windows
-- key: film_id, user_id
SELECT film_id, user_id, count(*) OVER (PARTITION BY film_id) AS n, sum(rating) OVER (PARTITION BY film_id, user_id) AS s FROM ugc.ratings

-- name: window joined
-- key: id
SELECT f.id, x.rating FROM content.film_work f LEFT JOIN (
    SELECT film_id, rating, row_number() OVER (PARTITION BY film_id ORDER BY rating, id) AS n FROM ugc.ratings) x
ON x.film_id = f.id AND x.n = 1

-- name: window over groups
-- key: genre_id
SELECT genre_id, max(n) AS most FROM (
    SELECT fg.genre_id, f.type, count(*) AS n, rank() OVER (PARTITION BY fg.genre_id ORDER BY count(*) DESC) AS place
    FROM content.genre_film_work fg JOIN content.film_work f ON f.id = fg.film_work_id GROUP BY fg.genre_id, f.type) x
WHERE place = 1 GROUP BY genre_id

-- name: global window
-- key: id
SELECT id, title, rank() OVER (ORDER BY rating DESC NULLS LAST) AS place FROM content.film_work

-- name: top limit
-- key: id
SELECT id, title FROM content.film_work ORDER BY rating DESC NULLS LAST, id LIMIT 3

-- name: rollup
-- key: type, n
SELECT coalesce(type, 'all') AS type, count(*) AS n FROM content.film_work GROUP BY ROLLUP (type)

-- name: grouping sets inside
-- key: id
SELECT f.id, x.n FROM content.film_work f LEFT JOIN (
    SELECT film_id, user_id, count(*) AS n FROM ugc.ratings GROUP BY GROUPING SETS ((film_id), (user_id))) x ON x.film_id = f.id

-- name: partitioned table
-- key: film_id
SELECT film_id, kind, sum(n) AS n FROM ugc.events GROUP BY film_id, kind

-- name: one partition
-- key: film_id
SELECT film_id, sum(n) AS n FROM ugc.events_play GROUP BY film_id

-- name: partitioned table joined
-- key: id
SELECT f.id, e.kind, count(*) AS c FROM content.film_work f JOIN ugc.events e ON e.film_id = f.id GROUP BY f.id, e.kind

-- name: whole row
-- key: id
SELECT f.id, to_jsonb(f) - 'created' - 'modified' AS document FROM content.film_work f

-- name: whole row of a join partner
-- key: id
SELECT r.id, to_jsonb(f) AS film FROM ugc.ratings r LEFT JOIN content.film_work f ON f.id = r.film_id

-- name: star
-- key: id
SELECT * FROM content.studio

-- name: functionally dependent key
-- key: name
SELECT s.name, s.id AS studio, count(fs.id) AS n FROM content.studio s LEFT JOIN content.film_studio fs ON fs.studio_id = s.id GROUP BY s.id

-- name: constant in the key
-- key: kind, film_id
SELECT 'like' AS kind, film_id, count(*) AS n FROM ugc.likes GROUP BY film_id

-- name: chain of five
-- key: user_id
SELECT r.user_id, count(DISTINCT p.full_name) AS people FROM ugc.ratings r JOIN content.film_work f ON f.id = r.film_id
JOIN content.person_film_work pf ON pf.film_work_id = f.id JOIN content.person p ON p.id = pf.person_id GROUP BY r.user_id

-- name: no direct edge to the key
-- key: id
SELECT s.id, count(t.id) AS n FROM content.studio s JOIN content.film_studio fs ON fs.studio_id = s.id
JOIN content.tag t ON t.film_id = fs.film_id JOIN content.film_work f ON f.id = t.film_id GROUP BY s.id

-- name: circle through two tables
-- key: a, b
SELECT s.country AS a, t.name AS b, count(*) AS n FROM content.studio s JOIN content.film_studio fs ON fs.studio_id = s.id
JOIN content.tag t ON t.film_id = fs.film_id GROUP BY 1, 2

-- name: joined to a grouped key over two tables
-- key: k
SELECT x.k, count(*) AS n FROM (SELECT coalesce(s.country, '') || coalesce(t.name, '') AS k, s.id FROM content.studio s
JOIN content.film_studio fs ON fs.studio_id = s.id JOIN content.tag t ON t.film_id = fs.film_id) x GROUP BY x.k

-- name: semi join of a view
-- key: id
SELECT f.id FROM content.film_work f WHERE f.id IN (SELECT v.film_id FROM content.film_votes v WHERE v.votes > 1)

-- name: left join of a union
-- key: id
SELECT f.id, count(x.user_id) AS n FROM content.film_work f
LEFT JOIN (SELECT user_id, film_id FROM ugc.ratings UNION SELECT user_id, film_id FROM ugc.likes) x ON x.film_id = f.id GROUP BY f.id

-- name: full join of a lateral
-- key: id
SELECT s.id, x.n, y.m FROM content.studio s LEFT JOIN LATERAL (SELECT count(*) AS n FROM content.film_studio fs WHERE fs.studio_id = s.id) x ON true
LEFT JOIN LATERAL (SELECT x.n + count(*) AS m FROM content.studio c WHERE c.parent_id = s.id) y ON true

-- name: key coalesced over a nullable subquery
-- key: k
SELECT coalesce(d.country, t.name) AS k, count(*) AS n FROM content.tag t
LEFT JOIN (SELECT fs.studio_id, c.country FROM content.film_studio fs, content.studio c WHERE c.id = fs.id) d
ON d.studio_id = t.id GROUP BY 1

-- name: key coalesced, exists in on
-- key: k
SELECT coalesce(t.name, f.title) AS k, count(*) AS n FROM content.film_work f
LEFT JOIN content.tag t ON t.film_id = f.id AND EXISTS (SELECT FROM content.genre g WHERE g.name = t.name) GROUP BY 1

-- name: key coalesced, in in on
-- key: k
SELECT coalesce(t.name, f.title) AS k, count(*) AS n FROM content.film_work f
LEFT JOIN content.tag t ON t.film_id = f.id AND t.name IN (SELECT g.name FROM content.genre g) GROUP BY 1

-- name: key coalesced, exists in on from the preserved side
-- key: k
SELECT coalesce(t.name, f.title) AS k, count(*) AS n FROM content.film_work f
LEFT JOIN content.tag t ON t.film_id = f.id AND EXISTS (SELECT FROM ugc.likes l WHERE l.film_id = f.id) GROUP BY 1

-- name: nullable group key coalesced outside
-- key: k
SELECT coalesce(d.k, 0) AS k, d.n FROM (
    SELECT p.id AS k, count(*) AS n FROM content.film_studio s LEFT JOIN content.studio p ON p.id = s.studio_id GROUP BY p.id) d

-- name: joined by a nullable group key
-- key: id
SELECT t.id, d.n FROM content.tag t LEFT JOIN (
    SELECT p.id AS k, count(*) AS n FROM content.film_studio s LEFT JOIN content.studio p ON p.id = s.studio_id GROUP BY p.id) d
ON d.k = t.id

-- name: joined by a coalesced group key
-- key: id
SELECT t.id, d.n FROM content.tag t LEFT JOIN (
    SELECT coalesce(p.parent_id, 1) AS k, count(*) AS n
    FROM content.film_studio s LEFT JOIN content.studio p ON p.id = s.studio_id GROUP BY 1) d
ON d.k = t.id

-- name: nested outer joins, key from the middle
-- key: k
SELECT coalesce(s.id, fs.id) AS k, count(*) AS n, count(t.id) AS tags FROM content.film_studio fs
LEFT JOIN (content.studio s LEFT JOIN content.tag t ON t.id = s.parent_id) ON s.id = fs.studio_id GROUP BY 1

-- name: full join inside a left join
-- key: id
SELECT f.id, count(x.a) AS a, count(x.b) AS b FROM content.film_work f LEFT JOIN (
    SELECT coalesce(s.film_id, t.film_id) AS film_id, s.id AS a, t.id AS b
    FROM ugc.settings s FULL JOIN content.tag t ON t.film_id = s.film_id) x ON x.film_id = f.id GROUP BY f.id

-- name: full join on two columns
-- key: k
SELECT coalesce(s.film_id, t.film_id) AS k, count(*) AS n
FROM ugc.settings s FULL JOIN content.tag t ON t.film_id = s.film_id AND t.id = s.threshold GROUP BY 1

-- name: left join twice to the same table
-- key: id
SELECT fs.id, a.name AS one, b.name AS other FROM content.film_studio fs
LEFT JOIN content.studio a ON a.id = fs.studio_id LEFT JOIN content.studio b ON b.id = fs.id AND b.parent_id = a.id

-- name: window in a lateral
-- key: id
SELECT f.id, x.n FROM content.film_work f LEFT JOIN LATERAL (
    SELECT max(y.place) AS n FROM (SELECT rank() OVER (ORDER BY r.rating) AS place FROM ugc.ratings r WHERE r.film_id = f.id) y) x ON true

-- name: not in a union
-- key: id
SELECT f.id FROM content.film_work f WHERE f.id NOT IN (SELECT film_id FROM ugc.ratings UNION SELECT film_id FROM ugc.settings)

-- name: subquery of a subquery in from
-- key: id
SELECT f.id, x.n FROM content.film_work f JOIN (
    SELECT y.film_id, count(*) AS n FROM (SELECT r.film_id, r.user_id FROM ugc.ratings r WHERE EXISTS (
        SELECT FROM ugc.likes l WHERE l.user_id = r.user_id)) y GROUP BY y.film_id) x ON x.film_id = f.id

-- name: coalesced join after an outer join
-- key: id
SELECT f.id, count(r.id) AS n FROM content.film_work f LEFT JOIN ugc.settings s ON s.film_id = f.id
LEFT JOIN ugc.ratings r ON r.film_id = f.id AND r.rating > coalesce(s.threshold, 2) GROUP BY f.id

-- name: filter on a nullable table
-- key: id
SELECT f.id, count(*) AS n FROM content.film_work f LEFT JOIN ugc.settings s ON s.film_id = f.id
LEFT JOIN content.tag t ON t.film_id = f.id WHERE coalesce(s.threshold, 2) < 3 AND (t.name IS NULL OR t.name <> 'a') GROUP BY f.id

-- name: right join of a join
-- key: id
SELECT s.id, count(t.id) AS n, count(fs.id) AS m FROM content.tag t
JOIN content.film_studio fs ON fs.film_id = t.film_id RIGHT JOIN content.studio s ON s.id = fs.studio_id GROUP BY s.id

-- name: union of joins crossed
-- key: name
SELECT p.full_name AS name, count(f.id) AS n FROM content.person p JOIN (
    SELECT pf.person_id, pf.film_work_id AS film_id FROM content.person_film_work pf
    UNION SELECT pf.person_id, l.film_id FROM content.person_film_work pf JOIN ugc.likes l ON l.film_id = pf.film_work_id) x
ON x.person_id = p.id LEFT JOIN content.film_work f ON f.id = x.film_id GROUP BY p.full_name

-- name: a flag of a subquery that may be missing
-- key: id, liked
SELECT f.id, coalesce(l.liked, 0) AS liked, f.title
FROM content.film_work f LEFT JOIN (SELECT DISTINCT film_id, 1 AS liked FROM ugc.likes) l ON l.film_id = f.id

-- name: grouping sets that share the key
-- key: film_id
SELECT film_id, created, count(*) AS n FROM ugc.ratings GROUP BY GROUPING SETS ((film_id, created), (film_id))

-- name: key by division
-- key: k
SELECT s.threshold / s.id AS k, count(*) AS n FROM ugc.settings s GROUP BY s.threshold / s.id

-- name: key by nullif
-- key: k
SELECT nullif(s.parent_id, 3) AS k, count(*) AS n FROM content.studio s GROUP BY 1

-- name: key by distinct from
-- key: id, moved
SELECT s.id, s.parent_id IS DISTINCT FROM t.threshold AS moved, t.id AS setting
FROM content.studio s LEFT JOIN ugc.settings t ON t.id = s.id

-- name: rows that tie in one window, told apart by another
-- key: film_id
SELECT t.film_id, count(*) AS n FROM (
    SELECT r.film_id, row_number() OVER (PARTITION BY r.film_id) AS place, max(r.rating) OVER (PARTITION BY r.user_id) AS best
    FROM ugc.ratings r) t WHERE t.place = t.best GROUP BY t.film_id

-- name: sums of neighbours in a window without an order
-- key: film_id
SELECT t.film_id, count(*) AS n FROM (
    SELECT r.film_id, sum(r.rating) OVER (PARTITION BY r.film_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two
    FROM ugc.ratings r) t WHERE t.two > 10 GROUP BY t.film_id

-- name: the same sums of rows that tie in what they read too
-- key: film_id
SELECT t.film_id, count(*) AS n FROM (
    SELECT r.film_id, sum(r.rating) OVER (PARTITION BY r.film_id ORDER BY r.rating ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two
    FROM ugc.ratings r) t WHERE t.two > 10 GROUP BY t.film_id
