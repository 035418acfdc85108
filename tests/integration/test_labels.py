"""Labels in the meta-store: kept, found, and no reason to run anything again."""

import pytest

from tests.living import living
from tests.support import Lab
from vitrina.meta.repos.editing import EditingRepo

FILMS = {"source_query": "SELECT id AS film_id, title FROM content.film_work", "key": ["film_id"]}
VOTES = "SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id"


def test_configurations_from_before_say_nothing_of_labels_and_a_new_one_is_a_version(lab: Lab) -> None:
    pipeline = lab.add(**FILMS)
    assert lab.value("SELECT config ? 'labels' FROM etl.etl_config_versions") is False
    with lab.db.transaction():
        EditingRepo(lab.db).replace(pipeline.model_copy(update={"labels": ("team:search",)}))
    assert lab.sql("SELECT version, config -> 'labels' FROM etl.etl_config_versions ORDER BY 1") == [
        (1, None),
        (2, ["team:search"]),
    ]


def test_a_mart_that_is_followed_goes_on_under_another_label(lab: Lab) -> None:
    with living(lab, "wal") as live:
        pipeline = live.add(VOTES)
        live.follow(pipeline)
        lab.sql("UPDATE etl.etl_pipelines SET labels = '{tier:1}'")
        assert lab.sql("SELECT status, version FROM etl.etl_pipelines") == [("FOLLOWING", 2)]


@pytest.mark.parametrize(
    ("wanted", "are_there"),
    [
        ([], True),
        (["team"], True),
        (["team:search"], True),
        (["team:sea"], False),
        (["team", "pii"], True),
        (["team", "tier"], False),
        (["te"], False),
    ],
)
def test_a_name_alone_means_any_value_of_it(lab: Lab, wanted: list[str], are_there: bool) -> None:
    assert lab.value("SELECT etl.has_labels('{team:search,pii}', %s::text[])", wanted) is are_there


@pytest.mark.parametrize("wrong", ["{a b}", '{"a,b"}', "{:a}", "{a:b:c}", "{NULL}", '{""}'])
def test_a_row_written_by_hand_has_good_labels_or_is_refused(lab: Lab, wrong: str) -> None:
    lab.add(**FILMS)
    with pytest.raises(Exception, match="labels"):
        lab.sql("UPDATE etl.etl_pipelines SET labels = %s::text[]", wrong)
