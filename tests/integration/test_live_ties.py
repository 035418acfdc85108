"""A live mart whose query lets one row decide about others, by rows that tie."""

from collections.abc import Iterator

import pytest

from tests.living import Living, living
from tests.support import Lab

TABLES = ("content.a", "content.b")
TIED = """
    SELECT greatest(t.x, t.x) AS film_id, count(*) AS n
    FROM (SELECT DISTINCT ON (x) x AS id, y AS x, id AS y FROM content.a ORDER BY x, id) AS t
    WHERE NOT EXISTS (SELECT 1 FROM content.b WHERE b.x = t.x) GROUP BY 1 HAVING min(t.y) < 3"""


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    for table in TABLES:
        lab.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, x int, y int NOT NULL)")
        lab.sql(f"GRANT SELECT ON {table} TO vitrina_reader")
    with living(lab, "trigger", TABLES) as live:
        yield live


def test_rows_that_come_and_go_decide_about_others_and_the_mart_is_equal(live: Living) -> None:
    lab, pipeline = live.lab, live.add(TIED)
    lab.sql("INSERT INTO content.a SELECT n, n % 3, n % 4 FROM generate_series(1, 12) AS n")
    live.follow(pipeline)
    for change in (
        "DELETE FROM content.a WHERE id = 3",
        "INSERT INTO content.a VALUES (0, 1, 9)",
        "INSERT INTO content.b VALUES (1, 9, 0)",
        "UPDATE content.a SET x = 0 WHERE x = 2",
        "DELETE FROM content.b",
    ):
        lab.sql(change)
        live.follow(pipeline, allow_deletes=True)
        live.assert_equal(pipeline, note=change)
