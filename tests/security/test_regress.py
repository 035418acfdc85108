"""The tool that shows the guard what others wrote: it counts rightly, and knows what is hostile when it sees it."""

from pathlib import Path

import pytest

from tests.support import Lab
from tools.regress import Tally, files, is_hostile, show_to_guard, statements

SUITE = """
-- psql's own: variables, commands, data
\\set where :abs_srcdir '/data/x.data'
CREATE TABLE public.t (id int); COPY t FROM stdin;
1
\\.
SELECT id FROM t WHERE id > 0;
SELECT :'where' AS place \\gset
WITH t2 AS (SELECT 1 AS a) SELECT a FROM t2;
SELECT relname FROM pg_class;
SELECT pg_sleep(3600);
SELECT nothing FROM t;
SELECT 1 FROM t FOR UPDATE;
DROP TABLE t;
SELECT id FROM t;
"""


def test_every_select_is_counted_once(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(SUITE)
    tally = Tally()
    show_to_guard(lab.conninfo, tmp_path / "a.sql", tmp_path, tally)
    assert (tally.seen, tally.accepted, tally.refused, tally.unresolved) == (8, 3, 3, 2)
    assert tally.hostile == []
    assert tally.reasons["schema pg_catalog is not allowed"] == 1
    assert tally.reasons["FOR UPDATE / SHARE"] == 1
    assert any("pg_sleep" in reason for reason in tally.reasons)


def test_files_come_in_the_order_of_the_schedule(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.sql").write_text("SELECT 1;")
    (tmp_path / "parallel_schedule").write_text("# first\ntest: c\ntest: a\n")
    assert [file.stem for file in files(tmp_path)] == ["c", "a", "b"]
    assert len(list(statements(tmp_path / "a.sql", tmp_path))) == 1


@pytest.mark.parametrize(
    ("select", "hostile"),
    [
        ("SELECT 1 AS a", False),
        ("SELECT 'nextval(1)' AS a", False),
        ("SELECT 1 / 0", False),
        ("SELECT public.writes()", True),
        ("SELECT public.sets()", True),
        ("SELECT public.locks()", True),
        ("SELECT pg_read_file('x')", True),
    ],
)
def test_what_leaves_a_trace_is_hostile(lab: Lab, select: str, hostile: bool) -> None:
    lab.sql(
        """
        CREATE TABLE public.t (id int);
        CREATE FUNCTION public.writes() RETURNS void LANGUAGE sql AS 'INSERT INTO public.t VALUES (1)';
        CREATE FUNCTION public.locks() RETURNS void LANGUAGE sql AS 'SELECT pg_advisory_xact_lock(1)';
        CREATE FUNCTION public.sets() RETURNS text LANGUAGE sql AS
            $$ SELECT pg_catalog.set_config('work_mem', '1MB', false) $$
        """
    )
    assert is_hostile(lab.db, select) is hostile
    assert lab.value("SELECT count(*) FROM public.t") == 0
