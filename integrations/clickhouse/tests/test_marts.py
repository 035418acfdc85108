"""What is ClickHouse's own: types, the fence, tombstones, servers that go away."""

import re
from typing import Any

import pytest

from tests.clickhouse import ClickMart
from vitrina.domain.pipeline import Pipeline
from vitrina.sinks.clickhouse.store import ClickHouseStore
from vitrina.sinks.clickhouse.tables import ID, VERSION, Names
from vitrina.stores import Batch, Superseded
from vitrina.testing.marts import LATE, assert_equal, failed, items, went

EVERY = {
    "id": "uuid",
    "whole": "bigint",
    "small": "smallint",
    "price": "numeric(20,5)",
    "long": "numeric(76,10)",
    "none": "numeric(5,0)",
    "Double": "double precision",
    "single": "real",
    "yes": "boolean",
    "day": "date",
    "at": "timestamptz",
    "local": "timestamp",
    "word": "text",
    "WORD": "varchar(40)",
    "padded": "char(5)",
    "tags": "text[]",
    "numbers": "integer[]",
    "prices": "numeric(9,2)[]",
    "doubles": "double precision[]",
    "doc": "jsonb",
    "raw": "json",
    "docs": "jsonb[]",
    "span": "int4range",
    "pause": "interval",
    "host": "inet",
}
WORDS = ["", "a", 'é\t\u2028"\\/', "'quoted'", "null", "line\nline", "\x01\x1f\x7f", "日本", "}{][", "NaN"]
FILL = """
    INSERT INTO content.every SELECT gen_random_uuid(),
        (random() * 1e18)::bigint - 500000000000000000, (random() * 60000 - 30000)::smallint,
        (random() * 1e14)::numeric(20,5), (random()::numeric * 10::numeric ^ mod(n, 60))::numeric(76,10),
        mod(n, 100) - 50,
        (random() - 0.5) * 10 ^ (random() * 600 - 300), ((random() - 0.5) * 10 ^ (random() * 60 - 30))::real,
        mod(n, 2) = 0, date '1900-01-01' + (random() * 146096)::int,
        timestamptz '1900-01-01 00:00:00+00' + random() * interval '399 years',
        timestamp '1900-01-01' + random() * interval '399 years',
        w, left(w, 40), left(w, 5), ARRAY[w, NULL, 'x'], ARRAY[n, NULL, -n], ARRAY[n / 3.0, NULL]::numeric(9,2)[],
        ARRAY[random() * 10 ^ (mod(n, 40)), 'NaN', 'Infinity', NULL], jsonb_build_object('w', w, 'n', n / 7.0),
        ('{{"w" :  ' || to_json(w) || ', "w": null}}')::json, ARRAY['null', to_jsonb(w)], int4range(n, n + 5),
        n * interval '1 hour 7 seconds', '10.0.0.0'::inet + n
    FROM generate_series(1, {}) n,
         LATERAL (SELECT (%s::text[])[1 + mod(n, array_length(%s::text[], 1))] AS w) AS words"""
EDGES = """
    INSERT INTO content.every (id, "Double", single, day, at, local, price, tags, numbers, prices, doubles, docs)
    SELECT gen_random_uuid(), d, d::real, t::date, t, t AT TIME ZONE 'UTC', p, '{}', '{}', '{}', '{}', '{}'
    FROM unnest(ARRAY['NaN', 'Infinity', '-Infinity', -0.0, 1, 1e15, 1e14, 1e-4, 1e-5,
                      36985894224507104, 1.262177448353619e-29, 1.5474250491067253e26]::float8[],
                ARRAY['1900-01-01 00:00:00+00', '2299-12-31 23:59:59.999999+00', '1969-12-31 23:59:59.9+00', NULL, NULL,
                      '2000-01-01 00:00:00.1+00', NULL, NULL, NULL]::timestamptz[],
                ARRAY[-0.00001, 999999999999999.99999, 0, NULL, NULL, NULL, NULL, NULL, NULL]::numeric[]
    ) AS e (d, t, p)"""


