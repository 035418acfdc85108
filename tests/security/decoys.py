"""What somebody who may create in a schema of the search_path can put there to be called in place of the server's own.

A function whose argument types fit better than those of pg_catalog is preferred, wherever it is. So for every function
and operator of pg_catalog that our sources name, there is one with other types; to call it is to fail.
"""

import re
from pathlib import Path

import vitrina
from tests.support import Lab

SOURCES = Path(vitrina.__file__).parent
NAME = re.compile(r"\b([a-z_][a-z0-9_]+)\s*\(")
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "||", "->", "->>", "#>", "#>>", "-", "+", "*", "@>", "&&", "~")
# What a value of ours may be that the function of pg_catalog is not declared for.
EXACT = ("text", "integer", "bigint", "uuid", "jsonb", "timestamptz", "name", "varchar", "text[]", "double precision")
PAIRS = {
    *((one, one) for one in (*EXACT, "numeric", "bytea", "json", "boolean", "regclass", "oid", "smallint", '"char"')),
    *((one, other) for one in ("text", "varchar", "name") for other in ("json", "jsonb", "uuid", "integer", "name")),
    *((one, other) for one in ("jsonb", "json") for other in ("text", "varchar", "integer", "name", "text[]")),
    *((one, other) for one in ("bigint", "integer", "smallint") for other in ("numeric", "text", "integer", "bigint")),
    *((one, other) for one in ("timestamptz", "timestamp") for other in ("date", "text", "interval")),
}
MOST_ARGUMENTS = 12  # of jsonb_build_object and the like


def names() -> set[str]:
    """Whatever looks like a call in a source of ours."""
    texts = [path.read_text() for path in SOURCES.rglob("*") if path.suffix in (".py", ".sql")]
    return {name for text in texts for name in NAME.findall(text)}


PLANT = """
DO $plant$
DECLARE
    types constant text[] := string_to_array(current_setting('decoys.types'), ';');
    f record;
    args text;
BEGIN
    FOR f IN
        SELECT DISTINCT p.proname, p.pronargs, p.provariadic <> 0 AS variadic FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.pronargs > 0
          AND p.proname = ANY (string_to_array(current_setting('decoys.names'), ';'))
    LOOP
        FOR args IN
            SELECT string_agg(t, ', ') FROM unnest(types) AS t, generate_series(1, f.pronargs) GROUP BY t
            UNION SELECT 'text' || repeat(', integer', f.pronargs - 1)
            UNION SELECT 'text, text' || repeat(', boolean', f.pronargs - 2) WHERE f.pronargs > 1
            UNION SELECT repeat('text, ', n - 1) || 'text'
                  FROM generate_series(2, current_setting('decoys.most')::int) n WHERE f.variadic
            UNION SELECT 'text, ' || t FROM unnest(types) AS t WHERE f.pronargs = 2 OR f.variadic
        LOOP
            EXECUTE format('CREATE OR REPLACE FUNCTION %s.%I(%s) RETURNS text LANGUAGE plpgsql AS %L',
                           current_setting('decoys.schema'), f.proname, args,
                           format('BEGIN RAISE EXCEPTION ''hijacked: %s''; END', f.proname));
        END LOOP;
    END LOOP;
END $plant$
"""


def plant(lab: Lab, schema: str, owner: str) -> int:
    """All of them, as somebody without any other right; how many."""
    told = {"schema": schema, "names": ";".join(sorted(names())), "types": ";".join(EXACT), "most": MOST_ARGUMENTS}
    for name, value in told.items():
        lab.sql("SELECT set_config(%s, %s, false)", f"decoys.{name}", str(value))
    lab.sql(f"GRANT CREATE, USAGE ON SCHEMA {schema} TO {owner}; GRANT USAGE ON SCHEMA {schema} TO PUBLIC")
    lab.sql("BEGIN")
    lab.sql(f"SET LOCAL ROLE {owner}")
    lab.sql(PLANT)
    plant_operators(lab, schema)
    lab.sql("COMMIT")
    return int(lab.value("SELECT count(*) FROM pg_proc WHERE pronamespace = %s::regnamespace", schema))


def plant_operators(lab: Lab, schema: str) -> None:
    """For pairs of types that pg_catalog has no operator of its own for."""
    for number, (left, right) in enumerate(sorted(PAIRS)):
        lab.sql(
            f"CREATE FUNCTION {schema}.decoy_{number}({left}, {right}) RETURNS boolean LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'hijacked: operator of {left.replace(chr(34), '')}, {right}'; END $$"
        )
        for operator in OPERATORS:
            lab.sql(
                f"CREATE OPERATOR {schema}.{operator}"
                f" (FUNCTION = {schema}.decoy_{number}, LEFTARG = {left}, RIGHTARG = {right})"
            )
