"""What an embedded search engine is made of: a Java that is new enough, and the real server, fetched by Maven.

Distributions are kept per machine and user, not per project: where a setting says, or in a cache of our own.
"""

import fcntl
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from vitrina.domain.errors import ConfigError
from vitrina.embedded import host
from vitrina.embedded.directory import CHOOSE, config_error, explained, remove
from vitrina.embedded.host import Account

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
FETCH_SECONDS = 900
JAVA_HOMES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


@dataclass(frozen=True)
class Engine:
    """A search engine as it is published."""

    name: str
    artifact: str
    program: str  # in `bin`; the name of its settings' file too
    oldest_java: Mapping[int, int]  # by its major version
    environment: str  # what the names of its variables begin with

    @property
    def or_another(self) -> str:
        """Instead of having one of one's own."""
        return f"or set {self.name.upper()}_URL to a server that runs already"


ELASTICSEARCH = Engine(
    name="Elasticsearch",
    artifact="org.elasticsearch.distribution.integ-test-zip:elasticsearch",
    program="elasticsearch",
    oldest_java={8: 17, 9: 21},
    environment="ES",
)
OPENSEARCH = Engine(
    name="OpenSearch",
    artifact="org.opensearch.distribution.integ-test-zip:opensearch",
    program="opensearch",
    oldest_java={3: 21},
    environment="OPENSEARCH",
)


class Missing(ConfigError):
    """Something that the machine lacks: Java, Maven or the network. A caller may go without the server."""


def find_java(version: str, account: Account, engine: Engine = ELASTICSEARCH) -> Path:
    """The home of the first Java that is new enough for this version and that the account can run."""
    needed = oldest_java(version, engine)
    found = {}
    for home in dict.fromkeys(_java_homes(engine)):
        answer = account.run([home / "bin" / "java", "-version"])
        major = re.search(r'version "(?:1\.)?(\d+)', answer.stdout)
        if answer.returncode == 0 and major:
            found[home] = int(major[1])
            if found[home] >= needed:
                return home
    seen = ", ".join(f"{home} is Java {major}" for home, major in found.items()) or "no Java was found"
    problem = f"{engine.name} {version} needs Java {needed} or newer: {seen}"
    home_of_its_own = f"{engine.environment}_JAVA_HOME"
    install = f"install a JDK {needed} and put it on PATH or name it in {home_of_its_own}, {engine.or_another}"
    raise Missing(problem, install)


def oldest_java(version: str, engine: Engine = ELASTICSEARCH) -> int:
    """Which Java this version was built for."""
    major = re.match(r"(\d+)\.\d+\.\d+$", version)
    if not major or int(major[1]) not in engine.oldest_java:
        known = " or ".join(f"{number}.x.y" for number in engine.oldest_java)
        raise ConfigError(f"{engine.name} {version} cannot be embedded", f"name a full version {known}")
    return engine.oldest_java[int(major[1])]


def _java_homes(engine: Engine) -> Iterator[Path]:
    for variable in (f"{engine.environment}_JAVA_HOME", "JAVA_HOME"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in JAVA_HOMES:
        yield from (Path(name).resolve() for name in sorted(glob(os.path.expanduser(pattern))))


def find_maven(version: str, engine: Engine = ELASTICSEARCH) -> str:
    """The program that fetches this version."""
    maven = shutil.which("mvn")
    if maven is None:
        problem = f"{engine.name} {version} is fetched with Maven, and there is no `mvn` on PATH"
        raise Missing(problem, f"install Maven (on Debian: apt install maven), {engine.or_another}")
    return maven


def default_cache(engine: Engine = ELASTICSEARCH) -> Path:
    """The user's cache; root's is closed to the user who runs the server, so root's are where everybody may look."""
    if os.geteuid() == 0:
        return host.SYSTEM_DIRECTORY / engine.program
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vitrina" / engine.program


def fetch(version: str, cache: Path, java: Path, engine: Engine = ELASTICSEARCH) -> Path:
    """The unpacked distribution, fetched if nobody has yet. It is whole or not there: made beside, then renamed."""
    target = cache / version / "dist"
    with explained(cache):
        if not target.exists():
            if cache.is_relative_to(host.SYSTEM_DIRECTORY):
                host.make_system_directory()
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with _locked(target.parent / "lock") as lock:
                if not target.exists():
                    _make(engine, version, target, java, lock)
    return target


def _make(engine: Engine, version: str, target: Path, java: Path, lock: int) -> None:
    fresh = target.with_name("dist.new")
    remove(fresh)
    _download(engine, version, fresh, java, lock)
    (archive,) = fresh.glob("*.zip")
    with zipfile.ZipFile(archive) as content:
        content.extractall(fresh)
    archive.unlink()
    unpacked = fresh / f"{engine.program}-{version}"
    subprocess.run(["chmod", "-R", "a+rX", fresh], check=True)
    subprocess.run(["chmod", "-R", "a+x", unpacked / "bin"], check=True)
    for directory in (target.parent.parent, target.parent):  # whatever the umask: another user reads this
        directory.chmod(0o755)
    unpacked.rename(target)
    remove(fresh)


def _download(engine: Engine, version: str, directory: Path, java: Path, lock: int) -> None:
    """Maven inherits the lock: if we are killed, the next one waits for it. With -U it forgets earlier failures."""
    maven = find_maven(version, engine)
    artifact = [f"-Dartifact={engine.artifact}:{version}:zip", f"-DoutputDirectory={directory}"]
    try:
        done = subprocess.run(
            [maven, "-B", "-q", "-U", "--strict-checksums", COPY, *artifact],
            env={"JAVA_HOME": str(java)} | os.environ, pass_fds=[lock], timeout=FETCH_SECONDS, cwd=host.ROOT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        problem = f"Maven gave no {engine.name} {version} within {FETCH_SECONDS} s"
        raise Missing(problem, _look_online(engine)) from error
    if done.returncode != 0:
        raise _not_fetched(engine, version, done.stdout)


def _not_fetched(engine: Engine, version: str, said: str) -> ConfigError:
    problem = f"Maven could not fetch {engine.name} {version}"
    if re.search("No space left|Permission denied|Read-only", said):
        return config_error(problem, said, CHOOSE)
    reason = re.search(r"\[ERROR\] (.+)", said)
    problem = f"{problem}: {reason[1] if reason else said.strip()[-500:]}"
    if "Could not find artifact" in problem:
        return ConfigError(problem, "name a version that exists")
    if "Could not create local repository" in problem:
        return ConfigError(problem, "set MAVEN_OPTS=-Dmaven.repo.local=… to a directory that this user can write")
    return Missing(problem, _look_online(engine))


def _look_online(engine: Engine) -> str:
    return f"check the network, or Maven's mirrors and proxies in its settings.xml, {engine.or_another}"


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)