def every(mart: ClickMart, rows: int = 200) -> Pipeline:
    """Table content.every, and a pipeline over it."""
    lab = mart.lab
    columns = ", ".join(f'"{name}" {type_}' for name, type_ in EVERY.items())
    lab.sql(f"CREATE TABLE content.every ({columns})")
    lab.sql("GRANT SELECT ON content.every TO vitrina_reader")
    lab.sql(FILL.format(rows), WORDS, WORDS)
    lab.sql(EDGES)
    names = ", ".join(f'"{name}"' for name in EVERY)
    return lab.add(source_query=f"SELECT {names} FROM content.every", key=["id"], target_table=mart.target)


def test_every_value_is_kept_exactly_and_read_back_as_it_was_sent(click_mart: ClickMart) -> None:
    pipeline = every(click_mart)
    assert went(click_mart, pipeline) == (212, 0)
    report = click_mart.lab.reconcile(pipeline)
    assert report["equal"], report["samples"]
    assert went(click_mart, pipeline, repair=True) == (0, 0)
    texts = 'SELECT whole, price, "Double", at::text, word, "WORD", tags, doc::text FROM content.every WHERE id = %s'
    for row in click_mart.read(f"SELECT * FROM {click_mart.name} WHERE isNotNull(whole) LIMIT 20"):
        [(whole, price, double, at, word, upper, tags, doc)] = click_mart.lab.sql(texts, row["id"])
        assert (row["whole"], row["price"], float(row["Double"])) == (whole, str(price), double)
        assert (row["word"], row["WORD"], row["tags"], row["doc"]) == (word, upper, tags, doc)
        assert row["at"].replace("T", " ").removesuffix(":00") == at


