"""Which keys are unique by the form of their query; a wrong yes would let duplicates through unseen."""

import pytest

from vitrina.sql.unique import is_unique_by_grouping

UNIQUE = [
    "SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id",
    "SELECT r.film_id, avg(r.rating) AS a FROM ugc.ratings r GROUP BY r.film_id",
    "SELECT f.id AS film_id, array_agg(DISTINCT g.name) AS g FROM content.film_work f, content.genre g GROUP BY f.id",
    "SELECT film_id, count(*) FILTER (WHERE rating > 5) AS n FROM ugc.ratings GROUP BY film_id HAVING count(*) > 1",
    "SELECT film_id, max(rating) AS top FROM ugc.ratings GROUP BY film_id ORDER BY max(rating) DESC LIMIT 10",
    "WITH r AS (SELECT * FROM ugc.ratings) SELECT film_id, sum(rating) AS s FROM r GROUP BY film_id",
    "SELECT film_id, rank() OVER (ORDER BY count(*)) AS place FROM ugc.ratings GROUP BY film_id",
    "SELECT DISTINCT film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, mode() WITHIN GROUP (ORDER BY rating) AS m FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, round(avg(rating), 2) AS a FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, coalesce(max(rating), 0)::int AS a FROM ugc.ratings GROUP BY film_id",
]
NOT_UNIQUE = [
    "SELECT film_id, rating FROM ugc.ratings",
    "SELECT film_id, user_id, count(*) AS n FROM ugc.ratings GROUP BY film_id, user_id",
    "SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id, user_id",
    "SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY ROLLUP (film_id)",
    "SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY CUBE (film_id)",
    "SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY GROUPING SETS ((film_id), (film_id), ())",
    "SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id, ROLLUP (user_id)",
    "SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY DISTINCT film_id, user_id",
    "SELECT lower(title) AS film_id, count(*) AS n FROM content.film_work GROUP BY title",
    "SELECT lower(film_id) AS film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id",
    "SELECT user_id AS film_id, count(*) AS n FROM ugc.ratings GROUP BY film_id, user_id",
    "SELECT a AS film_id, film_id AS b FROM ugc.ratings GROUP BY film_id, a",
    "SELECT a.film_id, count(*) AS n FROM ugc.r a JOIN ugc.r b USING (user_id) GROUP BY b.film_id, a.film_id",
    "SELECT film_id / 2 AS film_id FROM ugc.ratings GROUP BY film_id",
    "SELECT 1 AS film_id, count(*) AS n FROM ugc.ratings GROUP BY user_id",
    "SELECT max(film_id) AS film_id FROM ugc.ratings GROUP BY user_id",
    "(SELECT film_id FROM ugc.a GROUP BY film_id) UNION ALL (SELECT film_id FROM ugc.b GROUP BY film_id)",
    "SELECT film_id FROM ugc.a UNION ALL SELECT film_id FROM ugc.b GROUP BY film_id",
    "SELECT film_id FROM ugc.a GROUP BY film_id UNION ALL SELECT film_id FROM ugc.b",
    "SELECT DISTINCT film_id, rating FROM ugc.ratings",
    "SELECT film_id, unnest(array_agg(rating)) AS rating FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, generate_series(1, 3) AS n FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, jsonb_array_elements(jsonb_agg(rating)) AS n FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, (jsonb_each(jsonb_object_agg(user_id, rating))).key AS k FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, regexp_split_to_table(string_agg(note, ','), ',') AS n FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, 1 + unnest(array_agg(rating)) AS n FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id, public.count(rating) AS n FROM ugc.ratings GROUP BY film_id",
    "SELECT film_id FROM ugc.ratings GROUP BY film_id ORDER BY unnest(array_agg(rating))",
    "SELECT film_id, user_id FROM (SELECT film_id, user_id FROM ugc.ratings GROUP BY film_id, user_id) q",
    "SELECT * FROM ugc.ratings GROUP BY id",
    "VALUES (1), (1)",
    "TABLE ugc.ratings",
]
# Unique in truth, and not seen to be: counting the keys is merely slower.
OVERLOOKED = [
    "SELECT film_id, count(*) AS n FROM ugc.ratings GROUP BY 1",
    "SELECT film_id, count(*) AS n FROM ugc.ratings r GROUP BY r.film_id",
    "SELECT lower(title) AS film_id, count(*) AS n FROM content.film_work GROUP BY lower(title)",
    "SELECT f.id AS film_id FROM content.film_work f GROUP BY film_id",
    "SELECT film_id, ARRAY(SELECT unnest(array_agg(r.rating))) AS a FROM ugc.ratings r GROUP BY film_id",
]


@pytest.mark.parametrize("select", UNIQUE)
def test_a_query_grouped_by_its_key_is_unique(select: str) -> None:
    assert is_unique_by_grouping(select, ["film_id"])


@pytest.mark.parametrize("select", NOT_UNIQUE)
def test_anything_else_is_not_taken_for_unique(select: str) -> None:
    assert not is_unique_by_grouping(select, ["film_id"])


@pytest.mark.parametrize("select", OVERLOOKED)
def test_in_doubt_the_keys_are_counted(select: str) -> None:
    assert not is_unique_by_grouping(select, ["film_id"])


def test_grouping_by_a_part_of_the_key_is_unique() -> None:
    select = "SELECT film_id, max(user_id) AS user_id FROM ugc.ratings GROUP BY film_id"
    assert is_unique_by_grouping(select, ["film_id", "user_id"])


def test_grouping_by_all_of_a_composite_key_is_unique() -> None:
    select = "SELECT film_id, user_id AS who, count(*) AS n FROM ugc.ratings GROUP BY user_id, film_id"
    assert is_unique_by_grouping(select, ["film_id", "who"])
    assert not is_unique_by_grouping(select, ["film_id"])
    assert not is_unique_by_grouping(select, ["film_id", "user_id"])
