"""What an embedded Elasticsearch is made of: a Java that is new enough, and the real server, fetched by Maven.

Distributions are kept per machine and user, not per project: `VITRINA_ELASTICSEARCH_CACHE`, or a cache of our own.
"""

import fcntl
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

from vitrina.domain.errors import ConfigError
from vitrina.embedded import host
from vitrina.embedded.directory import CHOOSE, config_error, explained, remove
from vitrina.embedded.host import Account

ARTIFACT = "org.elasticsearch.distribution.integ-test-zip:elasticsearch"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
FETCH_SECONDS = 900
OLDEST_JAVA = {8: 17, 9: 21}  # by Elasticsearch's major version
JAVA_HOMES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
OR_ANOTHER = "or set ELASTICSEARCH_URL to a server that runs already"


class Missing(ConfigError):
    """Something that the machine lacks: Java, Maven or the network. A caller may go without Elasticsearch."""


def find_java(version: str, account: Account) -> Path:
    """The home of the first Java that is new enough for this Elasticsearch and that the account can run."""
    needed = oldest_java(version)
    found = {}
    for home in dict.fromkeys(_java_homes()):
        answer = account.run([home / "bin" / "java", "-version"])
        major = re.search(r'version "(?:1\.)?(\d+)', answer.stdout)
        if answer.returncode == 0 and major:
            found[home] = int(major[1])
            if found[home] >= needed:
                return home
    seen = ", ".join(f"{home} is Java {major}" for home, major in found.items()) or "no Java was found"
    problem = f"Elasticsearch {version} needs Java {needed} or newer: {seen}"
    raise Missing(problem, f"install a JDK {needed} and put it on PATH or name it in ES_JAVA_HOME, {OR_ANOTHER}")


def oldest_java(version: str) -> int:
    """Which Java this Elasticsearch was built for."""
    major = re.match(r"(\d+)\.\d+\.\d+$", version)
    if not major or int(major[1]) not in OLDEST_JAVA:
        raise ConfigError(f"Elasticsearch {version} cannot be embedded", "name a full version 8.x.y or 9.x.y")
    return OLDEST_JAVA[int(major[1])]


def _java_homes() -> Iterator[Path]:
    for variable in ("ES_JAVA_HOME", "JAVA_HOME"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in JAVA_HOMES:
        yield from (Path(name).resolve() for name in sorted(glob(os.path.expanduser(pattern))))


def find_maven(version: str) -> str:
    """The program that fetches this Elasticsearch."""
    maven = shutil.which("mvn")
    if maven is None:
        problem = f"Elasticsearch {version} is fetched with Maven, and there is no `mvn` on PATH"
        raise Missing(problem, f"install Maven (on Debian: apt install maven), {OR_ANOTHER}")
    return maven


def default_cache() -> Path:
    """The user's cache; root's is closed to the user who runs the server, so root's are where everybody may look."""
    if os.geteuid() == 0:
        return host.SYSTEM_DIRECTORY / "elasticsearch"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vitrina" / "elasticsearch"


def fetch(version: str, cache: Path, java: Path) -> Path:
    """The unpacked distribution, fetched if nobody has yet. It is whole or not there: made beside, then renamed."""
    target = cache / version / "dist"
    with explained(cache):
        if not target.exists():
            if cache.is_relative_to(host.SYSTEM_DIRECTORY):
                host.make_system_directory()
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with _locked(target.parent / "lock") as lock:
                if not target.exists():
                    _make(version, target, java, lock)
    return target


def _make(version: str, target: Path, java: Path, lock: int) -> None:
    fresh = target.with_name("dist.new")
    remove(fresh)
    _download(version, fresh, java, lock)
    (archive,) = fresh.glob("*.zip")
    with zipfile.ZipFile(archive) as content:
        content.extractall(fresh)
    archive.unlink()
    unpacked = fresh / f"elasticsearch-{version}"
    subprocess.run(["chmod", "-R", "a+rX", fresh], check=True)
    subprocess.run(["chmod", "-R", "a+x", unpacked / "bin"], check=True)
    for directory in (target.parent.parent, target.parent):  # whatever the umask: another user reads this
        directory.chmod(0o755)
    unpacked.rename(target)
    remove(fresh)


def _download(version: str, directory: Path, java: Path, lock: int) -> None:
    """Maven inherits the lock: if we are killed, the next one waits for it. With -U it forgets earlier failures."""
    maven = find_maven(version)
    artifact = [f"-Dartifact={ARTIFACT}:{version}:zip", f"-DoutputDirectory={directory}"]
    try:
        done = subprocess.run(
            [maven, "-B", "-q", "-U", "--strict-checksums", COPY, *artifact],
            env={"JAVA_HOME": str(java)} | os.environ, pass_fds=[lock], timeout=FETCH_SECONDS, cwd=host.ROOT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Missing(f"Maven gave no Elasticsearch {version} within {FETCH_SECONDS} s", _look_online()) from error
    if done.returncode != 0:
        raise _not_fetched(version, done.stdout)


def _not_fetched(version: str, said: str) -> ConfigError:
    problem = f"Maven could not fetch Elasticsearch {version}"
    if re.search("No space left|Permission denied|Read-only", said):
        return config_error(problem, said, CHOOSE)
    reason = re.search(r"\[ERROR\] (.+)", said)
    problem = f"{problem}: {reason[1] if reason else said.strip()[-500:]}"
    if "Could not find artifact" in problem:
        return ConfigError(problem, "name a version that exists")
    if "Could not create local repository" in problem:
        return ConfigError(problem, "set MAVEN_OPTS=-Dmaven.repo.local=… to a directory that this user can write")
    return Missing(problem, _look_online())


def _look_online() -> str:
    return f"check the network, or Maven's mirrors and proxies in its settings.xml, {OR_ANOTHER}"


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)
