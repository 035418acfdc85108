"""The demo's search: films by their title, the way an application would ask its index."""

from typing import Any

from vitrina.sinks.elasticsearch.client import Elastic

INDEXES = ("film_dim", "film_rating_agg")
SHOWN = 5


def search_films(elastic: Elastic, text: str) -> tuple[int, list[list[Any]]]:
    """How many films have all words in their title, and the best: score, title, year, rating, genres, director."""
    query = {
        "query": {"match": {"title": {"query": text, "operator": "and"}}},
        "sort": ["_score", {"rating": "desc"}, {"film_id": "asc"}],
        "track_scores": True,
        "size": SHOWN,
    }
    hits = elastic.search(INDEXES[0], query)
    return int(hits["total"]["value"]), [_line(hit["_score"], hit["_source"]) for hit in hits["hits"]]


def _line(score: float, film: dict[str, Any]) -> list[Any]:
    genres = ", ".join(genre["name"] for genre in film["genres"])
    directors = ", ".join(person["full_name"] for person in film["people"] if person["role"] == "director")
    year = str(film["creation_date"] or "")[:4]
    return [f"{score:.2f}", film["title"].strip(), year, film["rating"], genres, directors]
