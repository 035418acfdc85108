"""What is known of Postgres before anything is read there: who only looks around imports no more."""

from dataclasses import replace
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from vitrina.meta.db import check_conninfo, connect
from vitrina.sources.source import Abilities, Address, Kind, Source

if TYPE_CHECKING:
    from vitrina.sources.postgres.reader import PostgresReader

ELSEWHERE = Abilities(speaks_sql=True, has_catalogue=True, has_horizon=True, is_capturable=True)
HERE = replace(ELSEWHERE, is_local=True)


def open_postgres(address: Address) -> Source:
    """A session of its own."""
    abilities = HERE if address.is_local else ELSEWHERE
    return load_reader()(address.name, abilities, connect(address.url, "reader"), address.reading)


def load_reader() -> "type[PostgresReader]":
    """What a session is, imported when one is opened."""
    from vitrina.sources.postgres.reader import PostgresReader

    return PostgresReader


def shown(url: str) -> str:
    """As a URL, whichever way it was written; a socket's folder counts as the host."""
    parts = conninfo_to_dict(check_conninfo(url))
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    secure = f"?sslmode={parts['sslmode']}" if parts.get("sslmode") else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}{secure}"


POSTGRES = Kind(("postgresql", "postgres"), HERE, open_postgres, shown=shown, load=load_reader)
