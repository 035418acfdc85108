-- Over 100 queries as analysts write them, over the demo's tables. All must be accepted, and run.

-- name: films
SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f

-- name: star
SELECT * FROM content.genre

-- name: table
TABLE content.person

-- name: ratings aggregated
SELECT film_id, round(avg(rating), 2) AS avg_rating, count(*) AS votes FROM ugc.ratings GROUP BY film_id

-- name: films with genres
SELECT f.id AS film_id, f.title, array_agg(DISTINCT g.name ORDER BY g.name) FILTER (WHERE g.name IS NOT NULL) AS genres
FROM content.film_work f
LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id
LEFT JOIN content.genre g ON g.id = fg.genre_id
GROUP BY f.id

-- name: genres as a string
SELECT f.id, string_agg(g.name, ', ' ORDER BY g.name) AS genres
FROM content.film_work f JOIN content.genre_film_work fg ON fg.film_work_id = f.id JOIN content.genre g ON g.id = fg.genre_id
GROUP BY f.id

-- name: cast as json
SELECT f.id, jsonb_agg(jsonb_build_object('id', p.id, 'name', p.full_name, 'role', pf.role) ORDER BY p.full_name) AS people
FROM content.film_work f JOIN content.person_film_work pf ON pf.film_work_id = f.id JOIN content.person p ON p.id = pf.person_id
GROUP BY f.id

-- name: search document
SELECT f.id,
       json_build_object('title', f.title, 'rating', f.rating, 'genres', coalesce(json_agg(DISTINCT g.name) FILTER (WHERE g.id IS NOT NULL), '[]'))::jsonb AS document
FROM content.film_work f
LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id LEFT JOIN content.genre g ON g.id = fg.genre_id
GROUP BY f.id

-- name: one cte
WITH rated AS (SELECT film_id, avg(rating) AS a FROM ugc.ratings GROUP BY film_id)
SELECT f.title, r.a FROM content.film_work f JOIN rated r ON r.film_id = f.id

-- name: chained ctes
WITH r AS (SELECT film_id, avg(rating) AS a, count(*) AS n FROM ugc.ratings GROUP BY film_id),
     m AS MATERIALIZED (SELECT avg(a) AS c FROM r)
SELECT r.film_id, (r.n * r.a + 10 * m.c) / (r.n + 10) AS bayesian FROM r, m

-- name: cte used twice
WITH v AS NOT MATERIALIZED (SELECT user_id, film_id, seconds_watched FROM ugc.views)
SELECT a.user_id, count(*) AS pairs FROM v a JOIN v b ON a.user_id = b.user_id AND a.film_id < b.film_id GROUP BY a.user_id

-- name: recursive numbers
WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 12) SELECT i AS month FROM n

-- name: recursive co-stars
WITH RECURSIVE reach (person_id, hops) AS (
    (SELECT person_id, 0 FROM content.person_film_work ORDER BY person_id LIMIT 1)
    UNION
    SELECT b.person_id, r.hops + 1
    FROM reach r JOIN content.person_film_work a ON a.person_id = r.person_id
    JOIN content.person_film_work b ON b.film_work_id = a.film_work_id
    WHERE r.hops < 2
)
SELECT person_id, min(hops) AS hops FROM reach GROUP BY person_id

-- name: recursive with search and cycle
WITH RECURSIVE t (a, b) AS (
    SELECT 1, 2 UNION ALL SELECT b, (b % 3) + 1 FROM t
) SEARCH DEPTH FIRST BY a SET o CYCLE a SET looped USING path
SELECT a, b, looped FROM t

-- name: recursive calendar
WITH RECURSIVE d (day) AS (SELECT date '2024-01-01' UNION ALL SELECT day + 1 FROM d WHERE day < date '2024-01-31')
SELECT d.day, count(r.id) AS ratings FROM d LEFT JOIN ugc.ratings r ON r.created::date = d.day GROUP BY d.day

-- name: row number
SELECT film_id, user_id, row_number() OVER (PARTITION BY film_id ORDER BY created DESC, id) AS n FROM ugc.ratings

