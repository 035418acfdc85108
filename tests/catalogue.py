"""A small catalogue of everything that a result depends on besides rows, and what may become of each."""

from dataclasses import dataclass

SETUP = """
CREATE TYPE content.mood AS ENUM ('calm', 'wild');
CREATE TYPE content.pair AS (low integer, high integer);
CREATE DOMAIN content.small AS integer CHECK (VALUE < 100);
CREATE TABLE content.album (id integer PRIMARY KEY, name text NOT NULL, hidden boolean NOT NULL DEFAULT false);
CREATE TABLE content.song (
    id integer PRIMARY KEY, title text NOT NULL, mood content.mood NOT NULL, album integer NOT NULL, span content.pair,
    price content.small
);
CREATE TABLE content.banned (song integer NOT NULL UNIQUE);
INSERT INTO content.album SELECT n, 'album ' || n, n = 3 FROM generate_series(1, 3) AS n;
INSERT INTO content.song
SELECT n, 'song ' || n, ('{calm,wild}'::content.mood[])[1 + n % 2], 1 + n % 3,
       format('(%s,%s)', n, n + 1)::content.pair, n
FROM generate_series(1, 9) AS n;
INSERT INTO content.banned VALUES (2), (5);
CREATE VIEW content.shown AS SELECT id, title FROM content.song WHERE id > 3;
CREATE VIEW content.outer_shown AS SELECT id, title FROM content.shown;
CREATE FUNCTION content.shout(t text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT t || '!' $$;
CREATE FUNCTION content.inner_shout(t text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT t || '?' $$;
CREATE FUNCTION content.atomic(t text) RETURNS text IMMUTABLE BEGIN ATOMIC SELECT content.inner_shout(t); END;
CREATE FUNCTION content.twice(i integer) RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT i * 2 $$;
CREATE OPERATOR content.<+> (FUNCTION = content.twice, RIGHTARG = integer);
CREATE FUNCTION content.grow(s integer, i integer) RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT s + i $$;
CREATE AGGREGATE content.total(integer) (SFUNC = content.grow, STYPE = integer, INITCOND = '0');
CREATE TEXT SEARCH CONFIGURATION content.plain (COPY = pg_catalog.simple);
ALTER TABLE content.album ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON content.album FOR SELECT USING (true);
CREATE VIEW content.albums AS SELECT id, name FROM content.album;
GRANT SELECT ON ALL TABLES IN SCHEMA content TO vitrina_reader;
"""
NAMES = ("content.album", "content.song", "content.banned")
REPLACE = "CREATE OR REPLACE FUNCTION content.{} LANGUAGE sql IMMUTABLE AS $$ SELECT {} $$"
OURS = ["content.shout", "content.atomic", "content.inner_shout", "content.twice", "content.total", "content.grow"]


@dataclass(frozen=True)
class Case:
    """A query, what is done to the catalogue, and what the run says then."""

    select: str
    ddl: str
    said: str


CASES = {
    "a view": Case(
        "SELECT id, title FROM content.shown",
        "CREATE OR REPLACE VIEW content.shown AS SELECT id, title FROM content.song WHERE id > 5",
        "the view content.shown was replaced",
    ),
    "a function": Case(
        "SELECT id, content.shout(title) AS title FROM content.song",
        REPLACE.format("shout(t text) RETURNS text", "t || '!!'"),
        "the function content.shout was replaced",
    ),
    "a label of a text": Case(
        "SELECT id, mood::text AS mood FROM content.song",
        "ALTER TYPE content.mood RENAME VALUE 'calm' TO 'quiet'",
        "the label 'calm' of the enum content.mood was renamed to 'quiet'",
    ),
    "a label in a row": Case(
        "SELECT id, to_jsonb(s) AS doc FROM content.song s",
        "ALTER TYPE content.mood RENAME VALUE 'wild' TO 'loud'",
        "the label 'wild' of the enum content.mood was renamed to 'loud'",
    ),
    "a policy changed": Case(
        "SELECT id, name FROM content.album",
        "ALTER POLICY seen ON content.album USING (NOT hidden)",
        "the policy seen of content.album was changed",
    ),
    "row-level security enabled": Case(
        "SELECT id, title FROM content.song",
        "CREATE POLICY few ON content.song USING (id < 5); ALTER TABLE content.song ENABLE ROW LEVEL SECURITY",
        "row-level security of content.song was enabled",
    ),
}

