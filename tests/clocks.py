"""A database's clock that jumps, without touching the machine's.

A clock that is set forward by three hours and times that are stored three hours earlier are the same thing to whoever
compares the two, and all that Vitrina does with the database's clock is that: it stores times, and compares them with
the clock later. So every time in the meta-store is moved the other way. What a process remembers of the clock is moved
with them.
"""

from dataclasses import replace
from datetime import timedelta

from tests.support import Lab
from vitrina.runner.clock import ClockWatch

COLUMNS = """
    SELECT c.table_name, array_agg(c.column_name::text)
    FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
    WHERE c.table_schema = 'etl' AND t.table_type = 'BASE TABLE' AND c.data_type = 'timestamp with time zone'
    GROUP BY 1
"""


def jump(lab: Lab, hours: float, *watches: ClockWatch) -> None:
    """The clock of the lab's database is set forward by so many hours, or back; these have seen it before, and a heart
    has just beaten."""
    lab.sql("UPDATE etl.etl_clock SET seen_at = clock_timestamp()")
    lab.sql("SET session_replication_role = replica")  # nothing is moved, so no trigger has a say
    for table, columns in lab.sql(COLUMNS):
        moved = ", ".join(f"{name} = {name} - make_interval(secs => {hours * 3600})" for name in columns)
        lab.sql(f"UPDATE etl.{table} SET {moved}")
    lab.sql("SET session_replication_role = origin")
    for watch in watches:
        assert watch.last
        watch.last = replace(watch.last, at=watch.last.at - timedelta(hours=hours))
