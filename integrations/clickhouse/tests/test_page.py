"""docs/clickhouse.md is true: its pipeline is kept, its query gives rows; and what is said before a run."""

import re
from pathlib import Path

import yaml

from tests.clickhouse import ClickMart
from tests.living import living
from tests.support import Lab
from vitrina.cli.checking_clickhouse import check_clickhouse
from vitrina.testing.marts import as_rows, assert_equal, went

PAGE = (Path(__file__).parents[3] / "docs" / "clickhouse.md").read_text()
TITLES = """
    SELECT f.id AS film_id, f.title, (SELECT count(*) FROM ugc.ratings r WHERE r.film_id = f.id) AS n
    FROM content.film_work f"""


def test_the_pages_pipeline_is_kept_and_its_query_gives_rows(click_mart: ClickMart) -> None:
    [pipeline] = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)
    [query] = re.findall(r"```sql\n(.+?)```", PAGE, re.DOTALL)
    config = yaml.safe_load(pipeline) | {"target_table": click_mart.target}
    stored = click_mart.lab.add(**config)
    went(click_mart, stored)
    assert_equal(click_mart, stored)
    genres = click_mart.read(query.replace("cinema.film_card", click_mart.name))
    films = "SELECT name, count(*) FROM content.genre g JOIN content.genre_film_work f ON f.genre_id = g.id GROUP BY 1"
    assert {row["genre"]: row["films"] for row in genres} == dict(click_mart.lab.sql(films))


def test_a_live_mart_follows(lab: Lab, click_mart: ClickMart) -> None:
    with living(lab, "trigger") as world:
        pipeline = world.add(TITLES, target_table=click_mart.target)
        world.follow(pipeline)
        for change in (
            "UPDATE content.film_work SET title = title || '!' WHERE id IN (SELECT id FROM content.film_work LIMIT 5)",
            "DELETE FROM ugc.ratings WHERE film_id IN (SELECT id FROM content.film_work LIMIT 3)",
        ):
            world.captured.run(change)
            world.follow(pipeline)
            assert click_mart.rows(["film_id"]) == as_rows(lab, TITLES, ["film_id"])


def test_the_doctor_looks_at_it(click_mart: ClickMart) -> None:
    settings = click_mart.lab.connections.settings
    server, allowed = check_clickhouse(settings)
    assert (server.level, allowed.level) == ("ok", "ok")
    assert [*check_clickhouse(settings.model_copy(update={"clickhouse_url": None}))] == []
