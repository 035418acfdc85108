"""What a change of each table means for each shape of a live mart: as committed, and said in words that help."""

import os
from collections.abc import Iterator, Mapping

import pytest
from psycopg import sql

from tests.corpora import HERE
from tests.livefuzz import FIXTURES, Shape, shapes
from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.sources.postgres.reader import PostgresReader
from vitrina.sql.live import LiveView, Occurrence, guardable, paths, understand

GOLDEN = HERE / "live_verdicts.txt"
CARD = next(shape for shape in shapes() if shape.name == "film card")
LINK = "content.genre_film_work fg JOIN changed c ON c.id = fg.genre_id"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(FIXTURES.read_text())
        yield lab


@pytest.fixture(scope="module")
def reader(lab: Lab) -> Iterator[PostgresReader]:
    with lab.connections.read_warehouse() as reader:
        yield reader


def view(reader: PostgresReader, select: str, *key: str, overrides: Mapping[str, str] | None = None) -> LiveView:
    return understand(reader.conn, reader.settings, select, key or ("id",), overrides)


def told(shape: Shape, understood: LiveView) -> str:
    lines = [f"{shape.name} ({', '.join(shape.key)})", *map(line, understood.occurrences)]
    return "\n    ".join([*lines, *(f"warning: {finding}" for finding in understood.warnings)]) + "\n"


def line(occurrence: Occurrence) -> str:
    where = f"{occurrence.table} {occurrence.alias}"
    if occurrence.verdict == "everything":
        return f"{where}: everything: " + occurrence.reason.split(": ", 1)[1]
    reading = f", reading {', '.join(occurrence.reads)}" if occurrence.reads else ""
    in_row = ", in the row" if occurrence.key_in_row else ""
    return f"{where}: {', '.join(occurrence.key)} from {', '.join(occurrence.columns) or 'nothing'}{reading}{in_row}"


@pytest.fixture(scope="module")
def views(reader: PostgresReader) -> dict[Shape, LiveView]:
    return {shape: view(reader, shape.select, *shape.key) for shape in shapes()}


def everything_told(views: Mapping[Shape, LiveView]) -> str:
    found = [told(shape, understood) for shape, understood in views.items()]
    return "What a change of each table means (make live-verdicts writes this file anew).\n\n" + "\n".join(found)


def test_there_are_many_shapes_each_named_once() -> None:
    names = [shape.name for shape in shapes()]
    assert len(names) >= 150
    assert len(set(names)) == len(names)


def test_the_verdicts_are_the_committed_ones(views: Mapping[Shape, LiveView]) -> None:
    now = everything_told(views)
    if os.environ.get("VITRINA_REFRESH"):
        GOLDEN.write_text(now)
    assert now.splitlines() == GOLDEN.read_text().splitlines(), "if that is meant, run: make live-verdicts"


def test_without_substitution_the_verdicts_are_others(reader: PostgresReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "substitutes", lambda *_: ())
    assert "content.genre_film_work fg: film_id from film_work_id, reading content.film_work" in told(
        CARD, view(reader, CARD.select, *CARD.key)
    )


def test_every_impact_query_runs_as_the_reader(reader: PostgresReader, views: Mapping[Shape, LiveView]) -> None:
    for occurrence in (o for understood in views.values() for o in understood.occurrences if o.verdict == "keys"):
        rows = reader.fetch(occurrence.impact(images(occurrence.table)))
        assert all(tuple(row) == occurrence.key for row in rows)


def images(table: str) -> sql.Composed:
    return sql.SQL("(SELECT * FROM {})").format(sql.Identifier(*table.split(".")))


REFUSED = {
    "SELECT id, now() AS at FROM content.film_work": "reads the clock (now())",
    "SELECT id, age(created) AS age FROM content.film_work": "reads the clock (age())",
    "SELECT id FROM content.film_work WHERE created < CURRENT_DATE": "reads the clock",
    "SELECT id FROM content.film_work WHERE created < 'today'": "'today' as a date or time",
    "SELECT id FROM content.film_work WHERE created < 'now'::text::timestamptz": "'now' as a date or time",
    "SELECT id FROM content.film_work WHERE created < $x$ Tomorrow 04:00$x$": "'Tomorrow' as a date or time",
    "SELECT id FROM content.film_work WHERE created < timestamptz 'now'": "'now' as a date or time",
    "SELECT id FROM content.film_work WHERE creation_date = ANY ('{today}')": "'today' as a date or time",
    "SELECT id, random() AS r FROM content.film_work": "pg_catalog.random is VOLATILE",
    "SELECT id, content.threshold() AS t FROM content.film_work": "content.threshold is not IMMUTABLE",
    "WITH RECURSIVE n AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < 5) SELECT id FROM n": "recursive",
    "SELECT id FROM content.film_work TABLESAMPLE system (10) REPEATABLE (1)": "TABLESAMPLE",
    "SELECT id, ctid::text AS c FROM content.film_work": "system column",
    "SELECT f.id, c.films FROM content.film_work f, content.film_count c": "content.film_count is a materialised view",
    "SELECT id FROM content.parent": "content.parent has tables that inherit from it",
}


