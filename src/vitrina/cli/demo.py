"""The demo, in one command. What it takes is imported when it begins: that is nearly all there is."""

from typing import Annotated

import typer


def demo(
    films: Annotated[int, typer.Option(min=24, help="How many films.")] = 2_000,
    ratings: Annotated[int, typer.Option(min=0, help="How many ratings.")] = 50_000,
    search: Annotated[
        bool, typer.Option("--search/--no-search", help="Fill an Elasticsearch too, if one is to be had.")
    ] = True,
    load: Annotated[
        bool, typer.Option("--load", help="Only load it and ask for the runs: for a stack with runners of its own.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the runner's log too.")] = False,
) -> None:
    """Load a cinema, run its pipelines, and check every mart against its query."""
    from vitrina.cli.demonstration import demonstrate

    demonstrate(films, ratings, search=search, load=load, verbose=verbose)
