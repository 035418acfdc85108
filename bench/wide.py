"""Rows that are wide, and keys that are none of the usual: first load, nothing and a tenth changed, by hand and by us.

The floors are those of the films: one INSERT … ON CONFLICT, and one MERGE that compares images.
"""

from dataclasses import dataclass, replace
from functools import partial

from bench.contest import Contest, Work
from bench.ground import Ground
from bench.report import Measured, Options, Report, Target
from bench.tables import ByHand, ByVitrina
from vitrina.domain.pipeline import Pipeline

FILMS, RATINGS, MOST = 2_000, 1_000, 1.3  # of the cinema, which nobody reads here; times the floor
DIGESTS = "(SELECT string_agg(md5((n * 1000 + i)::text), '') FROM generate_series(1, 310) i)"


@dataclass(frozen=True)
class Shape:
    """A table of the source, and how many rows of it there are at each scale."""

    name: str
    key: tuple[str, ...]
    select: str  # over `n`
    changed: str
    rows: dict[str, int]
    batch: int


def _many(rows: int) -> dict[str, int]:
    return {"tiny": rows // 100, "small": rows // 10, "full": rows}


SHAPES = (
    Shape(
        "columns_200",
        ("id",),
        "n AS id, " + ", ".join(f"n * {i} % 1000 AS c{i}" for i in range(1, 200)),
        "c199 = c199 + 1",
        _many(100_000),
        2_000,
    ),
    Shape(
        "json_10kb",
        ("id",),
        f"n AS id, jsonb_build_object('n', n, 'text', {DIGESTS}) AS doc",
        "doc = doc || '{\"changed\": true}'",
        _many(50_000),
        500,
    ),
    Shape(
        "text_key",
        ("code",),
        "'product ' || md5(n::text) AS code, n AS price, 'a name of the usual length' AS name",
        "price = price + 1",
        _many(500_000),
        10_000,
    ),
    Shape(
        "composite_key",
        ("region", "shop", "day", "item"),
        "'region ' || n % 7 AS region, n % 100 AS shop, date '2026-01-01' + n % 365 AS day, n AS item, n % 9 AS sold",
        "sold = sold + 1",
        _many(500_000),
        10_000,
    ),
)


def measure(options: Options) -> Report:
    """Each shape is a contest of its own; all are told in one table."""
    with Ground.prepared(FILMS, RATINGS) as ground:
        contests = [(shape, _contest(ground, shape, options.scale)) for shape in SHAPES]
        reports = [(shape, contest.report("", options.times, {}, [])) for shape, contest in contests]
    medians: Measured = {f"{s.name}, {name}": value for s, report in reports for name, value in report.medians.items()}
    return replace(
        reports[0][1],
        title="Wide rows, keys of text and of four columns",
        head=["rows", "work", "floor, s", "vitrina, s"],
        rows=[[f"{s.rows[options.scale]:,} {s.name}", *row] for s, report in reports for row in report.rows],
        targets=[_named(s, target) for s, report in reports for target in report.targets],
        medians=medians,
        rounds={f"{s.name}, {way}": n for s, report in reports for way, n in report.rounds.items()},
        compared=[replace(c, work=f"{s.name}, {c.work}") for s, report in reports for c in report.compared],
    )


def _named(shape: Shape, target: Target) -> Target:
    return replace(target, name=f"{shape.name}, {target.name}")


def _contest(ground: Ground, shape: Shape, scale: str) -> Contest:
    table, rows = f"content.{shape.name}", shape.rows[scale]
    ground.execute(
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} AS SELECT {shape.select} FROM generate_series(1, {rows}) AS n",
        f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(shape.key)})",
        f"GRANT SELECT ON {table} TO vitrina_reader",
    )
    vacuum = partial(ground.execute, f"VACUUM ANALYZE {table}")
    tenth = f"hashtextextended(ROW({', '.join(shape.key)})::text, 0) % 10 = 0"
    change = partial(ground.execute, f"UPDATE {table} SET {shape.changed} WHERE {tenth}", f"VACUUM ANALYZE {table}")
    works = [
        Work("first load", vacuum, floor="one INSERT … ON CONFLICT", most=MOST),
        Work("nothing changed", floor="one MERGE", most=MOST),
        Work("a tenth changed", change, floor="one MERGE", most=MOST),
    ]
    columns = [row["attname"] for row in _columns(ground, table)]
    names = ", ".join(columns)
    return Contest(
        ground,
        ground.db,
        f"SELECT {names} FROM {table}",
        works,
        [_floor(ground, shape, columns), _ours(ground, shape, names)],
    )


COLUMNS = """
    SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def _columns(ground: Ground, table: str) -> list[dict[str, str]]:
    return ground.db.execute(COLUMNS.encode(), [table]).fetchall()


def _floor(ground: Ground, shape: Shape, columns: list[str]) -> ByHand:
    select, key, names = f"SELECT * FROM content.{shape.name}", ", ".join(shape.key), ", ".join(columns)
    others = [name for name in columns if name not in shape.key]
    ours, theirs = (", ".join(f"{alias}.{name}" for name in columns) for alias in "ms")
    insert = f"""
        INSERT INTO analytics.by_hand {select}
        ON CONFLICT ({key}) DO UPDATE SET {", ".join(f"{name} = EXCLUDED.{name}" for name in others)}
    """
    merge = f"""
        MERGE INTO analytics.by_hand m USING ({select}) s ON {" AND ".join(f"m.{k} = s.{k}" for k in shape.key)}
        WHEN MATCHED AND record_image_ne(ROW({ours}), ROW({theirs})) THEN
            UPDATE SET {", ".join(f"{name} = s.{name}" for name in others)}
        WHEN NOT MATCHED BY TARGET THEN INSERT ({names}) VALUES ({theirs})
        WHEN NOT MATCHED BY SOURCE THEN DELETE
    """
    empty = (
        f"CREATE TABLE analytics.by_hand AS {select} LIMIT 0",
        f"ALTER TABLE analytics.by_hand ADD PRIMARY KEY ({key})",
    )
    merged = partial(ground.execute, merge)
    works = {"first load": partial(ground.execute, insert), "nothing changed": merged, "a tenth changed": merged}
    return ByHand(ground, names, empty, works)


def _ours(ground: Ground, shape: Shape, names: str) -> ByVitrina:
    pipeline = Pipeline(
        name=shape.name,
        source_query=f"SELECT {names} FROM content.{shape.name}",
        target_table=f"analytics.{shape.name}",
        key=shape.key,
        batch_size=shape.batch,
    )
    return ByVitrina(ground, names, pipeline)