@pytest.fixture(scope="module")
def heirs(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.parent (id integer); CREATE TABLE content.heir () INHERITS (content.parent)")


@pytest.mark.parametrize("select", REFUSED)
@pytest.mark.usefixtures("heirs")
def test_what_cannot_be_live_is_refused_with_the_reason_and_the_remedy(reader: PostgresReader, select: str) -> None:
    with pytest.raises(ConfigError) as caught:
        view(reader, select)
    assert REFUSED[select] in caught.value.message
    assert "mode full" in caught.value.remedy


def test_words_of_the_clock_are_fine_as_texts(reader: PostgresReader) -> None:
    assert view(reader, "SELECT id, 'now' AS word FROM content.film_work WHERE title <> 'é today'").occurrences
    assert view(
        reader, "SELECT id FROM content.film_work WHERE title LIKE '%now%' AND created > '2024-01-01'"
    ).occurrences


def test_a_key_that_the_query_does_not_give_is_refused(reader: PostgresReader) -> None:
    with pytest.raises(ConfigError, match="gives no column nope"):
        view(reader, "SELECT id FROM content.film_work", "nope")


def test_too_many_branches_refresh_everything(reader: PostgresReader) -> None:
    pair = "(SELECT film_id AS id FROM ugc.ratings UNION ALL SELECT film_id FROM ugc.likes)"
    joins = " ".join(f"JOIN {pair} AS x{n} USING (id)" for n in range(7))
    (likes, ratings) = view(reader, f"SELECT id FROM {pair} AS x {joins}").occurrences
    assert (likes.verdict, ratings.verdict) == ("everything", "everything")
    assert "too many UNION branches" in likes.reason


def test_a_table_that_the_reader_may_not_read_is_no_part_of_a_path(lab: Lab, reader: PostgresReader) -> None:
    """The reader sees it through a view only: a change of a genre cannot be followed through the link."""
    lab.sql("REVOKE SELECT ON content.genre_film_work FROM vitrina_reader")
    try:
        found = {
            o.table: o.verdict for o in view(reader, "SELECT film_id AS id, name FROM content.film_genres").occurrences
        }
    finally:
        lab.sql("GRANT SELECT ON content.genre_film_work TO vitrina_reader")
    assert found == {"content.genre_film_work": "keys", "content.genre": "everything"}


def test_an_own_impact_query_takes_the_place_of_ours(reader: PostgresReader) -> None:
    own = {"content.genre": f"SELECT fg.film_work_id AS film_id FROM {LINK}"}
    found = view(reader, CARD.select, *CARD.key, overrides=own)
    (genre,) = [o for o in found.occurrences if o.table == "content.genre"]
    assert (genre.key, genre.columns) == (("film_id",), ("id",))
    touched = reader.fetch(genre.impact(images("content.genre")))
    linked = reader.fetch(sql.SQL("SELECT count(DISTINCT film_work_id) AS n FROM content.genre_film_work"))
    assert len(touched) == linked[0]["n"] > 0


def test_an_own_impact_query_can_be_guarded(reader: PostgresReader) -> None:
    text = guardable("content.genre", f"SELECT fg.film_work_id AS film_id FROM {LINK}")
    assert reader.vet(text, schemas=["content"]) == []
    with pytest.raises(ConfigError, match="auth"):
        reader.vet(guardable("content.genre", "TABLE auth.users"), schemas=["content"])


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT fg.film_work_id AS film_id FROM content.genre_film_work fg", "does not read the relation changed"),
        (f"SELECT fg.film_work_id FROM {LINK}", "gives film_work_id"),
        (f"SELECT fg.film_work_id AS film_id, fg.id FROM {LINK}", "gives id"),
        (f"SELECT FROM {LINK}", "gives no column"),
    ],
)
def test_an_own_impact_query_must_give_the_key(reader: PostgresReader, query: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        view(reader, CARD.select, *CARD.key, overrides={"content.genre": query})


def test_an_own_impact_query_is_for_a_table_of_the_query(reader: PostgresReader) -> None:
    with pytest.raises(ConfigError, match=r"impact names content.person, which the query does not read"):
        view(reader, CARD.select, *CARD.key, overrides={"content.person": "SELECT c.id AS film_id FROM changed c"})


WARNED = {
    "SELECT film_id AS id, array_agg(rating) AS r FROM ugc.ratings GROUP BY film_id": "array_agg has no ORDER BY",
    "SELECT type AS id, sum(rating) AS r FROM content.film_work GROUP BY type": "sum of floating-point numbers",
    "SELECT DISTINCT ON (film_id) film_id AS id, user_id FROM ugc.ratings ORDER BY film_id, rating": "tie in the ORDER",
    "SELECT id, row_number() OVER (PARTITION BY film_id ORDER BY rating) AS n FROM ugc.ratings": "tie in a",
    "SELECT id, sum(rating) OVER (ORDER BY film_id ROWS 1 PRECEDING) AS n FROM ugc.ratings": "tie in a",
    "SELECT id, ARRAY(SELECT user_id FROM ugc.likes l WHERE film_id = f.id LIMIT 1) FROM content.film_work f": "LIMIT",
}


@pytest.mark.parametrize("select", WARNED)
def test_what_may_flicker_is_said(reader: PostgresReader, select: str) -> None:
    assert any(WARNED[select] in finding.message for finding in view(reader, select).warnings)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT film_id AS id, array_agg(rating ORDER BY rating) AS r FROM ugc.ratings GROUP BY film_id",
        "SELECT DISTINCT ON (film_id) film_id AS id, rating FROM ugc.ratings ORDER BY film_id, rating, ratings.id",
        "SELECT film_id, row_number() OVER (PARTITION BY film_id ORDER BY rating, id) AS n, id FROM ugc.ratings",
        "SELECT film_id AS id, sum(rating) AS r FROM ugc.ratings GROUP BY film_id",
        "SELECT DISTINCT ON (film_id) film_id AS id, rating FROM ugc.ratings ORDER BY film_id, rating",
        "SELECT id, sum(rating) OVER (PARTITION BY film_id ORDER BY rating) AS n FROM ugc.ratings",
        "SELECT DISTINCT ON (f.id) f.id, r.id AS r FROM content.film_work f JOIN ugc.ratings r ON r.film_id = f.id"
        " ORDER BY f.id, r.id",
    ],
)
def test_what_does_not_flicker_is_not_warned_of(reader: PostgresReader, select: str) -> None:
    assert view(reader, select).warnings == ()


