"""Checks on the command line, in words."""

from tests.acceptance.client import Folder, vitrina
from tests.contract.server import Api

CHECKS = """
checks:
  - {name: low, condition: rating < 100}
  - {name: enough, row_count: {at_least: 1000}, effect: warn}
"""


def test_status_and_runs_say_what_is_not_kept(api: Api, folder: Folder) -> None:
    file = folder.write()
    file.write_text(file.read_text() + CHECKS)
    vitrina("apply", folder.path, "--yes")
    vitrina("run", "films", "--wait")
    status = vitrina("status", "films").out
    assert "is broken: the mart has 60 rows, and is published, since" in status
    assert "check low" in status
    assert "is kept" in status
    assert "enough is broken: the mart has 60 rows" in vitrina("runs", "films").out
    first = api.lab.value("SELECT min(id::text) FROM content.film_work")
    api.lab.sql("UPDATE content.film_work SET rating = 100 WHERE id = %s", first)
    failed = vitrina("run", "films", "--wait", expect=1)
    assert (
        f"check 'low' is broken by 1 row: film_id = {first}; nothing of this batch was published"
        in failed.out + failed.err
    )
    assert vitrina("plan", folder.path, "-o", "json").json["changes"] == []
    assert "row_count:" in vitrina("export").out