-- name: top three by genre
SELECT genre, title FROM (
    SELECT g.name AS genre, f.title, rank() OVER (PARTITION BY g.id ORDER BY f.rating DESC NULLS LAST, f.id) AS place
    FROM content.film_work f JOIN content.genre_film_work fg ON fg.film_work_id = f.id JOIN content.genre g ON g.id = fg.genre_id
) ranked WHERE place <= 3

-- name: lag and lead
SELECT id, lag(rating) OVER w AS before, lead(rating, 1, 0::smallint) OVER w AS after FROM ugc.ratings WINDOW w AS (PARTITION BY user_id ORDER BY created, id)

-- name: running total
SELECT id, sum(seconds_watched) OVER (PARTITION BY user_id ORDER BY viewed_at, id ROWS UNBOUNDED PRECEDING) AS so_far FROM ugc.views

-- name: moving average over days
SELECT id, avg(rating) OVER (ORDER BY created RANGE BETWEEN interval '7 days' PRECEDING AND CURRENT ROW) AS week FROM ugc.ratings

-- name: groups frame
SELECT id, count(*) OVER (ORDER BY rating GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS near FROM ugc.ratings

-- name: quartiles
SELECT id, ntile(4) OVER (ORDER BY rating, id) AS quartile, percent_rank() OVER (ORDER BY rating) AS p, cume_dist() OVER (ORDER BY rating) AS c FROM content.film_work

-- name: first and last value
SELECT DISTINCT user_id, first_value(film_id) OVER w AS first_film, last_value(film_id) OVER w AS last_film, nth_value(film_id, 2) OVER w AS second_film
FROM ugc.ratings WINDOW w AS (PARTITION BY user_id ORDER BY created, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)

-- name: share of total
SELECT type, count(*) AS n, round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS percent FROM content.film_work GROUP BY type

-- name: islands
SELECT user_id, min(day) AS since, max(day) AS until FROM (
    SELECT user_id, day, day - (dense_rank() OVER (PARTITION BY user_id ORDER BY day))::integer AS island
    FROM (SELECT DISTINCT user_id, viewed_at::date AS day FROM ugc.views) d
) i GROUP BY user_id, island

-- name: lateral latest
SELECT f.id, l.rating AS latest FROM content.film_work f
LEFT JOIN LATERAL (SELECT r.rating FROM ugc.ratings r WHERE r.film_id = f.id ORDER BY r.created DESC, r.id LIMIT 1) l ON true

-- name: lateral values
SELECT f.id, v.name, v.value FROM content.film_work f CROSS JOIN LATERAL (VALUES ('title', f.title), ('type', f.type)) AS v (name, value)

-- name: lateral words
SELECT f.id, w.word FROM content.film_work f, LATERAL regexp_split_to_table(lower(f.title), '\s+') AS w (word)

-- name: arrays
SELECT f.id, ARRAY[f.type, f.title] AS both, (ARRAY[1, 2, 3])[2:3] AS slice, cardinality(ARRAY[f.type]) AS n FROM content.film_work f

-- name: array operators
SELECT id FROM content.film_work WHERE ARRAY[type] <@ ARRAY['movie', 'tv_show'] AND NOT ARRAY[type] && ARRAY['series']

-- name: array of a subquery
SELECT f.id, ARRAY(SELECT p.full_name FROM content.person p JOIN content.person_film_work pf ON pf.person_id = p.id WHERE pf.film_work_id = f.id ORDER BY 1) AS people FROM content.film_work f

-- name: array functions
SELECT user_id, array_length(array_agg(film_id), 1) AS n, array_to_string(array_remove(array_agg(rating::text), '0'), '|') AS r, array_position(array_agg(rating), 5::smallint) AS five FROM ugc.ratings GROUP BY user_id

-- name: unnest with ordinality
SELECT f.id, u.n, u.letter FROM content.film_work f, unnest(string_to_array(f.title, NULL)) WITH ORDINALITY AS u (letter, n) WHERE u.n <= 3

-- name: unnest several
SELECT a, b FROM unnest(ARRAY[1, 2], ARRAY['x', 'y', 'z']) AS t (a, b)

-- name: rows from
SELECT a, b FROM ROWS FROM (generate_series(1, 3), unnest(ARRAY['a', 'b'])) AS t (a, b)

-- name: days without gaps
SELECT d::date AS day, count(v.id) AS views FROM generate_series(timestamptz '2024-01-01', '2024-02-01', '1 day') AS d
LEFT JOIN ugc.views v ON v.viewed_at >= d AND v.viewed_at < d + interval '1 day' GROUP BY d

-- name: histogram
SELECT width_bucket(rating, 0, 10, 5) AS bucket, count(*) AS n FROM content.film_work WHERE rating IS NOT NULL GROUP BY 1

-- name: json fields
SELECT j ->> 'a' AS a, j -> 'b' -> 0 AS b, j #>> '{c,d}' AS d FROM (SELECT '{"a": 1, "b": [2], "c": {"d": 3}}'::jsonb AS j) s

-- name: json of a row
SELECT f.id, to_jsonb(f) - 'description' AS film, row_to_json(f) AS raw FROM content.film_work f

-- name: json unnested
SELECT e.key, e.value FROM content.film_work f, jsonb_each_text(jsonb_build_object('title', f.title, 'type', f.type)) AS e

-- name: json elements
SELECT x.v ->> 'n' AS n FROM jsonb_array_elements('[{"n": 1}, {"n": 2}]') AS x (v)

-- name: json record
SELECT a, b FROM jsonb_to_recordset('[{"a": 1, "b": "x"}]') AS r (a integer, b text)

-- name: json aggregate
SELECT type, jsonb_object_agg(id, title) AS titles FROM content.film_work GROUP BY type

-- name: json containment
SELECT id FROM content.film_work f WHERE to_jsonb(f) @> '{"type": "movie"}' AND to_jsonb(f) ? 'title'

-- name: jsonpath
SELECT jsonb_path_query('{"r": [1, 5, 9]}', '$.r[*] ? (@ > 4)') AS r

-- name: jsonpath filter
SELECT f.id FROM content.film_work f WHERE to_jsonb(f) @? '$.rating ? (@ > 5)' AND jsonb_path_exists(to_jsonb(f), '$.title')

-- name: jsonpath first
SELECT id, jsonb_path_query_first(to_jsonb(f), '$.title') #>> '{}' AS title FROM content.film_work f

-- name: json changed
SELECT id, jsonb_set(to_jsonb(f), '{title}', to_jsonb(upper(title))) || '{"seen": true}' AS film, jsonb_strip_nulls(to_jsonb(f)) AS short FROM content.film_work f

-- name: ranges
SELECT id, daterange(creation_date, creation_date + 30, '[)') AS release, daterange(creation_date, NULL) @> date '2020-01-01' AS out FROM content.film_work

-- name: range overlap
SELECT id FROM ugc.views WHERE tstzrange(viewed_at, viewed_at + seconds_watched * interval '1 second') && tstzrange('2024-01-01', '2025-01-01')

-- name: range aggregate
SELECT user_id, range_agg(tstzrange(viewed_at, viewed_at + interval '1 hour')) AS busy FROM ugc.views GROUP BY user_id

-- name: range bounds
SELECT lower(r) AS a, upper(r) AS b, isempty(r) AS e FROM (SELECT int4range(1, 5) * int4range(3, 9) AS r) s

-- name: overlaps
SELECT id FROM content.film_work WHERE (creation_date, interval '1 year') OVERLAPS (date '2000-01-01', date '2010-01-01')

-- name: full text
SELECT id, ts_rank(to_tsvector('english', title || ' ' || coalesce(description, '')), q) AS r
FROM content.film_work, websearch_to_tsquery('english', 'secret -storm') AS q WHERE to_tsvector('english', title || ' ' || coalesce(description, '')) @@ q

-- name: full text headline
SELECT id, ts_headline('simple', coalesce(description, ''), plainto_tsquery('simple', 'secret')) AS shown FROM content.film_work

-- name: full text weights
SELECT id, setweight(to_tsvector('simple', title), 'A') || setweight(to_tsvector('simple', coalesce(description, '')), 'B') AS doc FROM content.film_work

-- name: grouping sets
SELECT type, extract(year FROM creation_date) AS year, count(*) AS n, grouping(type) AS g FROM content.film_work GROUP BY GROUPING SETS ((type), (extract(year FROM creation_date)), ())

-- name: rollup
SELECT type, date_trunc('month', created) AS month, count(*) AS n FROM content.film_work GROUP BY ROLLUP (type, date_trunc('month', created))

-- name: cube
SELECT coalesce(role, 'all') AS role, count(DISTINCT person_id) AS people FROM content.person_film_work GROUP BY CUBE (role)

-- name: union
SELECT film_id, 'rating' AS what FROM ugc.ratings UNION SELECT film_id, 'like' FROM ugc.likes

-- name: union all
SELECT user_id, created AS at FROM ugc.ratings UNION ALL SELECT user_id, viewed_at FROM ugc.views ORDER BY at LIMIT 100

-- name: intersect
SELECT film_id FROM ugc.ratings INTERSECT SELECT film_id FROM ugc.likes

-- name: except
SELECT id FROM content.film_work EXCEPT ALL SELECT film_id FROM ugc.ratings

-- name: nested set operations
(SELECT user_id FROM ugc.ratings UNION SELECT user_id FROM ugc.reviews) EXCEPT (SELECT user_id FROM ugc.likes INTERSECT SELECT user_id FROM ugc.views)

-- name: date maths
SELECT id, created + interval '1 month' AS due, created - creation_date::timestamptz AS lag, date_part('dow', created) AS dow, to_char(created, 'IYYY-IW') AS week FROM content.film_work

-- name: age between columns
SELECT id, age(modified, created) AS age, extract(epoch FROM modified - created) AS seconds FROM content.film_work

-- name: at time zone
SELECT id, created AT TIME ZONE 'Europe/Moscow' AS local, timezone('UTC', created) AS utc, date_bin('15 minutes', created, timestamptz '2000-01-01') AS bin FROM content.film_work

-- name: parsed dates
SELECT make_date(2024, 2, 29) AS a, to_date('01.02.2024', 'DD.MM.YYYY') AS b, to_timestamp(1700000000) AS c, justify_hours(interval '30 hours') AS d

-- name: recent by the clock
SELECT id FROM content.film_work WHERE created > now() - interval '10 years' AND creation_date < CURRENT_DATE

-- name: percentiles
SELECT film_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY rating) AS median, percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY rating) AS q, mode() WITHIN GROUP (ORDER BY rating) AS mode FROM ugc.ratings GROUP BY film_id

