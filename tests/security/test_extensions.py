"""To belong to an extension is no alibi: whoever owns one may add what it likes."""

from collections.abc import Iterator

import pytest

from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Finding


@pytest.fixture
def mallory(lab: Lab) -> Iterator[str]:
    """Who may create in the database, and is no superuser: enough for a trusted extension."""
    role = f"mallory_{lab.db.info.dbname}"
    lab.sql(f"CREATE ROLE {role}")
    lab.sql(f"GRANT CREATE ON DATABASE {lab.db.info.dbname} TO {role}; GRANT ALL ON SCHEMA content TO {role}")
    yield role
    lab.sql(f"REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}")


def vet(lab: Lab, query: str) -> list[Finding]:
    with lab.connections.read_warehouse() as reader:
        return reader.vet(query, schemas=["content"])


def test_what_the_extension_installed_passes(lab: Lab, mallory: str) -> None:
    lab.sql(f"SET ROLE {mallory}; CREATE EXTENSION citext SCHEMA content; RESET ROLE")
    vet(lab, "SELECT id FROM content.film_work WHERE content.citext_cmp(title::content.citext, 'a') > 0")


def test_what_was_added_to_it_does_not(lab: Lab, mallory: str) -> None:
    lab.sql(
        f"""
        SET ROLE {mallory};
        CREATE EXTENSION citext SCHEMA content;
        CREATE FUNCTION content.leak() RETURNS text STABLE LANGUAGE sql AS 'SELECT ''x''';
        ALTER EXTENSION citext ADD FUNCTION content.leak();
        RESET ROLE
        """
    )
    with pytest.raises(ConfigError, match=r"content\.leak is user-defined"):
        vet(lab, "SELECT id, content.leak() AS t FROM content.film_work")


def test_what_was_handed_to_somebody_does_not(lab: Lab, mallory: str) -> None:
    lab.sql(f"CREATE EXTENSION citext SCHEMA content; ALTER FUNCTION content.citext_cmp OWNER TO {mallory}")
    with pytest.raises(ConfigError, match=r"content\.citext_cmp is user-defined"):
        vet(lab, "SELECT id FROM content.film_work WHERE content.citext_cmp(title::content.citext, 'a') > 0")


def test_a_key_is_not_compared_by_an_operator_of_somebodys(lab: Lab, mallory: str) -> None:
    lab.sql(
        f"""
        CREATE EXTENSION citext SCHEMA content;
        ALTER FUNCTION content.citext_eq OWNER TO {mallory};
        CREATE TABLE content.words AS SELECT DISTINCT title::content.citext AS word FROM content.film_work;
        GRANT SELECT ON content.words TO vitrina_reader;
        """
    )
    pipeline = lab.add(source_query="SELECT word FROM content.words", key=["word"])
    assert "citext_eq" in (lab.run(pipeline)["said"] or "")
