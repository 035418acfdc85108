"""Mode full on a real Postgres."""

from tests.support import Lab

FILMS = "SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f"
AGG = "SELECT film_id, avg(rating) AS avg_rating, count(*) AS votes FROM ugc.ratings GROUP BY film_id"


def test_a_missing_mart_is_created_and_loaded(lab: Lab) -> None:
    pipeline = lab.add(source_query=FILMS, key=["film_id"], batch_size=7)
    run = lab.run(pipeline)
    assert (run["status"], run["error"], run["rows_written"], run["batches"]) == ("SUCCESS", None, 60, 9)
    lab.assert_equal(pipeline)


def test_a_second_run_rewrites_nothing(lab: Lab) -> None:
    pipeline = lab.add(source_query=FILMS, key=["film_id"])
    lab.run(pipeline)
    run = lab.run(pipeline)
    assert run["status"] == "SUCCESS"
    assert (run["rows_read"], run["rows_written"], run["rows_deleted"], run["rows_unchanged"]) == (60, 0, 0, 60)


def test_inserts_updates_and_deletes_arrive(lab: Lab) -> None:
    pipeline = lab.add(source_query=AGG, key=["film_id"], batch_size=3)
    lab.run(pipeline)
    lab.sql("UPDATE ugc.ratings SET rating = (rating + 1) % 11 WHERE id IN (SELECT id FROM ugc.ratings LIMIT 9)")
    lab.sql("DELETE FROM ugc.ratings WHERE film_id IN (SELECT film_id FROM ugc.ratings ORDER BY 1 LIMIT 1)")
    run = lab.run(pipeline)
    assert run["error"] is None
    assert run["rows_deleted"] == 1
    lab.assert_equal(pipeline)