-- name: hypothetical rank
SELECT rank(7) WITHIN GROUP (ORDER BY rating) AS place FROM content.film_work

-- name: statistics
SELECT stddev_samp(rating) AS s, var_pop(rating) AS v, corr(rating, extract(year FROM creation_date)) AS c, regr_slope(rating, extract(epoch FROM created)) AS slope FROM content.film_work

-- name: filter
SELECT film_id, count(*) FILTER (WHERE rating >= 8) AS good, count(*) FILTER (WHERE rating <= 3) AS bad, bool_and(rating > 0) AS never_zero FROM ugc.ratings GROUP BY film_id HAVING count(*) > 1

-- name: distinct on
SELECT DISTINCT ON (user_id) user_id, film_id, created FROM ugc.ratings ORDER BY user_id, created DESC, id

-- name: strings
SELECT id, upper(left(title, 1)) || substr(title, 2) AS t, length(title) AS n, position('a' IN title) AS p, overlay(title PLACING 'x' FROM 1 FOR 1) AS o, trim(BOTH ' "' FROM title) AS c FROM content.film_work

-- name: more strings
SELECT initcap(title) AS a, lpad(type, 10, '.') AS b, split_part(title, ' ', 1) AS c, translate(title, 'абв', 'abv') AS d, reverse(type) AS e, repeat('*', rating::integer) AS f, concat_ws('/', type, title) AS g, format('%s (%s)', title, type) AS h FROM content.film_work

