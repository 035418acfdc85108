"""Sources: which there are, whether they answer, what can be kept of them and what there is to read."""

from typing import Annotated, Any

import typer
from rich.text import Text

from vitrina.cli.output import Format, Output, open_client, say, say_beside, say_fields, say_json, say_table

source = typer.Typer(help="Sources: listed, tested, shown.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The warehouse, or a source that settings name.")]


@source.command("list")
def list_sources(output: Output = Format.text) -> None:
    """List the warehouse and the sources that settings name; none of them is asked."""
    with open_client() as client:
        found = [each.raw for each in client.sources()]
    if output is Format.json:
        say_json(found)
        return
    names = ["name", "kind", "address", "pipelines", "captured_by"]
    headings = ["name", "kind", "address", "pipelines", "captured by"]
    say_table(headings, [[row[name] for name in names] for row in found], right=("pipelines",))


@source.command("test")
def try_source(name: Name, output: Output = Format.text) -> None:
    """Connect to a source as its reader, now, and say what can be kept of it; exit 1 if it does not answer."""
    with open_client() as client:
        found = client.test_source(name)
    if output is Format.json:
        say_json(found.raw)
    else:
        _say(found.raw)
    if not found.answers:
        raise typer.Exit(1)


@source.command("show")
def show(name: Name, output: Output = Format.text) -> None:
    """Show a source: who reads there, what can be kept of it and why not, its tables and columns."""
    with open_client() as client:
        found = client.source(name)
    if output is Format.json:
        say_json(found.raw)
        return
    _say(found.raw)
    for table in found.raw["tables"]:
        say()
        _say_table(table)
    if found.raw["more_tables"]:
        say("\nand more tables")


def _say(row: dict[str, Any]) -> None:
    wrong = {"error": row["error"], "remedy": row["remedy"]}
    answers = f"yes, after {row['milliseconds']:,.0f} ms" if row["answers"] else "no"
    known = {name: row[name] for name in ("kind", "address", "setting", "version")} | {"read as": row["role"]}
    captured = {"captured by": row["captured_by"]}
    say_fields({"source": row["name"]} | known | captured | {"answers": answers} | wrong)
    for schema in row["schemas"]:
        say(f"schema {schema['name']}: {_readable(schema)}")
    _say_ways(row["ways"])


def _say_ways(ways: list[dict[str, Any]]) -> None:
    """What is in the way of several is said with the first."""
    told: list[dict[str, Any]] = []
    for way in ways:
        say(f"{way['mode']}: {'yes' if way['can'] else 'no'}")
        for finding in way["why"]:
            if finding not in told:
                say_beside(Text("  "), "\n".join(filter(None, [finding["message"], _remedy(finding)])))
                told.append(finding)


def _remedy(finding: dict[str, Any]) -> str:
    return f"remedy: {finding['remedy']}" if finding["remedy"] else ""


def _readable(schema: dict[str, Any]) -> str:
    if not schema["exists"]:
        return "does not exist"
    if not schema["usable"]:
        return "may not be used by the reader"
    said = f"{schema['tables']:,} tables"
    return said + (f", {schema['closed']:,} of them may not be read" if schema["closed"] else "")


def _say_table(table: dict[str, Any]) -> None:
    about = [table["kind"], *([f"about {table['rows']:,} rows"] if table["rows"] else [])]
    about += [] if table["readable"] else ["may not be read"]
    say(
        f"{table['schema']}.{table['name']} ({', '.join(about)})"
        + (f": {table['comment']}" if table["comment"] else "")
    )
    rows = [
        [column["name"], column["type"], "key" if column["name"] in table["key"] else None, column["comment"]]
        for column in table["columns"]
    ]
    say_table(["column", "type", "", "comment"], rows)
