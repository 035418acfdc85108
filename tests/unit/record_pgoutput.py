"""`python -m tests.unit.record_pgoutput`: record what a real server streams, for the decoder's tests."""

import json
from pathlib import Path

import psycopg

from tests.capturing import own_server

RECORDED = Path(__file__).with_name("pgoutput.json")
SCHEMA = """
CREATE TABLE whole (id int PRIMARY KEY, title text, doc jsonb, raw json, body text, ok bool);
ALTER TABLE whole REPLICA IDENTITY FULL;
ALTER TABLE whole ALTER body SET STORAGE EXTERNAL;
CREATE TABLE keyed (id int PRIMARY KEY, title text, body text);
ALTER TABLE keyed ALTER body SET STORAGE EXTERNAL;
CREATE PUBLICATION p FOR TABLE whole, keyed;
"""
STEPS = {
    "insert": [r"""INSERT INTO whole VALUES (1, E'a"\\b\nё', '{"x": [1, 2.50]}', '{"y": "\u0000"}', NULL, true)"""],
    "update whole": ["UPDATE whole SET title = 'b', raw = '[1]'"],
    "large": ["UPDATE whole SET body = repeat('x', 3000)", "INSERT INTO keyed VALUES (1, 't', repeat('y', 3000))"],
    "large unchanged": ["UPDATE whole SET ok = false", "UPDATE keyed SET title = 'u'"],
    "key moves": ["UPDATE keyed SET id = 2"],
    "delete": ["DELETE FROM keyed", "DELETE FROM whole"],
    "rolled back": ["SAVEPOINT s", "INSERT INTO keyed VALUES (9)", "ROLLBACK TO s", "INSERT INTO keyed VALUES (3)"],
    "altered": ["ALTER TABLE keyed ADD COLUMN more int", "INSERT INTO keyed VALUES (4)"],
    "truncate": ["TRUNCATE whole, keyed"],
}


def main() -> None:
    """Run the steps, each a transaction, and keep the messages of each."""
    recorded: dict[str, list[str]] = {}
    with own_server(synchronous_commit="on") as server, psycopg.connect(server.conninfo(), autocommit=True) as conn:
        conn.execute(SCHEMA.encode())
        conn.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        for name, statements in STEPS.items():
            with conn.transaction():
                for statement in statements:
                    conn.execute(statement.encode())
            peek = (
                "pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')"
            )
            rows = conn.execute(f"SELECT data FROM {peek}".encode()).fetchall()
            before = sum(map(len, recorded.values()))
            recorded[name] = [bytes(data).hex() for (data,) in rows][before:]
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