-- name: hashes
SELECT id, md5(title) AS h, encode(sha256(convert_to(title, 'UTF8')), 'hex') AS s, hashtext(title) AS n FROM content.film_work

-- name: regular expressions
SELECT id, regexp_replace(title, '\s+', ' ', 'g') AS t, (regexp_match(title, '(\d+)'))[1] AS number, title ~* 'the' AS the, substring(title FROM '^\w+') AS first FROM content.film_work

-- name: regular expression matches
SELECT f.id, m[1] AS word FROM content.film_work f, regexp_matches(f.title, '([A-Z]\w+)', 'g') AS m

-- name: like and similar
SELECT id FROM content.film_work WHERE title ILIKE 's%' AND title NOT LIKE '%\_%' AND type SIMILAR TO '(movie|tv_show)' AND starts_with(title, 'S')

-- name: casts
SELECT id::text AS a, rating::numeric(3, 1) AS b, CAST(created AS date) AS c, '{1,2}'::integer[] AS d, '10'::text::integer AS e, true::integer AS f, type::varchar(3) AS g FROM content.film_work

-- name: case
SELECT id, CASE WHEN rating >= 8 THEN 'great' WHEN rating >= 5 THEN 'fair' ELSE 'poor' END AS class, CASE type WHEN 'movie' THEN 1 ELSE 2 END AS kind FROM content.film_work

