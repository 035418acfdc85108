"""The directory that an embedded server lives in: who owns it, who may change it, and what goes wrong with it."""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vitrina.domain.errors import ConfigError
from vitrina.embedded import host
from vitrina.embedded.host import Account

START_AFRESH = "`vitrina down --purge` starts afresh and loses the data"
CHOOSE = "make it writable for this user, run as the user who owns it, or choose another directory"
REMEDIES = {
    "No space left on device|quota exceeded": "free some disk space and try again",
    "Address already in use": "stop the program that uses the port, or choose another port",
    "contains errors|invalid value for parameter": "correct the Postgres settings",
    "Cannot allocate memory": "free some memory, or lower shared_buffers",
    "insufficient memory|Could not reserve enough space": "free some memory, or give Elasticsearch a smaller heap",
    "Permission denied|AccessDenied|not permitted|Read-only|Not a directory|File exists": CHOOSE,
}


class ServerDirectory:
    """Root gives it to the server's user, or links it to a home which that user can reach."""

    server: str  # what runs here, for messages

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    @property
    def _home(self) -> Path:
        """Where the files are. Only links into our own system directory are followed: purge deletes there."""
        link = self.directory / "elsewhere"
        if link.is_symlink() and link.readlink().parent == host.SYSTEM_DIRECTORY:
            return link.readlink()
        return self.directory

    @property
    def _account(self) -> Account:
        """As root, whoever owns the files already, so that changing user changes nothing for the data."""
        if os.geteuid() != 0:
            return Account()
        owner = self._home.stat() if self._home.exists() else None
        return Account(owner.st_uid, owner.st_gid) if owner and owner.st_uid != 0 else host.service_account()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """One process at a time. A purge may take the lock file away while we wait, hence the loop."""
        with explained(self.directory):
            while True:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                path = self.directory / "lock"
                lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                        yield lock
                        return
                finally:
                    os.close(lock)

    def _settle(self) -> None:
        """As root, give the server's user a home: `directory`, or one it can reach."""
        account = self._account
        if account.uid is None or (self._home == self.directory and account.take(self.directory)):
            return
        if self._home == self.directory:
            (self.directory / "elsewhere").symlink_to(host.SYSTEM_DIRECTORY / digest(self.directory))
        host.make_system_directory()
        self._home.mkdir(mode=0o700, exist_ok=True)
        if not account.take(self._home):
            raise ConfigError(f"the user who runs {self.server} cannot write in {self._home}", CHOOSE)

    def _write(self, name: str, text: str) -> None:
        """Replace a file whole, as the server's user: root must not follow links that this user laid."""
        script = 'cat > "$1.new" && mv "$1.new" "$1"'
        result = self._account.run(["sh", "-c", script, "sh", name], cwd=self._home, text=text)
        if result.returncode != 0:
            raise config_error(f"cannot write {self._home / name}", result.stdout, CHOOSE)


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """What the file system refuses, as an error with a remedy."""
    try:
        yield
    except OSError as error:
        raise config_error(f"cannot use {directory}", str(error), CHOOSE) from error


def config_error(problem: str, reason: str, otherwise: str) -> ConfigError:
    """The end of what a program said, and the remedy for it."""
    remedy = next((remedy for symptom, remedy in REMEDIES.items() if re.search(symptom, reason)), otherwise)
    return ConfigError("\n".join([f"{problem}:", *reason.strip().splitlines()[-10:]]), remedy)


def digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode(errors="surrogateescape")).hexdigest()[:16]


def remove(*paths: Path) -> None:
    """Files, links and whole directories; what is not there is fine."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
