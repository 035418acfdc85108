"""`make screenshots`: the demo, some days of life in it, and the console's pages as small PNGs in docs/images."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import psycopg
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from vitrina.demo.data import mutate_cinema

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
PORT = 8794
URL = f"http://127.0.0.1:{PORT}"
ROUNDS = 9
MORE: list[dict[str, Any]] = [
    {
        "name": "view_log",
        "description": "Every view, in small batches",
        "source_query": "SELECT v.id AS view_id, v.user_id, v.film_id, v.seconds_watched FROM ugc.views v",
        "target_table": "analytics.view_log",
        "key": ["view_id"],
        "batch_size": 2,
    },
    {
        "name": "genre_rating",
        "description": "How each genre is rated",
        "source_query": "SELECT g.name AS genre, round(avg(r.rating), 2) AS avg_rating, count(*) AS ratings\n"
        "FROM content.genre g\n"
        "JOIN content.genre_film_work fg ON fg.genre_id = g.id\n"
        "JOIN ugc.ratings r ON r.film_id = fg.film_work_id\n"
        "GROUP BY g.name",
        "target_table": "analytics.genre_rating",
        "key": ["genre"],
        "schedule_interval": "1h",
    },
    {
        "name": "likes_by_film",
        "source_query": "SELECT l.film_id, 100 / nullif(count(*) - 1, 0) AS share, 1 / (count(*) - 1) AS odd"
        " FROM ugc.likes l GROUP BY l.film_id",
        "target_table": "analytics.likes_by_film",
        "key": ["film_id"],
    },
]
PAGES = {
    "pipelines": "/",
    "pipeline": "/pipelines/person_dim",
    "running": "/pipelines/view_log",
    "editor": "/pipelines/genre_rating/edit",
    "run": "/runs/{run}",
    "reconcile": "/pipelines/film_dim_full/reconcile",
    "lineage": "/lineage",
    "system": "/system",
}
PHONE = ("pipelines", "pipeline")


def main() -> None:
    """Set the stage, take the pictures, clear the stage."""
    home = Path(tempfile.mkdtemp(prefix="vitrina-screenshots-"))
    home.chmod(0o755)
    os.environ |= {"VITRINA_HOME": str(home), "VITRINA_URL": URL}
    try:
        _vitrina("demo", "--films", "3000", "--ratings", "40000")
        _vitrina("up", "--search", "--port", str(PORT))
        _live(home)
        _take(home)
    finally:
        _vitrina("down", "--purge")
        shutil.rmtree(home, ignore_errors=True)


def _vitrina(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "vitrina", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"vitrina {arguments[0]}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def _live(home: Path) -> None:
    """Changes and runs, a failure, a pause, a mart that was tampered with, and a long run under way."""
    client = httpx.Client(base_url=f"{URL}/api/v1", headers={"Authorization": f"Bearer {_token(home)}"}, timeout=60)
    for config in MORE:
        client.post("/pipelines", json=config).raise_for_status()
    client.patch("/pipelines/film_rating_agg_full", json={"schedule_interval": "5m"}).raise_for_status()
    client.patch("/pipelines/person_dim", json={"batch_size": 100, "description": "People, by the time they changed"})
    with psycopg.connect(_vitrina("db", "url"), autocommit=True) as conn:
        rng = random.Random(7)
        names = ("film_catalog", "film_dim_full", "film_rating_agg_full", "person_dim", "user_features", "genre_rating")
        for _ in range(ROUNDS):
            mutate_cinema(conn, rng, rng.randint(20, 400))
            for name in names:
                _run(client, name)
        _run(client, "likes_by_film")
        conn.execute("UPDATE analytics.film_dim SET rating = 0 WHERE title LIKE 'Star Trek%'")
        conn.execute("DELETE FROM analytics.film_dim WHERE title LIKE 'Star Wars: Episode I%'")
    client.post("/pipelines/film_dim_full/reconcile", json={"sample": 5}).raise_for_status()
    client.post("/pipelines/user_features/pause").raise_for_status()
    client.post("/pipelines/view_log/run").raise_for_status()


def _run(client: httpx.Client, name: str) -> None:
    client.post(f"/pipelines/{name}/run").raise_for_status()
    deadline = time.monotonic() + 60
    while client.get(f"/pipelines/{name}/status").json()["status"] not in ("IDLE", "FAILED", "PAUSED"):
        if time.monotonic() > deadline:
            raise SystemExit(f"{name} did not end within a minute")
        time.sleep(0.05)


def _token(home: Path) -> str:
    return (home / "token").read_text().strip()


def _take(home: Path) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        for theme in ("light", "dark"):
            _pictures(browser, home, theme, 1280, PAGES)
            _pictures(browser, home, theme, 390, {name: PAGES[name] for name in PHONE})
        browser.close()


def _pictures(browser: Browser, home: Path, theme: Any, width: int, pages: dict[str, str]) -> None:
    viewport: Any = {"width": width, "height": 844 if width < 500 else 800}
    with browser.new_context(color_scheme=theme, viewport=viewport, locale="en-GB") as context:
        page = context.new_page()
        page.goto(f"{URL}/console/sign-in")
        page.get_by_label("Token").fill(_token(home))
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{URL}/console/")
        run = page.locator("tr", has_text="person_dim").locator(".bar").last.get_attribute("href")
        for name, path in pages.items():
            page.goto(f"{URL}/console{path.format(run=str(run).rsplit('/', 1)[-1])}")
            _settle(page)
            suffix = "-phone" if width < 500 else ""
            _save(page.screenshot(), IMAGES / f"{name}{suffix}-{theme}.png")


def _settle(page: Page) -> None:
    """Until all parts have come, and a run that is under way has been measured."""
    page.wait_for_function("() => !/(asking|checking).* …|measuring/.test(document.body.innerText)")
    page.wait_for_load_state("load")


def _save(png: bytes, file: Path) -> None:
    """A palette is enough for flat colours and text; chosen so that rare colours, such as a status, are kept."""
    image = Image.open(BytesIO(png)).convert("RGB")
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, optimize=True)
    sys.stdout.write(f"{file.relative_to(ROOT)} {file.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
