-- What a careless or hostile owner may have left in a source database. Run as superuser.

CREATE EXTENSION tablefunc;
CREATE EXTENSION dblink;
CREATE EXTENSION citext;
CREATE EXTENSION hstore;
CREATE EXTENSION pg_trgm;
CREATE EXTENSION lo;

INSERT INTO auth.users VALUES (gen_random_uuid(), 'planted-secret-login', 'planted-secret-hash');

-- Functions: one that writes with its owner's rights, one with the caller's, one that tells, one that does nothing.
CREATE FUNCTION content.wipe() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM ugc.likes;
    UPDATE content.film_work SET title = 'wiped';
    UPDATE etl.etl_pipelines SET enabled = false;
    RETURN 1;
END $$;
CREATE FUNCTION content.touch() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RESET ROLE;
    UPDATE content.film_work SET title = 'touched';
    RETURN 1;
END $$;
CREATE FUNCTION content.touch(anyelement) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM content.wipe();
    RETURN true;
END $$;
CREATE FUNCTION content.spy() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER AS 'SELECT login FROM auth.users';
CREATE FUNCTION content.twice(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE SEQUENCE content.counter;
GRANT USAGE ON SEQUENCE content.counter TO vitrina_reader;

-- Views past the allowed schemas.
CREATE VIEW content.leak AS SELECT id, login, password_hash FROM auth.users;
CREATE VIEW content.leak_deep AS SELECT login FROM content.leak WHERE login IS NOT NULL;
CREATE VIEW ugc.leak_deeper WITH (security_barrier) AS
    WITH l AS (SELECT login FROM content.leak_deep) SELECT (SELECT min(login) FROM l WHERE login LIKE 'planted%') AS login;
CREATE VIEW ugc.leak_half AS
    SELECT title FROM content.film_work UNION ALL SELECT login FROM auth.users;
CREATE VIEW ugc.leak_exists AS
    SELECT f.id, EXISTS (SELECT FROM auth.users u WHERE u.id = f.id) AS known FROM content.film_work f;
CREATE VIEW content.leak_tokens AS SELECT name, hash FROM etl.etl_tokens;
CREATE VIEW content.leak_roles AS SELECT rolname FROM pg_authid;
CREATE VIEW content.leak_activity AS SELECT pid, query FROM pg_stat_activity;
CREATE VIEW content.leak_tables AS SELECT table_name FROM information_schema.tables;
CREATE VIEW content.leak_invoker WITH (security_invoker) AS SELECT login FROM auth.users;

-- Views that do something.
CREATE VIEW content.view_wipes AS SELECT f.id, content.wipe() AS n FROM content.film_work f;
CREATE VIEW content.view_touches AS SELECT f.id FROM content.film_work f WHERE content.touch() = 1;
CREATE VIEW content.view_random AS SELECT f.id, random() AS r FROM content.film_work f;
CREATE VIEW content.view_sleeps AS SELECT f.id FROM content.film_work f, pg_sleep(60);
CREATE VIEW content.view_counts AS SELECT nextval('content.counter') AS n;
CREATE VIEW content.view_xml AS SELECT query_to_xml('SELECT 1', true, true, '') AS x;
CREATE VIEW content.view_locks AS SELECT id FROM content.film_work FOR UPDATE;
CREATE VIEW content.view_signals AS SELECT pg_cancel_backend(0) AS done;
CREATE VIEW content.view_spies AS SELECT s AS login FROM content.spy() AS s;
CREATE VIEW content.view_orders AS SELECT id FROM content.film_work ORDER BY content.touch(title);

-- Shadows: exact matches that win over the server's own functions and operators.
CREATE FUNCTION public.upper(varchar) RETURNS text LANGUAGE plpgsql AS
    'BEGIN PERFORM content.wipe(); RETURN $1::text; END';
CREATE FUNCTION public.abs(integer, integer DEFAULT 0) RETURNS integer LANGUAGE sql SECURITY DEFINER AS
    'SELECT content.wipe()';
CREATE FUNCTION public.peek(content.film_work) RETURNS integer LANGUAGE sql AS 'SELECT content.wipe()';
CREATE FUNCTION public.same(uuid, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN content.touch(1); END';
CREATE OPERATOR public.= (LEFTARG = uuid, RIGHTARG = text, FUNCTION = public.same);
CREATE FUNCTION public.more(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN content.touch(1); END';
CREATE OPERATOR public.> (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.more);
CREATE OPERATOR public.<> (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.more);
CREATE FUNCTION public.negate(text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN content.touch($1); END';
CREATE OPERATOR public.!!! (RIGHTARG = text, FUNCTION = public.negate);
CREATE OPERATOR content.%% (LEFTARG = uuid, RIGHTARG = text, FUNCTION = public.same);

-- Types whose casts, checks and comparisons call functions.
CREATE TYPE content.mood AS ENUM ('sad', 'happy');
CREATE FUNCTION content.mood_number(content.mood) RETURNS integer LANGUAGE sql AS 'SELECT content.wipe()';
CREATE CAST (content.mood AS integer) WITH FUNCTION content.mood_number(content.mood) AS IMPLICIT;
CREATE FUNCTION content.number_mood(integer) RETURNS content.mood LANGUAGE plpgsql AS
    $$ BEGIN PERFORM content.touch(); RETURN 'sad'; END $$;
CREATE CAST (integer AS content.mood) WITH FUNCTION content.number_mood(integer);
CREATE DOMAIN content.checked AS text CHECK (content.touch(VALUE));
CREATE TYPE content.box AS (inside content.checked);
CREATE DOMAIN content.boxed AS content.box[];
CREATE FUNCTION content.gap(integer, integer) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN PERFORM content.wipe(); RETURN 1; END';
CREATE TYPE content.span AS RANGE (subtype = integer, subtype_diff = content.gap);

CREATE FUNCTION content.step(bigint, anyelement) RETURNS bigint LANGUAGE plpgsql AS
    'BEGIN PERFORM content.wipe(); RETURN $1 + 1; END';
CREATE AGGREGATE content.count_all(anyelement) (SFUNC = content.step, STYPE = bigint, INITCOND = '0');

-- A policy that calls a function.
CREATE TABLE content.guarded (id integer PRIMARY KEY, title text);
INSERT INTO content.guarded VALUES (1, 'a');
ALTER TABLE content.guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON content.guarded USING (content.touch(id));

-- Honest ones beside them.
CREATE VIEW content.film_year AS
    SELECT id, title, extract(year FROM creation_date)::integer AS year FROM content.film_work;
CREATE MATERIALIZED VIEW ugc.votes AS SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id;
CREATE TYPE content.size AS ENUM ('short', 'long');
CREATE TYPE content.years AS RANGE (subtype = integer);
CREATE DOMAIN content.score AS integer CHECK (VALUE BETWEEN 0 AND 10);
CREATE TABLE content.tagged (
    id integer PRIMARY KEY, size content.size, score content.score, name public.citext, tags public.hstore
);
INSERT INTO content.tagged VALUES (1, 'long', 7, 'Anna', 'a=>1'), (2, 'short', 3, 'anna', 'b=>2');
ALTER TABLE content.tagged ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON content.tagged USING (id > 0);
