"""Processes in the background: started with the settings as they are, and again when those have changed."""

import time

from vitrina.cli.output import say
from vitrina.cli.processes import Background, all_of
from vitrina.client import is_local
from vitrina.client.transport import needs_certificates
from vitrina.domain.errors import ConfigError
from vitrina.settings import Settings

START_SECONDS = 30


def restart_changed(settings: Settings) -> None:
    """Stop, each after its current batch, what was started with other settings, and start it again."""
    changed = {process: names for process in all_of(settings.home) if (names := process.changes(settings))}
    for process, names in changed.items():
        say(f"{process.name} restarts with other settings: {', '.join(names)}")
    ports = {process: process.port for process in changed}
    for process in changed:
        process.stop()
    for process, port in ports.items():  # by name, so the API first
        if process.name == "api":
            start_api(settings, port)
        else:
            start_runner(settings, int(process.name.rpartition("-")[2]))


def start_runner(settings: Settings, number: int) -> None:
    """Several runners of one machine: the metrics of each on a port of its own, one after the other."""
    first = settings.runner_metrics_port
    own = {"VITRINA_RUNNER_METRICS_PORT": str(first + number - 1)} if first else {}
    Background(settings.home, f"runner-{number}").start("runner", settings=settings, environment=own)


def start_api(settings: Settings, port: int | None) -> str:
    """Unless it runs; its address, once it answers."""
    api, address = Background(settings.home, "api"), f"http://{settings.host}:{port or settings.port}"
    kept = settings.home / "url"
    if api.pid and kept.exists():
        there = kept.read_text()
        if port is not None and there != address:
            raise ConfigError(f"the API is up already, at {there}", "vitrina down, then up again with that port")
        return there
    api.start("serve", *(["--port", str(port)] if port else []), settings=settings)
    _await_answer(api, address)
    kept.write_text(address)
    return address


def _await_answer(api: Background, address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(address):
        if api.pid is None:
            raise api.failure()
        if time.monotonic() > deadline:
            api.stop()
            raise ConfigError(f"the API did not answer on {address}: {api.last_words()}", f"look at {api.log}")
        time.sleep(0.1)


def _answers(address: str) -> bool:
    import httpx

    try:
        with httpx.Client(trust_env=not is_local(address), verify=needs_certificates(address), timeout=2) as client:
            return client.get(f"{address}/readyz").status_code == 200
    except httpx.HTTPError:
        return False