# A query that depends on everything there is.
ALL = """
SELECT s.id, content.shout(s.title) AS shouted, content.atomic(s.title) AS atomic, shout(s.title::varchar) AS meant,
       OPERATOR(content.<+>) s.id AS twice, s.mood, s.mood::text AS mood_text, enum_range(s.mood)::text AS moods,
       to_jsonb(s) AS doc, a.name, o.title, v.name AS viewed,
       to_tsvector('content.plain', 'the ' || s.title)::text AS words,
       (SELECT content.total(b.id) FROM content.song b WHERE b.album = s.album) AS total
FROM content.song s
LEFT JOIN content.album a ON a.id = s.album
LEFT JOIN content.outer_shown o ON o.id = s.id
LEFT JOIN content.albums v ON v.id = s.album
"""
# What becomes of it, one after the other, and what is said.
STEPS = (
    (CASES["a view"].ddl, CASES["a view"].said),
    (CASES["a function"].ddl, CASES["a function"].said),
    ("CREATE OR REPLACE FUNCTION content.shout(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE"
     " AS $$ BEGIN RETURN ''; END $$", "the function content.shout was replaced"),
    ("ALTER FUNCTION content.shout(text) RENAME TO cry;" + REPLACE.format("shout(t text) RETURNS text", "'s' || t"),
     "the function content.shout was renamed to content.cry"),
    (REPLACE.format("inner_shout(t text) RETURNS text", "'x'"), "the function content.inner_shout was replaced"),
    (REPLACE.format("twice(i integer) RETURNS integer", "i * 3"), "the function content.twice was replaced"),
    (REPLACE.format("grow(s integer, i integer) RETURNS integer", "s + 2 * i"),
     "the function content.grow was replaced"),
    (CASES["a label of a text"].ddl, CASES["a label of a text"].said),
    ("ALTER TYPE content.mood ADD VALUE 'grim' BEFORE 'wild'", "the label 'grim' of the enum content.mood is new"),
    ("ALTER TABLE content.song RENAME price TO cost", "column price of content.song was renamed to cost"),
    ("ALTER TYPE content.pair RENAME ATTRIBUTE low TO least", "column low of content.pair was renamed to least"),
    ("CREATE POLICY narrow ON content.album AS RESTRICTIVE FOR SELECT USING (NOT hidden)",
     "the policy narrow of content.album is new"),
    ("ALTER POLICY seen ON content.album USING (id <> 1)", "the policy seen of content.album was changed"),
    ("ALTER VIEW content.albums SET (security_invoker = on)", "the view content.albums was replaced"),
    ("ALTER TABLE content.album DISABLE ROW LEVEL SECURITY", "row-level security of content.album was disabled"),
    ("ALTER VIEW content.outer_shown RENAME TO was_shown; CREATE VIEW content.outer_shown AS SELECT id, upper(title)"
     " AS title FROM content.shown; GRANT SELECT ON content.outer_shown TO vitrina_reader",
     "the view content.outer_shown was renamed to content.was_shown"),
    ("ALTER TEXT SEARCH CONFIGURATION content.plain ALTER MAPPING FOR asciiword WITH english_stem",
     "mappings of text search were changed"),
    ("CREATE FUNCTION public.shout(t varchar) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'better' $$",
     "the query means something else now"),
    (CASES["row-level security enabled"].ddl, CASES["row-level security enabled"].said),
)  # fmt: skip
