"""What holds the safe horizon of an incremental window, and what does not."""

from datetime import timedelta

from tests.capturing import own_server
from tests.support import wait_for
from vitrina.meta.db import connect
from vitrina.sources.postgres.horizon import take_horizon

VACUUMING = """
    SELECT count(*) AS n FROM pg_stat_activity
    WHERE backend_type = 'autovacuum worker' AND query LIKE '%public.large%' AND xact_start IS NOT NULL
"""
SLOWLY = "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_threshold = 0"


def test_autovacuum_which_may_take_hours_does_not_hold_it() -> None:
    with own_server(autovacuum="on", autovacuum_naptime="1s") as server, connect(server.conninfo(), "test") as conn:
        conn.execute(f"CREATE TABLE public.large (n int) WITH ({SLOWLY}, autovacuum_vacuum_scale_factor = 0)".encode())
        conn.execute("INSERT INTO public.large SELECT generate_series(1, 100000)")
        conn.execute("DELETE FROM public.large WHERE n % 2 = 0")

        def is_vacuuming() -> bool:
            row = conn.execute(VACUUMING.encode()).fetchone()
            return row is not None and row["n"] > 0

        wait_for(is_vacuuming, 60)
        horizon = take_horizon(conn, timedelta(0))
        assert is_vacuuming()
        assert horizon.holder is None
        assert horizon.at is not None
        assert horizon.now - horizon.at < timedelta(seconds=1)