-- name: null handling
SELECT coalesce(rating, 0) AS a, nullif(type, 'movie') AS b, greatest(created, modified) AS c, least(1, 2.5) AS d, rating IS DISTINCT FROM 5 AS e, num_nulls(rating, description) AS f FROM content.film_work

-- name: exists
SELECT f.id FROM content.film_work f WHERE EXISTS (SELECT FROM ugc.ratings r WHERE r.film_id = f.id AND r.rating > 8) AND NOT EXISTS (SELECT FROM ugc.likes l WHERE l.film_id = f.id)

-- name: in and not in
SELECT id FROM content.film_work WHERE id IN (SELECT film_id FROM ugc.ratings) AND type NOT IN ('series', 'clip') AND (id, type) NOT IN (SELECT film_id, 'x' FROM ugc.likes)

-- name: any and all
SELECT id FROM content.film_work WHERE rating >= ALL (SELECT rating FROM content.film_work WHERE rating IS NOT NULL) OR id = ANY (SELECT film_id FROM ugc.likes) OR type = ANY ('{movie}')

-- name: row comparison
SELECT id FROM ugc.ratings WHERE (created, id) > (timestamptz '2024-01-02', '00000000-0000-0000-0000-000000000000'::uuid) AND (rating, 1) IS DISTINCT FROM (5, 1)

-- name: full join
SELECT coalesce(r.film_id, l.film_id) AS film_id, r.n AS ratings, l.n AS likes
FROM (SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY 1) r FULL JOIN (SELECT film_id, count(*) AS n FROM ugc.likes GROUP BY 1) l ON l.film_id = r.film_id

-- name: join using
SELECT user_id, film_id, r.rating, v.seconds_watched FROM ugc.ratings r JOIN ugc.views v USING (user_id, film_id)

-- name: natural and cross joins
SELECT a.film_id, b.n FROM ugc.likes NATURAL JOIN ugc.ratings a CROSS JOIN (VALUES (1), (2)) AS b (n)

-- name: self join
SELECT a.id, b.id AS other FROM content.person a JOIN content.person b ON a.full_name = b.full_name AND a.id < b.id

