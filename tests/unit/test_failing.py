"""A command that fails for want of room says so in a line, with the remedy, whoever has noticed."""

import errno
import os

import psycopg
import pytest

from vitrina.cli.failing import tell


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/films"), "/data/films: No space left on device"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "the disk: Disk quota exceeded"),
        (psycopg.errors.DiskFull('could not extend file "base/5/1"'), 'Postgres: could not extend file "base/5/1"'),
    ],
)
def test_a_full_disk(error: Exception, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    tell(error)
    told = capsys.readouterr().err
    assert said in told
    assert "remedy: free some" in told


def test_what_nobody_expected_is_raised_again() -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        tell(psycopg.errors.UndefinedTable("films"))
