"""How things look in the console."""

from datetime import UTC, datetime, timedelta

import pytest

from vitrina.control.console import views
from vitrina.control.console.i18n import Words
from vitrina.control.console.render import _environment
from vitrina.domain.positions import IncrementalPosition
from vitrina.domain.reasons import Reason, coded

AT = datetime(2026, 11, 19, 4, tzinfo=UTC)


def test_a_run_whose_end_was_read_before_its_beginning_took_no_time() -> None:
    """Both are noted by one statement, each by the clock: microseconds apart, in any order."""
    run = {"id": 1, "status": "SUCCESS", "started_at": AT, "finished_at": AT - timedelta(microseconds=27)}
    long = {**run, "id": 2, "finished_at": AT + timedelta(seconds=3)}
    assert views.seconds_of(run) == 0.0
    assert "h1" in views.bars([run, long], Words("en"))


def test_of_a_comparison_people_see_in_their_language_why_it_was_not_read_in_place() -> None:
    why = Reason.OTHER_SERVER.of(source="shop")
    report = {"read": f"staged: {why}", "because": coded(why)}
    assert views.how_read(report, Words("en")) == report["read"] == "staged: source shop is another server"
    assert views.how_read(report, Words("ru")) == "собрано в промежуточной таблице: источник shop — другой сервер"
    assert views.how_read({"read": "in place", "because": None}, Words("ru")) == Words("ru")("in place")
    assert views.how_read({"read": "staged: of before"}, Words("ru")) == "staged: of before"


def test_of_a_checkpoint_people_see_why_it_is_compared_in_their_language() -> None:
    why = Reason.FAILED_OVER.of(now=2, before=1)
    stored = IncrementalPosition(value="7", id="x", bound="8", comparing=why).dump()
    assert views.checkpoint(stored, Words("en")) == {"bound": "8", "comparing": str(why)}
    russian = views.checkpoint(stored, Words("ru"))["comparing"]
    assert russian == "источник переключился на другой сервер или восстановлен из копии: timeline 2, а была 1"
    assert views.checkpoint({"comparing": "of before", "live": {}}, Words("ru")) == {"comparing": "of before"}
    assert views.reason("of before", Words("ru")) == "of before"


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("film_dim", "film_dim"),
        ("analytics.average_rating_by_genre", "analytics.average_rating_by_…"),
        ("averageratingbygenrecountryanddecade", "averageratingbygenrecountryandd…"),
        ("average_rating_by_genre_country_and_decade", "average_rating_by_genre_…"),
    ],
)
def test_a_long_name_is_cut_between_its_words(name: str, seen: str) -> None:
    assert views.cut(name, 32) == seen


def test_neighbours_and_servers_are_called_by_their_names() -> None:
    filters = _environment("en").filters
    called = [filters["neighbour"](name) for name in ("es:", "os:", "warehouse", "shop")]
    assert called == ["Elasticsearch", "OpenSearch", "the warehouse", "shop"]
    products = [filters["product"](name) for name in ("elasticsearch", "opensearch", "warehouse")]
    assert products == ["Elasticsearch", "OpenSearch", "Postgres"]
