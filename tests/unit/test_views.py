"""How things look in the console."""

from datetime import UTC, datetime, timedelta

from vitrina.control.console import views
from vitrina.control.console.i18n import Words
from vitrina.control.console.render import _environment

AT = datetime(2026, 11, 19, 4, tzinfo=UTC)


def test_a_run_whose_end_was_read_before_its_beginning_took_no_time() -> None:
    """Both are noted by one statement, each by the clock: microseconds apart, in any order."""
    run = {"id": 1, "status": "SUCCESS", "started_at": AT, "finished_at": AT - timedelta(microseconds=27)}
    long = {**run, "id": 2, "finished_at": AT + timedelta(seconds=3)}
    assert views.seconds_of(run) == 0.0
    assert "h1" in views.bars([run, long], Words("en"))


def test_neighbours_and_servers_are_called_by_their_names() -> None:
    filters = _environment("en").filters
    called = [filters["neighbour"](name) for name in ("es:", "os:", "warehouse", "shop")]
    assert called == ["Elasticsearch", "OpenSearch", "the warehouse", "shop"]
    products = [filters["product"](name) for name in ("elasticsearch", "opensearch", "warehouse")]
    assert products == ["Elasticsearch", "OpenSearch", "Postgres"]
