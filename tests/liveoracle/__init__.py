"""An oracle beside every derivation of a live mart: which keys does a one-row change really touch?

`worlds` are small states of three tables and all their one-row changes, `author` writes queries, `checks` runs each
query in every world by brute force and demands that the impact queries name every key whose rows differ, `shrink`
makes a miss small enough to read. `python -m tests.liveoracle` (make oracle) runs it.
"""
