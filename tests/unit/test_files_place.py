"""Where a mart in files is: what cannot be meant is refused before anything is opened."""

import pytest

from vitrina.domain.errors import ConfigError
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.files.place import Place
from vitrina.sinks.parquet.patience import SHORT


def opened(endpoint: str | None, url: str = "s3://bucket/mart/") -> object:
    """As a run does."""
    return Place(url, Settings().model_copy(update={"lake_endpoint": endpoint}), Neighbours(), SHORT).shelf


@pytest.mark.parametrize(
    "endpoint",
    ["minio:9000", "https://", " ", "https://key:word@minio:9000", "ftp://minio", "https://a b", "https://minio/?word"],
)
def test_an_endpoint_that_is_no_address_is_refused_and_not_shown(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a bucket") as refused:
        opened(endpoint)
    assert "minio" not in str(refused.value)
    assert "word" not in str(refused.value)
    opened(endpoint, "file:///srv/mart/")


@pytest.mark.parametrize(
    "endpoint", [None, "", "https://s3.example.org", "http://127.0.0.1:9000/", "http://[::1]:9000", "http://my_minio:9"]
)
def test_an_endpoint_that_is_one_is_taken(endpoint: str | None) -> None:
    assert opened(endpoint)
