-- Tables beside the demo's, for live marts: NULLs where the demo has none, numbers that are equal and look different,
-- partitions, views. Then the demo's foreign keys follow a changed key, so that keys can change. Run as superuser.

CREATE TABLE content.studio (id integer PRIMARY KEY, name text, country text, parent_id integer);
CREATE TABLE content.film_studio (id integer PRIMARY KEY, film_id uuid, studio_id integer, share numeric);
CREATE TABLE content.tag (id integer PRIMARY KEY, film_id uuid NOT NULL, name varchar(20), weight numeric);
CREATE TABLE ugc.settings (id integer PRIMARY KEY, threshold integer, film_id uuid);
CREATE TABLE ugc.events (id integer NOT NULL, film_id uuid, kind text NOT NULL, n bigint, PRIMARY KEY (id, kind))
    PARTITION BY LIST (kind);
CREATE TABLE ugc.events_play PARTITION OF ugc.events FOR VALUES IN ('play');
CREATE TABLE ugc.events_rest PARTITION OF ugc.events DEFAULT;

CREATE VIEW content.film_votes AS
    SELECT film_id, count(*) AS votes, sum(rating) AS total FROM ugc.ratings GROUP BY film_id;
CREATE VIEW content.film_genres AS
    SELECT fg.film_work_id AS film_id, g.id AS genre_id, g.name
    FROM content.genre_film_work fg JOIN content.genre g ON g.id = fg.genre_id;
CREATE VIEW content.film_card AS
    SELECT f.id, f.title, v.votes, (SELECT count(*) FROM ugc.likes l WHERE l.film_id = f.id) AS likes
    FROM content.film_work f LEFT JOIN content.film_votes v ON v.film_id = f.id;
CREATE MATERIALIZED VIEW content.film_count AS SELECT count(*) AS films FROM content.film_work;
CREATE FUNCTION content.threshold() RETURNS integer LANGUAGE sql STABLE AS 'SELECT max(threshold) FROM ugc.settings';
GRANT SELECT ON ALL TABLES IN SCHEMA content, ugc TO vitrina_reader;

DO $$
DECLARE
    fk record;
BEGIN
    FOR fk IN SELECT conrelid::regclass AS link, conname, pg_get_constraintdef(oid) AS definition
              FROM pg_constraint WHERE contype = 'f' AND connamespace = 'content'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD %s ON UPDATE CASCADE', fk.link, fk.conname, fk.definition);
    END LOOP;
END $$;