def test_the_columns_of_the_view_have_the_types_of_the_query(click_mart: ClickMart) -> None:
    pipeline = every(click_mart, 1)
    went(click_mart, pipeline)
    described = dict(row[:2] for row in click_mart.client.rows(f"DESCRIBE TABLE {click_mart.name}"))
    assert [*described] == [*EVERY]
    assert (described["id"], described["price"], described["Double"]) == (
        "UUID",
        "Nullable(Decimal(20, 5))",
        "Nullable(Float64)",
    )
    assert described["prices"] == "Array(Nullable(Decimal(9, 2)))"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", "'infinity'::timestamptz"),
        ("at", "'1899-12-31 23:59:59.999999+00'::timestamptz"),
        ("local", "'2300-01-01'::timestamp"),
        ("day", "'0001-01-01 BC'::date"),
        ("day", "'-infinity'::date"),
        ("price", "'NaN'::numeric(20,5)"),
        ("prices", "ARRAY['NaN']::numeric(9,2)[]"),
        ("tags", "NULL"),
        ("tags", "ARRAY[['a', 'b']]"),
        ("numbers", "ARRAY[[1], [2]]"),
        ("docs", "ARRAY[['1'::jsonb]]"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused_with_its_row_and_column(
    click_mart: ClickMart, column: str, value: str
) -> None:
    pipeline = every(click_mart, 3)
    went(click_mart, pipeline)
    before = click_mart.rows(["id"])
    [id_] = {row["id"] for row in before.values() if row["whole"] is not None and row["small"] is not None} & {
        str(found[0]) for found in click_mart.lab.sql("SELECT id FROM content.every WHERE none = -49")
    }
    click_mart.lab.sql(f'UPDATE content.every SET "{column}" = {value} WHERE id = %s', id_)
    said = failed(click_mart, pipeline)
    assert f"row {id_}: ClickHouse cannot keep what was sent" in said
    assert f"key {column}" in said
    assert "cast the column to text" in said
    assert click_mart.rows(["id"]) == before


# ── the fence ────────────────────────────────────────────────────────────────────────────────────────────────────────


def late_write(mart: ClickMart) -> None:
    """What a lost runner sends when another has taken over: of a version above all, as a clock that was ahead gives."""
    with mart.opened() as store:
        [name] = store.served()
        store.take(name, LATE)
    with mart.opened() as store:
        line = b'"1"\n{"id":1,"title":"late","price":1.00,"at":"2026-01-01T00:00:00+00:00"}\n'
        store.write(name, Batch(LATE, line, 1), LATE - 1)


def test_a_zombie_finds_no_table(click_mart: ClickMart) -> None:
    went(click_mart, items(click_mart))
    before = click_mart.rows(["id"])
    with pytest.raises(Superseded):
        late_write(click_mart)
    assert click_mart.rows(["id"]) == before


def test_without_the_fence_it_gets_through(click_mart: ClickMart, monkeypatch: pytest.MonkeyPatch) -> None:
    went(click_mart, items(click_mart))
    insert = Names.insert
    monkeypatch.setattr(Names, "insert", lambda names, name, epoch: insert(names, name, LATE))
    late_write(click_mart)
    assert click_mart.rows(["id"])["1"]["title"] == "late"


def test_who_stood_still_before_the_switch_shows_nothing(
    click_mart: ClickMart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken over between its look and its switch: the view that it had made ready is gone."""
    pipeline = items(click_mart)
    went(click_mart, pipeline)
    with click_mart.opened() as store, click_mart.opened() as successor:
        [name] = store.served()
        before = click_mart.client.rows(f"SHOW CREATE TABLE {click_mart.name}")
        store.take(name, 50)
        switch = ClickHouseStore._switch

        def wait(slow: Any, stage: str) -> None:
            successor.take(name, 51)
            switch(slow, stage)

        monkeypatch.setattr(ClickHouseStore, "_switch", wait)
        with pytest.raises(Superseded):
            store.serve(name, 50)
    assert click_mart.client.rows(f"SHOW CREATE TABLE {click_mart.name}") == before


def test_a_row_that_was_deleted_does_not_rise_from_an_older_batch(click_mart: ClickMart) -> None:
    """Not after parts were merged either: a tombstone stays."""
    pipeline = items(click_mart)
    went(click_mart, pipeline)
    table = click_mart.table_of_rows()
    [[version]] = click_mart.client.rows(f"SELECT {VERSION} FROM {table} WHERE {ID} = '2'")
    click_mart.lab.sql("DELETE FROM content.item WHERE id = 2")
    assert went(click_mart, pipeline) == (0, 1)
    table = click_mart.table_of_rows()
    click_mart.client.run(f"OPTIMIZE TABLE {table} FINAL")
    names = f"id, title, {ID}, {VERSION}"
    click_mart.client.run(f"INSERT INTO {table} ({names}) VALUES (2, 'risen', '2', {version})")
    assert_equal(click_mart, pipeline)
    click_mart.client.run(f"OPTIMIZE TABLE {table} FINAL")
    assert_equal(click_mart, pipeline)


def test_what_readers_do_not_see_is_removed_and_nothing_else(click_mart: ClickMart) -> None:
    """After a rebuild and its grace: the view, one set, its rows."""
    click_mart.lab.configure(es_grace_seconds=0)
    pipeline = items(click_mart)
    went(click_mart, pipeline)
    click_mart.client.run(f"CREATE TABLE {click_mart.name}_other (x UInt8) ENGINE = Log")
    went(click_mart, pipeline, rebuild=True)
    went(click_mart, pipeline)
    left = sorted(re.sub(r"-e\d+$", "-e", name) for name in click_mart.tables())
    assert left == ["mart", "mart-000002", "mart-000002-e", "mart_other"]


def test_a_table_of_somebody_else_is_refused(click_mart: ClickMart) -> None:
    click_mart.client.run(f"CREATE TABLE {click_mart.name} (x UInt8) ENGINE = Log")
    pipeline = items(click_mart)
    assert "that this pipeline did not make" in failed(click_mart, pipeline)
    click_mart.lab.sql("UPDATE etl.etl_pipelines SET adopt = true")
    assert "is a table of somebody else's — rename or drop it: RENAME TABLE" in failed(click_mart, pipeline)
    click_mart.client.run(f"RENAME TABLE {click_mart.name} TO {click_mart.name}_before")
    went(click_mart, pipeline)
    assert_equal(click_mart, pipeline)


def test_a_changed_type_is_drift_and_a_rebuild_makes_it_so(click_mart: ClickMart) -> None:
    pipeline = items(click_mart)
    went(click_mart, pipeline)
    click_mart.lab.sql("ALTER TABLE content.item ALTER price TYPE numeric(12, 4)")
    assert "drift" in failed(click_mart, pipeline)
    went(click_mart, pipeline, rebuild=True)
    assert_equal(click_mart, pipeline)
    described = dict(row[:2] for row in click_mart.client.rows(f"DESCRIBE TABLE {click_mart.name}"))
    assert described["price"] == "Nullable(Decimal(12, 4))"
