-- The demo's source: an online cinema, in plain SQL that psql alone can load:
--
--     psql -d cinema < sql/init_demo_data.sql
--
-- Running it again changes nothing. The rows depend on their numbers only, never on the clock or on
-- chance, so every load of one size is the same load. Two settings choose the size:
--
--     PGOPTIONS='-c vitrina_demo.films=100000 -c vitrina_demo.ratings=300000' psql -d cinema < ...

SET client_encoding = 'UTF8';

CREATE SCHEMA IF NOT EXISTS content;    -- what the cinema shows
CREATE SCHEMA IF NOT EXISTS ugc;        -- what its users say about it
CREATE SCHEMA IF NOT EXISTS auth;       -- who they are: not for marts
CREATE SCHEMA IF NOT EXISTS analytics;  -- the marts


-- content (unique and foreign keys of the link tables are at the end)

CREATE TABLE IF NOT EXISTS content.film_work (
    id            uuid PRIMARY KEY,
    title         text NOT NULL,
    description   text,
    creation_date date,
    rating        double precision,
    type          text NOT NULL CHECK (type IN ('movie', 'tv_show')),
    file_path     text,
    created       timestamptz NOT NULL DEFAULT now(),
    modified      timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS content.genre (
    id          uuid PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    description text,
    created     timestamptz NOT NULL DEFAULT now(),
    modified    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS content.person (
    id         uuid PRIMARY KEY,
    full_name  text NOT NULL,
    birth_date date,
    created    timestamptz NOT NULL DEFAULT now(),
    modified   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS content.genre_film_work (
    id           uuid PRIMARY KEY,
    film_work_id uuid NOT NULL,
    genre_id     uuid NOT NULL,
    created      timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS content.person_film_work (
    id           uuid PRIMARY KEY,
    film_work_id uuid NOT NULL,
    person_id    uuid NOT NULL,
    role         text NOT NULL CHECK (role IN ('director', 'writer', 'actor')),
    created      timestamptz NOT NULL DEFAULT now()
);


-- ugc: another service's tables, so no foreign keys into content. One rating of a film from each user.

CREATE TABLE IF NOT EXISTS ugc.ratings (
    id       uuid PRIMARY KEY,
    user_id  uuid NOT NULL,
    film_id  uuid NOT NULL,
    rating   smallint NOT NULL CHECK (rating BETWEEN 0 AND 10),
    created  timestamptz NOT NULL DEFAULT now(),
    modified timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS ugc.reviews (
    id       uuid PRIMARY KEY,
    user_id  uuid NOT NULL,
    film_id  uuid NOT NULL,
    body     text NOT NULL,
    likes    integer NOT NULL DEFAULT 0 CHECK (likes >= 0),
    created  timestamptz NOT NULL DEFAULT now(),
    modified timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS ugc.views (
    id              uuid PRIMARY KEY,
    user_id         uuid NOT NULL,
    film_id         uuid NOT NULL,
    seconds_watched integer NOT NULL CHECK (seconds_watched >= 0),
    viewed_at       timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS ugc.likes (
    user_id uuid NOT NULL,
    film_id uuid NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, film_id)
);


-- auth

CREATE TABLE IF NOT EXISTS auth.users (
    id            uuid PRIMARY KEY,
    login         text NOT NULL UNIQUE,
    password_hash text NOT NULL,
    created       timestamptz NOT NULL DEFAULT now()
);


-- analytics: the marts, empty until a pipeline fills them

CREATE TABLE IF NOT EXISTS analytics.film_dim (
    film_id    uuid PRIMARY KEY,
    title      text NOT NULL,
    rating     double precision,
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS analytics.film_rating_agg (
    film_id      uuid PRIMARY KEY,
    avg_rating   numeric,
    rating_count bigint NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT now()
);


-- The rows. One statement, so that a load is whole or absent; each table in the order of its ids, which
-- spares the primary key from random inserts.

DO $fill$
DECLARE
    star_films constant int := 24;
    films      constant int := greatest(
        star_films, coalesce(nullif(current_setting('vitrina_demo.films', true), ''), '2000')::int);
    ratings    constant int := greatest(
        0, coalesce(nullif(current_setting('vitrina_demo.ratings', true), ''), '50000')::int);
    people     constant int := greatest(100, films / 2);
    rated      constant int := films - films / 10;  -- the last tenth of the films has no ratings
    -- About 25 ratings a user; more users when there are too few films for that.
    users      constant int := least(ratings, greatest(1, ratings / 25, 4 * (ratings / rated + 1)));

    day_one    constant timestamptz := '2024-01-01 00:00:00+00';

    -- Every opening sorts after 'Star Wars', in C and in en_US: ORDER BY title begins with the stars.
    openings constant text[] := ARRAY[
        'Stolen', 'Storm', 'Strange', 'Summer', 'Sunken', 'Sunrise', 'Sweet', 'Swift', 'Tales of the',
        'The Last', 'The Long', 'The Lost', 'The Secret', 'The Silent', 'Thirteen', 'This', 'Thunder',
        'Tomorrow''s', 'Toward the', 'Twilight', 'Two', 'Under the', 'Unknown', 'Until the', 'Valley of the',
        'Velvet', 'Violet', 'Voyage to the', 'Waiting for the', 'Waking', 'Wandering', 'Whisper of the',
        'White', 'Wild', 'Winter', 'Winter''s', 'Without a', 'Yellow', 'Yesterday''s', 'Zero', 'Über',
        'Тайна:', 'Эхо:'];
    middles  constant text[] := ARRAY[
        '', '', '', '', 'Amber', 'Blue', 'Broken', 'Burning', 'Crystal', 'Dark', 'Distant', 'Electric',
        'Empty', 'Frozen', 'Glass', 'Golden', 'Hidden', 'Hollow', 'Iron', 'Northern', 'Paper', 'Quiet',
        'Scarlet', 'Silver', 'Wooden'];
    nouns    constant text[] := ARRAY[
        'Bridge', 'Café', 'Castle', 'Circus', 'City', 'Clock', 'Coast', 'Crown', 'Detective', 'Dream',
        'Empire', 'Engine', 'Fire', 'Forest', 'Garden', 'Guest', 'Harbour', 'Heart', 'Horizon', 'Hotel',
        'Island', 'Kingdom', 'Lantern', 'Letter', 'Library', 'Lighthouse', 'Machine', 'Mirror', 'Moon',
        'Mountain', 'Museum', 'Ocean', 'Orchard', 'Piano', 'Promise', 'Railway', 'River', 'Shadow', 'Station',
        'Stranger', 'Theatre', 'Train', 'Wedding', 'Window', 'Wolf', 'Señora', 'Fjørd', 'Naïveté'];
    endings  constant text[] := ARRAY[
        '', '', '', '', '', '', '', '', ' II', ' III', ': The Return', ': Part One', ': Part Two',
        ' Revisited', ' at Midnight', ' in Paris', ' of Kraków', ' – Director''s Cut'];
    -- What a transform such as normalise_title is for; never in front, which would sort first.
    smudges  constant text[] := ARRAY[
        ' ', '   ', E'\t', E'\u00a0', ' "Remastered"', ' «HD»', ' ''49', '  (2nd  ed.)'];

    heroes   constant text[] := ARRAY[
        'A retired detective', 'A young pianist', 'An unlikely crew', 'A lighthouse keeper',
        'A younger sister', 'A night-train conductor', 'A village teacher', 'The last cartographer',
        'A clockmaker''s daughter'];
    deeds    constant text[] := ARRAY[
        'uncovers an old secret', 'must choose between love and duty', 'goes looking for a lost city',
        'returns home after thirty years', 'is drawn into a game with no rules', 'learns to begin again'];
    places   constant text[] := ARRAY[
        'in a town that never sleeps', 'on the eve of a great storm', 'at the edge of the known world',
        'during the longest winter', 'far from the sea', 'in the year nobody remembers'];

    given    constant text[] := ARRAY[
        'Ada', 'Aleksei', 'Amara', 'Anna', 'Arjun', 'Björn', 'Carlos', 'Chloé', 'Daniel', 'Elena', 'Emeka',
        'Fatima', 'George', 'Grace', 'Hana', 'Henry', 'Ingrid', 'Ivan', 'Jack', 'James', 'Jia', 'José',
        'Julia', 'Kenji', 'Laura', 'Leila', 'Maria', 'Mark', 'Mei', 'Nadia', 'Nikolai', 'Nora', 'Olga',
        'Omar', 'Paul', 'Priya', 'Rosa', 'Samuel', 'Sofia', 'Thomas', 'Uma', 'Victor', 'Wanda', 'Yusuf', 'Zoë'];
    family   constant text[] := ARRAY[
        'Abbott', 'Adeyemi', 'Almeida', 'Andersen', 'Baker', 'Bianchi', 'Brown', 'Chen', 'Clarke', 'Costa',
        'D''Angelo', 'Dubois', 'Eriksson', 'Evans', 'Fischer', 'García', 'Haddad', 'Hughes', 'Ivanova',
        'Jensen', 'Kowalski', 'Kim', 'Kuznetsov', 'Lindqvist', 'Lopez', 'Martin', 'Meyer', 'Mori', 'Müller',
        'Nguyen', 'Novák', 'O''Brien', 'Okafor', 'Patel', 'Petrov', 'Rossi', 'Sato', 'Schmidt', 'Silva',
        'Smith', 'Tanaka', 'Walker', 'Wójcik', 'Yılmaz', 'Zhang'];

    opinions constant text[] := ARRAY[
        'Could not look away.', 'Too long by half an hour.', 'The ending is worth the wait.',
        'My favourite of the year.', 'I expected more.', 'Watched it twice in one weekend.',
        'Beautiful pictures, thin story.', 'Не оторваться!', 'Not for everyone, but certainly for me.',
        'The music alone deserves a prize.', 'I fell asleep.', 'Bring the whole family.'];
BEGIN
    IF EXISTS (SELECT FROM content.film_work) THEN
        RETURN;
    END IF;

    -- A number below `bound` from seven digits, at `place` (1 to 26), of a row's md5.
    CREATE OR REPLACE FUNCTION pg_temp.draw(hash text, place int, bound int) RETURNS int
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN ('x' || substr(hash, place, 7))::bit(28)::int % bound;

    CREATE OR REPLACE FUNCTION pg_temp.pick(hash text, place int, list text[]) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN list[1 + pg_temp.draw(hash, place, cardinality(list))];

    -- From 2024 to the autumn of 2025, and at most 45 days later. (In seconds: a day's length depends on the
    -- time zone.)
    CREATE OR REPLACE FUNCTION pg_temp.created(hash text) RETURNS timestamptz
        LANGUAGE sql STABLE PARALLEL SAFE
        RETURN timestamptz '2024-01-01 00:00:00+00'
            + pg_temp.draw(hash, 20, 680 * 24 * 3600) * interval '1 second';

    CREATE OR REPLACE FUNCTION pg_temp.modified(hash text) RETURNS timestamptz
        LANGUAGE sql STABLE PARALLEL SAFE
        RETURN pg_temp.created(hash) + pg_temp.draw(hash, 25, 45 * 24 * 3600) * interval '1 second';

    -- whole * (step / steps)^2, in integers: grows from 0 to whole, slowly at first.
    CREATE OR REPLACE FUNCTION pg_temp.part(whole bigint, step bigint, steps bigint) RETURNS bigint
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN whole * step / steps * step / steps;

    INSERT INTO auth.users (id, login, password_hash, created)
    SELECT md5('user' || n)::uuid, login, 'scrypt:' || md5('password' || n), day_one
    FROM unnest(ARRAY['admin', 'alice', 'bob', 'carol', 'dmitry']) WITH ORDINALITY AS account (login, n)
    ON CONFLICT DO NOTHING;

    INSERT INTO content.genre (id, name, description, created, modified)
    SELECT md5('genre' || n)::uuid, name,
           CASE WHEN n % 4 > 0 THEN 'Everything we file under ' || lower(name) || '.' END,
           day_one, day_one + n * interval '1 hour'
    FROM unnest(ARRAY[
        'Sci-Fi', 'Adventure', 'Action', 'Fantasy', 'Drama', 'Comedy', 'Thriller', 'Romance', 'Horror',
        'Mystery', 'Crime', 'Animation', 'Family', 'Documentary', 'Biography', 'History', 'War', 'Western',
        'Music', 'Musical', 'Sport', 'Film Noir', 'Short', 'Talk Show', 'News'
    ]) WITH ORDINALITY AS listed (name, n)
    ON CONFLICT DO NOTHING;

    INSERT INTO content.person (id, full_name, birth_date, created, modified)
    SELECT hash::uuid,
           pg_temp.pick(hash, 1, given) || ' ' || pg_temp.pick(hash, 6, family),
           CASE WHEN n % 6 > 0 THEN date '1930-01-01' + pg_temp.draw(hash, 11, 26000) END,
           pg_temp.created(hash), pg_temp.modified(hash)
    FROM (SELECT n, md5('person' || n) AS hash FROM generate_series(1, people) AS n OFFSET 0) AS numbered
    ORDER BY 1
    ON CONFLICT DO NOTHING;

    -- Films 1 to 24, whatever the size. The lower the number, the more ratings a film will have.
    INSERT INTO content.film_work
        (id, title, description, creation_date, rating, type, file_path, created, modified)
    SELECT md5('film' || n)::uuid, title, btrim(title) || ', first shown in ' || year || '.',
           make_date(year, 5, 4), stars, 'movie', 'films/star/' || n || '.mp4',
           day_one, day_one + n * interval '24 hours'
    FROM (VALUES
        (1,  'Star Wars: Episode IV - A New Hope', 1977, 8.6::double precision),
        (2,  'Star Wars: Episode V - The Empire Strikes Back', 1980, 8.7),
        (3,  'Star Wars: Episode VI - Return of the Jedi', 1983, 8.3),
        (4,  'Star Wars: Rogue One', 2016, 7.8),
        (5,  'Star Trek II: The Wrath of Khan', 1982, 7.7),
        (6,  'Star Trek', 2009, 7.9),
        (7,  'Star Wars: Episode III - Revenge of the Sith', 2005, 7.6),
        (8,  'Star Wars: Episode VII - The Force Awakens', 2015, 7.8),
        (9,  'Star Trek: First Contact', 1996, 7.6),
        (10, 'Star Wars: Episode I - The Phantom Menace', 1999, 6.5),
        (11, 'Star Wars: Episode II - Attack of the Clones', 2002, 6.6),
        (12, 'Star Wars: Episode VIII - The Last Jedi', 2017, 6.8),
        (13, 'Star Wars: Episode IX - The Rise of Skywalker', 2019, 6.4),
        (14, 'Star Wars: Solo', 2018, 6.9),
        (15, 'Star Trek Into Darkness', 2013, 7.7),
        (16, 'Star Trek Beyond', 2016, 7.0),
        (17, 'Star Trek VI: The Undiscovered Country', 1991, 7.2),
        (18, 'Star Trek IV: The Voyage Home', 1986, 7.3),
        (19, 'Star Trek III: The Search for Spock', 1984, 6.6),
        (20, ' Star Trek: The Motion Picture', 1979, 6.4),  -- the one title with a space in front
        (21, 'Star Trek: Generations ', 1994, 6.6),
        (22, 'Star Trek: Insurrection', 1998, 6.4),
        (23, 'Star Trek: Nemesis', 2002, 6.4),
        (24, 'Star Trek V: The  Final Frontier', 1989, 5.5)
    ) AS star (n, title, year, stars);

    INSERT INTO content.film_work
        (id, title, description, creation_date, rating, type, file_path, created, modified)
    SELECT hash::uuid,
           pg_temp.pick(hash, 1, openings) || ' '
               || coalesce(nullif(pg_temp.pick(hash, 3, middles), '') || ' ', '')
               || pg_temp.pick(hash, 5, nouns) || pg_temp.pick(hash, 7, endings)
               || CASE WHEN n % 16 = 0 THEN pg_temp.pick(hash, 9, smudges) ELSE '' END,
           CASE WHEN n % 5 > 0 THEN
               pg_temp.pick(hash, 10, heroes) || ' ' || pg_temp.pick(hash, 12, deeds) || ' '
                   || pg_temp.pick(hash, 14, places) || '.' END,
           CASE WHEN n % 23 > 0 THEN date '1950-01-01' + pg_temp.draw(hash, 16, 27500) END,
           CASE WHEN n % 11 > 0 THEN (25 + n * 37 % 68)::double precision / 10 END,
           CASE WHEN pg_temp.draw(hash, 17, 4) = 0 THEN 'tv_show' ELSE 'movie' END,
           CASE WHEN n % 9 > 0 THEN 'films/' || n || '.mp4' END,
           pg_temp.created(hash), pg_temp.modified(hash)
    FROM (SELECT n::bigint, md5('film' || n) AS hash
          FROM generate_series(star_films + 1, films) AS n OFFSET 0) AS numbered
    ORDER BY 1;

    -- None to three genres a film: a first one and equal steps from it around the 25, so never one twice.
    INSERT INTO content.genre_film_work (id, film_work_id, genre_id, created)
    SELECT md5('genre of film' || n || ' ' || k)::uuid, hash::uuid,
           md5('genre' || 1 + CASE WHEN n <= star_films THEN k ELSE (first + k * step) % 25 END)::uuid,
           pg_temp.created(hash)
    FROM (SELECT n, md5('film' || n) AS hash FROM generate_series(1, films) AS n OFFSET 0) AS numbered,
         LATERAL (SELECT pg_temp.draw(hash, 2, 25) AS first, 1 + pg_temp.draw(hash, 4, 12) AS step,
                         CASE WHEN n <= star_films THEN 2 + n % 2 ELSE pg_temp.draw(hash, 6, 4) END AS many
         ) AS chosen,
         generate_series(0, many - 1) AS k
    ORDER BY 1;

    -- None to four people a film, and six a star, chosen likewise: a director, a writer, then actors.
    INSERT INTO content.person_film_work (id, film_work_id, person_id, role, created)
    SELECT md5('person of film' || n || ' ' || k)::uuid, hash::uuid,
           md5('person' || 1 + (first + k * step) % people)::uuid,
           CASE k WHEN 0 THEN 'director' WHEN 1 THEN 'writer' ELSE 'actor' END,
           pg_temp.created(hash)
    FROM (SELECT n, md5('film' || n) AS hash FROM generate_series(1, films) AS n OFFSET 0) AS numbered,
         LATERAL (SELECT pg_temp.draw(hash, 8, people) AS first,
                         1 + pg_temp.draw(hash, 11, people / 8) AS step,
                         CASE WHEN n <= star_films THEN 6 ELSE pg_temp.draw(hash, 14, 5) END AS many
         ) AS chosen,
         generate_series(0, many - 1) AS k
    ORDER BY 1;

    -- Who rated what. User u's ratings are numbered from u + part(u) up to the next user's: at least one,
    -- and many for the last users. A user with `many` ratings cuts the films, most popular first, into
    -- `many` growing slices and rates one film of each: so no film twice.
    CREATE TEMP TABLE demo_rated AS
    WITH rater AS (
        SELECT md5('user' || u)::uuid AS user_id,
               u + pg_temp.part(ratings - users, u, users) AS first,
               u + 1 + pg_temp.part(ratings - users, u + 1, users) AS next
        FROM generate_series(0, users - 1) AS u
        WHERE NOT EXISTS (SELECT FROM ugc.ratings)  -- they outlive the films
    ), slice AS (
        SELECT n, md5('rating' || n) AS hash, user_id,
               n - first + pg_temp.part(rated - (next - first), n - first, next - first) AS low,
               n - first + 1 + pg_temp.part(rated - (next - first), n - first + 1, next - first) AS high
        FROM rater, generate_series(first, next - 1) AS n
        OFFSET 0  -- here and below: work a hash out once, not at each use
    ), chosen AS (
        SELECT n, hash, user_id,
               1 + low + pg_temp.part(high - low, pg_temp.draw(hash, 1, 65536), 65536) AS film
        FROM slice
        OFFSET 0
    )
    SELECT n, hash, user_id, md5('film' || film)::uuid AS film_id,
           CASE WHEN film <= star_films THEN 6 + film % 3 ELSE 3 + film * 37 % 68 / 10 END AS quality
    FROM chosen;

    INSERT INTO ugc.ratings (id, user_id, film_id, rating, created, modified)
    SELECT hash::uuid, user_id, film_id,
           least(10, greatest(0, quality + pg_temp.draw(hash, 6, 4) - pg_temp.draw(hash, 9, 4))),
           pg_temp.created(hash), pg_temp.modified(hash)
    FROM demo_rated
    ORDER BY 1;

    INSERT INTO ugc.reviews (id, user_id, film_id, body, likes, created, modified)
    SELECT md5('review' || n)::uuid, user_id, film_id,
           pg_temp.pick(hash, 3, opinions) || ' ' || pg_temp.pick(hash, 6, opinions),
           pg_temp.draw(hash, 15, 40),
           pg_temp.created(hash), pg_temp.modified(hash)
    FROM demo_rated
    WHERE n % 10 = 0
    ORDER BY 1;

    -- One view in sixteen is of any film at all, rated or not.
    INSERT INTO ugc.views (id, user_id, film_id, seconds_watched, viewed_at)
    SELECT md5('view' || n)::uuid, user_id,
           CASE WHEN n % 32 = 0 THEN md5('film' || 1 + pg_temp.draw(hash, 8, films))::uuid ELSE film_id END,
           pg_temp.draw(hash, 16, 7200), pg_temp.created(hash)
    FROM demo_rated
    WHERE n % 2 = 0
    ORDER BY 1;

    INSERT INTO ugc.likes (user_id, film_id, created)
    SELECT user_id, film_id, pg_temp.created(hash)
    FROM demo_rated
    WHERE n % 5 = 0;

    DROP TABLE demo_rated;
    DROP FUNCTION pg_temp.pick, pg_temp.modified, pg_temp.created, pg_temp.draw, pg_temp.part;
END
$fill$;


-- Indexes, and the constraints that need one, come after the rows: building an index at once is faster.

CREATE INDEX IF NOT EXISTS film_work_modified ON content.film_work (modified, id);
CREATE INDEX IF NOT EXISTS genre_modified ON content.genre (modified, id);
CREATE INDEX IF NOT EXISTS person_modified ON content.person (modified, id);
-- (film_work_id leads the unique constraints of both link tables.)
CREATE INDEX IF NOT EXISTS genre_film_work_genre ON content.genre_film_work (genre_id);
CREATE INDEX IF NOT EXISTS person_film_work_person ON content.person_film_work (person_id);

CREATE INDEX IF NOT EXISTS ratings_film ON ugc.ratings (film_id);
CREATE INDEX IF NOT EXISTS ratings_modified ON ugc.ratings (modified, id);
CREATE INDEX IF NOT EXISTS reviews_film ON ugc.reviews (film_id);
CREATE INDEX IF NOT EXISTS reviews_modified ON ugc.reviews (modified, id);
CREATE INDEX IF NOT EXISTS views_film ON ugc.views (film_id);
CREATE INDEX IF NOT EXISTS likes_film ON ugc.likes (film_id);

DO $constraints$
BEGIN
    IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'ugc.ratings'::regclass AND contype = 'u') THEN
        RETURN;
    END IF;

    ALTER TABLE content.genre_film_work
        ADD UNIQUE (film_work_id, genre_id),
        ADD FOREIGN KEY (film_work_id) REFERENCES content.film_work ON DELETE CASCADE,
        ADD FOREIGN KEY (genre_id) REFERENCES content.genre ON DELETE CASCADE;
    ALTER TABLE content.person_film_work
        ADD UNIQUE (film_work_id, person_id, role),
        ADD FOREIGN KEY (film_work_id) REFERENCES content.film_work ON DELETE CASCADE,
        ADD FOREIGN KEY (person_id) REFERENCES content.person ON DELETE CASCADE;
    ALTER TABLE ugc.ratings
        ADD UNIQUE (user_id, film_id);
END
$constraints$;