NUMBERED = "SELECT r.*, row_number() OVER (PARTITION BY film_id ORDER BY created) AS n"
LATEST = f"SELECT t.film_id, t.user_id FROM ({NUMBERED}"
DECIDED = {
    f"{LATEST} FROM ugc.ratings r) t WHERE n = 1": "keys",
    f"{LATEST} FROM ugc.ratings r) t WHERE n = 1 AND t.rating > 5": "everything",
    f"{LATEST} FROM ugc.ratings r) t WHERE n + t.rating = 3": "everything",
    f"{LATEST.replace('created', 'created, id')} FROM ugc.ratings r) t WHERE n = 1 AND t.rating > 5": "keys",
    f"WITH t AS ({NUMBERED} FROM ugc.ratings r) SELECT film_id, id FROM t WHERE n < 3": "keys",
    "SELECT DISTINCT ON (film_id) film_id, user_id FROM ugc.ratings ORDER BY film_id, created": "keys",
    "SELECT film_id, count(*) FROM ugc.ratings GROUP BY film_id HAVING (array_agg(rating))[1] > 5": "everything",
    "SELECT film_id, array_agg(rating) FROM ugc.ratings GROUP BY film_id": "keys",
}


@pytest.mark.parametrize("select", DECIDED)
def test_rows_that_tie_may_be_shown_and_may_not_decide(reader: PostgresReader, select: str) -> None:
    (found,) = view(reader, select, "film_id").occurrences
    assert found.verdict == DECIDED[select]
    assert found.verdict == "keys" or "end the ORDER BY with a unique column" in found.reason


@pytest.mark.parametrize("where", ["", "WHERE length(t.share::text) > 1"])
def test_which_of_equal_numbers_is_taken_decides_nothing(reader: PostgresReader, where: str) -> None:
    select = (
        f"SELECT t.film_id, t.{{}} AS k FROM (SELECT DISTINCT film_id, share FROM content.film_studio) AS t {where}"
    )
    as_text = view(reader, select.format("share::text"), "film_id", "k")
    assert [o.verdict for o in as_text.occurrences] == ["everything"]
    assert "1.00" in as_text.occurrences[0].reason
    as_number = view(reader, select.format("share"), "film_id", "k")
    assert [o.verdict for o in as_number.occurrences] == ["everything" if where else "keys"]


def test_reasons_speak_the_users_language(reader: PostgresReader) -> None:
    found = view(reader, "SELECT f.id, (SELECT max(threshold) FROM ugc.settings) AS t FROM content.film_work f")
    assert [o.reason for o in found.occurrences] == [
        "a change in content.film_work refreshes the rows that carry it",
        "a change in ugc.settings refreshes everything: the subquery it is in is not tied to id",
    ]