-- name: cohort retention
WITH first AS (SELECT user_id, date_trunc('month', min(viewed_at)) AS cohort FROM ugc.views GROUP BY user_id)
SELECT f.cohort, (extract(year FROM age(date_trunc('month', v.viewed_at), f.cohort)) * 12 + extract(month FROM age(date_trunc('month', v.viewed_at), f.cohort)))::integer AS month, count(DISTINCT v.user_id) AS users
FROM first f JOIN ugc.views v USING (user_id) GROUP BY 1, 2

-- name: funnel
SELECT count(DISTINCT v.user_id) AS watched, count(DISTINCT r.user_id) AS rated, count(DISTINCT w.user_id) AS reviewed
FROM ugc.views v LEFT JOIN ugc.ratings r USING (user_id, film_id) LEFT JOIN ugc.reviews w USING (user_id, film_id)

-- name: sessions
SELECT user_id, session, min(viewed_at) AS began, sum(seconds_watched) AS seconds FROM (
    SELECT *, sum(is_new) OVER (PARTITION BY user_id ORDER BY viewed_at, id) AS session FROM (
        SELECT *, (viewed_at - lag(viewed_at) OVER (PARTITION BY user_id ORDER BY viewed_at, id) > interval '30 minutes')::integer AS is_new FROM ugc.views
    ) a
) b GROUP BY user_id, session

-- name: numbers
SELECT round(rating::numeric, 1) AS a, ceil(rating) AS b, floor(rating) AS c, trunc(rating::numeric, 1) AS d, mod(7, 3) AS e, power(2, 10) AS f, ln(2.0) AS g, sqrt(2) AS h, sign(-1) AS i, abs(-1) AS j, 7 / 2.0 AS k, 5 & 3 AS l FROM content.film_work

-- name: ids of two columns
SELECT md5(user_id::text || film_id::text)::uuid AS id, user_id, film_id FROM ugc.likes

-- name: collation and ties
SELECT id, title FROM content.film_work ORDER BY title COLLATE "C", id FETCH FIRST 5 ROWS WITH TIES

-- name: quoted names and comments
SELECT f.id AS "Film Id", /* shown first */ f.title AS "Название" -- as it is
FROM "content"."film_work" AS f;

-- name: aggregates of expressions
SELECT lower(left(title, 1)) AS letter, min(title) AS first, max(length(title)) AS longest, every(rating > 1) AS fine, bit_or(1 << length(type)) AS bits
FROM content.film_work GROUP BY lower(left(title, 1)) ORDER BY count(*) DESC, letter

-- name: a view and a materialised view
SELECT y.id, y.year, v.votes FROM content.film_year y LEFT JOIN ugc.votes v ON v.film_id = y.id

-- name: types of their own
SELECT id, size, score + 1 AS next, name = 'ANNA' AS anna, tags -> 'a' AS a, score::text::content.score AS again, greatest(size, 'short') AS bigger, content.years(1, score) @> 2 AS within FROM content.tagged

-- name: extensions
SELECT f.id, similarity(f.title, p.full_name) AS s, hstore('title', f.title) AS h FROM content.film_work f, content.person p WHERE f.title % p.full_name OR f.title::citext = p.full_name::citext

-- name: bits, bytes and networks
SELECT B'1010' & B'0110' AS b, '\xff'::bytea || '\x00'::bytea AS c, inet '10.0.0.1' << inet '10.0.0.0/8' AS n, pg_size_pretty(1024::bigint) AS s, pg_typeof(1)::text AS t

-- name: geometry
SELECT point(1, 2) <-> point(4, 6) AS distance, box '((0,0),(2,2))' @> point(1, 1) AS inside

-- name: two columns as a row
SELECT (r).rating AS rating, ROW(1, 'a')::text AS pair FROM (SELECT r FROM ugc.ratings r) s

-- name: a sample that is always the same
SELECT id FROM content.film_work TABLESAMPLE system (10) REPEATABLE (1) UNION ALL SELECT id FROM content.person TABLESAMPLE bernoulli (5) REPEATABLE (2)

-- name: text search by the name of a configuration
SELECT id, to_tsvector('english', title) AS t, pg_typeof(title) = 'text'::regtype AS s FROM content.film_work
