"""The statements of an engine that is Spark: how it compares a query with a table of Iceberg, and writes what differs.

What is found is a table too, divided as the mart is: the query is asked once, and each part is written by itself.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from vitrina.sources.engine import Differs, Kept

PART, HOW, TIMES, HELD, NTH = "vitrina_part", "vitrina_how", "vitrina_times", "vitrina_held", "vitrina_nth"
INEXACT = ("double", "float")  # <=> takes -0 for 0
NOT_DIVIDED = ("boolean", "double", "float")  # types that Iceberg makes no buckets of


def quoted(*names: str) -> str:
    """As a name, whatever is in it."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def listed(names: Sequence[str], alias: str = "") -> str:
    """Columns."""
    return ", ".join(f"{alias}.{quoted(name)}" if alias else quoted(name) for name in names)


@dataclass(frozen=True)
class Merging:
    """Over one mart; `types` are its columns as Spark has them."""

    catalogue: str
    mart: Kept
    types: Mapping[str, str]

    @property
    def table(self) -> str:
        """The mart."""
        return self._named(self.mart.table)

    @property
    def found(self) -> str:
        """What was found."""
        return self._named(self.mart.found)

    def _named(self, name: str) -> str:
        return quoted(self.catalogue, *name.split(".", 1))

    @property
    def divider(self) -> str | None:
        """The column of the key that parts are made by."""
        return next((name for name in self.mart.key if self.types[name] not in NOT_DIVIDED), None)

    def divide(self, parts: int) -> str:
        """By a metadata change: the table is empty."""
        return f"ALTER TABLE {self.table} ADD PARTITION FIELD bucket({parts}, {quoted(self.divider or '')})"

    def find(self, select: str) -> str:
        """A full join; each side knows how often it has a key, so that no key is compared by chance."""
        key, others = self.mart.key, [name for name in self.mart.columns if name not in self.mart.key]
        window = f"PARTITION BY {listed(key)}"
        casts = ", ".join(f"CAST({quoted(name)} AS {self.types[name]}) AS {quoted(name)}" for name in self.mart.columns)
        keys = ", ".join(f"coalesce(q.{quoted(name)}, t.{quoted(name)}) AS {quoted(name)}" for name in key)
        rest = "".join(f", q.{quoted(name)}" for name in others)
        same = " AND ".join(f"q.{quoted(name)} = t.{quoted(name)}" for name in key)
        differ = " OR ".join([self._unlike(name) for name in others] or ["false"])
        return f"""
            CREATE TABLE {self.found} USING iceberg PARTITIONED BY ({PART}) LOCATION '{_text(self.mart.folder)}'
            TBLPROPERTIES ('write.distribution-mode' = 'hash') AS
            WITH q AS (SELECT *, count(*) OVER ({window}) AS {TIMES} FROM (SELECT {casts} FROM ({select}
            ))),
            t AS (SELECT * FROM (
                SELECT *, count(*) OVER ({window}) AS {HELD},
                       row_number() OVER ({window} ORDER BY {listed(key)}) AS {NTH} FROM {self.table}) WHERE {NTH} = 1)
            SELECT {self._how()} AS {HOW}, {self._part()} AS {PART}, {keys}{rest}
            FROM q FULL OUTER JOIN t ON {same}
            WHERE t.{NTH} IS NULL OR q.{TIMES} IS NULL OR q.{TIMES} > 1 OR t.{HELD} > 1 OR {differ}
        """

    def tally(self) -> str:
        """By part and way."""
        return f"SELECT {PART} AS part, {HOW} AS how, count(*) AS keys FROM {self.found} GROUP BY 1, 2 ORDER BY 1, 2"

    def named(self, how: Differs, limit: int) -> str:
        """Keys as text."""
        shown = ", ".join(f"CAST({quoted(name)} AS STRING) AS {quoted(name)}" for name in self.mart.key)
        return f"SELECT DISTINCT {shown} FROM {self.found} WHERE {HOW} = '{how}' LIMIT {limit}"

    def converge(self, part: int, ways: Collection[Differs]) -> list[str]:
        """Rows that are there more than once go first; where nothing is there, nothing is looked for."""
        again = [self._remove(part)] if Differs.REPEATED in ways else []
        if {*ways} <= {Differs.MISSING}:
            names = listed(self.mart.columns)
            text = f"INSERT INTO {self.table} ({names}) SELECT {names} FROM {self.found} WHERE {PART} = {part}"
            return [*again, text]
        return [*again, self._merge(part)]

    def _remove(self, part: int) -> str:
        condition = f"{PART} = {part} AND {HOW} = '{Differs.REPEATED}'"
        return f"""
            MERGE INTO {self.table} AS t USING (SELECT * FROM {self.found} WHERE {condition}) AS f
            ON {self._same(part)} WHEN MATCHED THEN DELETE
        """

    def _merge(self, part: int) -> str:
        others = [name for name in self.mart.columns if name not in self.mart.key]
        update = ", ".join(f"t.{quoted(name)} = f.{quoted(name)}" for name in others)
        updated = f"WHEN MATCHED AND f.{HOW} <> '{Differs.GONE}' THEN UPDATE SET {update}" if others else ""
        return f"""
            MERGE INTO {self.table} AS t USING (SELECT * FROM {self.found} WHERE {PART} = {part}) AS f
            ON {self._same(part)}
            WHEN MATCHED AND f.{HOW} = '{Differs.GONE}' THEN DELETE
            {updated}
            WHEN NOT MATCHED AND f.{HOW} <> '{Differs.GONE}'
            THEN INSERT ({listed(self.mart.columns)}) VALUES ({listed(self.mart.columns, "f")})
        """

    def _same(self, part: int) -> str:
        """The part is named to the scan of the mart, which then opens no file of another."""
        keys = " AND ".join(f"t.{quoted(name)} = f.{quoted(name)}" for name in self.mart.key)
        return f"{keys} AND {self._bucket('t')} = {part}" if self.mart.parts > 1 else keys

    def _how(self) -> str:
        null = " OR ".join(f"q.{quoted(name)} IS NULL" for name in self.mart.key)
        return f"""CASE WHEN q.{TIMES} IS NULL THEN '{Differs.GONE}' WHEN {null} THEN '{Differs.NO_KEY}'
                        WHEN q.{TIMES} > 1 THEN '{Differs.TWICE}' WHEN t.{NTH} IS NULL THEN '{Differs.MISSING}'
                        WHEN t.{HELD} > 1 THEN '{Differs.REPEATED}' ELSE '{Differs.DIFFERENT}' END"""

    def _part(self) -> str:
        if self.mart.parts == 1:
            return "0"
        name = quoted(self.divider or "")
        return f"coalesce({self._function}({self.mart.parts}, coalesce(q.{name}, t.{name})), 0)"

    def _bucket(self, alias: str) -> str:
        return f"{self._function}({self.mart.parts}, {alias}.{quoted(self.divider or '')})"

    @property
    def _function(self) -> str:
        return f"{quoted(self.catalogue)}.system.bucket"

    def _unlike(self, name: str) -> str:
        q, t = f"q.{quoted(name)}", f"t.{quoted(name)}"
        if any(word in self.types[name] for word in INEXACT):
            q, t = f"CAST({q} AS STRING)", f"CAST({t} AS STRING)"
        return f"NOT ({q} <=> {t})"


def _text(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
